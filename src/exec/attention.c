/* Attention of one layer: norm and rotate q and k, store k and v, walk the cache by chunks, join the chunks.
 *
 * Tokens go in tiles whose query rows fill a kernel call. A thread walks chunks of one tile and one KV head in ascending
 * order and joins as it goes, from the first chunk on into part 0 of each token's result. Many tiles are dealt out
 * whole. Those of one tile (decode, small batches) are divided by (KV head, chunk): a thread that starts amid a head
 * leaves each chunk as a part of its own, and the next step joins those to part 0, where every thread needs the row
 * anyway. The joins are the same operations in the same order in all cases.
 *
 * A part holds, for H heads: | m[H] | l[H] | o[H][head_dim] |; part j of token i is row j * n_tokens + i of the output. */
#include <math.h>
#include <string.h>

#include "run.h"

/* The attention part of a thread's private area. */
typedef struct workspace {
    float *q, *o; /* TN_ATTN_MAX_Q rows of head_dim: the tile's, and its outputs over one chunk */
    float *head;  /* one head of k */
    float *m, *l; /* over one chunk */
    int32_t *lo, *hi;
    float *slope; /* of each row, and its position */
    int32_t *at;
} workspace;

static workspace workspace_of(const tn_task *t) {
    const tn_plan *plan = t->run->plan;
    const size_t rows = (size_t)TN_ATTN_MAX_Q * plan->max_head_dim;
    float *base = (float *)(void *)(tn_private(t) + plan->work_at);
    float *stats = base + 2 * rows + plan->max_head_dim;
    return (workspace){base,
                       base + rows,
                       base + 2 * rows,
                       stats,
                       stats + TN_ATTN_MAX_Q,
                       (int32_t *)(void *)(stats + 2 * TN_ATTN_MAX_Q),
                       (int32_t *)(void *)(stats + 3 * TN_ATTN_MAX_Q),
                       stats + 4 * TN_ATTN_MAX_Q,
                       (int32_t *)(void *)(stats + 5 * TN_ATTN_MAX_Q)};
}

static const float *in_row(const tn_task *t, int input, size_t i) {
    return (const float *)(const void *)tn_task_row(t, t->op->in[input], i);
}

static void norm_head(const tn_task *t, float *dst, const float *src, const float *norm, size_t head) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kernels *k = t->run->plan->kernels;
    (p->norm_layer ? k->layer_norm : k->rms_norm)(dst, src, norm + (p->norm_own ? head * p->head_dim : 0),
                                                  p->head_dim, p->norm_eps);
}

/* One head of q or k, ready for products: copied, normed, rotated. */
static void prepare_head(const tn_task *t, float *dst, const float *src, const float *norm, size_t head,
                         size_t token) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kernels *k = t->run->plan->kernels;
    const tn_rope_config *rope = &t->run->plan->graph->ropes[p->rope];
    src += head * p->head_dim;
    if (norm && !p->norm_last)
        norm_head(t, dst, src, norm, head);
    else
        memcpy(dst, src, p->head_dim * sizeof *dst);
    if (rope->n_pairs) {
        const float *cosines = t->run->rope[p->rope] + token * 2 * rope->n_pairs;
        (rope->halves ? k->rope_halves : k->rope_adjacent)(dst + p->rope_at, cosines, cosines + rope->n_pairs,
                                                           rope->n_pairs);
    }
    if (norm && p->norm_last) norm_head(t, dst, dst, norm, head);
}

/* The part of a chunk's block to which k and v of a KV head are offsets. */
static uint8_t *chunk_at(const tn_task *t, const tn_kv *kv, size_t head, uint32_t chunk) {
    const tn_kv_blocks *blocks = &t->run->blocks[kv->kind];
    return blocks->at[chunk % blocks->n] + (t->op->attention.latent ? 0 : head) * kv->head_stride;
}

/* Blocks lie far apart: the next chunk is not what comes next in memory, which is all that a processor expects. The first lines of its
 * part are asked for while this one is computed; from there on it is in order again. */
static void expect_chunk(const tn_task *t, const tn_kv *kv, size_t head, uint32_t chunk) {
    enum { FIRST_BYTES = 512, LINE_BYTES = 64 };
    const uint8_t *at = chunk_at(t, kv, head, chunk);
    for (size_t i = 0; i < FIRST_BYTES && i < TN_ATTN_CHUNK * kv->pos_stride; i += LINE_BYTES) {
        __builtin_prefetch(at + kv->k + i);
        __builtin_prefetch(at + kv->v + i);
    }
}

/* A key that the cache's type cannot hold would give scores of -infinity, as if its position were not there. With a NaN in it
 * all its scores are NaN, and the logits tell. */
static void mark_overflow(float *k, size_t n, tn_kv_type type) {
    static const float limits[TN_KV_COUNT] = {
        [TN_KV_F32] = INFINITY, [TN_KV_F16] = 65520, [TN_KV_Q8_0] = 65520 * 127.0F};
    int32_t limit, bits, found = 0; /* sizes are ordered as their bits are; that needs no chain of floats */
    memcpy(&limit, &limits[type], sizeof limit);
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &k[i], sizeof bits);
        found |= (bits & INT32_MAX) >= limit;
    }
    if (found) k[0] = NAN;
}

static void store(const tn_task *t, const workspace *w, size_t head, size_t token) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kv *kv = &t->run->kv[p->cache];
    const uint32_t pos = t->run->pos + (uint32_t)token;
    uint8_t *at = chunk_at(t, kv, head, pos / TN_ATTN_CHUNK) + pos % TN_ATTN_CHUNK * kv->pos_stride;
    tn_kv_store_fn *put = t->run->plan->kernels->kv_store[t->run->kv_type];
    prepare_head(t, w->head, in_row(t, 1, token), p->k_norm, head, token);
    mark_overflow(w->head, p->head_dim, t->run->kv_type);
    put(at + kv->k, w->head, p->head_dim);
    if (!p->latent) put(at + kv->v, in_row(t, 2, token) + head * p->head_dim, p->head_dim);
}

static tn_attn_args chunk_args(const tn_task *t, const workspace *w, size_t head, uint32_t chunk,
                               size_t n_q) {
    const tn_attention_params *p = &t->op->attention;
    const tn_kv *kv = &t->run->kv[p->cache];
    const uint8_t *at = chunk_at(t, kv, head, chunk);
    return (tn_attn_args){.q = w->q,
                          .q_stride = p->head_dim,
                          .n_q = n_q,
                          .lo = w->lo,
                          .hi = w->hi,
                          .k = at + kv->k,
                          .v = at + kv->v,
                          .kv_stride = kv->pos_stride,
                          .head_dim = p->head_dim,
                          .scale = p->scale,
                          .softcap = p->softcap,
                          .slope = p->slopes ? w->slope : NULL,
                          .at = w->at,
                          .m = w->m,
                          .l = w->l,
                          .o = w->o,
                          .o_stride = p->head_dim,
                          .scratch = tn_private(t) + t->run->plan->kernel_scratch_at};
}

/* ---- A tile ------------------------------------------------------------------------------------------------- */

/* Tokens first .. first + n - 1; the chunks that any of them sees. Query row i * group + g is head g of token i. */
typedef struct tile {
    size_t first, n, group;
    uint32_t first_chunk, n_chunks;
} tile;

static tn_span span_of(const tn_run *run, const tn_attention_params *p, size_t token) {
    return tn_attention_span(p, run->pos + (uint32_t)token, run->pos + run->n_tokens);
}

static tile tile_of(const tn_task *t, const tn_attention_params *p, size_t first, size_t n) {
    const tn_span from = span_of(t->run, p, first), to = span_of(t->run, p, first + n - 1);
    return (tile){first, n, p->n_heads / p->n_kv_heads, from.first_chunk,
                  to.first_chunk + to.n_chunks - from.first_chunk};
}

static void prepare_queries(const tn_task *t, const workspace *w, const tile *tl, size_t head) {
    const tn_attention_params *p = &t->op->attention;
    float *q = w->q;
    for (size_t i = 0; i < tl->n; i++) {
        const float *src = in_row(t, 0, tl->first + i);
        for (size_t g = 0; g < tl->group; g++, q += p->head_dim)
            prepare_head(t, q, src, p->q_norm, head * tl->group + g, tl->first + i);
    }
}

static int32_t clip(int64_t x) {
    return (int32_t)(x < 0 ? 0 : x > TN_ATTN_CHUNK ? TN_ATTN_CHUNK : x);
}

/* What each query row sees of a chunk, and where it stands itself, relative to the chunk; its slope. */
static void set_bounds(const tn_task *t, const workspace *w, const tile *tl, size_t head, uint32_t chunk) {
    const tn_attention_params *p = &t->op->attention;
    const int64_t base = (int64_t)chunk * TN_ATTN_CHUNK;
    size_t row = 0;
    for (size_t i = 0; i < tl->n; i++) {
        const uint32_t pos = t->run->pos + (uint32_t)(tl->first + i);
        const tn_span span = span_of(t->run, p, tl->first + i);
        for (size_t g = 0; g < tl->group; g++, row++) {
            w->lo[row] = clip(span.lo - base);
            w->hi[row] = clip(span.hi - base);
            w->at[row] = (int32_t)(pos - base);
            if (p->slopes) w->slope[row] = p->slopes[head * tl->group + g];
        }
    }
}

/* Joins the results of a chunk to a part, or begins it with them. */
static void join_chunk(const tn_task *t, const workspace *w, const tile *tl, size_t head, size_t part,
                       bool begin) {
    const tn_attention_params *p = &t->op->attention;
    const size_t dim = p->head_dim;
    tn_attn_join_fn *join = t->run->plan->kernels->attn_join;
    size_t row = 0;
    for (size_t i = 0; i < tl->n; i++) {
        float *out = (float *)(void *)tn_task_row(t, t->op->out, part * t->n_rows + tl->first + i);
        for (size_t h = head * tl->group; h < (head + 1) * tl->group; h++, row++) {
            float *m = out + h, *l = m + p->n_heads;
            if (begin) *l = 0;
            join(m, l, out + 2 * p->n_heads + h * dim, w->m[row], w->l[row], w->o + row * dim, dim);
        }
    }
}

/* Chunks [from, to) of the tile and one KV head. */
static void walk(const tn_task *t, const workspace *w, const tile *tl, size_t head, size_t from, size_t to) {
    prepare_queries(t, w, tl, head);
    for (size_t i = from; i < to; i++) {
        const uint32_t chunk = tl->first_chunk + (uint32_t)i;
        set_bounds(t, w, tl, head, chunk);
        const tn_attn_args args = chunk_args(t, w, head, chunk, tl->n * tl->group);
        if (i + 1 < to) expect_chunk(t, &t->run->kv[t->op->attention.cache], head, chunk + 1);
        t->run->plan->kernels->attn[t->run->kv_type](&args);
        join_chunk(t, w, tl, head, from == 0 ? 0 : i, from == 0 ? i == 0 : true);
    }
}

/* ---- How a batch is divided --------------------------------------------------------------------------------- */

typedef struct division {
    size_t skipped;  /* tokens whose results nobody reads */
    size_t per_tile; /* tokens */
    bool by_chunk;   /* one tile, whose parts have room */
} division;

static division division_of(const tn_run *run, const tn_attention_params *p, tn_value_id parts) {
    const size_t n_tokens = run->n_tokens;
    division d = {.per_tile = TN_ATTN_MAX_Q / (p->n_heads / p->n_kv_heads)};
    if (p->outputs_only && n_tokens > 1) d.skipped = n_tokens - run->n_outputs;
    const size_t n_chunks = (run->pos + n_tokens - 1) / TN_ATTN_CHUNK + 1;
    d.by_chunk =
        n_tokens - d.skipped <= d.per_tile && n_tokens * n_chunks <= run->plan->places[parts].max_rows;
    return d;
}

/* A single token is seen only by whoever walks the last chunk of its KV head, and is stored there, if no other thread
 * walks the same cache for another KV head. Otherwise all are stored before. */
static bool stores_on_the_way(const tn_task *t, const tn_attention_params *p) {
    return t->n_rows == 1 && (!p->latent || p->n_kv_heads == 1);
}

static void by_chunk(const tn_task *t, const workspace *w, const division *d) {
    const tn_attention_params *p = &t->op->attention;
    const tile tl = tile_of(t, p, d->skipped, t->n_rows - d->skipped);
    const tn_range units =
        tn_split((size_t)p->n_kv_heads * tl.n_chunks, 1, t->thread, t->run->plan->limits.n_threads);
    for (size_t u = units.begin, to; u < units.end; u += to - u % tl.n_chunks) {
        const size_t head = u / tl.n_chunks, from = u % tl.n_chunks;
        to = units.end - u < tl.n_chunks - from ? from + units.end - u : tl.n_chunks;
        if (stores_on_the_way(t, p) && to == tl.n_chunks) store(t, w, head, 0);
        walk(t, w, &tl, head, from, to);
    }
}

static void by_tile(const tn_task *t, const workspace *w, const division *d) {
    const tn_attention_params *p = &t->op->attention;
    const size_t n_tiles = (t->n_rows - d->skipped + d->per_tile - 1) / d->per_tile;
    /* in turn: later tiles see more of the cache */
    for (size_t u = t->thread; u < n_tiles * p->n_kv_heads; u += t->run->plan->limits.n_threads) {
        const size_t first = d->skipped + u / p->n_kv_heads * d->per_tile, left = t->n_rows - first;
        const tile tl = tile_of(t, p, first, left < d->per_tile ? left : d->per_tile);
        walk(t, w, &tl, u % p->n_kv_heads, 0, tl.n_chunks);
    }
}

void run_attention(const tn_task *t) {
    const tn_attention_params *p = &t->op->attention;
    const workspace w = workspace_of(t);
    const division d = division_of(t->run, p, t->op->out);
    if (!stores_on_the_way(t, p)) {
        const size_t n = p->latent ? 1 : p->n_kv_heads;
        const tn_range stores = tn_split(t->n_rows * n, 1, t->thread, t->run->plan->limits.n_threads);
        for (size_t i = stores.begin; i < stores.end; i++) store(t, &w, i % n, i / n);
        tn_pool_barrier(t->run->pool);
    }
    if (d.skipped == t->n_rows) return;
    (d.by_chunk ? by_chunk : by_tile)(t, &w, &d);
}

/* The first part after part 0 that is to be joined: part 0 has the chunks of the thread that walked the first. */
static size_t next_part(const tn_attention_params *p, size_t n_chunks, size_t head, size_t n_threads) {
    const size_t n_units = (size_t)p->n_kv_heads * n_chunks, first = head * n_chunks;
    const size_t thread = ((first + 1) * n_threads + n_units - 1) / n_units - 1;
    return tn_split(n_units, 1, thread, n_threads).end - first;
}

/* All parts of a token's head, then its sink, if it has one: a score without a value. */
static void join_head(const tn_task *t, float *out, size_t h, size_t i, size_t n_parts) {
    static const float nothing[TN_ATTN_MAX_DIM];
    const tn_attention_params *p = &t->op->attention;
    const tn_run *run = t->run;
    const tn_kernels *k = run->plan->kernels;
    const size_t dim = p->head_dim, group = p->n_heads / p->n_kv_heads;
    float m = -INFINITY, l = 0;
    for (size_t part = 0; part < n_parts;) {
        const float *from = in_row(t, 0, part * run->n_tokens + i);
        k->attn_join(&m, &l, out, from[h], from[p->n_heads + h], from + 2 * p->n_heads + h * dim, dim);
        part = part == 0 ? next_part(p, n_parts, h / group, run->plan->limits.n_threads) : part + 1;
    }
    if (p->sinks) k->attn_join(&m, &l, out, p->sinks[h], 1.0f, nothing, dim);
    k->scale(out, out, 1.0f / l, dim);
}

void run_attn_join(const tn_task *t) {
    const tn_attention_params *p = &t->op->attention;
    const tn_run *run = t->run;
    const division d = division_of(run, p, t->op->in[0]);
    const size_t n_parts = d.by_chunk ? tile_of(t, p, d.skipped, run->n_tokens - d.skipped).n_chunks : 1;
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        float *out = (float *)(void *)tn_task_row(t, t->op->out, i);
        for (size_t h = 0; h < p->n_heads; h++) join_head(t, out + h * p->head_dim, h, i, n_parts);
    }
}
