/* The thread pool under many short phases. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
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
        cmocka_unit_test(pinned_threads_have_a_processor_each_and_the_caller_keeps_its_own),
        cmocka_unit_test(a_pool_without_work_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
