#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../base/processors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define relax() _mm_pause()
#elif defined(__aarch64__)
#define relax() __asm__ volatile("yield")
#else
#define relax() (void)0
#endif

enum { SPINS = 2000 }; /* some tens of microseconds */

struct tn_pool {
    /* the barrier: on lines of their own, since waiting threads read `phase` all the time */
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint phase;
    _Alignas(64) atomic_uint sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    uint32_t n_threads, n_started, n_runs;
    bool stop;
    tn_pool_fn *fn;
    void *arg;
    tn_parallel host;    /* where its threads are used */
    pthread_t threads[]; /* else: n_threads - 1 */
};

typedef struct worker {
    tn_pool *pool;
    uint32_t index;
} worker;

static void sleep_until_changed(tn_pool *pool, unsigned phase) {
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->phase) == phase) pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* The counts are sequentially consistent: the last to arrive changes `phase`, then reads `sleepers`; a sleeper
 * adds itself, then reads `phase`. One of the two sees the other. The change is an exchange, not a store: QEMU's emulation of
 * Arm on x86 lets a load pass a store before it (seen in 7.2: both threads of a pool slept). */
void tn_pool_barrier(tn_pool *pool) {
    if (pool->n_threads == 1) return;
    const unsigned phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) + 1 == pool->n_threads) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_exchange(&pool->phase, phase + 1);
        if (atomic_load(&pool->sleepers)) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_broadcast(&pool->wake);
            pthread_mutex_unlock(&pool->mutex);
        }
        return;
    }
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->phase, memory_order_acquire) != phase) return;
        relax();
    }
    sleep_until_changed(pool, phase);
}

static void *work(void *arg) {
    worker w = *(worker *)arg;
    free(arg);
    pthread_mutex_lock(&w.pool->mutex); /* until the pool is complete */
    pthread_mutex_unlock(&w.pool->mutex);
    for (;;) {
        tn_pool_barrier(w.pool); /* a job, or the end */
        if (w.pool->stop) return NULL;
        w.pool->fn(w.pool->arg, w.index);
        tn_pool_barrier(w.pool); /* done */
    }
}

void tn_pool_run(tn_pool *pool, tn_pool_fn *fn, void *arg) {
    if (pool->host.run) {
        pool->host.run(pool->host.user, pool->n_threads, fn, arg);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->n_runs++;
    tn_pool_barrier(pool);
    fn(arg, 0);
    tn_pool_barrier(pool);
}

static bool start(tn_pool *pool, uint32_t index) {
    worker *w = malloc(sizeof *w);
    if (!w) return false;
    *w = (worker){pool, index};
    if (pthread_create(&pool->threads[index - 1], NULL, work, w) == 0) return true;
    free(w);
    return false;
}

/* Where a thread cannot be bound it runs anywhere: that costs speed alone. */
static void pin_threads(tn_pool *pool) {
    size_t n;
    tn_processor *list = tn_processors_allowed(&n);
    for (uint32_t i = 1; list && i < pool->n_threads && i < n; i++) {
        const size_t cpu = (size_t)list[i].cpu, set_bytes = CPU_ALLOC_SIZE(cpu + 1);
        cpu_set_t *set = CPU_ALLOC(cpu + 1);
        if (!set) break;
        CPU_ZERO_S(set_bytes, set);
        CPU_SET_S(cpu, set_bytes, set);
        pthread_setaffinity_np(pool->threads[i - 1], set_bytes, set);
        CPU_FREE(set);
    }
    free(list);
}

/* A pool with room for so many threads; NULL when out of memory. */
static tn_pool *pool_new(uint32_t n_threads, uint32_t n_started, tn_error *err) {
    tn_pool *pool = aligned_alloc(64, (sizeof *pool + n_started * sizeof(pthread_t) + 63) & ~(size_t)63);
    if (!pool) {
        tn_fail(err, TN_ERR_MEMORY, "cannot start threads", NULL, "out of memory");
        return NULL;
    }
    atomic_init(&pool->arrived, 0);
    atomic_init(&pool->phase, 0);
    atomic_init(&pool->sleepers, 0);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->n_threads = n_threads;
    pool->n_started = 1;
    pool->n_runs = 0;
    pool->stop = false;
    pool->host = (tn_parallel){0};
    return pool;
}

/* The host's handlers run on the host's threads: these take no signal but those of what they do themselves, and a profiler's. */
static void start_all(tn_pool *pool, uint32_t n_threads) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before); /* a new thread's mask is that of who starts it */
    while (pool->n_started < n_threads && start(pool, pool->n_started)) pool->n_started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

tn_status tn_pool_new(uint32_t n_threads, bool pin, tn_pool **out, tn_error *err) {
    tn_pool *pool = pool_new(n_threads, n_threads - 1, err);
    *out = NULL;
    if (!pool) return TN_ERR_MEMORY;
    pthread_mutex_lock(&pool->mutex);
    start_all(pool, n_threads);
    pool->n_threads = pool->n_started;
    pthread_mutex_unlock(&pool->mutex);
    if (pool->n_started < n_threads) {
        tn_status s = tn_fail(err, TN_ERR_IO, "cannot start threads", NULL,
                              "thread %u of %u was refused by the system", pool->n_started + 1, n_threads);
        tn_pool_free(pool);
        return s;
    }
    if (pin) pin_threads(pool);
    *out = pool;
    return TN_OK;
}

tn_status tn_pool_new_hosted(uint32_t n_threads, const tn_parallel *parallel, tn_pool **out, tn_error *err) {
    *out = pool_new(n_threads, 0, err);
    if (!*out) return TN_ERR_MEMORY;
    (*out)->host = *parallel;
    return TN_OK;
}

void tn_pool_free(tn_pool *pool) {
    if (!pool) return;
    if (!pool->host.run) {
        pool->stop = true;
        tn_pool_barrier(pool);
        for (uint32_t i = 1; i < pool->n_threads; i++) pthread_join(pool->threads[i - 1], NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

uint32_t tn_pool_n_threads(const tn_pool *pool) {
    return pool->n_threads;
}

/* Every barrier changes `phase` by one, and two of them stand around each run. */
uint32_t tn_pool_n_meetings(const tn_pool *pool) {
    return pool->n_threads == 1 ? 0 : atomic_load(&pool->phase) - 2 * pool->n_runs;
}
