/* A session from the inside, for the files of this folder that make it, fork it, or read and restore its cache. */
#ifndef TN_SESSION_SESSION_IMPL_H
#define TN_SESSION_SESSION_IMPL_H

#include <stdatomic.h>

#include "../base/arena.h"
#include "../exec/run.h"
#include "../plan/plan.h"
#include "blocks.h"
#include "caches.h"
#include "rope.h"
#include "session.h"

/* What a session and its forks have in common: made with the first and only read since. */
typedef struct tn_program {
    atomic_uint n_sessions;
    tn_arena arena;
    tn_kernels kernels;
    tn_plan plan;
    tn_caches caches;
    double **frequencies;
    size_t logits_stride;   /* bytes between rows of logits */
    uint64_t scratch_bytes; /* private areas, shared values, rotary tables */
    uint64_t results_bytes; /* rows of logits, tokens */
} tn_program;

struct tn_session {
    const tn_graph *graph;
    tn_session_config config;
    tn_program *program;
    tn_pool *pool; /* these three: NULL until a fork evaluates */
    uint8_t *scratch;
    float **rope; /* tables, in the scratch */
    tn_blocks caches[TN_KV_KINDS];
    tn_blocks logits;          /* one block: n_outputs rows */
    int32_t *tokens;           /* n_ctx, those so far */
    uint32_t position, n_rows; /* tokens so far; rows of logits that are valid */
    uint32_t oldest;           /* first position that every windowed cache still holds */
    bool is_long;              /* the cache is that of a sequence longer than graph->long_above */
    atomic_bool cancelled;     /* by tn_session_cancel, from any thread */
    const atomic_bool *obeyed; /* what evaluations look at: that, or another session's */
};

/* Makes n positions from `first` on of all caches ones that may be written. */
tn_status tn_session_claim(tn_session *session, uint32_t first, uint32_t n, tn_error *err);

#endif
