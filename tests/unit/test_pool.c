/* The thread pool under many short phases. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <signal.h>
#include <unistd.h>

#include "src/exec/pool.h"

enum { PHASES = 2000, MAX_THREADS = 8 };

typedef struct job {
    tn_pool *pool;
    uint64_t counts[MAX_THREADS][16]; /* a line each */
    int failures;
} job;

/* In each phase every thread adds one to its own count; after the barrier all counts are equal. */
static void phases(void *arg, uint32_t thread) {
    job *j = arg;
    const uint32_t n = tn_pool_n_threads(j->pool);
    for (uint64_t p = 1; p <= PHASES; p++) {
        if ((p * 7 + thread) % 500 == 0) usleep(300); /* long enough for the others to sleep */
        j->counts[thread][0] = p;
        tn_pool_barrier(j->pool);
        if (thread == p % n)
            for (uint32_t t = 0; t < n; t++) j->failures += j->counts[t][0] != p;
        tn_pool_barrier(j->pool);
    }
}

static void barriers_hold(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= MAX_THREADS; n++) {
        job j = {0};
        assert_int_equal(tn_pool_new(n, false, &j.pool, NULL), TN_OK);
        tn_pool_run(j.pool, phases, &j);
        assert_int_equal(j.failures, 0);
        for (uint32_t t = 0; t < n; t++) assert_int_equal(j.counts[t][0], PHASES);
        tn_pool_free(j.pool);
    }
}

static void touch(void *arg, uint32_t thread) {
    atomic_uint *counts = arg;
    atomic_fetch_add(&counts[thread], 1);
}

static void every_run_reaches_every_thread(void **state) {
    (void)state;
    tn_pool *pool;
    atomic_uint counts[4] = {0};
    assert_int_equal(tn_pool_new(4, false, &pool, NULL), TN_OK);
    for (int i = 0; i < 3000; i++) tn_pool_run(pool, touch, counts);
    for (int t = 0; t < 4; t++) assert_int_equal(atomic_load(&counts[t]), 3000);
    tn_pool_free(pool);
}

/* ---- Signals ---- */

static atomic_uint n_handled;

static void count_signal(int number) {
    (void)number;
    atomic_fetch_add(&n_handled, 1);
}

/* A signal for the process goes to any thread that does not block it: as long as the caller does, nobody takes it. */
static void signals_are_the_host_s(void **state) {
    (void)state;
    const struct sigaction action = {.sa_handler = count_signal};
    struct sigaction before;
    sigset_t one, mask, pending;
    tn_pool *pool;
    atomic_uint counts[4] = {0};
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(tn_pool_new(4, false, &pool, NULL), TN_OK);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 32; number++) assert_int_equal(sigismember(&mask, number), 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &mask);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 100; i++) tn_pool_run(pool, touch, counts);
    usleep(10000); /* asleep too */
    assert_int_equal(atomic_load(&n_handled), 0);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGUSR1), 1);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    assert_int_equal(atomic_load(&n_handled), 1);
    tn_pool_free(pool);
    sigaction(SIGUSR1, &before, NULL);
}

/* ---- Stress ---- */

/* Phases as short as they come, one barrier each: a thread writes its own cell of this phase's row, meets the others, reads all
 * cells; the row before last is free again by then. Random threads dawdle: spin, yield, or sleep until the others sleep too. */
typedef struct stress {
    tn_pool *pool;
    uint64_t first, n_phases, seed;
    uint64_t cells[2][MAX_THREADS];
    atomic_uint n_wrong;
} stress;

static uint64_t mixed(uint64_t z) { /* splitmix64's output function */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void dawdle(uint64_t random) {
    if (random % 16 == 0)
        for (volatile uint64_t i = random >> 32 & 0x3ff; i > 0; i--) {
        }
    if (random % 128 == 1) sched_yield();
    if (random % 1024 == 2) usleep((unsigned)(random >> 32 & 127));
}

static void stress_phases(void *arg, uint32_t thread) {
    stress *s = arg;
    const uint32_t n = tn_pool_n_threads(s->pool);
    unsigned n_wrong = 0;
    for (uint64_t p = s->first; p < s->first + s->n_phases; p++) {
        dawdle(mixed(s->seed + p * MAX_THREADS + thread));
        s->cells[p & 1][thread] = p * MAX_THREADS + thread;
        tn_pool_barrier(s->pool);
        for (uint32_t t = 0; t < n; t++) n_wrong += s->cells[p & 1][t] != p * MAX_THREADS + t;
    }
    atomic_fetch_add(&s->n_wrong, n_wrong);
}

static void phases_of_any_length_and_any_number_of_threads_hold(void **state) {
    (void)state;
    const uint64_t total = getenv("TERN_LONG") ? 1000000 : 20000;
    stress s = {.seed = 8};
    uint64_t random = s.seed, n_runs = 0, n_pools = 0;
    while (s.first < total) {
        const uint32_t n_threads = 1 + (uint32_t)(mixed(random++) % MAX_THREADS);
        assert_int_equal(tn_pool_new(n_threads, false, &s.pool, NULL), TN_OK);
        for (int run = 0; run < 8; run++, n_runs++, s.first += s.n_phases) {
            s.n_phases = mixed(random++) % 500;
            dawdle(mixed(random++));
            tn_pool_run(s.pool, stress_phases, &s);
        }
        tn_pool_free(s.pool);
        n_pools++;
    }
    assert_int_equal(atomic_load(&s.n_wrong), 0);
    print_message("%llu phases, %llu runs, %llu pools\n", (unsigned long long)s.first,
                  (unsigned long long)n_runs, (unsigned long long)n_pools);
}

static void note_processors(void *arg, uint32_t thread) {
    cpu_set_t *sets = arg;
    sched_getaffinity(0, sizeof *sets, &sets[thread]);
}

static void pinned_threads_have_a_processor_each_and_the_caller_keeps_its_own(void **state) {
    (void)state;
    cpu_set_t before, sets[2] = {0};
    tn_pool *pool;
    if (sched_getaffinity(0, sizeof before, &before) != 0 || CPU_COUNT(&before) < 2) skip();
    assert_int_equal(tn_pool_new(2, true, &pool, NULL), TN_OK);
    tn_pool_run(pool, note_processors, sets);
    tn_pool_free(pool);
    assert_true(CPU_EQUAL(&sets[0], &before));
    assert_int_equal(CPU_COUNT(&sets[1]), 1);
    CPU_AND(&sets[1], &sets[1], &before);
    assert_int_equal(CPU_COUNT(&sets[1]), 1); /* an allowed one */
}

static void a_pool_without_work_ends(void **state) {
    (void)state;
    for (uint32_t n = 1; n < 20; n++) {
        tn_pool *pool;
        assert_int_equal(tn_pool_new(n, false, &pool, NULL), TN_OK);
        tn_pool_free(pool);
    }
    tn_pool_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_hold),
        cmocka_unit_test(every_run_reaches_every_thread),
        cmocka_unit_test(signals_are_the_host_s),
        cmocka_unit_test(phases_of_any_length_and_any_number_of_threads_hold),
        cmocka_unit_test(pinned_threads_have_a_processor_each_and_the_caller_keeps_its_own),
        cmocka_unit_test(a_pool_without_work_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
