/* Two models of two architectures at once: threads that compute with both in turn get the bits that each gives alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tern.h"
#include "tests/unit/tiny_model.h"

enum { N_VOCAB = 50, N_STEPS = 60, N_MODELS = 2, N_WORKERS = 2 };

typedef float row[N_VOCAB];

static tern_session *new_session(const tern_model *model, uint32_t n_threads) {
    tern_session_options options;
    tern_session *session;
    tern_session_options_defaults(&options);
    options.n_ctx = 128, options.n_threads = n_threads;
    return tern_session_new(model, &options, &session, NULL) == TERN_OK ? session : NULL;
}

/* Token i of a text that each worker has of its own. */
static int32_t token(uint32_t worker, int i) {
    return (int32_t)((worker * 17 + (uint32_t)i * 7 + (uint32_t)(i * i)) % N_VOCAB);
}

/* The rows of logits that a text gives, token by token. */
static bool step(tern_session *session, uint32_t worker, int i, row out) {
    const int32_t id = token(worker, i);
    if (tern_session_eval(session, &id, 1, 1, NULL) != TERN_OK) return false;
    memcpy(out, tern_session_row(session, 0, NULL), sizeof(row));
    return true;
}

typedef struct worker {
    tern_model *const *models;
    uint32_t number;
    row rows[N_MODELS][N_STEPS];
    bool done;
} worker;

static void *compute_in_turn(void *user) {
    worker *w = user;
    tern_session *sessions[N_MODELS];
    bool good = true;
    for (int m = 0; m < N_MODELS; m++) good = (sessions[m] = new_session(w->models[m], 2)) && good;
    for (int i = 0; good && i < N_STEPS; i++)
        for (int m = 0; m < N_MODELS; m++) good = step(sessions[m], w->number, i, w->rows[m][i]) && good;
    for (int m = 0; m < N_MODELS; m++) tern_session_free(sessions[m]);
    w->done = good;
    return NULL;
}

static void two_models_on_two_threads_give_their_own_bits(void **state) {
    (void)state;
    static worker workers[N_WORKERS];
    static row alone[N_STEPS];
    tern_model *const models[N_MODELS] = {tiny_open_public(&tiny_gemma3), tiny_open_public(&tiny_mixtral)};
    pthread_t threads[N_WORKERS];
    for (uint32_t t = 0; t < N_WORKERS; t++) {
        workers[t].models = models, workers[t].number = t;
        assert_int_equal(pthread_create(&threads[t], NULL, compute_in_turn, &workers[t]), 0);
    }
    for (uint32_t t = 0; t < N_WORKERS; t++) pthread_join(threads[t], NULL);
    for (uint32_t t = 0; t < N_WORKERS; t++) {
        assert_true(workers[t].done);
        for (int m = 0; m < N_MODELS; m++) {
            tern_session *session = new_session(models[m], 1);
            assert_non_null(session);
            for (int i = 0; i < N_STEPS; i++) assert_true(step(session, t, i, alone[i]));
            assert_memory_equal(workers[t].rows[m], alone, sizeof alone);
            tern_session_free(session);
        }
    }
    assert_memory_not_equal(workers[0].rows[0], workers[0].rows[1], sizeof alone);
    assert_memory_not_equal(workers[0].rows[0], workers[1].rows[0], sizeof alone);
    for (int m = 0; m < N_MODELS; m++) tern_model_close(models[m]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_models_on_two_threads_give_their_own_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
