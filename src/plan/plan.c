#include "plan.h"

#include <string.h>

#include "../base/checked.h"

static size_t row_stride(const tn_value *v) {
    if (v->layout == TN_LAYOUT_ACT) return tn_act_row_bytes(v->act, v->width);
    return tn_round_up((size_t)v->width * sizeof(float), 64);
}

/* Partial results of attention: one row a token, or with one token (and few, if there is room) one row a chunk of the
 * cache. */
static size_t max_rows(const tn_value *v, const tn_limits *limits) {
    if (v->rows == TN_ROWS_OUTPUTS) return (size_t)limits->n_outputs * v->copies;
    size_t n_chunks = limits->n_ctx / TN_ATTN_CHUNK + 1;
    return v->layout == TN_LAYOUT_PARTS && n_chunks > limits->n_batch ? n_chunks
                                                                      : (size_t)limits->n_batch * v->copies;
}

/* ---- Offsets in the shared arena: first fit among the values alive at the same time --------------------------- */

typedef struct block {
    size_t begin, end;
    int32_t producer, last_use; /* operations */
} block;

typedef struct layout {
    block *blocks; /* sorted by begin */
    size_t n;
    size_t top;
} layout;

/* What was made from operation `since` on and is not read from `op` on is over. */
static void drop_dead(layout *l, int32_t since, int32_t op) {
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->blocks[i].producer < since || l->blocks[i].last_use >= op) l->blocks[kept++] = l->blocks[i];
    l->n = kept;
}

static size_t place(layout *l, size_t bytes, int32_t producer, int32_t last_use) {
    size_t begin = 0, at = 0;
    while (at < l->n && l->blocks[at].begin - begin < bytes) begin = l->blocks[at++].end;
    memmove(&l->blocks[at + 1], &l->blocks[at], (l->n - at) * sizeof *l->blocks);
    l->blocks[at] = (block){begin, begin + bytes, producer, last_use};
    l->n++;
    if (begin + bytes > l->top) l->top = begin + bytes;
    return begin;
}

/* An ELEMENT operation may write over an input that nobody reads after it: the thread that made the columns reads each number
 * and writes its place. Made in this step behind the row operations, that is: of an older value another thread may still be reading
 * a row. Returns the input, or -1. */
static tn_value_id overwritten(const tn_plan *p, const tn_step_range *step, int32_t i) {
    const tn_graph *g = p->graph;
    const tn_op *op = &g->ops[i];
    if (tn_op_infos[op->kind].class != TN_CLASS_ELEMENT) return -1;
    for (int j = 0; j < 3; j++) {
        if (op->in[j] < 0) continue;
        const tn_value *v = &g->values[op->in[j]];
        if (v->producer >= step->mats && p->last_reads[op->in[j]] == i && v->layout == TN_LAYOUT_F32 &&
            v->width == g->values[op->out].width && v->copies == g->values[op->out].copies)
            return op->in[j];
    }
    return -1;
}

static size_t place_over(layout *l, size_t begin, int32_t last_use) {
    for (size_t b = 0; b < l->n; b++)
        if (l->blocks[b].begin == begin) l->blocks[b].last_use = last_use;
    return begin;
}

/* Under observation the floats that were quantized live as long as what was made of them. */
static void find_last_reads(tn_plan *p) {
    const tn_graph *g = p->graph;
    for (int32_t id = 0; id < g->n_values; id++) p->last_reads[id] = g->values[id].last_use;
    for (int32_t i = g->n_ops - 1; i >= 0 && p->limits.observed; i--) {
        const tn_op *op = &g->ops[i];
        if (op->kind != TN_OP_QUANTIZE && op->kind != TN_OP_DISPATCH) continue;
        int32_t *read = &p->last_reads[op->in[0]];
        if (*read < p->last_reads[op->out]) *read = p->last_reads[op->out];
    }
}

static bool place_values(tn_plan *p, layout *l) {
    const tn_graph *g = p->graph;
    for (int32_t s = 0; s < g->n_steps; s++) {
        size_t alone = 0;
        drop_dead(l, 0, g->steps[s].first);
        for (int32_t i = g->steps[s].first; i < g->steps[s].end; i++) {
            const tn_value_id id = g->ops[i].out;
            const tn_value *v = &g->values[id];
            const int32_t last_use = p->last_reads[id];
            tn_place *at = &p->places[id];
            /* The rows' own values make room for the columns'. Older ones do not: threads with one row, which is then each
             * thread's own, do not meet here. */
            if (i == g->steps[s].mats) drop_dead(l, g->steps[s].first, i);
            *at = (tn_place){.stride = row_stride(v),
                             .max_rows = max_rows(v, &p->limits),
                             .by_rows = i < g->steps[s].mats,
                             .escapes = last_use >= g->steps[s].end || id == g->logits};
            uint64_t bytes;
            if (!tn_mul_u64(at->stride, at->max_rows, &bytes) || bytes > SIZE_MAX / 4) return false;
            const tn_value_id over = overwritten(p, &g->steps[s], i);
            if (id != g->logits)
                at->shared = over >= 0 ? place_over(l, p->places[over].shared, last_use)
                                       : place(l, bytes, i, last_use);
            if (at->by_rows) at->alone = alone, alone += at->stride * v->copies;
        }
        if (alone > p->work_at) p->work_at = alone;
    }
    p->shared_bytes = l->top;
    return true;
}

/* What attention and experts need beside the rows of values, for a thread. */
static size_t work_bytes(tn_plan *p) {
    const tn_graph *g = p->graph;
    for (uint32_t i = 0; i < g->n_caches; i++)
        if (g->caches[i].head_dim > p->max_head_dim) p->max_head_dim = g->caches[i].head_dim;
    for (int32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == TN_OP_ROUTE && g->ops[i].route.n_experts > p->max_experts)
            p->max_experts = g->ops[i].route.n_experts;
    /* q and one chunk's result; one head of k; of each row maximum, sum, bounds, slope and position */
    const size_t attention =
        (2 * (size_t)TN_ATTN_MAX_Q + 1) * p->max_head_dim * sizeof(float) + 6 * TN_ATTN_MAX_Q * sizeof(float);
    const size_t experts = tn_experts_work_bytes(p->max_experts);
    return attention > experts ? attention : experts;
}

tn_status tn_plan_make(const tn_graph *graph, const tn_kernels *kernels, const tn_limits *limits,
                       tn_arena *arena, tn_plan *out, tn_error *err) {
    *out = (tn_plan){.graph = graph, .kernels = kernels, .limits = *limits};
    layout l = {.blocks = tn_arena_alloc(arena, (size_t)graph->n_values + 1, sizeof *l.blocks)};
    out->places = tn_arena_alloc(arena, (size_t)graph->n_values, sizeof *out->places);
    out->last_reads = tn_arena_alloc(arena, (size_t)graph->n_values, sizeof *out->last_reads);
    if (out->last_reads) find_last_reads(out);
    if (!l.blocks || !out->places || !out->last_reads || !place_values(out, &l))
        return tn_fail(err, TN_ERR_MEMORY, "cannot plan the session", NULL, "out of memory");
    out->kernel_scratch_at = tn_round_up(out->work_at + work_bytes(out), 64);
    out->private_bytes = tn_round_up(out->kernel_scratch_at + TN_KERNEL_SCRATCH, 4096);
    return TN_OK;
}
