/* A persistent pool of threads that run one function together and meet at barriers.
 *
 * A waiting thread spins for some tens of microseconds, then sleeps: fast when phases are short, harmless when the
 * processor is shared. The calling thread is thread 0, unless the threads are a host's. One caller at
 * a time. */
#ifndef TN_EXEC_POOL_H
#define TN_EXEC_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/status.h"

typedef struct tn_pool tn_pool;
typedef void tn_pool_fn(void *arg, uint32_t thread);

/* n_threads >= 1, the caller included. With `pin` thread i keeps to the i-th of the processors allowed (base/processors.h), so
 * that the memory it touches first stays near; the caller's thread is left as it is. */
tn_status tn_pool_new(uint32_t n_threads, bool pin, tn_pool **out, tn_error *err);
void tn_pool_free(tn_pool *pool); /* NULL is fine; joins the threads */

/* A host's own threads: runs task(arg, i) for i = 0 .. n - 1, all at the same time since they meet, and returns when all are done. */
typedef struct tn_parallel {
    void (*run)(void *user, uint32_t n, void (*task)(void *arg, uint32_t i), void *arg);
    void *user;
} tn_parallel;

/* A pool that starts no threads: each tn_pool_run is one call of parallel->run. */
tn_status tn_pool_new_hosted(uint32_t n_threads, const tn_parallel *parallel, tn_pool **out, tn_error *err);

/* Runs fn(arg, thread) on every thread and returns when all are done. */
void tn_pool_run(tn_pool *pool, tn_pool_fn *fn, void *arg);

/* Inside fn: returns when every thread has called it. What was written before is visible after. */
void tn_pool_barrier(tn_pool *pool);

uint32_t tn_pool_n_threads(const tn_pool *pool);

/* How often the threads met inside functions run so far, modulo 2^32; a thread alone meets no one. For the caller of
 * tn_pool_run, between runs. */
uint32_t tn_pool_n_meetings(const tn_pool *pool);

#endif
