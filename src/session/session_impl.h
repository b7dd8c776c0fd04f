/* A session from the inside, for the files of this folder that read or restore its cache. */
#ifndef TN_SESSION_SESSION_IMPL_H
#define TN_SESSION_SESSION_IMPL_H

#include <stdatomic.h>

#include "../base/arena.h"
#include "../exec/run.h"
#include "../plan/plan.h"
#include "rope.h"
#include "session.h"

struct tn_session {
    const tn_graph *graph;
    tn_session_config config;
    tn_arena arena;
    tn_kernels kernels;
    tn_plan plan;
    tn_pool *pool;
    tn_kv *kv; /* one a cache */
    uint8_t *kv_memory, *scratch;
    uint64_t kv_bytes, scratch_bytes;
    tn_rope_tables rope;
    float *logits; /* n_outputs rows of logits_stride bytes */
    size_t logits_stride;
    int32_t *tokens;           /* n_ctx, those so far */
    uint32_t position, n_rows; /* tokens so far; rows of logits that are valid */
    uint32_t oldest;           /* first position that every windowed cache still holds */
    uint32_t ring;             /* smallest capacity of a ring; 0: every cache keeps all positions */
    uint32_t window;           /* the largest of a windowed cache; 0: none */
    bool is_long;              /* the cache is that of a sequence longer than graph->long_above */
    atomic_bool cancelled;     /* by tn_session_cancel, from any thread */
    const atomic_bool *obeyed; /* what evaluations look at: that, or another session's */
};

#endif
