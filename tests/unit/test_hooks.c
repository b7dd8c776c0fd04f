/* A host's memory and threads: the same bits with them, all given back, and an error where they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"
#include "tests/unit/tiny_session.h"

/* ---- A host's memory --------------------------------------------------------------------------------------------- */

enum { MAX_TAKEN = 64 };

/* Fills what it gives with bytes that are no number, and knows what was given for what. */
typedef struct host_memory {
    struct {
        void *memory;
        size_t bytes;
    } taken[MAX_TAKEN];
    size_t n_calls, bytes;
    size_t refuse_at; /* the call that is refused, from 1; 0: none */
} host_memory;

static void *host_alloc(void *user, size_t bytes, size_t alignment) {
    host_memory *h = user;
    assert_true(bytes > 0 && alignment == 64);
    if (++h->n_calls == h->refuse_at) return NULL;
    size_t i = 0;
    while (i < MAX_TAKEN && h->taken[i].memory) i++;
    assert_true(i < MAX_TAKEN);
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    assert_non_null(memory);
    memset(memory, 0xff, bytes);
    h->taken[i].memory = memory, h->taken[i].bytes = bytes;
    h->bytes += bytes;
    return memory;
}

static void host_free(void *user, void *memory, size_t bytes) {
    host_memory *h = user;
    size_t i = 0;
    while (i < MAX_TAKEN && h->taken[i].memory != memory) i++;
    assert_true(memory && i < MAX_TAKEN);
    assert_int_equal(h->taken[i].bytes, bytes);
    h->taken[i].memory = NULL;
    h->bytes -= bytes;
    memset(memory, 0xee, bytes);
    free(memory);
}

static tn_session_config config_of(const tn_model *m, host_memory *h) {
    return (tn_session_config){.n_ctx = 1000,
                               .n_batch = 32,
                               .n_outputs = 1,
                               .n_threads = 2,
                               .n_vocab = m->hparams.n_vocab,
                               .kv = TN_KV_F16,
                               .allocator = {host_alloc, host_free, h}};
}

static void assert_same_logits(const tn_model *m, const tn_session *a, const tn_session *b) {
    assert_memory_equal(tn_session_logits(a, 0), tn_session_logits(b, 0), m->hparams.n_vocab * sizeof(float));
}

static void a_session_computes_the_same_in_memory_of_the_host(void **state) {
    (void)state;
    const tiny_shape *const shapes[] = {&tiny_llama, &tiny_gemma3};
    for (int i = 0; i < 2; i++) {
        tn_model *m = tiny_open(shapes[i]);
        host_memory h = {0};
        const tn_session_config c = config_of(m, &h);
        int32_t ids[900];
        tiny_ids(ids, 900, m->hparams.n_vocab, 3);
        tn_session *s = NULL, *fork = NULL, *plain = tiny_session(m, 1000, 32, 1, TN_KV_F16);
        tn_session_sizes sizes;
        assert_int_equal(tn_session_measure(&m->graph, &c, &sizes, NULL), TN_OK);
        assert_int_equal(h.n_calls, 0);
        assert_int_equal(tn_session_new(&m->graph, &c, &s, NULL), TN_OK);
        assert_in_range(h.bytes, sizes.kv_bytes + sizes.scratch_bytes,
                        sizes.kv_bytes + sizes.scratch_bytes + (1 << 20));
        tiny_eval(s, ids, 870);
        tiny_eval(plain, ids, 870);
        assert_same_logits(m, s, plain);
        const size_t before = h.bytes;
        assert_int_equal(tn_session_fork(s, &fork, NULL), TN_OK);
        assert_int_equal(h.bytes - before, 1000 * sizeof *ids); /* for the tokens */
        assert_same_logits(m, fork, plain);
        tiny_eval(fork, ids + 870, 10);
        assert_in_range(h.bytes, before + 1, before + sizes.kv_bytes + sizes.scratch_bytes);
        tn_session_free(s);
        tiny_eval(plain, ids + 870, 10);
        assert_same_logits(m, fork, plain);
        tn_session_free(fork);
        assert_int_equal(h.bytes, 0);
        tn_session_free(plain);
        tn_model_close(m);
    }
}

/* Each call in turn refused: while a session is made nothing is left; while a fork grows it stays where it was, and what its rings lost
 * meanwhile is known when it is taken back. */
static void what_the_host_refuses_is_an_error(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_gemma3);
    host_memory h = {0};
    tn_session_config c = config_of(m, &h);
    c.n_ctx = 1400, c.n_batch = 200; /* whole blocks, and over the end of the rings */
    int32_t ids[1100];
    tn_error err = {0};
    tiny_ids(ids, 1100, m->hparams.n_vocab, 3);
    tn_session *s = NULL, *fork = NULL, *plain = tiny_session(m, 1400, 32, 1, TN_KV_F16);
    for (h.refuse_at = 1; tn_session_new(&m->graph, &c, &s, &err); h.refuse_at++, h.n_calls = 0) {
        assert_int_equal(err.code, TN_ERR_MEMORY);
        assert_null(s);
        assert_int_equal(h.bytes, 0);
    }
    assert_true(h.refuse_at > 5); /* arena, tokens, logits, two kinds of cache */
    tiny_eval(s, ids, 900);
    tiny_eval(plain, ids, 1090);
    for (size_t refused = 1;; refused++) {
        h.n_calls = 0, h.refuse_at = refused;
        tn_status status = tn_session_fork(s, &fork, &err);
        if (!status) status = tn_session_eval(fork, ids + 900, 190, 1, &err);
        if (!status) break;
        assert_int_equal(status, TN_ERR_MEMORY);
        if (fork) {
            assert_int_equal(tn_session_position(fork), 900);
            const uint32_t kept = tn_session_truncate(fork, 500);
            tiny_eval(fork, ids + kept, 1090 - kept);
            assert_same_logits(m, fork, plain);
        }
        tn_session_free(fork);
    }
    assert_true(h.n_calls >= 4 && h.n_calls < h.refuse_at); /* tokens, scratch, logits, caches */
    assert_same_logits(m, fork, plain);
    tiny_eval(s, ids + 900, 190); /* the first did not notice */
    assert_same_logits(m, s, plain);
    tn_session_free(fork);
    tn_session_free(s);
    assert_int_equal(h.bytes, 0);
    tn_session_free(plain);
    tn_model_close(m);
}

/* ---- A host's threads -------------------------------------------------------------------------------------------- */

enum { MAX_WORKERS = 5 };

/* Workers that wait for tasks; the caller takes the last one, so that task 0 is not its own. */
typedef struct host_threads {
    pthread_t threads[MAX_WORKERS];
    uint32_t n_workers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*task)(void *arg, uint32_t i);
    void *arg;
    uint32_t next, end, n_done, n_calls; /* tasks next .. end - 1 wait for a worker */
    bool stop;
} host_threads;

static void *host_work(void *user) {
    host_threads *h = user;
    pthread_mutex_lock(&h->mutex);
    for (;;) {
        while (!h->stop && h->next == h->end) pthread_cond_wait(&h->changed, &h->mutex);
        if (h->stop) break;
        const uint32_t i = h->next++;
        pthread_mutex_unlock(&h->mutex);
        h->task(h->arg, i);
        pthread_mutex_lock(&h->mutex);
        h->n_done++;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

static void host_parallel(void *user, uint32_t n, void (*task)(void *arg, uint32_t i), void *arg) {
    host_threads *h = user;
    assert_true(n >= 1 && n - 1 <= h->n_workers);
    pthread_mutex_lock(&h->mutex);
    h->task = task, h->arg = arg;
    h->next = 0, h->end = n - 1, h->n_done = 0;
    h->n_calls++;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    task(arg, n - 1);
    pthread_mutex_lock(&h->mutex);
    while (h->n_done < n - 1) pthread_cond_wait(&h->changed, &h->mutex);
    pthread_mutex_unlock(&h->mutex);
}

static void start_host(host_threads *h, uint32_t n_workers) {
    *h = (host_threads){.n_workers = n_workers};
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
    for (uint32_t i = 0; i < n_workers; i++)
        assert_int_equal(pthread_create(&h->threads[i], NULL, host_work, h), 0);
}

static void stop_host(host_threads *h) {
    pthread_mutex_lock(&h->mutex);
    h->stop = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    for (uint32_t i = 0; i < h->n_workers; i++) pthread_join(h->threads[i], NULL);
    pthread_mutex_destroy(&h->mutex);
    pthread_cond_destroy(&h->changed);
}

/* Prefill and decode on 1 to 5 threads of a host's, two sessions taking turns on the same ones. */
static void a_session_computes_the_same_on_threads_of_the_host(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_gemma3);
    int32_t ids[200];
    tiny_ids(ids, 200, m->hparams.n_vocab, 3);
    tn_session *plain = tiny_session(m, 1000, 32, 2, TN_KV_F16);
    tiny_eval(plain, ids, 150);
    for (uint32_t i = 150; i < 160; i++) tiny_eval(plain, ids + i, 1);
    for (uint32_t n = 1; n <= MAX_WORKERS; n++) {
        host_threads h;
        start_host(&h, n - 1);
        tn_session_config c = config_of(m, NULL);
        c.allocator = (tn_allocator){0};
        c.n_threads = n;
        c.parallel = (tn_parallel){host_parallel, &h};
        tn_session *s = NULL, *fork = NULL;
        assert_int_equal(tn_session_new(&m->graph, &c, &s, NULL), TN_OK);
        assert_int_equal(tn_session_eval(s, ids, 150, 1, NULL), TN_OK);
        assert_int_equal(h.n_calls, 5); /* batches of 32 */
        assert_int_equal(tn_session_fork(s, &fork, NULL), TN_OK);
        for (uint32_t i = 150; i < 160; i++) {
            tiny_eval(fork, ids + i, 1);
            tiny_eval(s, ids + i, 1);
        }
        assert_same_logits(m, s, plain);
        assert_same_logits(m, fork, plain);
        assert_int_equal(tn_session_n_barriers(s) > 0, n > 1);
        tn_session_free(s);
        tn_session_free(fork);
        stop_host(&h);
    }
    tn_session_free(plain);
    tn_model_close(m);
}

/* ---- By tern.h --------------------------------------------------------------------------------------------------- */

static void hooks_are_given_by_the_options(void **state) {
    (void)state;
    char path[] = "/tmp/tern-tiny-XXXXXX";
    tiny_write(&tiny_llama, path);
    host_memory h = {0};
    host_threads threads;
    start_host(&threads, MAX_WORKERS);
    tern_model *model;
    tern_session *s, *fork, *plain;
    tern_error err = {0};
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10};
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = 64, options.n_threads = 2;
    assert_int_equal(tern_model_open(path, NULL, &model, &err), TERN_OK);
    assert_int_equal(tern_session_new(model, &options, &plain, &err), TERN_OK);
    assert_int_equal(tern_session_eval(plain, ids, 6, 1, &err), TERN_OK);
    options.allocator.alloc = host_alloc, options.allocator.user = &h;
    assert_int_equal(tern_session_new(model, &options, &s, &err), TERN_ERR_ARG);
    assert_non_null(strstr(err.message, "needs both functions"));
    options.allocator.free = host_free;
    options.parallel = host_parallel, options.parallel_user = &threads;
    assert_int_equal(tern_session_new(model, &options, &s, &err), TERN_OK);
    assert_int_equal(tern_session_eval(s, ids, 5, 1, &err), TERN_OK);
    assert_int_equal(tern_session_fork(s, &fork, &err), TERN_OK);
    tern_session_free(s);
    assert_int_equal(tern_session_eval(fork, ids + 5, 1, 1, &err), TERN_OK);
    assert_memory_equal(tern_session_row(fork, 0, NULL), tern_session_row(plain, 0, NULL),
                        50 * sizeof(float));
    assert_true(h.bytes > 0);
    assert_int_equal(threads.n_calls, 2);
    tern_session_free(fork), tern_session_free(plain);
    assert_int_equal(h.bytes, 0);
    assert_int_equal(tern_session_fork(NULL, &fork, &err), TERN_ERR_ARG);
    tern_model_close(model);
    stop_host(&threads);
    unlink(path);
}

/* A model with a vocabulary in a host's memory, and a session that takes its memory where the model does; then every call refused. */
static void a_model_opens_in_memory_of_the_host(void **state) {
    (void)state;
    char path[] = "/tmp/tern-tiny-XXXXXX";
    tiny_write(&tiny_gemma3, path);
    host_memory h = {0};
    tern_model *model = NULL;
    tern_session *s = NULL;
    tern_error err = {0};
    tern_model_options options;
    tern_model_options_defaults(&options);
    options.allocator.free = host_free, options.allocator.user = &h;
    assert_int_equal(tern_model_open(path, &options, &model, &err), TERN_ERR_ARG);
    options.allocator.alloc = host_alloc;
    for (h.refuse_at = 1; tern_model_open(path, &options, &model, &err); h.refuse_at++, h.n_calls = 0) {
        assert_int_equal(err.code, TERN_ERR_MEMORY);
        assert_int_equal(h.bytes, 0);
    }
    assert_true(h.refuse_at > 2); /* the file's index, the model's arena */
    const size_t opened = h.bytes;
    tern_memory memory;
    assert_int_equal(tern_session_memory(model, NULL, &memory, &err), TERN_OK);
    assert_int_equal(h.bytes, opened);
    h.refuse_at = 0;
    assert_int_equal(tern_session_new(model, NULL, &s, &err), TERN_OK);
    assert_true(h.bytes >= opened + memory.kv_bytes + memory.scratch_bytes);
    tern_session_free(s);
    assert_int_equal(h.bytes, opened);
    tern_model_close(model);
    assert_int_equal(h.bytes, 0);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_computes_the_same_in_memory_of_the_host),
        cmocka_unit_test(what_the_host_refuses_is_an_error),
        cmocka_unit_test(a_session_computes_the_same_on_threads_of_the_host),
        cmocka_unit_test(hooks_are_given_by_the_options),
        cmocka_unit_test(a_model_opens_in_memory_of_the_host),
    };
    const struct CMUnitTest of_threads[] = {
        cmocka_unit_test(a_session_computes_the_same_on_threads_of_the_host)};
    return tiny_is_thin() ? cmocka_run_group_tests(of_threads, NULL, NULL)
                          : cmocka_run_group_tests(tests, NULL, NULL);
}
