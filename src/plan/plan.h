/* The static plan: where every value lives, how work is divided, which kernels run. Made once for a session; a step of
 * decode only walks it.
 *
 * One shared arena holds the rows of all values, each at an offset that is free for as long as the value lives. Each thread has a
 * private area:
 *
 *   | rows of the open step, when it has one row | attention: q, one chunk's result; experts: scores, counts | kernel scratch |
 */
#ifndef TN_PLAN_PLAN_H
#define TN_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "../../kernels/kernels.h"
#include "../base/arena.h"
#include "../base/status.h"
#include "../graph/graph.h"

typedef struct tn_limits {
    uint32_t n_ctx;     /* positions, a multiple of TN_ATTN_CHUNK */
    uint32_t n_batch;   /* most tokens of one run */
    uint32_t n_outputs; /* most rows of logits of one run */
    uint32_t n_threads;
    bool observed; /* what products read is there as floats until they are done */
} tn_limits;

/* Where a value's rows are. The logits are outside, where the caller of a run wants them. */
typedef struct tn_place {
    size_t shared; /* offset in the shared arena */
    size_t alone;  /* offset in the private area of its one row, for values made by row operations */
    size_t stride; /* bytes between rows */
    size_t max_rows;
    bool by_rows; /* made by a row operation */
    bool escapes; /* read in a later step */
} tn_place;

typedef struct tn_plan {
    const tn_graph *graph;
    const tn_kernels *kernels;
    tn_limits limits;
    tn_place *places;    /* one a value */
    int32_t *last_reads; /* the operation that reads a value last */
    size_t shared_bytes;
    size_t work_at; /* offsets in the private area: attention's or experts' workspace */
    size_t kernel_scratch_at;
    size_t private_bytes;
    uint32_t max_head_dim, max_experts;
} tn_plan;

/* Fills *out; all memory comes from the arena. Allocates nothing that the plan speaks of: its sizes can be shown first. */
tn_status tn_plan_make(const tn_graph *graph, const tn_kernels *kernels, const tn_limits *limits,
                       tn_arena *arena, tn_plan *out, tn_error *err);

typedef struct tn_range {
    size_t begin, end;
} tn_range;

/* Thread `index`'s contiguous share of n items, in whole units. */
static inline tn_range tn_split(size_t n, size_t unit, size_t index, size_t n_threads) {
    size_t units = (n + unit - 1) / unit;
    size_t begin = units * index / n_threads * unit, end = units * (index + 1) / n_threads * unit;
    return (tn_range){begin < n ? begin : n, end < n ? end : n};
}

/* Of the experts' workspace: scores and what chooses, sums of groups at most as many, and counts. */
static inline size_t tn_experts_work_bytes(size_t n_experts) {
    return n_experts ? (4 * n_experts + 1) * sizeof(float) : 0;
}

#define TN_COLUMN_UNIT 16 /* columns are divided in panels of the matrix kernels */

/* Positions [lo, hi) that position `pos` sees of a sequence of `end`, and the chunks that hold them. */
typedef struct tn_span {
    uint32_t lo, hi, first_chunk, n_chunks;
} tn_span;

static inline tn_span tn_attention_span(const tn_attention_params *p, uint32_t pos, uint32_t end) {
    const uint32_t before = !p->window ? pos : p->ahead ? p->window / 2 : p->window - 1;
    const uint32_t after = !p->ahead ? 0 : p->window ? p->window / 2 : end;
    const uint32_t lo = pos > before ? pos - before : 0, hi = after < end - pos ? pos + after + 1 : end;
    return (tn_span){lo, hi, lo / TN_ATTN_CHUNK, (hi - 1) / TN_ATTN_CHUNK - lo / TN_ATTN_CHUNK + 1};
}

#endif
