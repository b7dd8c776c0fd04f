/* Vocabularies made by hand, for the tests of tokenizers: what is put into one, what it must make of a text, and what it
 * must be refused for. */
#ifndef TN_TESTS_VOCAB_FIXTURE_H
#define TN_TESTS_VOCAB_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/text/tokenizer.h"

enum { MAX_TOKENS = 400 };

/* A vocabulary in the making; texts are string literals or live in `own`. */
typedef struct vocab {
    tn_vocab_source source;
    const char *texts[MAX_TOKENS];
    uint32_t lens[MAX_TOKENS];
    float scores[MAX_TOKENS];
    int32_t types[MAX_TOKENS];
    const char *merges[64];
    uint32_t merge_lens[64];
    char own[256][8];
} vocab;

static inline int32_t add(vocab *v, const char *text, tn_token_type type, float score) {
    uint32_t i = v->source.n_tokens++;
    v->texts[i] = text;
    v->lens[i] = (uint32_t)strlen(text);
    v->types[i] = (int32_t)type;
    v->scores[i] = score;
    return (int32_t)i;
}

static inline void add_merge(vocab *v, const char *text) {
    uint32_t i = v->source.n_merges++;
    v->merges[i] = text;
    v->merge_lens[i] = (uint32_t)strlen(text);
}

static inline void start(vocab *v, const char *model, const char *pre) {
    memset(v, 0, sizeof *v);
    v->source = (tn_vocab_source){.model = model,
                                  .pre = pre,
                                  .bos = -1,
                                  .eos = -1,
                                  .eot = -1,
                                  .unk = -1,
                                  .sep = -1,
                                  .add_bos = -1,
                                  .add_eos = -1,
                                  .add_sep = -1,
                                  .add_space_prefix = -1,
                                  .remove_extra_spaces = -1,
                                  .lowercase = -1,
                                  .strip_accents = -1};
    v->source.token_text = v->texts;
    v->source.token_len = v->lens;
    v->source.scores = v->scores;
    v->source.types = v->types;
    v->source.merge_text = v->merges;
    v->source.merge_len = v->merge_lens;
}

static inline tn_tokenizer *load(const vocab *v) {
    tn_tokenizer *tok = NULL;
    tn_error err = {0};
    tn_status status = tn_tokenizer_new(&v->source, NULL, &tok, &err);
    if (status != TN_OK) print_message("%s\n", err.message);
    assert_int_equal(status, TN_OK);
    return tok;
}

static inline void expect_ids(const tn_tokenizer *tok, const char *text, size_t n, unsigned flags,
                              const int32_t *want, size_t n_want) {
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(tn_tokenize(tok, text, n, flags, &ids, &n_ids, NULL), TN_OK);
    assert_int_equal(n_ids, n_want);
    if (n_want) assert_memory_equal(ids, want, n_want * sizeof *want);
    assert_non_null(ids);
    free(ids);
}

#define EXPECT(tok, text, flags, ...)                                                                        \
    expect_ids(tok, text, sizeof(text) - 1, flags, (const int32_t[]){__VA_ARGS__},                           \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static inline void expect_error(const vocab *v, tn_status code, const char *part) {
    tn_tokenizer *tok = NULL;
    tn_error err = {0};
    assert_int_equal(tn_tokenizer_new(&v->source, NULL, &tok, &err), code);
    assert_null(tok);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
}

#endif
