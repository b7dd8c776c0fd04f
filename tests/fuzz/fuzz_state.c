/* Saved states. The first byte says which of two sessions reads it, and what is made right before: bit 0 the session, bits 1 to 3
 * the model's identity, the header's checksum and the body's. So kept inputs do not depend on what the identity is made of. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/base/hash.h"

#define fail_msg(...) abort()
#include "tests/unit/tiny_session.h"

#include "src/session/state.h"

enum { AT_MODEL = 16, AT_CHECKSUM = 48, AT_BODY = 56, N_CTX = 400 }; /* drawn in src/session/state.h */

static uint64_t checksum(const uint8_t *bytes, size_t n) {
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add(&hash, bytes, n);
    return tn_hash_value(&hash);
}

static void mend(uint8_t *state, size_t n, unsigned how, uint64_t model) {
    if (n < AT_BODY + 8) return;
    if (how & 2) memcpy(state + AT_MODEL, &model, 8);
    uint64_t sum = checksum(state, AT_CHECKSUM);
    if (how & 4) memcpy(state + AT_CHECKSUM, &sum, 8);
    sum = checksum(state + AT_BODY, n - AT_BODY - 8);
    if (how & 8) memcpy(state + n - 8, &sum, 8);
}

typedef struct source {
    const uint8_t *at;
    size_t left;
} source;

static tn_status read_source(void *user, void *bytes, size_t n, tn_error *err) {
    source *s = user;
    (void)err;
    FUZZ_CHECK(n <= s->left); /* no more than it was told there is */
    memcpy(bytes, s->at, n);
    s->at += n, s->left -= n;
    return TN_OK;
}

static void go_on(tn_session *session, uint32_t n_vocab) {
    const int32_t id = 1;
    tn_error err;
    for (uint32_t i = 0; i < tn_session_position(session); i++)
        FUZZ_CHECK((uint32_t)tn_session_tokens(session)[i] < n_vocab);
    const tn_status s = tn_session_eval(session, &id, 1, 1, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s || s == TN_ERR_NUMERIC || s == TN_ERR_FULL);
}

static void run(const uint8_t *data, size_t n) {
    static tn_model *models[2];
    static tn_session *sessions[2];
    if (!models[0]) {
        models[0] = tiny_open(&tiny_llama), models[1] = tiny_open(&tiny_gemma3);
        sessions[0] = tiny_session(models[0], N_CTX, 8, 1, TN_KV_F16);
        sessions[1] = tiny_session(models[1], N_CTX, 8, 1, TN_KV_F32);
    }
    if (!n) return;
    const unsigned how = *data++, which = how & 1;
    uint8_t *state = (uint8_t *)fuzz_text((fuzz_bytes){data, --n});
    const uint64_t model = tn_model_identity(models[which]);
    tn_error err;
    mend(state, n, how, model);
    source s = {state, n};
    const tn_status status = tn_state_load(sessions[which], model, n, "fuzz", read_source, &s, &err);
    fuzz_check_status((int)status, &err);
    FUZZ_CHECK(status ? tn_session_position(sessions[which]) == 0 : s.left == 0);
    if (!status) go_on(sessions[which], tiny_llama.n_vocab);
}

const fuzz_target fuzz_state = {"state", run, NULL, NULL, 65536};
