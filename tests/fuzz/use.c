/* What a program may do with what it opened. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/text/grammar.h"
#include "src/text/matcher.h"

/* ---- Models ---- */

static void use_metadata(const tern_model *model) {
    char key[64], type[32], value[80], item[16];
    tern_model_info info;
    tern_model_info_get(model, &info);
    const uint64_t n = info.n_metadata;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t count = 0;
        FUZZ_CHECK(tern_model_metadata(model, i, 3, key, sizeof key, type, sizeof type, value, sizeof value));
        FUZZ_CHECK(tn_is_printable(key, strlen(key)) && tn_is_printable(value, strlen(value)));
        tern_model_metadata_item(model, i, 0, item, sizeof item, &count);
        for (uint64_t j = 0; j < count && j < 40; j++)
            FUZZ_CHECK(tern_model_metadata_item(model, i, j, item, sizeof item, NULL) != SIZE_MAX);
        FUZZ_CHECK(tern_model_metadata_item(model, i, count, item, sizeof item, NULL) == SIZE_MAX);
    }
    FUZZ_CHECK(!tern_model_metadata(model, n, 3, key, sizeof key, type, sizeof type, value, sizeof value));
}

static void use_tokenizer(const tern_model *model, uint32_t n_vocab, fuzz_bytes text) {
    for (unsigned flags = 0; flags < 4; flags++) {
        int32_t *ids;
        size_t n_ids, n;
        tern_error err;
        const tern_status s =
            tern_tokenize(model, (const char *)text.data, text.n, flags, &ids, &n_ids, &err);
        fuzz_check_status((int)s, &err);
        if (s) continue;
        for (size_t i = 0; i < n_ids; i++) {
            FUZZ_CHECK(ids[i] >= 0 && (uint32_t)ids[i] < n_vocab);
            const char *bytes = tern_token_text(model, ids[i], true, &n);
            fuzz_touch(bytes, n);
            tern_token_is_end(model, ids[i]);
        }
        tern_free(ids);
    }
}

static void use_template(const tern_model *model) {
    tern_template_options options;
    tern_conversation talk;
    tern_template *t;
    tern_error err;
    tern_template_options_defaults(&options);
    options.model = model;
    tern_status s = tern_template_open(&options, &t, &err);
    fuzz_check_status((int)s, &err);
    if (s) return;
    int32_t *ids;
    size_t n;
    tern_conversation_defaults(&talk);
    talk.messages = "[{\"role\": \"user\", \"content\": \"Hi <s>\"}]";
    s = tern_template_tokenize(t, &talk, &ids, &n, &err);
    fuzz_check_status((int)s, &err);
    if (!s) tern_free(ids);
    tern_template_free(t);
}

/* Large figures of a description that is right ask for much: that is a matter of the caller's, who asks first. */
static bool is_small(const tern_model *model, const tern_session_options *options) {
    tern_memory memory;
    tern_error err;
    const tern_status s = tern_session_memory(model, options, &memory, &err);
    fuzz_check_status((int)s, &err);
    return !s && memory.kv_bytes < 16 << 20 && memory.scratch_bytes < 32 << 20;
}

static void use_session(const tern_model *model, uint32_t n_vocab, bool encoder) {
    tern_session_options options;
    tern_session *session;
    tern_error err;
    tern_session_options_defaults(&options);
    options.n_ctx = 8, options.n_batch = 2, options.n_threads = 1;
    options.embeddings = encoder;
    if (!is_small(model, &options)) return;
    tern_status s = tern_session_new(model, &options, &session, &err);
    fuzz_check_status((int)s, &err);
    if (s) return;
    const int32_t ids[2] = {0, (int32_t)n_vocab - 1};
    s = tern_session_eval(session, ids, 2, 1, &err);
    fuzz_check_status((int)s, &err);
    uint32_t width = 0;
    const float *row = s ? NULL : tern_session_row(session, 0, &width);
    for (uint32_t i = 0; row && i < width; i++) FUZZ_CHECK(isfinite(row[i]));
    tern_session_free(session);
}

void fuzz_use_model(const tern_model *model, bool whole, fuzz_bytes text) {
    tern_model_info info;
    tern_tensor_info tensor;
    tern_model_info_get(model, &info);
    FUZZ_CHECK(tn_is_printable(info.architecture, strlen(info.architecture)));
    FUZZ_CHECK(tn_is_printable(info.name, strlen(info.name)));
    for (uint64_t i = 0; tern_model_tensor(model, i, &tensor); i++)
        FUZZ_CHECK(tensor.n_bytes <= info.file_bytes);
    use_metadata(model);
    if (info.n_vocab && info.tokenizer[0]) use_tokenizer(model, info.n_vocab, text);
    if (info.tokenizer[0]) use_template(model);
    if (whole) use_session(model, info.n_vocab, info.encoder);
}

/* ---- Grammars ---- */

/* The state behind a text, from the start, where memory is used up now and then. */
static uint32_t follow(tn_matcher *m, uint32_t state, const char *text, size_t n) {
    for (size_t i = 0; i < n && state > TN_STATE_DEAD; i++) {
        uint32_t next = tn_matcher_step(m, state, (uint8_t)text[i]);
        if (next == TN_STATE_FULL) {
            state = tn_matcher_compact(m, state);
            next = state ? tn_matcher_step(m, state, (uint8_t)text[i]) : TN_STATE_FULL;
        }
        state = next;
    }
    return state;
}

size_t fuzz_walk(const tn_grammar *grammar, fuzz_bytes choices, char *text, size_t cap, bool *may_end) {
    tn_matcher *m;
    tn_error err;
    uint32_t start, state;
    size_t n = 0;
    *may_end = false;
    tn_status s = tn_matcher_new(grammar, &m, &start, &err);
    fuzz_check_status((int)s, &err);
    if (s) return 0;
    for (state = start; n < cap && state > TN_STATE_DEAD; n++) {
        const uint8_t first = fuzz_take(&choices);
        if (tn_matcher_must_end(m, state)) FUZZ_CHECK(tn_matcher_may_end(m, state));
        uint32_t next = TN_STATE_DEAD;
        size_t tries = 0;
        for (; tries < 256 && next == TN_STATE_DEAD; tries++) {
            text[n] = (char)(first + tries);
            next = tn_matcher_step(m, state, (uint8_t)text[n]);
        }
        if (next == TN_STATE_DEAD || next == TN_STATE_FULL) break;
        FUZZ_CHECK(!tn_matcher_must_end(m, state));
        state = next;
        if (!choices.n && tn_matcher_may_end(m, state)) {
            n++;
            break;
        }
    }
    *may_end = tn_matcher_may_end(m, state);
    /* The same text once more, after everything but its beginning was forgotten. */
    start = tn_matcher_compact(m, follow(m, start, text, n / 2));
    if (start > TN_STATE_DEAD) {
        const uint32_t again = follow(m, start, text + n / 2, n - n / 2);
        if (again != TN_STATE_FULL) FUZZ_CHECK(tn_matcher_may_end(m, again) == *may_end);
    }
    tn_matcher_free(m);
    return n;
}
