/* Generation on a tiny model: where it stops, and what text comes out. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/model/model.h"
#include "src/session/generator.h"
#include "src/session/lookup.h"
#include "tests/unit/tiny_model.h"

enum { N_VOCAB = 300, FIRST_BYTE = 3, FIRST_PIECE = 259, N_CTX = 128 };

typedef struct fixture {
    tn_model *model;
    tn_tokenizer *tok;
    tn_session *session;
} fixture;

/* <unk> <s> </s>, 256 byte tokens, then pieces of one to three letters, some of them beyond ASCII. */
static void make_tokenizer(fixture *f) {
    static char storage[N_VOCAB][16];
    static const char *text[N_VOCAB];
    static uint32_t len[N_VOCAB];
    static float scores[N_VOCAB];
    static int32_t types[N_VOCAB];
    static const char *const parts[] = {"a",   "be",          "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x99\x82",
                                        "xyz", "\xE2\x96\x81"};
    for (int i = 0; i < N_VOCAB; i++) {
        types[i] = i == 0            ? TN_TOKEN_UNKNOWN
                   : i < FIRST_BYTE  ? TN_TOKEN_CONTROL
                   : i < FIRST_PIECE ? TN_TOKEN_BYTE
                                     : TN_TOKEN_NORMAL;
        if (i < FIRST_BYTE)
            snprintf(storage[i], 16, "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
        else if (i < FIRST_PIECE)
            snprintf(storage[i], 16, "<0x%02X>", i - FIRST_BYTE);
        else
            snprintf(storage[i], 16, "%s%s", parts[i % 7], parts[i / 7 % 7]);
        text[i] = storage[i];
        len[i] = (uint32_t)strlen(storage[i]);
        scores[i] = (float)-i;
    }
    const tn_vocab_source v = {.model = "llama",
                               .n_tokens = N_VOCAB,
                               .token_text = text,
                               .token_len = len,
                               .scores = scores,
                               .types = types,
                               .bos = 1,
                               .eos = 2,
                               .eot = -1,
                               .unk = 0,
                               .add_bos = 1,
                               .add_eos = -1,
                               .add_space_prefix = 0};
    tn_error err = {0};
    if (tn_tokenizer_new(&v, NULL, &f->tok, &err)) fail_msg("%s", err.message);
}

static int setup(void **state) {
    static fixture f;
    tiny_shape shape = tiny_llama;
    shape.n_vocab = N_VOCAB;
    char path[] = "/tmp/tern-tiny-XXXXXX";
    tiny_write(&shape, path);
    const tn_model_options options = {0};
    tn_status s = tn_model_open(path, &options, &f.model, NULL);
    unlink(path);
    const tn_session_config c = {
        .n_ctx = N_CTX, .n_batch = 16, .n_outputs = 1, .n_threads = 1, .n_vocab = N_VOCAB, .kv = TN_KV_F16};
    if (s || tn_session_new(&f.model->graph, &c, &f.session, NULL)) return -1;
    make_tokenizer(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    tn_session_free(f->session);
    tn_tokenizer_free(f->tok);
    tn_model_close(f->model);
    return 0;
}

static const tn_generator_config sampled = {
    .sampling = {.seed = 5, .temperature = 3, .top_p = 1, .typical_p = 1, .repeat_penalty = 1},
    .max_tokens = UINT64_MAX,
    .ignore_end = true};

/* Generates from a prompt of two tokens; returns the text (static) and how it ended. Every piece is whole characters. */
static const char *generate(fixture *f, const tn_generator_config *c, tn_stop *stop, uint64_t *n_tokens) {
    static char all[8192];
    size_t n_all = 0;
    static const int32_t prompt[] = {1, 260};
    tn_generator *g;
    tn_error err = {0};
    tn_session_truncate(f->session, 0);
    if (tn_session_eval(f->session, prompt, 2, 1, &err)) fail_msg("%s", err.message);
    if (tn_generator_new(f->session, f->tok, c, prompt, 2, &g, &err)) fail_msg("%s", err.message);
    do {
        const char *text;
        size_t n;
        if (tn_generator_next(g, &text, &n, stop, &err)) fail_msg("%s", err.message);
        if (n) assert_true(((unsigned char)text[0] & 0xC0) != 0x80); /* starts at a character */
        memcpy(all + n_all, text, n);
        n_all += n;
    } while (!*stop);
    all[n_all] = 0;
    *n_tokens = tn_generator_result(g).n_tokens;
    const char *text;
    size_t n;
    tn_stop again;
    assert_int_equal(tn_generator_next(g, &text, &n, &again, &err), TN_OK); /* over means over */
    assert_true(again == *stop && n == 0 && tn_generator_result(g).n_tokens == *n_tokens);
    tn_generator_free(g);
    return all;
}

static void stops_at_the_limit(void **state) {
    tn_generator_config c = sampled;
    tn_stop stop;
    uint64_t n;
    c.max_tokens = 9;
    generate(*state, &c, &stop, &n);
    assert_int_equal(stop, TN_STOP_LIMIT);
    assert_int_equal(n, 9);
    c.max_tokens = 0;
    assert_string_equal(generate(*state, &c, &stop, &n), "");
    assert_int_equal(stop, TN_STOP_LIMIT);
}

static void stops_when_the_context_is_full(void **state) {
    tn_stop stop;
    uint64_t n;
    generate(*state, &sampled, &stop, &n);
    assert_int_equal(stop, TN_STOP_FULL);
    assert_int_equal(n, N_CTX - 2 + 1); /* the last token made needs no room */
}

static void the_same_seed_gives_the_same_text(void **state) {
    tn_generator_config c = sampled;
    tn_stop stop;
    uint64_t n;
    char first[8192];
    strcpy(first, generate(*state, &c, &stop, &n));
    assert_true(strlen(first) > 100);
    assert_string_equal(generate(*state, &c, &stop, &n), first);
    c.sampling.seed = 6;
    assert_string_not_equal(generate(*state, &c, &stop, &n), first);
}

/* Text behind n tokens, of which the last n_begun are its beginning; at most max tokens, which are put behind ids. */
static size_t go_on_with(fixture *f, int32_t *ids, size_t n, size_t n_begun, uint64_t max, char *text,
                         tn_stop *stop) {
    tn_generator *g;
    tn_error err = {0};
    tn_generator_config c = sampled;
    c.sampling.temperature = 0;
    c.sampling.repeat_penalty = 1.5f;
    c.sampling.repeat_last_n = -1;
    c.max_tokens = max;
    c.n_begun = n_begun;
    tn_session_truncate(f->session, 0);
    if (tn_session_eval(f->session, ids, n, 1, &err)) fail_msg("%s", err.message);
    if (tn_generator_new(f->session, f->tok, &c, ids, n, &g, &err)) fail_msg("%s", err.message);
    size_t n_text = 0;
    do {
        const char *piece;
        size_t n_piece;
        if (tn_generator_next(g, &piece, &n_piece, stop, &err)) fail_msg("%s", err.message);
        memcpy(text + n_text, piece, n_piece);
        n_text += n_piece;
        ids[n++] = tn_generator_token(g);
    } while (!*stop);
    text[n_text] = 0;
    tn_generator_free(g);
    return n_text;
}

/* Cut behind any token, by the limit or the end of the context, and gone on with from there, a text is the same: no half of a
 * character is shown as a whole one. */
static void a_text_that_is_cut_can_go_on(void **state) {
    fixture *f = *state;
    int n_cut = 0, n_full = 0;
    for (int32_t first = FIRST_PIECE; first < N_VOCAB; first++) {
        int32_t ids[N_CTX + 8] = {1, first}, again[N_CTX + 8];
        char whole[4096], before[4096], behind[4096];
        tn_stop stop;
        const size_t n_whole = go_on_with(f, ids, 2, 0, 40, whole, &stop);
        for (uint64_t max = 1; max < 40; max++) {
            memcpy(again, ids, sizeof again);
            const size_t n_before = go_on_with(f, again, 2, 0, max, before, &stop);
            assert_int_equal(stop, TN_STOP_LIMIT);
            assert_memory_equal(again, ids, (2 + max) * sizeof *ids);
            const size_t n_behind = go_on_with(f, again, 2 + max, max, 40 - max, behind, &stop);
            assert_int_equal(n_before + n_behind, n_whole);
            assert_memory_equal(before, whole, n_before);
            assert_memory_equal(behind, whole + n_before, n_behind);
            n_cut += ids[1 + max] - FIRST_BYTE >= 0xC2 && ids[1 + max] - FIRST_BYTE < 0xF5;
        }
        memcpy(again, ids, sizeof again); /* the same text where the context ends behind its first tokens */
        const size_t n_long = go_on_with(f, again, 2, 0, UINT64_MAX, whole, &stop);
        assert_int_equal(stop, TN_STOP_FULL);
        const int last = again[N_CTX] - FIRST_BYTE;
        if (last < 0xC2 || last > 0xF4) continue;
        n_full++;
        assert_true(n_long < 3 || memcmp(whole + n_long - 3, "\xEF\xBF\xBD", 3) ||
                    again[N_CTX - 1] - FIRST_BYTE >= 0x80);
    }
    assert_true(n_cut > 50 && n_full > 0);
}

/* Every substring of the text that begins at a character, as a stop string: what comes out is what stands before it. */
static void stop_strings_are_found_wherever_they_begin(void **state) {
    tn_stop stop;
    uint64_t n;
    char full[8192];
    strcpy(full, generate(*state, &sampled, &stop, &n));
    int tried = 0;
    for (size_t at = 0; full[at] && at < 60; at++) {
        if (((unsigned char)full[at] & 0xC0) == 0x80) continue;
        for (size_t len = 1; len <= 9 && full[at + len - 1]; len += 4) {
            char text[16], expected[8192];
            size_t end = at + len;
            while (((unsigned char)full[end] & 0xC0) == 0x80) end++; /* whole characters */
            memcpy(text, full + at, end - at);
            text[end - at] = 0;
            strcpy(expected, full);
            *strstr(expected, text) = 0;
            const char *const stops[] = {"never in the text", text};
            tn_generator_config c = sampled;
            c.stop = stops;
            c.n_stop = 2;
            assert_string_equal(generate(*state, &c, &stop, &n), expected);
            assert_int_equal(stop, TN_STOP_STRING);
            tried++;
        }
    }
    assert_true(tried > 60);
}

static void an_end_token_ends_the_text(void **state) {
    fixture *f = *state;
    tn_generator_config c = sampled;
    tn_stop stop;
    uint64_t n;
    c.ignore_end = false;
    int ended = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        c.sampling.seed = seed;
        generate(f, &c, &stop, &n);
        assert_true(stop == TN_STOP_END || stop == TN_STOP_FULL);
        ended += stop == TN_STOP_END;
    }
    assert_true(ended > 5);
}

/* The text begins with what the grammar says, and ends where nothing can follow, end tokens or not. */
static void a_grammar_binds_the_text_and_ends_it(void **state) {
    fixture *f = *state;
    static const char grammar_text[] = "root ::= \"be\" [a-z\\u00e9]{3,9} \"!\"";
    for (uint64_t seed = 0; seed < 20; seed++) {
        tn_generator_config c = sampled;
        tn_grammar *grammar;
        tn_stop stop;
        uint64_t n;
        c.sampling.seed = seed;
        c.sampling.temperature = seed % 4 ? 3 : 0;
        c.ignore_end = seed % 2;
        assert_int_equal(tn_grammar_parse(grammar_text, strlen(grammar_text), "test", &grammar, NULL), TN_OK);
        assert_int_equal(tn_constraint_new(grammar, f->tok, N_VOCAB, !c.ignore_end, &c.constraint, NULL),
                         TN_OK);
        const char *text = generate(f, &c, &stop, &n);
        assert_int_equal(stop, TN_STOP_COMPLETE);
        assert_memory_equal(text, "be", 2);
        size_t n_letters = 0;
        for (text += 2; *text && *text != '!'; n_letters++) {
            if (memcmp(text, "\xC3\xA9", 2) == 0)
                text++;
            else
                assert_in_range(*text, 'a', 'z');
            text++;
        }
        assert_in_range(n_letters, 3, 9);
        assert_string_equal(text, "!");
        tn_constraint_free(c.constraint);
    }
}

static void logprobs_are_those_of_the_session_s_logits(void **state) {
    fixture *f = *state;
    static const int32_t prompt[] = {1, 260};
    tn_generator_config c = sampled;
    tn_generator *g;
    size_t n_text, n;
    const char *text;
    tn_stop stop;
    c.want_logprobs = true;
    c.n_logprobs = 5;
    tn_session_truncate(f->session, 0);
    assert_int_equal(tn_session_eval(f->session, prompt, 2, 1, NULL), TN_OK);
    assert_int_equal(tn_generator_new(f->session, f->tok, &c, prompt, 2, &g, NULL), TN_OK);
    assert_null(tn_generator_logprobs(g, &n));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tn_generator_next(g, &text, &n_text, &stop, NULL), TN_OK);
        const tn_logprob *l = tn_generator_logprobs(g, &n);
        const float *logits =
            tn_session_logits(f->session, 0); /* of which the token was made: it is evaluated later */
        double sum = 0;
        for (int j = 0; j < N_VOCAB; j++) sum += exp((double)logits[j]);
        assert_int_equal(n, 6);
        assert_int_equal(l[0].token, tn_generator_token(g));
        for (size_t j = 0; j < n; j++) {
            assert_true(fabs((double)l[j].logprob - ((double)logits[l[j].token] - log(sum))) < 1e-5);
            if (j > 1) assert_true(l[j].logprob <= l[j - 1].logprob);
        }
    }
    tn_generator_free(g);
}

static void wrong_options_are_refused(void **state) {
    fixture *f = *state;
    static const int32_t prompt[] = {1};
    const char *const empty[] = {""};
    tn_generator *g;
    tn_error err = {0};
    tn_generator_config c = sampled;
    tn_session_truncate(f->session, 0);
    assert_int_equal(tn_generator_new(f->session, f->tok, &c, NULL, 0, &g, &err), TN_ERR_ARG); /* no logits */
    assert_null(g);
    assert_int_equal(tn_session_eval(f->session, prompt, 1, 1, NULL), TN_OK);
    c.stop = empty;
    c.n_stop = 1;
    assert_int_equal(tn_generator_new(f->session, f->tok, &c, NULL, 0, &g, &err), TN_ERR_ARG);
    c = sampled;
    c.sampling.temperature = -1;
    assert_int_equal(tn_generator_new(f->session, f->tok, &c, NULL, 0, &g, &err), TN_ERR_ARG);
}

/* ---- Speculation ------------------------------------------------------------------------------------------------- */

static void a_draft_is_what_followed_the_longest_match(void **state) {
    (void)state;
    static const int32_t ids[] = {7, 1, 2, 3, 9, 2, 3, 8, 5, 3, 4, 1, 2, 3};
    int32_t draft[8];
    assert_int_equal(tn_lookup(ids, 14, draft, 4), 3);
    static const int32_t longest[] = {9, 2, 3, 8};
    assert_memory_equal(draft, longest, sizeof longest);
    assert_int_equal(tn_lookup(ids + 2, 12, draft, 4), 2); /* 2 3, twice before: the last time */
    assert_int_equal(draft[0], 8);
    assert_int_equal(tn_lookup(ids, 9, draft, 4), 0); /* no 5 before */
    static const int32_t period[] = {6, 1, 2, 1, 2}, on[] = {1, 2, 1, 2, 1, 2, 1, 2};
    assert_int_equal(tn_lookup(period, 5, draft, 8), 2);
    assert_memory_equal(draft, on, sizeof on); /* goes on with itself */
    assert_int_equal(tn_lookup(ids, 1, draft, 4), 0);
    int32_t same[200];
    for (int i = 0; i < 200; i++) same[i] = 4;
    assert_int_equal(tn_lookup(same, 200, draft, 8), TN_LOOKUP_MATCH);
}

typedef struct outcome {
    char text[8192];
    size_t n_text;
    tn_stop stop;
    uint64_t n_tokens, n_evaluated, n_right, n_cancelled;
    uint32_t position;
    float logits[N_VOCAB]; /* after one token more */
} outcome;

static tn_session *new_session(const tn_model *m, uint32_t n_ctx, uint32_t n_outputs) {
    const tn_session_config c = {.n_ctx = n_ctx,
                                 .n_batch = 16,
                                 .n_outputs = n_outputs,
                                 .n_threads = 1,
                                 .n_vocab = N_VOCAB,
                                 .kv = TN_KV_F16};
    tn_session *s = NULL;
    tn_error err = {0};
    if (tn_session_new(&m->graph, &c, &s, &err)) fail_msg("%s", err.message);
    return s;
}

static void hold(tn_session *s, const int32_t *ids, size_t n) {
    uint32_t reused;
    tn_error err = {0};
    tn_status status;
    while ((status = tn_session_sync(s, ids, n, 1, &reused, &err)) == TN_ERR_CANCELLED)
        tn_session_cancel(s, false);
    if (status) fail_msg("%s", err.message);
}

/* Generates to the end, or leaves after `leave` calls. Whoever cancels meanwhile is counted, and it goes on. */
static void run(tn_session *s, const tn_tokenizer *tok, const tn_generator_config *c, int leave,
                outcome *out) {
    static const int32_t prompt[] = {1, 260, 261, 262, 260, 261, 262, 260, 261};
    tn_generator *g;
    tn_error err = {0};
    memset(out, 0, sizeof *out);
    tn_session_truncate(s, 0);
    hold(s, prompt, 9);
    if (tn_generator_new(s, tok, c, prompt, 9, &g, &err)) fail_msg("%s", err.message);
    for (int i = 0; i != leave && !out->stop; i++) {
        const char *text;
        size_t n;
        const tn_status status = tn_generator_next(g, &text, &n, &out->stop, &err);
        if (status && status != TN_ERR_CANCELLED) fail_msg("%s", err.message);
        if (status) {
            assert_true(n == 0 && !out->stop);
            tn_session_cancel(s, false);
            out->n_cancelled++;
            i--;
        }
        memcpy(out->text + out->n_text, text, n);
        out->n_text += n;
    }
    const tn_generated made = tn_generator_result(g);
    assert_true(made.stop == out->stop && made.first_s > 0 && made.seconds >= made.first_s);
    out->n_tokens = made.n_tokens;
    out->n_evaluated = made.n_guessed;
    out->n_right = made.n_right;
    tn_generator_free(g);
    out->position = tn_session_position(s);
    if (out->position == tn_session_config_of(s)->n_ctx) return;
    static int32_t all[N_CTX * 8];
    memcpy(all, tn_session_tokens(s), out->position * sizeof *all);
    all[out->position] = 263;
    hold(s, all, out->position + 1);
    memcpy(out->logits, tn_session_logits(s, 0), sizeof out->logits);
}

static void assert_same(const outcome *a, const outcome *b) {
    assert_int_equal(a->n_text, b->n_text);
    assert_memory_equal(a->text, b->text, a->n_text);
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->position, b->position);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
}

/* Greedy and sampled, to each kind of end and left in the middle; by lookup, by a model that is always right (itself) and by
 * one that never is. */
static void drafts_change_nothing_but_the_time(void **state) {
    fixture *f = *state;
    tiny_shape shapes[] = {tiny_llama, tiny_gemma3};
    tn_model *models[2];
    for (int i = 0; i < 2; i++) {
        shapes[i].n_vocab = N_VOCAB;
        models[i] = tiny_open(&shapes[i]);
    }
    uint64_t n_evaluated[3] = {0}, n_right[3] = {0};
    static outcome plain, ahead;
    for (int i = 0; i < 2; i++) {
        tn_session *alone = new_session(models[i], 400, 1), *s = new_session(models[i], 400, 16);
        tn_session *drafts[] = {NULL, new_session(models[i], 300, 1), new_session(models[1 - i], 600, 1)};
        for (int k = 0; k < 24; k++) {
            tn_generator_config c = sampled;
            const char *const stops[] = {"xyz", "bebe"};
            c.sampling.temperature = k % 3 == 0 ? 0.0f : k % 3 == 1 ? 0.4f : 2.0f;
            c.sampling.seed = (uint64_t)k;
            c.sampling.repeat_penalty = k % 4 == 3 ? 1.1f : 1;
            c.sampling.repeat_last_n = 20;
            c.ignore_end = k % 2 == 0;
            if (k % 8 == 4) c.max_tokens = (uint64_t)(20 + k);
            if (k % 8 == 5) c.stop = stops, c.n_stop = 2;
            const int leave = k % 8 == 6 ? 30 + k : -1;
            run(alone, f->tok, &c, leave, &plain);
            for (int d = 0; d < 3; d++) {
                c.draft = drafts[d];
                run(s, f->tok, &c, leave, &ahead);
                assert_same(&plain, &ahead);
                n_evaluated[d] += ahead.n_evaluated;
                n_right[d] += ahead.n_right;
            }
            c.plain = true;
            run(s, f->tok, &c, leave, &ahead);
            assert_same(&plain, &ahead);
            assert_int_equal(ahead.n_evaluated, 0);
        }
        tn_session_free(alone);
        tn_session_free(s);
        for (int d = 1; d < 3; d++) tn_session_free(drafts[d]);
    }
    for (int i = 0; i < 2; i++) tn_model_close(models[i]);
    for (int d = 0; d < 3; d++) assert_true(n_evaluated[d] > 20);
    assert_true(n_right[0] > 20 && n_right[1] > 20);
}

/* Embeddings are not numbers, but for the tokens that the text has: drafts of others, by the same model without the fault,
 * cannot be computed. */
static void a_draft_that_cannot_be_computed_is_as_none(void **state) {
    fixture *f = *state;
    tiny_shape shape = tiny_llama;
    shape.n_vocab = N_VOCAB;
    tn_model *m = tiny_open(&shape), *sound = tiny_open(&shape);
    tn_session *alone = new_session(sound, 400, 1), *draft = new_session(sound, 400, 1),
               *s = new_session(m, 400, 16);
    static outcome plain, ahead;
    tn_generator_config c = sampled;
    c.max_tokens = 60;
    c.plain = true;
    run(alone, f->tok, &c, -1, &plain);
    tn_op *embed = m->graph.ops;
    while (embed->kind != TN_OP_EMBED) embed++;
    const tn_weight *table = &embed->embed.table;
    const size_t row = table->k * sizeof(float);
    uint8_t *faulty = malloc(table->n * row);
    memset(faulty, 0xff, table->n * row);
    for (uint32_t i = 0; i < tn_session_position(alone); i++) {
        const size_t at = (size_t)tn_session_tokens(alone)[i] * row;
        memcpy(faulty + at, table->data + at, row);
    }
    embed->embed.table.data = faulty;
    c.plain = false;
    c.draft = draft;
    run(s, f->tok, &c, -1, &ahead);
    assert_same(&plain, &ahead);
    tn_session_free(alone), tn_session_free(s), tn_session_free(draft);
    tn_model_close(m), tn_model_close(sound);
    free(faulty);
}

/* Behind 40 tokens another rotation of the whole begins: drafts must not carry the session over before the text gets there. */
static void drafts_do_not_make_a_sequence_long(void **state) {
    fixture *f = *state;
    tiny_shape shape = tiny_llama;
    shape.n_vocab = N_VOCAB;
    tn_model *m = tiny_open(&shape);
    float factors[64];
    for (int i = 0; i < 64; i++) factors[i] = 1.0f + (float)i;
    m->graph.ropes[0].long_factors = factors;
    m->graph.long_above = 40;
    tn_session *alone = new_session(m, 128, 1), *s = new_session(m, 128, 16);
    static outcome plain, ahead;
    uint64_t n_evaluated = 0;
    for (uint64_t max = 20; max < 50; max++) {
        tn_generator_config c = sampled;
        c.sampling.temperature = max % 2 ? 0.0f : 0.3f;
        c.max_tokens = max;
        run(alone, f->tok, &c, -1, &plain);
        run(s, f->tok, &c, -1, &ahead);
        assert_same(&plain, &ahead);
        n_evaluated += ahead.n_evaluated;
    }
    assert_true(n_evaluated > 20);
    tn_session_free(alone);
    tn_session_free(s);
    tn_model_close(m);
}

typedef struct presser {
    tn_session *session;
    atomic_bool leave;
} presser;

static void *press(void *user) {
    presser *p = user;
    uint64_t random = 5;
    double most_us = 400; /* rarer and rarer: a token must come through on a slow machine too */
    for (; !atomic_load(&p->leave); most_us *= 1.05) {
        usleep(tiny_random(&random) % (unsigned)fmin(most_us, 2e6));
        tn_session_cancel(p->session, true);
    }
    return NULL;
}

/* Alone, with drafts of the text and of a model, and where the sequence becomes a long one on the way. */
static void a_cancelled_generation_goes_on_with_the_same_text(void **state) {
    fixture *f = *state;
    tiny_shape shape = tiny_gemma3;
    shape.n_vocab = N_VOCAB;
    tn_model *m = tiny_open(&shape);
    float factors[64];
    for (int i = 0; i < 64; i++) factors[i] = 1.0f + (float)i;
    m->graph.ropes[0].long_factors = factors;
    m->graph.long_above = 60;
    tn_session *alone = new_session(m, 200, 1), *s = new_session(m, 200, 16);
    tn_session *drafts[] = {NULL, new_session(m, 200, 1)};
    static outcome plain, pressed;
    uint64_t n_cancelled = 0, n_evaluated = 0;
    for (int k = 0; k < 12; k++) {
        tn_generator_config c = sampled;
        c.sampling.temperature = k % 2 ? 0.0f : 0.3f;
        c.sampling.seed = (uint64_t)k;
        c.max_tokens = 120;
        run(alone, f->tok, &c, -1, &plain);
        c.draft = drafts[k % 2];
        tn_session_cancel(s, false);
        presser p = {.session = s};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, press, &p), 0);
        run(s, f->tok, &c, -1, &pressed);
        atomic_store(&p.leave, true);
        pthread_join(thread, NULL);
        assert_same(&plain, &pressed);
        n_cancelled += pressed.n_cancelled;
        n_evaluated += pressed.n_evaluated;
    }
    assert_true(n_cancelled > 20 && n_evaluated > 0);
    tn_session_free(alone);
    tn_session_free(s);
    tn_session_free(drafts[1]);
    tn_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_at_the_limit),
        cmocka_unit_test(stops_when_the_context_is_full),
        cmocka_unit_test(the_same_seed_gives_the_same_text),
        cmocka_unit_test(a_text_that_is_cut_can_go_on),
        cmocka_unit_test(stop_strings_are_found_wherever_they_begin),
        cmocka_unit_test(an_end_token_ends_the_text),
        cmocka_unit_test(a_grammar_binds_the_text_and_ends_it),
        cmocka_unit_test(logprobs_are_those_of_the_session_s_logits),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_draft_is_what_followed_the_longest_match),
        cmocka_unit_test(drafts_change_nothing_but_the_time),
        cmocka_unit_test(a_draft_that_cannot_be_computed_is_as_none),
        cmocka_unit_test(drafts_do_not_make_a_sequence_long),
        cmocka_unit_test(a_cancelled_generation_goes_on_with_the_same_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
