/* Sessions on tiny models: no allocation in decode, the numeric contract over batches, truncation and rings, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/model/model.h"
#include "src/session/session.h"
#include "tests/unit/tiny_session.h"

/* ---- Counting allocations: the C library's own functions, or the sanitizer's hook ------------------------------- */

static atomic_ulong n_allocations;

#if defined(__SANITIZE_ADDRESS__)
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *));
static void count_malloc(const volatile void *p, size_t n) {
    (void)p, (void)n, atomic_fetch_add(&n_allocations, 1);
}
static void count_free(const volatile void *p) {
    (void)p;
}
static void install_counter(void) {
    __sanitizer_install_malloc_and_free_hooks(count_malloc, count_free);
}
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void *malloc(size_t n) {
    return atomic_fetch_add(&n_allocations, 1), __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    return atomic_fetch_add(&n_allocations, 1), __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    return atomic_fetch_add(&n_allocations, 1), __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    return atomic_fetch_add(&n_allocations, 1), __libc_memalign(align, n);
}
static void install_counter(void) {}
#endif

/* ---- Helpers ---------------------------------------------------------------------------------------------------- */

static tn_session *new_session(const tn_model *m, uint32_t n_ctx, uint32_t n_batch, uint32_t n_threads) {
    return tiny_session(m, n_ctx, n_batch, n_threads, TN_KV_F16);
}

static size_t row_bytes(const tn_model *m) {
    return m->hparams.n_vocab * sizeof(float);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

static void decode_and_prefill_allocate_nothing(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_gemma3);
    tn_session *s = new_session(m, 512, 32, 2);
    int32_t ids[300];
    tiny_ids(ids, 300, m->hparams.n_vocab, 7);
    tiny_eval(s, ids, 1); /* threads have started: under a sanitizer that allocates */
    const unsigned long before = atomic_load(&n_allocations);
    assert_true(before > 0); /* the counter counts */
    tiny_eval(s, ids + 1, 99);
    for (int i = 100; i < 300; i++) tiny_eval(s, &ids[i], 1);
    assert_int_equal(atomic_load(&n_allocations), before);
    tn_session_free(s);
    tn_model_close(m);
}

/* Logits after every cut of the same tokens into evals and batches, on 1 to 8 threads and with each type of cache. Here and
 * not by the command: that starts no more threads than there are processors. */
static void logits_do_not_depend_on_cuts_or_threads(void **state) {
    (void)state;
    tiny_shape shapes[] = {tiny_llama, tiny_gemma3, tiny_llama, tiny_gemma3};
    static const tn_kv_type kvs[] = {TN_KV_F16, TN_KV_Q8_0, TN_KV_Q8_0, TN_KV_F32};
    static const uint32_t threads[] = {1, 2, 3, 5, 8};
    shapes[2].q8_0 = shapes[3].q8_0 = true;
    shapes[1].head_dim = shapes[2].head_dim = 32; /* whole blocks of the cache */
    for (int i = 0; i < 4; i++) {
        tn_model *m = tiny_open(&shapes[i]);
        int32_t ids[200];
        tiny_ids(ids, 200, m->hparams.n_vocab, 7);
        tn_session *whole = tiny_session(m, 512, 200, 1, kvs[i]);
        tiny_eval(whole, ids, 200);
        static const uint32_t batches[] = {1, 3, 64, 100}, evals[] = {1, 7, 65, 200};
        for (int b = 0; b < 4; b++)
            for (int e = 0; e < 4; e++) {
                tn_session *s = tiny_session(m, 512, batches[b], threads[(4 * b + e + i) % 5], kvs[i]);
                for (size_t at = 0; at < 200; at += evals[e])
                    tiny_eval(s, ids + at, 200 - at < evals[e] ? 200 - at : evals[e]);
                assert_int_equal(tn_session_position(s), 200);
                assert_memory_equal(tn_session_logits(s, 0), tn_session_logits(whole, 0), row_bytes(m));
                tn_session_free(s);
            }
        tn_session_free(whole);
        tn_model_close(m);
    }
}

/* A ring is full many times over, then tokens are taken back: inside the margin the rest is reused, further back nothing is. */
static void truncation_gives_the_bits_of_a_fresh_session(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_gemma3);
    int32_t ids[1200];
    tiny_ids(ids, 1200, m->hparams.n_vocab, 7);
    tn_session *s = new_session(m, 2048, 32, 2), *fresh = new_session(m, 2048, 32, 2);
    tiny_eval(s, ids, 1200);
    assert_int_equal(tn_session_truncate(s, 1100), 1100); /* the margin is 256 positions */
    assert_null(tn_session_logits(s, 0));
    tiny_eval(s, ids + 500, 40);
    tiny_eval(fresh, ids, 1100);
    tiny_eval(fresh, ids + 500, 40);
    assert_memory_equal(tn_session_logits(s, 0), tn_session_logits(fresh, 0), row_bytes(m));
    assert_int_equal(tn_session_truncate(s, 300), 0); /* the rings no longer hold positions before 300 */
    tiny_eval(s, ids, 90);
    assert_int_equal(tn_session_truncate(fresh, 0), 0);
    tiny_eval(fresh, ids, 90);
    assert_memory_equal(tn_session_logits(s, 0), tn_session_logits(fresh, 0), row_bytes(m));
    assert_int_equal(tn_session_truncate(s, 5000), 90); /* nothing to drop */
    tn_session_free(s);
    tn_session_free(fresh);
    tn_model_close(m);
}

/* Another rotation of the whole above 40 tokens: whatever the calls, a sequence of 41 has the bits of one computed as a
 * long one from its start, one of 40 those of a model that knows no long ones; and it is the way back that recomputes. */
static void a_sequence_becomes_long_as_a_whole(void **state) {
    (void)state;
    tn_model *plain = tiny_open(&tiny_llama), *m = tiny_open(&tiny_llama);
    float factors[64];
    for (int i = 0; i < 64; i++) factors[i] = 1.0f + (float)i;
    m->graph.ropes[0].long_factors = factors;
    m->graph.long_above = 40;
    int32_t ids[100];
    tiny_ids(ids, 100, m->hparams.n_vocab, 7);
    tn_session *whole = new_session(m, 128, 100, 1), *steps = new_session(m, 128, 8, 2),
               *never = new_session(plain, 128, 100, 1);
    for (size_t n = 1; n <= 100; n++) {
        tiny_eval(steps, ids + n - 1, 1);
        if (n != 39 && n != 40 && n != 41 && n != 100) continue;
        assert_int_equal(tn_session_truncate(whole, 0), 0);
        assert_int_equal(tn_session_truncate(never, 0), 0);
        tiny_eval(whole, ids, n);
        tiny_eval(never, ids, n);
        assert_memory_equal(tn_session_logits(steps, 0), tn_session_logits(whole, 0), row_bytes(m));
        const bool same = !memcmp(tn_session_logits(never, 0), tn_session_logits(whole, 0), row_bytes(m));
        assert_int_equal(same, n <= 40);
    }
    assert_int_equal(tn_session_truncate(steps, 60), 60);
    tiny_eval(steps, ids + 60, 40);
    assert_memory_equal(tn_session_logits(steps, 0), tn_session_logits(whole, 0), row_bytes(m));
    assert_int_equal(tn_session_truncate(steps, 40), 0); /* the cache is a long sequence's */
    tn_session_free(whole);
    tn_session_free(steps);
    tn_session_free(never);
    tn_model_close(m);
    tn_model_close(plain);
}

static void rows_of_logits_are_those_of_single_evals(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    int32_t ids[20];
    tiny_ids(ids, 20, m->hparams.n_vocab, 7);
    tn_session_config c = {.n_ctx = 64,
                           .n_batch = 6,
                           .n_outputs = 6,
                           .n_threads = 2,
                           .n_vocab = m->hparams.n_vocab,
                           .kv = TN_KV_F32};
    tn_session *s, *one = new_session(m, 64, 6, 1);
    tn_session_free(one);
    assert_int_equal(tn_session_new(&m->graph, &c, &s, NULL), TN_OK);
    assert_int_equal(tn_session_new(&m->graph, &c, &one, NULL), TN_OK);
    assert_int_equal(tn_session_eval(s, ids, 20, 5, NULL),
                     TN_OK); /* batches of 6, 6, 6, 2: outputs from two of them */
    for (uint32_t i = 0; i < 20; i++) {
        tiny_eval(one, &ids[i], 1);
        if (i >= 15)
            assert_memory_equal(tn_session_logits(one, 0), tn_session_logits(s, i - 15), row_bytes(m));
    }
    assert_null(tn_session_logits(s, 5));
    tn_session_free(s);
    tn_session_free(one);
    tn_model_close(m);
}

/* Texts that share a beginning with what is held: the bits of a fresh session, and no token computed that need not be. */
static void sync_computes_what_is_not_there(void **state) {
    (void)state;
    static const struct {
        uint32_t held, common, n, n_outputs, reused;
    } cases[] = {
        {0, 0, 50, 1, 0},       {50, 50, 60, 1, 50}, {50, 20, 60, 1, 20},
        {50, 50, 50, 1, 49},    {50, 50, 30, 1, 29}, {50, 50, 50, 0, 50},
        {50, 40, 40, 0, 40},    {50, 45, 50, 8, 42}, {1200, 1100, 1150, 1, 1100},
        {1200, 300, 400, 1, 0}, /* rings no longer hold positions before 300 */
    };
    tn_model *m = tiny_open(&tiny_gemma3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t held[1200], ids[1200];
        tiny_ids(held, 1200, m->hparams.n_vocab, 7);
        memcpy(ids, held, sizeof ids);
        for (uint32_t k = cases[i].common; k < cases[i].n; k++) ids[k] = (held[k] + 1) % 50;
        tn_session_config c = {.n_ctx = 1300,
                               .n_batch = 32,
                               .n_outputs = 8,
                               .n_threads = 1,
                               .n_vocab = m->hparams.n_vocab,
                               .kv = TN_KV_F16};
        tn_session *s, *fresh;
        assert_int_equal(tn_session_new(&m->graph, &c, &s, NULL), TN_OK);
        assert_int_equal(tn_session_new(&m->graph, &c, &fresh, NULL), TN_OK);
        if (cases[i].held) tiny_eval(s, held, cases[i].held);
        uint32_t reused;
        assert_int_equal(tn_session_sync(s, ids, cases[i].n, cases[i].n_outputs, &reused, NULL), TN_OK);
        assert_int_equal(reused, cases[i].reused);
        assert_int_equal(tn_session_position(s), cases[i].n);
        assert_memory_equal(tn_session_tokens(s), ids, cases[i].n * sizeof *ids);
        assert_int_equal(tn_session_eval(fresh, ids, cases[i].n, cases[i].n_outputs, NULL), TN_OK);
        for (uint32_t r = 0; r < cases[i].n_outputs; r++)
            assert_memory_equal(tn_session_logits(s, r), tn_session_logits(fresh, r), row_bytes(m));
        tiny_eval(s, held, 1);
        tiny_eval(fresh, held, 1);
        assert_memory_equal(tn_session_logits(s, 0), tn_session_logits(fresh, 0), row_bytes(m));
        tn_error err;
        static const int32_t many[1301];
        assert_int_equal(tn_session_sync(s, many, 1301, 1, &reused, &err), TN_ERR_FULL);
        assert_int_equal(tn_session_position(s), cases[i].n + 1);
        tn_session_free(s);
        tn_session_free(fresh);
    }
    tn_model_close(m);
}

static bool stop_after_two(void *user, uint32_t done, uint32_t total) {
    (void)total;
    *(uint32_t *)user = done;
    return done < 16;
}

static void errors_leave_the_session_usable(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    int32_t ids[64], bad[2] = {3, 50};
    uint32_t seen = 0;
    tn_error err;
    tiny_ids(ids, 64, m->hparams.n_vocab, 7);
    tn_session_config c = {.n_ctx = 64,
                           .n_batch = 8,
                           .n_outputs = 2,
                           .n_threads = 2,
                           .n_vocab = m->hparams.n_vocab,
                           .kv = TN_KV_F16,
                           .progress = stop_after_two,
                           .user = &seen};
    tn_session *s;
    m->graph.n_positions = 60; /* as with a table of positions */
    assert_int_equal(tn_session_new(&m->graph, &c, &s, &err), TN_ERR_ARG);
    assert_non_null(strstr(err.message, "60 positions and no more, a context of 64"));
    m->graph.n_positions = 0;
    assert_int_equal(tn_session_new(&m->graph, &c, &s, NULL), TN_OK);
    assert_int_equal(tn_session_eval(s, bad, 2, 1, &err), TN_ERR_ARG);
    assert_non_null(strstr(err.message, "token 50 is not in the vocabulary of 50"));
    assert_int_equal(tn_session_eval(s, ids, 0, 0, &err), TN_ERR_ARG);
    assert_int_equal(tn_session_eval(s, ids, 8, 3, &err), TN_ERR_ARG);
    assert_int_equal(tn_session_position(s), 0);
    assert_int_equal(tn_session_eval(s, ids, 40, 1, &err), TN_ERR_CANCELLED);
    assert_int_equal(tn_session_position(s), 16);
    assert_int_equal(seen, 16);
    assert_int_equal(tn_session_eval(s, ids, 49, 1, &err), TN_ERR_FULL);
    assert_non_null(strstr(err.message, "16 of 64"));
    assert_int_equal(tn_session_eval(s, ids, 8, 1, &err), TN_OK);
    assert_non_null(tn_session_logits(s, 0));
    tn_session_free(s);
    tn_model_close(m);
}

static tn_session *new_encoder(const tn_model *m, uint32_t n_threads) {
    const tn_session_config c = {.n_ctx = 150,
                                 .n_batch = 8, /* too few: the whole context is one batch */
                                 .n_outputs = 150,
                                 .n_threads = n_threads,
                                 .n_vocab = m->hparams.n_vocab,
                                 .kv = TN_KV_F32};
    tn_session *s = NULL;
    tn_error err = {0};
    if (tn_session_new(&m->graph, &c, &s, &err)) fail_msg("%s", err.message);
    return s;
}

static void encoders_compute_a_sequence_at_once(void **state) {
    (void)state;
    enum { N = 150 };
    static float first[N * 64];
    int32_t ids[N];
    tn_error err = {0};
    tn_model *m = tiny_open(&tiny_encoder);
    tiny_ids(ids, N, tiny_encoder.n_vocab, 7);
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
        tn_session *s = new_encoder(m, n_threads);
        assert_int_equal(tn_session_row_width(s), 64);
        for (int again = 0; again < 2; again++) {
            if (tn_session_eval(s, ids, N, N, &err)) fail_msg("%s", err.message);
            for (uint32_t r = 0; r < N; r++) {
                if (n_threads == 1 && !again)
                    memcpy(first + r * 64, tn_session_logits(s, r), 64 * sizeof *first);
                assert_memory_equal(tn_session_logits(s, r), first + r * 64, 64 * sizeof *first);
            }
            assert_int_equal(tn_session_eval(s, ids, 1, 1, &err), TN_ERR_ARG); /* it cannot go on */
            assert_int_equal(tn_session_truncate(s, N - 1), 0);                /* nor be shortened */
        }
        ids[N - 1] = ids[N - 1] ? 0 : 1; /* what follows matters */
        if (tn_session_eval(s, ids, N, N, &err)) fail_msg("%s", err.message);
        assert_memory_not_equal(tn_session_logits(s, 0), first, 64 * sizeof *first);
        tiny_ids(ids, N, tiny_encoder.n_vocab, 7);
        tn_session_free(s);
    }
    tn_model_close(m);
}

/* With one row, row operations are every thread's own: the result must still come out, and once. */
static void a_token_alone_has_the_embedding_of_a_batch_of_one(void **state) {
    (void)state;
    const int32_t ids[2] = {3, 4};
    float rows[2][64];
    tn_error err = {0};
    tn_model *m = tiny_open(&tiny_llama);
    for (uint32_t n_threads = 1; n_threads <= 2; n_threads++) {
        const tn_session_config c = {.n_ctx = 64,
                                     .n_batch = 4,
                                     .n_outputs = 2,
                                     .n_threads = n_threads,
                                     .n_vocab = 50,
                                     .kv = TN_KV_F16};
        tn_session *s = NULL;
        if (tn_session_new(&m->embedding_graph, &c, &s, &err)) fail_msg("%s", err.message);
        assert_int_equal(tn_session_row_width(s), 64);
        if (tn_session_eval(s, ids, 2, 2, &err)) fail_msg("%s", err.message);
        for (uint32_t r = 0; r < 2; r++) memcpy(rows[r], tn_session_logits(s, r), sizeof rows[r]);
        tn_session_truncate(s, 0);
        for (uint32_t r = 0; r < 2; r++) {
            tiny_eval(s, ids + r, 1);
            assert_memory_equal(tn_session_logits(s, 0), rows[r], sizeof rows[r]);
        }
        tn_session_free(s);
    }
    tn_model_close(m);
}

int main(void) {
    install_counter();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_and_prefill_allocate_nothing),
        cmocka_unit_test(logits_do_not_depend_on_cuts_or_threads),
        cmocka_unit_test(truncation_gives_the_bits_of_a_fresh_session),
        cmocka_unit_test(a_sequence_becomes_long_as_a_whole),
        cmocka_unit_test(rows_of_logits_are_those_of_single_evals),
        cmocka_unit_test(encoders_compute_a_sequence_at_once),
        cmocka_unit_test(a_token_alone_has_the_embedding_of_a_batch_of_one),
        cmocka_unit_test(sync_computes_what_is_not_there),
        cmocka_unit_test(errors_leave_the_session_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
