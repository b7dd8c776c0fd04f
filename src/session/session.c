#include <stdlib.h>
#include <string.h>

#include "../base/checked.h"
#include "session_impl.h"

static uint32_t whole_chunks(uint64_t n) {
    return (uint32_t)((n + TN_ATTN_CHUNK - 1) / TN_ATTN_CHUNK * TN_ATTN_CHUNK);
}

static uint32_t largest_window(const tn_graph *graph) {
    uint32_t window = 0;
    for (uint32_t i = 0; i < graph->n_caches; i++)
        if (graph->caches[i].window > window) window = graph->caches[i].window;
    return window;
}

/* All rings are as long as the largest window asks for, so that they can be taken back equally far. */
static uint32_t capacity(const tn_session *s, const tn_cache_shape *shape) {
    const uint64_t ring = (uint64_t)largest_window(s->graph) + s->config.n_batch + TN_RING_MARGIN;
    return whole_chunks(shape->window && ring < s->config.n_ctx ? ring : s->config.n_ctx);
}

/* Bytes of one position of a head. */
static size_t row_bytes(const tn_cache_shape *shape, const tn_session_config *c) {
    return tn_dtype_row_bytes(tn_kv_dtype(c->kv), shape->head_dim);
}

/* Sizes of one cache's k (v, if it has one of its own, is the same); false on overflow. */
static bool cache_bytes(const tn_session *s, const tn_cache_shape *shape, uint64_t *head_bytes,
                        uint64_t *bytes) {
    return tn_mul_u64(capacity(s, shape), row_bytes(shape, &s->config), head_bytes) &&
           tn_mul_u64(*head_bytes, shape->n_kv_heads, bytes) && *bytes < SIZE_MAX / 8;
}

static tn_status too_large(tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL, "the sizes exceed the address space");
}

/* Whether every head fills whole blocks of the cache's type. */
static tn_status check_heads(const tn_graph *graph, tn_kv_type kv, tn_error *err) {
    const tn_dtype_info *type = &tn_dtypes[tn_kv_dtype(kv)];
    for (uint32_t i = 0; i < graph->n_caches; i++)
        if (graph->caches[i].head_dim % type->block_elems)
            return tn_fail(
                err, TN_ERR_ARG, "cannot make the session", NULL,
                "a cache of %s needs heads of a multiple of %u elements, the model's have %u: use f16",
                type->name, (unsigned)type->block_elems, graph->caches[i].head_dim);
    return TN_OK;
}

/* Plans without allocating what the plan speaks of; fills everything of s that is a size. */
static tn_status measure(tn_session *s, tn_error *err) {
    const tn_session_config *c = &s->config;
    const tn_limits limits = {whole_chunks(c->n_ctx), c->n_batch, c->n_outputs, c->n_threads,
                              c->observer != NULL};
    tn_status status = check_heads(s->graph, c->kv, err);
    if (status) return status;
    if (s->graph->n_positions && c->n_ctx > s->graph->n_positions)
        return tn_fail(err, TN_ERR_ARG, "cannot make the session", NULL,
                       "the model has %u positions and no more, a context of %u was asked for",
                       s->graph->n_positions, c->n_ctx);
    status = tn_plan_make(s->graph, &s->kernels, &limits, &s->arena, &s->plan, err);
    if (status) return status;
    uint64_t total = 0, head, bytes, private_bytes, logits_bytes;
    for (uint32_t i = 0; i < s->graph->n_caches; i++)
        if (!cache_bytes(s, &s->graph->caches[i], &head, &bytes) ||
            !tn_add_u64(total, (s->graph->caches[i].latent ? 1 : 2) * bytes, &total))
            return too_large(err);
    s->kv_bytes = total;
    s->logits_stride = tn_round_up((size_t)tn_session_row_width(s) * sizeof(float), 64);
    if (!tn_mul_u64(s->plan.private_bytes, c->n_threads, &private_bytes) ||
        !tn_mul_u64(s->logits_stride, c->n_outputs, &logits_bytes) ||
        !tn_add_u64(private_bytes, logits_bytes, &total) ||
        !tn_add_u64(total, s->plan.shared_bytes, &total) || total > SIZE_MAX / 4)
        return too_large(err);
    s->scratch_bytes = total + tn_rope_tables_bytes(s->graph, c->n_batch) + c->n_ctx * sizeof *s->tokens +
                       4096; /* each part starts on 64 bytes */
    return TN_OK;
}

static tn_status choose_kernels(tn_session *s, tn_error *err) {
    tn_isa isa;
    tn_status status = tn_isa_choose(&isa, err);
    if (!status) tn_kernels_fill(&s->kernels, isa);
    return status;
}

/* What a session is before anything is allocated; a sequence that is computed at once is one batch. */
static tn_session plain_session(const tn_graph *graph, const tn_session_config *config) {
    tn_session s = {.graph = graph, .config = *config};
    if (graph->whole) s.config.n_batch = s.config.n_ctx;
    return s;
}

tn_status tn_session_measure(const tn_graph *graph, const tn_session_config *config, tn_session_sizes *out,
                             tn_error *err) {
    tn_session s = plain_session(graph, config);
    tn_status status = choose_kernels(&s, err);
    if (!status) status = measure(&s, err);
    *out = (tn_session_sizes){s.kv_bytes, s.scratch_bytes};
    tn_arena_free(&s.arena);
    return status;
}

static void place_caches(tn_session *s) {
    uint8_t *at = s->kv_memory;
    for (uint32_t i = 0; i < s->graph->n_caches; i++) {
        const tn_cache_shape *shape = &s->graph->caches[i];
        uint64_t head = 0, bytes = 0;
        cache_bytes(s, shape, &head, &bytes);
        s->kv[i] = (tn_kv){.k = at,
                           .v = shape->latent ? at : at + bytes,
                           .head_stride = head,
                           .pos_stride = row_bytes(shape, &s->config),
                           .capacity = capacity(s, shape)};
        at += (shape->latent ? 1 : 2) * bytes;
        if (shape->window > s->window) s->window = shape->window;
        if (!shape->window || s->kv[i].capacity >= s->config.n_ctx) continue; /* it keeps all positions */
        if (!s->ring || s->kv[i].capacity < s->ring) s->ring = s->kv[i].capacity;
    }
}

static tn_status allocate(tn_session *s, tn_error *err) {
    s->kv_memory = tn_reserve(s->kv_bytes);
    s->scratch = tn_reserve(s->scratch_bytes);
    s->kv = tn_arena_alloc(&s->arena, s->graph->n_caches, sizeof *s->kv);
    if (!s->kv_memory || !s->scratch || !s->kv)
        return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL,
                       "%llu MiB for the cache of %u positions and %llu MiB of scratch were refused",
                       (unsigned long long)s->kv_bytes >> 20, s->config.n_ctx,
                       (unsigned long long)s->scratch_bytes >> 20);
    place_caches(s);
    uint8_t *at =
        s->scratch + s->plan.private_bytes * s->config.n_threads + tn_round_up(s->plan.shared_bytes, 64);
    s->logits = (float *)(void *)at;
    at += s->logits_stride * s->config.n_outputs;
    s->tokens = (int32_t *)(void *)(at + tn_rope_tables_bytes(s->graph, s->config.n_batch));
    return tn_rope_tables_init(&s->rope, s->graph, s->config.n_batch, at, &s->arena, err);
}

tn_status tn_session_new(const tn_graph *graph, const tn_session_config *config, tn_session **out,
                         tn_error *err) {
    *out = NULL;
    tn_session *s = calloc(1, sizeof *s);
    if (!s) return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL, "out of memory");
    *s = plain_session(graph, config);
    tn_status status;
    if ((status = choose_kernels(s, err)) || (status = measure(s, err)) || (status = allocate(s, err)) ||
        (status = tn_pool_new(config->n_threads, config->pin, &s->pool, err))) {
        tn_session_free(s);
        return status;
    }
    *out = s;
    return TN_OK;
}

void tn_session_free(tn_session *s) {
    if (!s) return;
    tn_pool_free(s->pool);
    if (s->kv_memory) tn_unreserve(s->kv_memory, s->kv_bytes);
    if (s->scratch) tn_unreserve(s->scratch, s->scratch_bytes);
    tn_arena_free(&s->arena);
    free(s);
}

/* ---- Evaluation ------------------------------------------------------------------------------------------------ */

static void run_batch(tn_session *s, const int32_t *ids, uint32_t n, uint32_t n_outputs) {
    tn_rope_tables_fill(&s->rope, s->graph, s->position, n, s->is_long);
    memmove(s->tokens + s->position, ids, n * sizeof *ids);
    tn_run run = {
        .plan = &s->plan,
        .pool = s->pool,
        .private_base = s->scratch,
        .shared = s->scratch + s->plan.private_bytes * s->config.n_threads,
        .kv = s->kv,
        .kv_type = s->config.kv,
        .rope = s->rope.tables,
        .ids = ids,
        .n_tokens = n,
        .n_outputs = n_outputs,
        .pos = s->position,
        .logits = (float *)(void *)((uint8_t *)s->logits + s->n_rows * s->logits_stride),
        .logits_stride = s->logits_stride,
        .observer = s->config.observer,
    };
    tn_run_program(&run);
    s->position += n;
    s->n_rows += n_outputs;
    if (s->ring && s->position > s->ring && s->position - s->ring > s->oldest)
        s->oldest = s->position - s->ring;
}

/* Whether all n are finite: the exponent's bits are all set in infinities and NaN alone. No chain of float additions:
 * this reads every logit of every token. */
static bool all_finite(const float *x, uint32_t n) {
    const uint32_t exponent = 0x7f800000;
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return !found;
}

static tn_status check_finite(const tn_session *s, uint32_t first_row, tn_error *err) {
    for (uint32_t r = first_row; r < s->n_rows; r++)
        if (!all_finite(tn_session_logits(s, r), tn_session_row_width(s)))
            return tn_fail(err, TN_ERR_NUMERIC, "cannot compute", NULL,
                           "the logits at position %u are not finite", s->position - s->n_rows + r);
    return TN_OK;
}

static tn_status check_ids(const tn_session *s, const int32_t *ids, size_t n, uint32_t n_outputs,
                           tn_error *err) {
    if (n == 0 || n_outputs > n || n_outputs > s->config.n_outputs)
        return tn_fail(err, TN_ERR_ARG, "cannot compute", NULL,
                       "%zu tokens and %u rows of logits asked for, at most %u kept", n, n_outputs,
                       s->config.n_outputs);
    if (s->graph->whole && s->position)
        return tn_fail(err, TN_ERR_ARG, "cannot compute", NULL,
                       "tokens of this model see the whole sequence: it cannot go on behind its %u tokens",
                       s->position);
    if (n > s->config.n_ctx - s->position)
        return tn_fail(err, TN_ERR_FULL, "the context is full", NULL,
                       "%u of %u positions used, %zu more asked for", s->position, s->config.n_ctx, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->config.n_vocab)
            return tn_fail(err, TN_ERR_ARG, "cannot compute", NULL, "token %d is not in the vocabulary of %u",
                           ids[i], s->config.n_vocab);
    return TN_OK;
}

/* How much of a call is done, in tokens; `counted` 0 while tokens are computed that are not the call's own. */
typedef struct tn_progress {
    size_t done, total, counted;
} tn_progress;

static tn_status eval_part(tn_session *s, const int32_t *ids, size_t n, size_t n_outputs, tn_progress *p,
                           tn_error *err) {
    const size_t first_output = n - n_outputs;
    for (size_t at = 0; at < n;) {
        const size_t left = n - at, take = left < s->config.n_batch ? left : s->config.n_batch,
                     end = at + take;
        const size_t outputs = end > first_output ? end - (at > first_output ? at : first_output) : 0;
        const uint32_t first_row = s->n_rows;
        run_batch(s, ids + at, (uint32_t)take, (uint32_t)outputs);
        tn_status status = s->config.file ? tn_file_check(s->config.file, err) : TN_OK;
        if (!status) status = check_finite(s, first_row, err);
        if (status) return status;
        at = end;
        p->done += take * p->counted;
        if (s->config.progress &&
            !s->config.progress(s->config.user, (uint32_t)p->done, (uint32_t)p->total) && p->done < p->total)
            return tn_fail(err, TN_ERR_CANCELLED, "cancelled", NULL, "after %zu of %zu tokens", p->done,
                           p->total);
    }
    return TN_OK;
}

/* The call makes the sequence longer than graph->long_above: it is computed again from its start as a long one, so that
 * each logit is a matter of the tokens before it alone. Rows asked for at positions below are those of a short
 * sequence and are computed first. */
static tn_status eval_across(tn_session *s, const int32_t *ids, size_t n, size_t n_outputs, tn_error *err) {
    const uint32_t above = s->graph->long_above;
    const size_t before = above - s->position; /* tokens of this call that a short sequence can hold */
    const size_t early = n - before < n_outputs ? n_outputs - (n - before) : 0;
    tn_progress p = {0, n, 1};
    tn_status status = early ? eval_part(s, ids, before, early, &p, err) : TN_OK;
    if (status) return status;
    memcpy(s->tokens + s->position, ids, (above - s->position) * sizeof *ids);
    s->position = s->oldest = 0;
    s->is_long = true;
    p.counted = 0;
    if (!(status = eval_part(s, s->tokens, above, 0, &p, err))) {
        p = (tn_progress){before, n, 1};
        status = eval_part(s, ids + before, n - before, n_outputs - early, &p, err);
    }
    if (status && s->position <= above) tn_session_truncate(s, 0);
    return status;
}

tn_status tn_session_eval(tn_session *s, const int32_t *ids, size_t n, uint32_t n_outputs, tn_error *err) {
    tn_status status = check_ids(s, ids, n, n_outputs, err);
    if (status) return status;
    s->n_rows = 0;
    if (s->graph->long_above && !s->is_long && n > s->graph->long_above - s->position)
        return eval_across(s, ids, n, n_outputs, err);
    tn_progress p = {0, n, 1};
    return eval_part(s, ids, n, n_outputs, &p, err);
}

const float *tn_session_logits(const tn_session *s, uint32_t i) {
    return i < s->n_rows ? (const float *)(const void *)((const uint8_t *)s->logits + i * s->logits_stride)
                         : NULL;
}

uint32_t tn_session_row_width(const tn_session *s) {
    return s->graph->values[s->graph->logits].width;
}
uint32_t tn_session_position(const tn_session *s) {
    return s->position;
}
const int32_t *tn_session_tokens(const tn_session *s) {
    return s->tokens;
}
void tn_session_note(tn_session *s, int32_t token) {
    if (s->position < s->config.n_ctx) s->tokens[s->position] = token;
}
const tn_session_config *tn_session_config_of(const tn_session *s) {
    return &s->config;
}
const char *tn_session_isa(const tn_session *s) {
    return tn_isa_name(s->kernels.isa);
}
uint32_t tn_session_n_barriers(const tn_session *s) {
    return tn_pool_n_meetings(s->pool);
}

uint32_t tn_session_truncate(tn_session *s, uint32_t position) {
    if (position >= s->position) return s->position;
    const uint32_t needed =
        position > s->window ? position - s->window : 0; /* the oldest one the next token sees */
    const bool lost =
        needed < s->oldest || s->graph->whole || (s->is_long && position <= s->graph->long_above);
    s->position = lost ? 0 : position;
    if (s->position == 0) s->oldest = 0, s->is_long = false;
    s->n_rows = 0;
    return s->position;
}

/* ---- Prefixes -------------------------------------------------------------------------------------------------- */

uint32_t tn_session_common(const tn_session *s, const int32_t *ids, size_t n) {
    uint32_t i = 0;
    while (i < s->position && i < n && s->tokens[i] == ids[i]) i++;
    return i;
}

tn_status tn_session_sync(tn_session *s, const int32_t *ids, size_t n, uint32_t n_outputs, uint32_t *reused,
                          tn_error *err) {
    *reused = 0;
    if (n > s->config.n_ctx)
        return tn_fail(err, TN_ERR_FULL, "the context is full", NULL, "%zu tokens asked for, it holds %u", n,
                       s->config.n_ctx);
    const size_t rest = n_outputs < n ? n - n_outputs : 0; /* rows of logits come from tokens computed anew */
    const uint32_t common = tn_session_common(s, ids, rest);
    *reused = tn_session_truncate(s, common);
    return *reused == n ? TN_OK : tn_session_eval(s, ids + *reused, n - *reused, n_outputs, err);
}

uint32_t tn_session_retractable(const tn_session *s) {
    const uint32_t left = s->config.n_ctx - s->position, above = s->graph->long_above;
    return above && !s->is_long && s->position < above && above - s->position < left ? above - s->position
                                                                                     : left;
}
