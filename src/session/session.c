#include <stdlib.h>
#include <string.h>

#include "../base/checked.h"
#include "session_impl.h"

static tn_status too_large(tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL, "the sizes exceed the address space");
}

static tn_status out_of_memory(tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL, "out of memory");
}

/* Fills the program, which allocates nothing of what it speaks of. */
static tn_status measure(const tn_session *s, tn_program *p, tn_error *err) {
    const tn_session_config *c = &s->config;
    const uint32_t n_ctx = (c->n_ctx + TN_ATTN_CHUNK - 1) / TN_ATTN_CHUNK * TN_ATTN_CHUNK;
    const tn_limits limits = {n_ctx, c->n_batch, c->n_outputs, c->n_threads, c->observer != NULL};
    tn_status status = tn_caches_plan(s->graph, c, &p->arena, &p->caches, err);
    if (status) return status;
    if (s->graph->n_positions && c->n_ctx > s->graph->n_positions)
        return tn_fail(err, TN_ERR_ARG, "cannot make the session", NULL,
                       "the model has %u positions and no more, a context of %u was asked for",
                       s->graph->n_positions, c->n_ctx);
    status = tn_plan_make(s->graph, &p->kernels, &limits, &p->arena, &p->plan, err);
    if (status) return status;
    if (!(p->frequencies = tn_rope_frequencies(s->graph, &p->arena))) return out_of_memory(err);
    uint64_t private_bytes, logits_bytes, total;
    p->logits_stride = tn_round_up((size_t)tn_session_row_width(s) * sizeof(float), 64);
    if (!tn_mul_u64(p->plan.private_bytes, c->n_threads, &private_bytes) ||
        !tn_mul_u64(p->logits_stride, c->n_outputs, &logits_bytes) || logits_bytes > SIZE_MAX / 8 ||
        !tn_add_u64(private_bytes, p->plan.shared_bytes, &total) || total > SIZE_MAX / 8)
        return too_large(err);
    p->scratch_bytes =
        total + tn_rope_tables_bytes(s->graph, c->n_batch) + 4096; /* each part starts on 64 bytes */
    p->results_bytes = logits_bytes + c->n_ctx * sizeof *s->tokens;
    return TN_OK;
}

static tn_status choose_kernels(tn_program *p, tn_error *err) {
    tn_isa isa;
    tn_status status = tn_isa_choose(&isa, err);
    if (!status) tn_kernels_fill(&p->kernels, isa);
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
    const tn_session s = plain_session(graph, config);
    tn_program p = {0};
    tn_status status = choose_kernels(&p, err);
    if (!status) status = measure(&s, &p, err);
    *out = (tn_session_sizes){p.caches.bytes, p.scratch_bytes + p.results_bytes};
    tn_arena_free(&p.arena);
    return status;
}

/* What an evaluation works with, which a fork has none of until its first one. */
static tn_status start(tn_session *s, tn_error *err) {
    const tn_plan *plan = &s->program->plan;
    if (s->pool) return TN_OK;
    if (!s->scratch) s->scratch = tn_memory_take(&s->config.allocator, s->program->scratch_bytes);
    if (!s->scratch)
        return tn_fail(err, TN_ERR_MEMORY, "cannot compute", NULL, "%llu MiB of scratch were refused",
                       (unsigned long long)s->program->scratch_bytes >> 20);
    s->rope = tn_rope_tables_place(s->graph, s->config.n_batch,
                                   s->scratch + plan->private_bytes * s->config.n_threads +
                                       tn_round_up(plan->shared_bytes, 64));
    if (s->config.parallel.run)
        return tn_pool_new_hosted(s->config.n_threads, &s->config.parallel, &s->pool, err);
    return tn_pool_new(s->config.n_threads, s->config.pin, &s->pool, err);
}

static tn_status allocate(tn_session *s, tn_error *err) {
    const tn_program *p = s->program;
    const size_t logits_bytes = p->logits_stride * s->config.n_outputs;
    s->tokens = tn_memory_take(&s->config.allocator, s->config.n_ctx * sizeof *s->tokens);
    bool done = s->tokens && tn_blocks_new(&s->logits, 1, logits_bytes, &s->config.allocator);
    for (int kind = 0; kind < TN_KV_KINDS && done; kind++)
        done = tn_blocks_new(&s->caches[kind], p->caches.blocks[kind].n, p->caches.blocks[kind].bytes,
                             &s->config.allocator);
    if (done) return start(s, err);
    return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL,
                   "%llu MiB for the cache of %u positions and %llu MiB of results were refused",
                   (unsigned long long)p->caches.bytes >> 20, s->config.n_ctx,
                   (unsigned long long)p->results_bytes >> 20);
}

tn_status tn_session_new(const tn_graph *graph, const tn_session_config *config, tn_session **out,
                         tn_error *err) {
    *out = NULL;
    tn_session *s = malloc(sizeof *s);
    if (!s) return out_of_memory(err);
    *s = plain_session(graph, config);
    s->obeyed = &s->cancelled;
    tn_status status;
    if (!(s->program = calloc(1, sizeof *s->program))) {
        status = out_of_memory(err);
    } else {
        atomic_init(&s->program->n_sessions, 1);
        s->program->arena.allocator = config->allocator;
        status = choose_kernels(s->program, err);
        if (!status) status = measure(s, s->program, err);
        if (!status) status = allocate(s, err);
    }
    if (status)
        tn_session_free(s);
    else
        *out = s;
    return status;
}

tn_status tn_session_fork(const tn_session *from, tn_session **out, tn_error *err) {
    *out = NULL;
    tn_session *s = malloc(sizeof *s);
    if (!s) return out_of_memory(err);
    *s = (tn_session){.graph = from->graph,
                      .config = from->config,
                      .program = from->program,
                      .position = from->position,
                      .n_rows = from->n_rows,
                      .oldest = from->oldest,
                      .is_long = from->is_long};
    s->obeyed = &s->cancelled;
    atomic_fetch_add(&s->program->n_sessions, 1);
    const uint32_t n_used = (s->position + TN_ATTN_CHUNK - 1) / TN_ATTN_CHUNK;
    s->tokens = tn_memory_take(&s->config.allocator, s->config.n_ctx * sizeof *s->tokens);
    bool done = s->tokens && tn_blocks_share(&s->logits, &from->logits, s->n_rows > 0);
    for (int kind = 0; kind < TN_KV_KINDS && done; kind++) {
        const uint32_t n = from->caches[kind].n;
        done = tn_blocks_share(&s->caches[kind], &from->caches[kind], n_used < n ? n_used : n);
    }
    if (!done) {
        tn_session_free(s);
        return out_of_memory(err);
    }
    memcpy(s->tokens, from->tokens, s->position * sizeof *s->tokens);
    *out = s;
    return TN_OK;
}

void tn_session_free(tn_session *s) {
    if (!s) return;
    tn_pool_free(s->pool);
    for (int kind = 0; kind < TN_KV_KINDS; kind++) tn_blocks_free(&s->caches[kind]);
    tn_blocks_free(&s->logits);
    tn_memory_give(&s->config.allocator, s->tokens, s->config.n_ctx * sizeof *s->tokens);
    if (s->scratch) tn_memory_give(&s->config.allocator, s->scratch, s->program->scratch_bytes);
    if (s->program && atomic_fetch_sub(&s->program->n_sessions, 1) == 1) {
        tn_arena_free(&s->program->arena);
        free(s->program);
    }
    free(s);
}

/* ---- Evaluation ------------------------------------------------------------------------------------------------ */

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a signal handler may cancel");

void tn_session_cancel(tn_session *s, bool cancelled) {
    atomic_store(&s->cancelled, cancelled);
}
bool tn_session_is_cancelled(const tn_session *s) {
    return atomic_load_explicit(s->obeyed, memory_order_relaxed);
}
void tn_session_obey(tn_session *s, const tn_session *other) {
    s->obeyed = &other->cancelled;
}

/* Of a block that is only written in part the rest is kept: it may be earlier positions, in a ring others that are still seen. */
tn_status tn_session_claim(tn_session *s, uint32_t first, uint32_t n, tn_error *err) {
    for (int kind = 0; kind < TN_KV_KINDS; kind++) {
        tn_blocks *blocks = &s->caches[kind];
        for (uint32_t b = first / TN_ATTN_CHUNK; blocks->n && b * TN_ATTN_CHUNK < first + n; b++) {
            const bool whole = b * TN_ATTN_CHUNK >= first && (b + 1) * TN_ATTN_CHUNK <= first + n;
            if (!tn_blocks_write(blocks, b % blocks->n, !whole))
                return tn_fail(err, TN_ERR_MEMORY, "cannot compute", NULL,
                               "memory for the cache from position %u on was refused", b * TN_ATTN_CHUNK);
        }
    }
    return TN_OK;
}

/* Gets what the next batch writes. Rings lose what its positions lie upon, whatever becomes of it. */
static tn_status prepare(tn_session *s, uint32_t n, tn_error *err) {
    const uint32_t ring = s->program->caches.ring, end = s->position + n;
    tn_status status = start(s, err);
    if (status) return status;
    if (ring && end > ring && end - ring > s->oldest) s->oldest = end - ring;
    status = tn_session_claim(s, s->position, n, err);
    if (!status && !tn_blocks_write(&s->logits, 0, s->n_rows > 0))
        status = tn_fail(err, TN_ERR_MEMORY, "cannot compute", NULL, "memory for the logits was refused");
    return status;
}

/* False if it was cancelled: the batch is then not part of the sequence. */
static bool run_batch(tn_session *s, const int32_t *ids, uint32_t n, uint32_t n_outputs) {
    const tn_program *p = s->program;
    tn_rope_tables_fill(s->rope, p->frequencies, s->graph, s->position, n, s->is_long);
    memmove(s->tokens + s->position, ids, n * sizeof *ids);
    tn_run run = {
        .plan = &p->plan,
        .pool = s->pool,
        .private_base = s->scratch,
        .shared = s->scratch + p->plan.private_bytes * s->config.n_threads,
        .kv = p->caches.kv,
        .blocks = {{s->caches[TN_KV_ALL].at, s->caches[TN_KV_ALL].n},
                   {s->caches[TN_KV_RING].at, s->caches[TN_KV_RING].n}},
        .kv_type = s->config.kv,
        .rope = s->rope,
        .ids = ids,
        .n_tokens = n,
        .n_outputs = n_outputs,
        .pos = s->position,
        .logits = (float *)(void *)(s->logits.at[0] + s->n_rows * p->logits_stride),
        .logits_stride = p->logits_stride,
        .observer = s->config.observer,
        .cancelled = s->obeyed,
    };
    if (!tn_run_program(&run)) return false;
    s->position += n;
    s->n_rows += n_outputs;
    return true;
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

static tn_status fail_cancelled(const tn_progress *p, tn_error *err) {
    return tn_fail(err, TN_ERR_CANCELLED, "cancelled", NULL, "after %zu of %zu tokens", p->done, p->total);
}

static tn_status eval_part(tn_session *s, const int32_t *ids, size_t n, size_t n_outputs, tn_progress *p,
                           tn_error *err) {
    const size_t first_output = n - n_outputs;
    for (size_t at = 0; at < n;) {
        const size_t left = n - at, take = left < s->config.n_batch ? left : s->config.n_batch,
                     end = at + take;
        const size_t outputs = end > first_output ? end - (at > first_output ? at : first_output) : 0;
        const uint32_t first_row = s->n_rows;
        tn_status status = prepare(s, (uint32_t)take, err);
        if (status) return status;
        if (!run_batch(s, ids + at, (uint32_t)take, (uint32_t)outputs)) return fail_cancelled(p, err);
        status = check_finite(s, first_row, err);
        if (status) return status;
        at = end;
        p->done += take * p->counted;
        if (s->config.progress &&
            !s->config.progress(s->config.user, (uint32_t)p->done, (uint32_t)p->total) && p->done < p->total)
            return fail_cancelled(p, err);
    }
    return TN_OK;
}

static void restart(tn_session *s) {
    s->position = s->oldest = s->n_rows = 0;
    s->is_long = false;
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
    memmove(s->tokens + s->position, ids, (above - s->position) * sizeof *ids);
    s->position = s->oldest = 0;
    s->is_long = true;
    p.counted = 0;
    if (!(status = eval_part(s, s->tokens, above, 0, &p, err))) {
        p = (tn_progress){before, n, 1};
        status = eval_part(s, ids + before, n - before, n_outputs - early, &p, err);
    }
    if (status && s->position <= above) restart(s); /* neither a short sequence nor a long one */
    return status;
}

tn_status tn_session_eval(tn_session *s, const int32_t *ids, size_t n, uint32_t n_outputs, tn_error *err) {
    tn_status status = check_ids(s, ids, n, n_outputs, err);
    tn_progress p = {0, n, 1};
    if (!status && tn_session_is_cancelled(s)) status = fail_cancelled(&p, err);
    if (status) return status;
    s->n_rows = 0;
    if (s->graph->long_above && !s->is_long && n > s->graph->long_above - s->position)
        return eval_across(s, ids, n, n_outputs, err);
    return eval_part(s, ids, n, n_outputs, &p, err);
}

const float *tn_session_logits(const tn_session *s, uint32_t i) {
    return i < s->n_rows ? (const float *)(const void *)(s->logits.at[0] + i * s->program->logits_stride)
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
    return tn_isa_name(s->program->kernels.isa);
}
uint32_t tn_session_n_barriers(const tn_session *s) {
    return s->pool ? tn_pool_n_meetings(s->pool) : 0;
}

uint32_t tn_session_truncate(tn_session *s, uint32_t position) {
    if (position >= s->position) return s->position;
    const uint32_t window = s->program->caches.window;
    const uint32_t needed =
        position > window ? position - window : 0; /* the oldest one the next token sees */
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
