/* Sessions that are cancelled, at every step and at random moments: they end soon, lose nothing and go on with the same bits. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/exec/run.h"
#include "tern.h"
#include "tests/unit/tiny_session.h"

enum { N_CTX = 2048, N_IDS = 1100 };

/* Cancels in the n_until-th product of thread `by`; then looks that no thread begins a step that is none of its business. */
typedef struct watch {
    tn_session *session;
    uint32_t by;
    atomic_int n_until;
    atomic_int cancelled_in; /* the step, -1: not yet */
    atomic_int last_step;    /* the highest in which a product was seen since */
} watch;

static void watch_product(void *user, const tn_task *task) {
    watch *w = user;
    const int step = (int)(task->step - task->run->plan->graph->steps);
    if (task->thread == w->by && atomic_fetch_sub(&w->n_until, 1) == 1) {
        atomic_store(&w->cancelled_in, step);
        tn_session_cancel(w->session, true);
    }
    if (atomic_load(&w->cancelled_in) >= 0 && step > atomic_load(&w->last_step))
        atomic_store(&w->last_step, step);
}

static tn_session *watched(const tn_model *m, uint32_t n_batch, uint32_t n_threads, watch *w,
                           tn_observer *observer) {
    *observer = (tn_observer){watch_product, w};
    const tn_session_config c = {.n_ctx = N_CTX,
                                 .n_batch = n_batch,
                                 .n_outputs = 1,
                                 .n_threads = n_threads,
                                 .n_vocab = m->hparams.n_vocab,
                                 .kv = TN_KV_F16,
                                 .observer = observer};
    tn_error err;
    if (tn_session_new(&m->graph, &c, &w->session, &err)) fail_msg("%s", err.message);
    return w->session;
}

static size_t row_bytes(const tn_model *m) {
    return m->hparams.n_vocab * sizeof(float);
}

/* Evaluates ids in one call that is cancelled in product after product, each time further on by `stride`; between the tries nothing
 * is done but to resume and sync. In the end the logits are those of `want`. */
static void try_every_step(const tn_model *m, const int32_t *ids, size_t n, uint32_t n_batch,
                           uint32_t n_threads, int stride, tn_session *want) {
    watch w = {.by = n_threads - 1, .last_step = -1};
    tn_observer observer;
    tn_session *s = watched(m, n_batch, n_threads, &w, &observer);
    tn_status status = TN_ERR_CANCELLED;
    uint32_t reused;
    tn_error err;
    int n_cancelled = 0;
    for (int i = 1; status == TN_ERR_CANCELLED; i += stride) {
        atomic_store(&w.n_until, i);
        atomic_store(&w.cancelled_in, -1);
        atomic_store(&w.last_step, -1);
        tn_session_cancel(s, false);
        status = tn_session_sync(s, ids, n, 1, &reused, &err);
        if (status == TN_OK) break;
        assert_int_equal(status, TN_ERR_CANCELLED);
        assert_in_range(atomic_load(&w.last_step), atomic_load(&w.cancelled_in),
                        atomic_load(&w.cancelled_in) + (w.by > 0)); /* another thread may be through it */
        const uint32_t position = tn_session_position(s);
        assert_true(position < n && (m->graph.long_above || (position - reused) % n_batch == 0));
        assert_memory_equal(tn_session_tokens(s), ids, position * sizeof *ids);
        assert_int_equal(tn_session_eval(s, ids, 1, 1, &err), TN_ERR_CANCELLED);
        assert_int_equal(tn_session_position(s), position);
        if (i % 3 == 0) tn_session_truncate(s, position / 2); /* what was overwritten must be known */
        n_cancelled++;
    }
    assert_true(n_cancelled > 3);
    assert_int_equal(tn_session_position(s), n);
    tiny_eval(want, ids, n);
    assert_memory_equal(tn_session_logits(s, 0), tn_session_logits(want, 0), row_bytes(m));
    tn_session_free(s);
    assert_int_equal(tn_session_truncate(want, 0), 0);
}

static void every_step_can_be_the_last_one(void **state) {
    (void)state;
    static const tiny_shape *const shapes[] = {&tiny_llama, &tiny_gemma3, &tiny_mixtral};
    static int32_t ids[N_IDS];
    for (int i = 0; i < 3; i++) {
        tn_model *m = tiny_open(shapes[i]);
        tiny_ids(ids, N_IDS, m->hparams.n_vocab, 11);
        tn_session *want = tiny_session(m, N_CTX, 64, 1, TN_KV_F16);
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
            try_every_step(m, ids, 90, 16, n_threads, 1, want);
            if (shapes[i]->window)
                try_every_step(m, ids, N_IDS, 32, n_threads, 67, want); /* rings go round */
        }
        tn_session_free(want);
        tn_model_close(m);
    }
}

/* What becomes a long sequence is computed again from its start: cancelled there it is neither. */
static void a_sequence_that_becomes_long_can_be_cancelled(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    float factors[64];
    int32_t ids[100];
    for (int i = 0; i < 64; i++) factors[i] = 1.0f + (float)i;
    m->graph.ropes[0].long_factors = factors;
    m->graph.long_above = 40;
    tiny_ids(ids, 100, m->hparams.n_vocab, 7);
    tn_session *want = tiny_session(m, N_CTX, 100, 1, TN_KV_F16);
    for (uint32_t n_threads = 1; n_threads <= 2; n_threads++) {
        try_every_step(m, ids, 100, 16, n_threads, 1, want);
        try_every_step(m, ids, 41, 50, n_threads, 1, want);
    }
    tn_session_free(want);
    tn_model_close(m);
}

/* ---- From another thread, through the public header ---------------------------------------------------------------- */

typedef struct presser {
    tern_session *session;
    atomic_bool leave;
    atomic_int n_pressed;
} presser;

static void *press(void *user) {
    presser *p = user;
    uint64_t random = 3;
    double most_us = 1500; /* rarer and rarer: a batch must come through on a slow machine too */
    for (; !atomic_load(&p->leave); most_us *= 1.05) {
        usleep(tiny_random(&random) % (unsigned)fmin(most_us, 2e6));
        tern_session_cancel(p->session);
        atomic_fetch_add(&p->n_pressed, 1);
    }
    return NULL;
}

static void a_thread_cancels_at_random_moments(void **state) {
    (void)state;
    tern_model *model = tiny_open_public(&tiny_gemma3);
    tern_error err;
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = N_CTX, options.n_batch = 64, options.n_threads = 2;
    tern_session *s, *alone;
    assert_int_equal(tern_session_new(model, &options, &s, &err), TERN_OK);
    assert_int_equal(tern_session_new(model, &options, &alone, &err), TERN_OK);
    static int32_t ids[N_IDS];
    tiny_ids(ids, N_IDS, tiny_gemma3.n_vocab, 23);
    presser p = {.session = s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, press, &p), 0);
    int n_cancelled = 0;
    for (size_t n = 300; n <= N_IDS; n = n < 1000 ? n + 350 : n + 1) {
        tern_status status;
        while ((status = tern_session_sync(s, ids, n, 1, NULL, &err)) == TERN_ERR_CANCELLED) {
            n_cancelled++;
            tern_session_resume(s);
        }
        assert_int_equal(status, TERN_OK);
        assert_int_equal(tern_session_sync(alone, ids, n, 1, NULL, &err), TERN_OK);
        assert_memory_equal(tern_session_row(s, 0, NULL), tern_session_row(alone, 0, NULL),
                            tiny_gemma3.n_vocab * sizeof(float));
    }
    atomic_store(&p.leave, true);
    pthread_join(thread, NULL);
    assert_true(n_cancelled > 0 && atomic_load(&p.n_pressed) >= n_cancelled);
    tern_session_free(s);
    tern_session_free(alone);
    tern_model_close(model);
}

static tern_status render_one(void *user, const char *messages, size_t n, int32_t **ids, size_t *n_ids,
                              tern_error *err) {
    (void)user, (void)messages, (void)n, (void)err;
    *ids = calloc(1, sizeof **ids);
    *n_ids = 1;
    return TERN_OK;
}

static void nothing_is_computed_until_resumed(void **state) {
    (void)state;
    static const int32_t ids[] = {1, 2, 3};
    tern_model *model = tiny_open_public(&tiny_llama);
    tern_error err;
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = 64, options.n_threads = 1;
    tern_session *s, *vectors;
    assert_int_equal(tern_session_new(model, &options, &s, &err), TERN_OK);
    options.embeddings = true;
    assert_int_equal(tern_session_new(model, &options, &vectors, &err), TERN_OK);
    tern_chat_options chat_options;
    tern_chat_options_defaults(&chat_options);
    chat_options.render = render_one;
    tern_chat *chat;
    assert_int_equal(tern_chat_new(s, &chat_options, &chat, &err), TERN_OK);
    assert_int_equal(tern_session_eval(s, ids, 2, 1, &err), TERN_OK);
    float before[50];
    memcpy(before, tern_session_row(s, 0, NULL), sizeof before);

    tern_session_cancel(NULL);
    tern_session_cancel(s);
    tern_session_cancel(vectors);
    tern_chat_prompt prompt;
    float *rows;
    size_t n;
    uint32_t width;
    for (int i = 0; i < 2; i++) { /* it is not forgotten by one call that heeds it */
        assert_int_equal(tern_session_eval(s, ids + 2, 1, 1, &err), TERN_ERR_CANCELLED);
        assert_string_equal(err.message, "cancelled: after 0 of 1 tokens");
        assert_int_equal(tern_session_sync(s, ids, 3, 1, NULL, &err), TERN_ERR_CANCELLED);
        assert_int_equal(tern_embed_tokens(vectors, ids, 3, NULL, &rows, &n, &width, &err),
                         TERN_ERR_CANCELLED);
        assert_null(rows);
    }
    tern_session_info info;
    tern_session_info_get(s, &info);
    assert_int_equal(info.position, 2);
    assert_memory_equal(tern_session_row(s, 0, NULL), before, sizeof before);
    assert_int_equal(tern_chat_begin(chat, &prompt, &err), TERN_ERR_CANCELLED);
    tern_session_resume(s);
    tern_session_resume(vectors);
    assert_int_equal(tern_chat_begin(chat, &prompt, &err), TERN_OK);
    assert_int_equal(tern_embed_tokens(vectors, ids, 3, NULL, &rows, &n, &width, &err), TERN_OK);
    tern_free(rows);
    tern_chat_free(chat);
    tern_session_free(s);
    tern_session_free(vectors);
    tern_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_can_be_the_last_one),
        cmocka_unit_test(a_sequence_that_becomes_long_can_be_cancelled),
        cmocka_unit_test(a_thread_cancels_at_random_moments),
        cmocka_unit_test(nothing_is_computed_until_resumed),
    };
    const struct CMUnitTest of_threads[] = {cmocka_unit_test(a_thread_cancels_at_random_moments),
                                            cmocka_unit_test(nothing_is_computed_until_resumed)};
    return tiny_is_thin() ? cmocka_run_group_tests(of_threads, NULL, NULL)
                          : cmocka_run_group_tests(tests, NULL, NULL);
}
