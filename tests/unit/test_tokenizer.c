/* Tokenizer rules on small vocabularies worked by hand: what loads, what is refused and why, and what the
 * large published vocabularies of test_tokenizer.py cannot show. */
#include "vocab_fixture.h"

static const char mark[] = "\xE2\x96\x81"; /* U+2581 */

/* ids 0-2 <unk> <s> </s>, then the 256 byte tokens from id 3. */
static void start_spm(vocab *v) {
    start(v, "llama", NULL);
    v->source.unk = add(v, "<unk>", TN_TOKEN_UNKNOWN, 0);
    v->source.bos = add(v, "<s>", TN_TOKEN_CONTROL, 0);
    v->source.eos = add(v, "</s>", TN_TOKEN_CONTROL, 0);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(v->own[b], sizeof v->own[b], "<0x%02X>", b);
        add(v, v->own[b], TN_TOKEN_BYTE, 0);
    }
}

/* Printable ASCII letters, id = code - 0x21, and G-with-dot for the space, id 94. */
static void start_bpe(vocab *v, const char *pre) {
    start(v, "gpt2", pre);
    for (int c = 0x21; c < 0x7F; c++) {
        v->own[c][0] = (char)c;
        add(v, v->own[c], TN_TOKEN_NORMAL, 0);
    }
    add(v, "\xC4\xA0", TN_TOKEN_NORMAL, 0);
    add_merge(v, "? ?"); /* not usable, but a vocabulary without merges is refused */
}

/* ---- What is refused --------------------------------------------------------------------------------- */

static void bad_vocabularies_are_refused_with_their_key(void **state) {
    (void)state;
    static vocab v;
    start(&v, "gpt2", "gpt-2");
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.tokens");
    start_bpe(&v, NULL);
    expect_error(&v, TN_ERR_UNSUPPORTED, "tokenizer.ggml.pre");
    expect_error(&v, TN_ERR_UNSUPPORTED, "smollm");
    start_bpe(&v, "no-such-thing");
    expect_error(&v, TN_ERR_UNSUPPORTED, "'no-such-thing'");
    start_bpe(&v, "gpt-2");
    v.source.model = "plamo2";
    expect_error(&v, TN_ERR_UNSUPPORTED, "'plamo2'; known: gpt2, llama, gemma4, t5, bert, rwkv");
    v.source.model = NULL;
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.model");
    start_bpe(&v, "gpt-2");
    v.source.add_bos = 1;
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.bos_token_id");
    start_bpe(&v, "gpt-2");
    v.source.add_eos = 1;
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.eos_token_id");
    start_bpe(&v, "gpt-2");
    v.source.eot = v.source.n_tokens;
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.eot_token_id");
    start_spm(&v);
    v.source.scores = NULL;
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.scores");
    static const char *const bad_bytes[] = {"<0x-1>", "<0xZZ>", "<0x1>", "<0x123>", "", "A"};
    for (size_t i = 0; i < sizeof bad_bytes / sizeof *bad_bytes; i++) {
        start_spm(&v);
        add(&v, bad_bytes[i], TN_TOKEN_BYTE, 0);
        expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.tokens[259]");
    }
}

static void override_names_the_pre_tokenizer(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "no-such-thing");
    tn_tokenizer *tok;
    assert_int_equal(tn_tokenizer_new(&v.source, "gpt-2", &tok, NULL), TN_OK);
    EXPECT(tok, "ab", 0, 'a' - 0x21, 'b' - 0x21);
    tn_tokenizer_free(tok);
    tn_tokenizer_free(NULL);
}

/* Gemma's runs of spaces: written with spaces in files, met among marks in the text. */
static void user_defined_spaces_match_marked_text(void **state) {
    (void)state;
    static vocab v;
    start_spm(&v);
    v.source.add_space_prefix = 0;
    int32_t space = add(&v, "\xE2\x96\x81", TN_TOKEN_NORMAL, -5), x = add(&v, "x", TN_TOKEN_NORMAL, -6);
    int32_t two = add(&v, "  ", TN_TOKEN_USER_DEFINED, -1000),
            four = add(&v, "    ", TN_TOKEN_USER_DEFINED, -1000);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "    x", 0, four, x);
    EXPECT(tok, "x  x x", 0, x, two, x, space, x);
    EXPECT(tok, "       ", 0, four, two, space);
    tn_tokenizer_free(tok);
}

/* ---- Byte-level BPE ---------------------------------------------------------------------------------- */

static void merges_go_by_rank_then_from_the_left(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    int32_t bc = add(&v, "bc", TN_TOKEN_NORMAL, 0), ab = add(&v, "ab", TN_TOKEN_NORMAL, 0);
    int32_t aa = add(&v, "aa", TN_TOKEN_NORMAL, 0), aaa = add(&v, "aaa", TN_TOKEN_NORMAL, 0);
    add_merge(&v, "b c");
    add_merge(&v, "a b");
    add_merge(&v, "a a");
    add_merge(&v, "aa a");
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "abc", 0, 'a' - 0x21, bc);
    EXPECT(tok, "ab", 0, ab);
    EXPECT(tok, "aaa", 0, aaa);
    EXPECT(tok, "aaaa", 0, aa, aa);   /* not aaa a: both aa come before aa a */
    EXPECT(tok, "aaab", 0, aa, ab);   /* a b first, then the leftmost a a */
    EXPECT(tok, "aaaaa", 0, aa, aaa); /* aa aa a, then aa a */
    tn_tokenizer_free(tok);
}

static void a_vocabulary_without_merges_is_refused(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    v.source.n_merges = 0;
    tn_tokenizer *tok;
    tn_error err = {0};
    assert_int_equal(tn_tokenizer_new(&v.source, NULL, &tok, &err), TN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tokenizer.ggml.merges"));
}

static void unusable_merges_are_passed_over(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    static const char *const bad[] = {"", " ", "a", "a ", " a", "ab", "a  b", "q zz", "zz q", "a c", "  "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) add_merge(&v, bad[i]);
    int32_t ab = add(&v, "ab", TN_TOKEN_NORMAL, 0);
    add_merge(&v, "a b");
    add_merge(&v, "a b");
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "abac", 0, ab, 'a' - 0x21, 'c' - 0x21);
    tn_tokenizer_free(tok);
}

static void duplicates_and_empty_tokens_load_and_the_first_counts(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    int32_t first = add(&v, "ab", TN_TOKEN_NORMAL, 0);
    add(&v, "ab", TN_TOKEN_NORMAL, 0);
    add(&v, "", TN_TOKEN_NORMAL, 0);
    add(&v, "", TN_TOKEN_CONTROL, 0);
    add(&v, "\xFF\xFE", TN_TOKEN_NORMAL, 0);
    add(&v, "a", TN_TOKEN_NORMAL, 0);
    add_merge(&v, "a b");
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "aba", TN_TOKENIZE_SPECIAL, first, 'a' - 0x21);
    expect_ids(tok, "", 0, 0, NULL, 0);
    size_t len;
    assert_memory_equal(tn_token_bytes(tok, first + 4, false, &len), "\xFF\xFE",
                        2); /* not in the byte alphabet */
    assert_int_equal(len, 2);
    tn_tokenizer_free(tok);
}

static void bytes_without_a_token_become_unknown_or_are_refused(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    tn_tokenizer *tok = load(&v);
    int32_t *ids;
    size_t n;
    tn_error err = {0};
    assert_int_equal(tn_tokenize(tok, "a\n", 2, 0, &ids, &n, &err), TN_ERR_UNSUPPORTED);
    assert_null(ids);
    assert_non_null(strstr(err.message, "0x0A"));
    tn_tokenizer_free(tok);

    v.source.unk = add(&v, "<unk>", TN_TOKEN_UNKNOWN, 0);
    tok = load(&v);
    EXPECT(tok, "a\n\xFF", 0, 'a' - 0x21, (int32_t)v.source.unk, (int32_t)v.source.unk);
    tn_tokenizer_free(tok);

    /* An unknown token that is the end of the text must not come from a user's text: U+FFFD takes its place.
     */
    v.source.eos = v.source.unk;
    int32_t ef = add(&v, "\xC3\xAF", TN_TOKEN_NORMAL, 0), bf = add(&v, "\xC2\xBF", TN_TOKEN_NORMAL, 0);
    int32_t bd = add(&v, "\xC2\xBD", TN_TOKEN_NORMAL, 0);
    tok = load(&v);
    EXPECT(tok, "a\n", 0, 'a' - 0x21, ef, bf, bd);
    tn_tokenizer_free(tok);
}

/* ---- Special tokens ---------------------------------------------------------------------------------- */

static void the_longest_special_token_wins_and_control_text_needs_the_flag(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    int32_t user = add(&v, "<a>", TN_TOKEN_USER_DEFINED, 0), longer = add(&v, "<a><b>", TN_TOKEN_CONTROL, 0);
    int32_t prefix = add(&v, "<a", TN_TOKEN_CONTROL, 0), nested = add(&v, "a><b", TN_TOKEN_USER_DEFINED, 0);
    tn_tokenizer *tok = load(&v);
    const int32_t lt = '<' - 0x21, gt = '>' - 0x21, b = 'b' - 0x21;
    EXPECT(tok, "<a><b>", TN_TOKENIZE_SPECIAL, longer);
    EXPECT(tok, "<a><b", TN_TOKENIZE_SPECIAL, user, lt, b);
    EXPECT(tok, "<ab", TN_TOKENIZE_SPECIAL, prefix, b);
    EXPECT(tok, "<<a><b>", 0, lt, user, lt, b, gt);
    EXPECT(tok, "a><b>", 0, nested, gt);
    size_t len;
    tn_token_bytes(tok, longer, false, &len);
    assert_int_equal(len, 0);
    assert_memory_equal(tn_token_bytes(tok, longer, true, &len), "<a><b>", 6);
    assert_memory_equal(tn_token_bytes(tok, user, false, &len), "<a>", 3);
    tn_token_bytes(tok, -1, true, &len);
    assert_int_equal(len, 0);
    tn_token_bytes(tok, (int32_t)v.source.n_tokens, true, &len);
    assert_int_equal(len, 0);
    tn_tokenizer_free(tok);
}

static void ends_go_by_id_and_by_published_text(void **state) {
    (void)state;
    static vocab v;
    start_bpe(&v, "gpt-2");
    int32_t by_id = add(&v, "<stop>", TN_TOKEN_CONTROL, 0),
            control = add(&v, "<|im_end|>", TN_TOKEN_CONTROL, 0);
    int32_t user = add(&v, "<|eot_id|>", TN_TOKEN_USER_DEFINED, 0),
            tag = add(&v, "</s>", TN_TOKEN_USER_DEFINED, 0);
    int32_t normal = add(&v, "<|end|>", TN_TOKEN_NORMAL, 0), eot = add(&v, "<turn>", TN_TOKEN_CONTROL, 0);
    v.source.eos = by_id;
    v.source.eot = eot;
    tn_tokenizer *tok = load(&v);
    assert_true(tn_token_is_end(tok, by_id));
    assert_true(tn_token_is_end(tok, eot));
    assert_true(tn_token_is_end(tok, control));
    assert_true(tn_token_is_end(tok, user));
    assert_false(tn_token_is_end(tok, tag)); /* HTML, not control */
    assert_false(tn_token_is_end(tok, normal));
    assert_false(tn_token_is_end(tok, 0));
    assert_false(tn_token_is_end(tok, -1));
    tn_tokenizer_free(tok);
    v.source.types = NULL; /* nothing said: the text alone */
    tok = load(&v);
    assert_true(tn_token_is_end(tok, normal));
    assert_true(tn_token_is_end(tok, tag));
    tn_tokenizer_free(tok);
}

/* ---- SentencePiece ----------------------------------------------------------------------------------- */

static void spm_prefix_begins_each_stretch_between_control_tokens(void **state) {
    (void)state;
    static vocab v;
    start_spm(&v);
    int32_t space = add(&v, mark, TN_TOKEN_NORMAL, -1), a = add(&v, "a", TN_TOKEN_NORMAL, -2);
    int32_t space_a = add(&v,
                          "\xE2\x96\x81"
                          "a",
                          TN_TOKEN_NORMAL, -3),
            user = add(&v, "<u>", TN_TOKEN_USER_DEFINED, 0);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "a", 0, space_a);
    EXPECT(tok, " a", 0, space, space_a);
    EXPECT(tok, "a</s>a", TN_TOKENIZE_SPECIAL, space_a, 2, space_a);
    EXPECT(tok, "a<u>a", 0, space_a, user, a);
    EXPECT(tok, "<u>a", 0, space, user, a);
    EXPECT(tok, "<s>a", TN_TOKENIZE_SPECIAL | TN_TOKENIZE_BOS, 1, space_a); /* BOS once */
    EXPECT(tok, "a", TN_TOKENIZE_BOS, 1, space_a);
    EXPECT(tok, "", TN_TOKENIZE_BOS, 1);
    EXPECT(tok, "\xFF", 0, space, 3 + 0xFF);
    EXPECT(tok, "\xC3\xA9", 0, space, 3 + 0xC3, 3 + 0xA9); /* a whole character without a token */
    tn_tokenizer_free(tok);
    v.source.add_space_prefix = 0;
    v.source.add_eos = 1;
    tok = load(&v);
    EXPECT(tok, "a", TN_TOKENIZE_BOS, 1, a, 2);
    EXPECT(tok, "a</s>", TN_TOKENIZE_BOS | TN_TOKENIZE_SPECIAL, 1, a, 2); /* EOS once */
    tn_tokenizer_free(tok);
}

static void spm_control_text_is_never_merged_into_its_token(void **state) {
    (void)state;
    static vocab v;
    start_spm(&v);
    v.source.add_space_prefix = 0;
    int32_t open = add(&v, "</", TN_TOKEN_NORMAL, -1), close = add(&v, "s>", TN_TOKEN_NORMAL, -2);
    add(&v, "<", TN_TOKEN_NORMAL, -9), add(&v, "/", TN_TOKEN_NORMAL, -9);
    add(&v, "s", TN_TOKEN_NORMAL, -9), add(&v, ">", TN_TOKEN_NORMAL, -9);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "</s>", 0, open, close);
    EXPECT(tok, "</s>", TN_TOKENIZE_SPECIAL, 2);
    tn_tokenizer_free(tok);
}

/* Unused pieces may be passed through but not end up in the result; worked by hand from the sentencepiece
 * paper's rule of taking back the merge. */
static void spm_unused_pieces_are_taken_apart(void **state) {
    (void)state;
    static vocab v;
    start_spm(&v);
    v.source.add_space_prefix = 0;
    int32_t a = add(&v, "a", TN_TOKEN_NORMAL, -9), b = add(&v, "b", TN_TOKEN_NORMAL, -9);
    int32_t ab = add(&v, "ab", TN_TOKEN_UNUSED, -1), abab = add(&v, "abab", TN_TOKEN_NORMAL, -2);
    int32_t aba = add(&v, "ababa", TN_TOKEN_UNUSED, -3);
    (void)ab, (void)aba;
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "ab", 0, a, b);
    EXPECT(tok, "abab", 0, abab);
    EXPECT(tok, "ababab", 0, abab, a, b);
    EXPECT(tok, "ababa", 0, abab, a);
    tn_tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_vocabularies_are_refused_with_their_key),
        cmocka_unit_test(override_names_the_pre_tokenizer),
        cmocka_unit_test(user_defined_spaces_match_marked_text),
        cmocka_unit_test(merges_go_by_rank_then_from_the_left),
        cmocka_unit_test(a_vocabulary_without_merges_is_refused),
        cmocka_unit_test(unusable_merges_are_passed_over),
        cmocka_unit_test(duplicates_and_empty_tokens_load_and_the_first_counts),
        cmocka_unit_test(bytes_without_a_token_become_unknown_or_are_refused),
        cmocka_unit_test(the_longest_special_token_wins_and_control_text_needs_the_flag),
        cmocka_unit_test(ends_go_by_id_and_by_published_text),
        cmocka_unit_test(spm_prefix_begins_each_stretch_between_control_tokens),
        cmocka_unit_test(spm_control_text_is_never_merged_into_its_token),
        cmocka_unit_test(spm_unused_pieces_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
