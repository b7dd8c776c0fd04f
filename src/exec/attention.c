/* Attention of one layer: norm and rotate q and k, store k and v, walk the cache by chunks, join the chunks.
 *
 * With one token, work is (KV head, chunk): each pair's partial result is one row of the output, and the join is left to the next
 * step, where every thread needs the row anyway. With several tokens, work is (KV head, tile of tokens): a thread walks the chunks
 * of its tile in ascending order and joins as it goes, so that each token has one partial result. The joins are the same
 * operations in the same order in both cases.
 *
 * A partial result holds, for H heads: | m[H] | l[H] | o[H][head_dim] | */
#include <math.h>
#include <string.h>

#include "run.h"

/* The attention part of a thread's private area. */
typedef struct workspace {
    float *q, *chunk, *o; /* TN_ATTN_MAX_Q rows of head_dim */
    float *head;          /* one head of k */
    float *m, *l, *chunk_m, *chunk_l;
    int32_t *lo, *hi;
} workspace;

static workspace workspace_of(const tn_task *t) {
    const tn_plan *plan = t->run->plan;
    const size_t rows = (size_t)TN_ATTN_MAX_Q * plan->max_head_dim;
    float *base = (float *)(void *)(tn_private(t) + plan->attention_at);
    float *stats = base + 3 * rows + plan->max_head_dim;
    return (workspace){base,
                       base + rows,
                       base + 2 * rows,
                       base + 3 * rows,
                       stats,
                       stats + TN_ATTN_MAX_Q,
                       stats + 2 * TN_ATTN_MAX_Q,
                       stats + 3 * TN_ATTN_MAX_Q,
                       (int32_t *)(void *)(stats + 4 * TN_ATTN_MAX_Q),
                       (int32_t *)(void *)(stats + 5 * TN_ATTN_MAX_Q)};
}

static const float *in_row(const tn_task *t, int input, size_t i) {
    return (const float *)(const void *)tn_task_row(t, t->op->in[input], i);
}

/* One head of q or k, ready for products: copied, normed, rotated. */
static void prepare_head(const tn_task *t, float *dst, const float *src, const float *norm, size_t token) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kernels *k = t->run->plan->kernels;
    const tn_rope_config *rope = &t->run->plan->graph->ropes[p->rope];
    if (norm)
        k->rms_norm(dst, src, norm, p->head_dim, p->norm_eps);
    else
        memcpy(dst, src, p->head_dim * sizeof *dst);
    if (!rope->n_pairs) return;
    const float *cosines = t->run->rope[p->rope] + token * 2 * rope->n_pairs;
    (rope->halves ? k->rope_halves : k->rope_adjacent)(dst, cosines, cosines + rope->n_pairs, rope->n_pairs);
}

/* The cache of a KV head at the start of a chunk (offset from k or v). */
static size_t chunk_offset(const tn_kv *kv, size_t head, uint32_t chunk) {
    return head * kv->head_stride +
           (size_t)(chunk % (kv->capacity / TN_ATTN_CHUNK)) * TN_ATTN_CHUNK * kv->pos_stride;
}

static void store(const tn_task *t, const workspace *w, size_t head, size_t token) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kv *kv = &t->run->kv[p->cache];
    const uint32_t pos = t->run->pos + (uint32_t)token;
    const size_t at = chunk_offset(kv, head, pos / TN_ATTN_CHUNK) + pos % TN_ATTN_CHUNK * kv->pos_stride;
    tn_kv_store_fn *put = t->run->plan->kernels->kv_store[t->run->kv_type];
    prepare_head(t, w->head, in_row(t, 1, token) + head * p->head_dim, p->k_norm, token);
    put(kv->k + at, w->head, p->head_dim);
    put(kv->v + at, in_row(t, 2, token) + head * p->head_dim, p->head_dim);
}

static tn_attn_args chunk_args(const tn_task *t, const workspace *w, size_t head, uint32_t chunk,
                               size_t n_q) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kv *kv = &t->run->kv[p->cache];
    const size_t at = chunk_offset(kv, head, chunk);
    return (tn_attn_args){.q = w->q,
                          .q_stride = p->head_dim,
                          .n_q = n_q,
                          .lo = w->lo,
                          .hi = w->hi,
                          .k = kv->k + at,
                          .v = kv->v + at,
                          .kv_stride = kv->pos_stride,
                          .head_dim = p->head_dim,
                          .scale = p->scale,
                          .m = w->chunk_m,
                          .l = w->chunk_l,
                          .o = w->chunk,
                          .o_stride = p->head_dim,
                          .scratch = tn_private(t) + t->run->plan->kernel_scratch_at};
}

/* Bounds of one query row relative to a chunk, clipped to it. */
static void set_bounds(const workspace *w, size_t row, tn_span span, uint32_t chunk) {
    const int64_t base = (int64_t)chunk * TN_ATTN_CHUNK, lo = span.lo - base, hi = span.hi - base;
    w->lo[row] = (int32_t)(lo < 0 ? 0 : lo > TN_ATTN_CHUNK ? TN_ATTN_CHUNK : lo);
    w->hi[row] = (int32_t)(hi < 0 ? 0 : hi > TN_ATTN_CHUNK ? TN_ATTN_CHUNK : hi);
}

static void one_token(const tn_task *t) {
    const tn_attention_params *p = &t->op->attention;
    const workspace w = workspace_of(t);
    const size_t group = p->n_heads / p->n_kv_heads, dim = p->head_dim;
    const tn_span span = tn_attention_span(t->run->pos, p->window);
    const tn_range units =
        tn_split((size_t)p->n_kv_heads * span.n_chunks, 1, t->thread, t->run->plan->limits.n_threads);
    size_t prepared = SIZE_MAX;
    for (size_t u = units.begin; u < units.end; u++) {
        const size_t head = u / span.n_chunks, part = u % span.n_chunks;
        const uint32_t chunk = span.first_chunk + (uint32_t)part;
        for (size_t g = 0; prepared != head && g < group; g++)
            prepare_head(t, w.q + g * dim, in_row(t, 0, 0) + (head * group + g) * dim, p->q_norm, 0);
        prepared = head;
        if (part + 1 == span.n_chunks) store(t, &w, head, 0);
        for (size_t g = 0; g < group; g++) set_bounds(&w, g, span, chunk);
        float *out = (float *)(void *)tn_task_row(t, t->op->out, part);
        tn_attn_args args = chunk_args(t, &w, head, chunk, group);
        args.m = out + head * group;
        args.l = args.m + p->n_heads;
        args.o = out + 2 * p->n_heads + head * group * dim;
        t->run->plan->kernels->attn[t->run->kv_type](&args);
    }
}

/* Query rows of a tile: row i * group + g is head g of token first + i. */
static void tile(const tn_task *t, size_t head, size_t first, size_t n) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kernels *k = t->run->plan->kernels;
    const workspace w = workspace_of(t);
    const size_t group = p->n_heads / p->n_kv_heads, dim = p->head_dim, n_q = n * group;
    for (size_t r = 0; r < n_q; r++) {
        const size_t token = first + r / group;
        prepare_head(t, w.q + r * dim, in_row(t, 0, token) + (head * group + r % group) * dim, p->q_norm,
                     token);
        w.m[r] = -INFINITY, w.l[r] = 0;
    }
    const uint32_t pos = t->run->pos + (uint32_t)first;
    const tn_span first_span = tn_attention_span(pos, p->window),
                  last_span = tn_attention_span(pos + (uint32_t)n - 1, p->window);
    const uint32_t end = last_span.first_chunk + last_span.n_chunks;
    for (uint32_t chunk = first_span.first_chunk; chunk < end; chunk++) {
        for (size_t r = 0; r < n_q; r++)
            set_bounds(&w, r, tn_attention_span(pos + (uint32_t)(r / group), p->window), chunk);
        const tn_attn_args args = chunk_args(t, &w, head, chunk, n_q);
        k->attn[t->run->kv_type](&args);
        for (size_t r = 0; r < n_q; r++)
            k->attn_join(&w.m[r], &w.l[r], w.o + r * dim, w.chunk_m[r], w.chunk_l[r], w.chunk + r * dim, dim);
    }
    for (size_t r = 0; r < n_q; r++) {
        float *out = (float *)(void *)tn_task_row(t, t->op->out, first + r / group);
        const size_t h = head * group + r % group;
        out[h] = w.m[r];
        out[p->n_heads + h] = w.l[r];
        memcpy(out + 2 * p->n_heads + h * dim, w.o + r * dim, dim * sizeof *out);
    }
}

static void many_tokens(const tn_task *t) {
    const tn_attention_params *p = &t->op->attention;
    const workspace w = workspace_of(t);
    const uint32_t n_threads = t->run->plan->limits.n_threads;
    const tn_range stores = tn_split(t->n_rows * p->n_kv_heads, 1, t->thread, n_threads);
    for (size_t i = stores.begin; i < stores.end; i++) store(t, &w, i % p->n_kv_heads, i / p->n_kv_heads);
    tn_pool_barrier(t->run->pool);
    /* tiles are dealt out in turn: later ones see more of the cache */
    const size_t per_tile = TN_ATTN_MAX_Q / (p->n_heads / p->n_kv_heads);
    const size_t skipped = p->outputs_only ? t->n_rows - t->run->n_outputs : 0;
    const size_t n_tiles = (t->n_rows - skipped + per_tile - 1) / per_tile;
    for (size_t u = t->thread; u < n_tiles * p->n_kv_heads; u += n_threads) {
        const size_t first = skipped + u / p->n_kv_heads * per_tile, left = t->n_rows - first;
        tile(t, u % p->n_kv_heads, first, left < per_tile ? left : per_tile);
    }
}

void run_attention(const tn_task *t) {
    if (t->n_rows == 1)
        one_token(t);
    else
        many_tokens(t);
}

void run_attn_join(const tn_task *t) {
    const size_t n_heads = t->op->join.n_heads, dim = t->op->join.head_dim;
    const tn_kernels *k = t->run->plan->kernels;
    const size_t stride = t->run->plan->places[t->op->in[0]].stride / sizeof(float);
    const bool by_chunk = t->run->n_tokens == 1;
    const size_t n_parts = by_chunk ? tn_attention_span(t->run->pos, t->op->join.window).n_chunks : 1;
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        const float *parts = in_row(t, 0, i);
        float *out = (float *)(void *)tn_task_row(t, t->op->out, i);
        for (size_t h = 0; h < n_heads; h++) {
            float m = -INFINITY, l = 0;
            for (size_t j = 0; j < n_parts; j++) {
                const float *part = parts + j * stride;
                k->attn_join(&m, &l, out + h * dim, part[h], part[n_heads + h], part + 2 * n_heads + h * dim,
                             dim);
            }
            k->scale(out + h * dim, out + h * dim, 1.0f / l, dim);
        }
    }
}
