/* Runs a planned program over one batch of tokens.
 *
 * Every thread walks all steps. In a step with one row each thread does the row operations for itself, in its private area;
 * with several rows they are divided, and the threads meet before the products. */
#ifndef TN_EXEC_RUN_H
#define TN_EXEC_RUN_H

#include <stdatomic.h>
#include <stdint.h>

#include "../plan/plan.h"
#include "pool.h"

/* Caches keep their positions in blocks of TN_ATTN_CHUNK, those of all caches of a kind in one: position p is in block
 * at[p / TN_ATTN_CHUNK % n]. */
typedef enum tn_kv_kind { TN_KV_ALL, TN_KV_RING, TN_KV_KINDS } tn_kv_kind; /* of all positions, or the last */

typedef struct tn_kv_blocks {
    uint8_t *const *at;
    uint32_t n;
} tn_kv_blocks;

/* One layer's cache: in its block, position p of head h is at k + h * head_stride + p % TN_ATTN_CHUNK * pos_stride. */
typedef struct tn_kv {
    size_t k, v;
    size_t head_stride, pos_stride;
    tn_kv_kind kind;
} tn_kv;

typedef struct tn_task tn_task;

/* Told of each product when its step is done, by every thread (task->thread): its inputs are still there, as floats too where the
 * plan was made for it (tn_limits.observed). */
typedef struct tn_observer {
    void (*product)(void *user, const tn_task *task);
    void *user;
} tn_observer;

typedef struct tn_run {
    const tn_plan *plan;
    tn_pool *pool;
    uint8_t *shared;       /* plan->shared_bytes, 64-byte aligned */
    uint8_t *private_base; /* one private area a thread */
    const tn_kv *kv;       /* one a cache of the graph */
    tn_kv_blocks blocks[TN_KV_KINDS];
    tn_kv_type kv_type;
    float *const
        *rope; /* one table a rope of the graph: for each token n_pairs cosines, then n_pairs sines */
    const int32_t *ids;
    uint32_t n_tokens, n_outputs; /* rows of TOKENS and OUTPUT values */
    uint32_t pos;                 /* of the first token */
    float *logits;                /* n_outputs rows */
    size_t logits_stride;         /* bytes */
    const tn_observer *observer;  /* NULL: none */
    const atomic_bool *cancelled; /* looked at between steps */
    atomic_int last_step;         /* set by tn_run_program: the one behind which all threads leave */
} tn_run;

/* Computes the batch: stores its keys and values, writes its logits. No allocation, no failure. False if it was cancelled: of the
 * positions of the batch anything may then be in the cache. */
bool tn_run_program(tn_run *run);

/* ---- For the run functions (ops.c, attention.c, experts.c) --------------------------------------------------------------- */

struct tn_task {
    tn_run *run;
    const tn_op *op;
    const tn_step_range *step;
    uint32_t thread;
    size_t n_rows;    /* of the step; a value of experts has copies of them */
    tn_range rows;    /* ROW, GATHER: the rows to make. Else all */
    tn_range columns; /* MAT, ELEMENT: the columns to make */
};

typedef void tn_op_run_fn(const tn_task *task);

/* Row i of a value, as the task's operation sees it. */
uint8_t *tn_task_row(const tn_task *task, tn_value_id value, size_t i);

static inline uint8_t *tn_private(const tn_task *task) {
    return task->run->private_base + task->thread * task->run->plan->private_bytes;
}

#define X(NAME, name, class, what) void run_##name(const tn_task *task);
#include "../graph/ops.def"
#undef X

#endif
