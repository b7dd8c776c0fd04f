/* Sessions on tiny models, for tests that compare what they compute. */
#ifndef TN_TESTS_TINY_SESSION_H
#define TN_TESTS_TINY_SESSION_H

#include "src/session/session.h"
#include "tests/unit/tiny_model.h"

static inline tn_session *tiny_session(const tn_model *m, uint32_t n_ctx, uint32_t n_batch,
                                       uint32_t n_threads, tn_kv_type kv) {
    const tn_session_config c = {.n_ctx = n_ctx,
                                 .n_batch = n_batch,
                                 .n_outputs = 1,
                                 .n_threads = n_threads,
                                 .n_vocab = m->hparams.n_vocab,
                                 .kv = kv};
    tn_session *s = NULL;
    tn_error err = {0};
    if (tn_session_new(&m->graph, &c, &s, &err)) fail_msg("%s", err.message);
    return s;
}

static inline void tiny_ids(int32_t *ids, size_t n, uint32_t n_vocab, uint64_t seed) {
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(tiny_random(&seed) % n_vocab);
}

/* Keeps the logits of the last token. */
static inline void tiny_eval(tn_session *s, const int32_t *ids, size_t n) {
    tn_error err = {0};
    if (tn_session_eval(s, ids, n, 1, &err)) fail_msg("%s", err.message);
}

/* True under ThreadSanitizer, some fifty times slower, but in the long form: then what one thread does is not worth the time. */
static inline bool tiny_is_thin(void) {
#ifdef __SANITIZE_THREAD__
    return !getenv("TERN_LONG");
#else
    return false;
#endif
}

#endif
