/* Unigram, WordPiece and RWKV vocabularies worked by hand, and hostile ones: nothing that a file holds may be read
 * out of bounds or take the process down. test_tokenizer_rules.py compares whole vocabularies with other programs. */
#include "vocab_fixture.h"

#include <math.h>

#include "src/text/charsmap.h"

#define MARK "\xE2\x96\x81" /* U+2581 */

/* Token 0 is the unknown one. */
static void start_with_unknown(vocab *v, const char *model) {
    start(v, model, NULL);
    v->source.unk = add(v, strcmp(model, "bert") ? "<unk>" : "[UNK]", TN_TOKEN_UNKNOWN, 0);
}

/* Tokenizes texts that reach every branch; the result is not looked at. */
static void use(const tn_tokenizer *tok) {
    static const char *const texts[] = {
        "",
        "a",
        "ab abc  ",
        "\xFF\xC3",
        "a\xCC\x81 \xE4\xB8\xAD!",
        "\n\t\x01zz",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids;
        size_t n;
        tn_status status = tn_tokenize(tok, texts[i], strlen(texts[i]), TN_TOKENIZE_BOS, &ids, &n, NULL);
        if (status == TN_OK) free(ids);
    }
}

/* ---- Unigram ------------------------------------------------------------------------------------------- */

static void unigram_takes_the_best_sum(void **state) {
    (void)state;
    static vocab v;
    start_with_unknown(&v, "t5");
    v.source.eos = add(&v, "</s>", TN_TOKEN_CONTROL, 0);
    int32_t a = add(&v, "a", TN_TOKEN_NORMAL, -3), b = add(&v, "b", TN_TOKEN_NORMAL, -3);
    int32_t mark = add(&v, MARK, TN_TOKEN_NORMAL, -2), mark_a = add(&v, MARK "a", TN_TOKEN_NORMAL, -4);
    int32_t ab = add(&v, "ab", TN_TOKEN_NORMAL, -4.5f), user = add(&v, "<x>", TN_TOKEN_USER_DEFINED, 0);
    add(&v, "aa", TN_TOKEN_UNUSED, 0);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "a", 0, mark_a);
    EXPECT(tok, "ab", 0, mark, ab); /* -6.5, where mark_a b is -7 */
    EXPECT(tok, "  a   b ", 0, mark_a, mark, b);
    EXPECT(tok, "aa", 0, mark_a, a);      /* unused tokens are not for use */
    EXPECT(tok, "azzb", 0, mark_a, 0, b); /* unknown characters in a row are one */
    EXPECT(tok, "<x>a <x>", 0, mark, user, a, mark, user);
    EXPECT(tok, "a", TN_TOKENIZE_BOS, mark_a, 1); /* EOS by default */
    EXPECT(tok,
           "a\xFF"
           "b",
           0, mark_a, 0, b);
    expect_ids(tok, "   ", 3, 0, NULL, 0);
    tn_tokenizer_free(tok);

    v.source.remove_extra_spaces = 0;
    v.source.add_space_prefix = 0;
    tok = load(&v);
    EXPECT(tok, "a  b ", 0, a, mark, mark, b, mark);
    tn_tokenizer_free(tok);
}

static void unigram_takes_a_cut_character_as_bytes(void **state) {
    (void)state;
    static vocab v;
    start_with_unknown(&v, "t5");
    const int32_t user = add(&v, "\x97", TN_TOKEN_USER_DEFINED, 0);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "\xE6\x97\xA5", 0, 0, user, 0); /* one character */
    tn_tokenizer_free(tok);
}

static void unigram_scores_must_be_finite(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static vocab v;
        start_with_unknown(&v, "t5");
        add(&v, "a", TN_TOKEN_NORMAL, bad[i]);
        expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.scores: score 1 is not finite");
        v.source.scores = NULL;
        expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.scores");
    }
}

static void odd_tokens_do_no_harm(void **state) {
    (void)state;
    static const char *const model_names[] = {"t5", "bert", "rwkv"};
    for (size_t m = 0; m < 3; m++) {
        static vocab v;
        start_with_unknown(&v, model_names[m]);
        static const char *const odd[] = {"",       "",        "a",    "a",     "aa",    MARK,
                                          MARK "a", MARK MARK, "\xC3", "\xFF",  "\xA9z", "\\",
                                          "\\x",    "\\xZZ",   "\\x4", "\\x41", "a\\",   "\xE2\x96"};
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) add(&v, odd[i], TN_TOKEN_NORMAL, -3e38f);
        add(&v, "", TN_TOKEN_USER_DEFINED, 0);
        tn_tokenizer *tok = load(&v);
        use(tok);
        tn_tokenizer_free(tok);
    }
}

/* ---- The charsmap -------------------------------------------------------------------------------------- */

enum { LABEL_VALUE = 1 << 8 };

static void put_u32(uint8_t *dst, uint32_t v) {
    for (int i = 0; i < 4; i++) dst[i] = (uint8_t)(v >> 8 * i);
}

/* A double array by hand. The root's offset 256 leads to 256 ^ 'A', whose label is A, which has a value, at its place
 * ^ 512: the offset of a text. */
enum { N_UNITS = 1024, TEXTS = 4 + 4 * N_UNITS };
typedef struct map_bytes {
    uint8_t data[TEXTS + 16];
} map_bytes;

static void put_unit(map_bytes *map, size_t at, uint32_t offset, uint32_t label, bool has_value) {
    put_u32(map->data + 4 + 4 * at, offset << 10 | label | (has_value ? LABEL_VALUE : 0));
}

static void start_map(map_bytes *map, uint32_t text_offset) {
    memset(map, 0, sizeof *map);
    put_u32(map->data, 4 * N_UNITS);
    put_unit(map, 0, 256, 0, false);
    put_unit(map, 256 ^ 'A', 512, 'A', true);
    put_u32(map->data + 4 + 4 * (256 ^ 'A' ^ 512), 0x80000000u | text_offset);
    memcpy(map->data + TEXTS, "x\0yz w\0", 7);
}

static void charsmap_rules_apply(void **state) {
    (void)state;
    static map_bytes map;
    tn_charsmap read;
    const char *by;
    size_t len;
    start_map(&map, 2);
    assert_int_equal(tn_charsmap_read(&read, map.data, sizeof map.data, NULL), TN_OK);
    assert_int_equal(tn_charsmap_match(&read, "AB", 2, &by, &len), 1);
    assert_int_equal(len, 4);
    assert_memory_equal(by, "yz w", 4);
    assert_int_equal(tn_charsmap_match(&read, "BA", 2, &by, &len), 0);
    assert_int_equal(tn_charsmap_match(&read, "", 0, &by, &len), 0);

    static vocab v;
    start_with_unknown(&v, "t5");
    int32_t first = add(&v, MARK "yz", TN_TOKEN_NORMAL, -1), second = add(&v, MARK "w", TN_TOKEN_NORMAL, -1);
    v.source.charsmap = map.data;
    v.source.n_charsmap_bytes = sizeof map.data;
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "A", 0, first, second); /* a space that comes from a rule is a space */
    tn_tokenizer_free(tok);
}

static void hostile_charsmaps_are_refused_or_do_not_apply(void **state) {
    (void)state;
    static map_bytes map;
    static vocab v;
    start_with_unknown(&v, "t5");
    add(&v, "A", TN_TOKEN_NORMAL, -1);
    /* Cut anywhere; the copy has no byte more, so that a sanitizer sees a read behind the end. */
    for (size_t n = 1; n < sizeof map.data; n += n < 40 || n > TEXTS - 40 ? 1 : 97) {
        start_map(&map, 2);
        uint8_t *cut = malloc(n);
        assert_non_null(cut);
        memcpy(cut, map.data, n);
        v.source.charsmap = cut;
        v.source.n_charsmap_bytes = n;
        if (n <= TEXTS || cut[n - 1] != 0) { /* else it is a good map with fewer texts */
            expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.precompiled_charsmap");
        } else {
            tn_tokenizer *tok = load(&v);
            use(tok);
            tn_tokenizer_free(tok);
        }
        free(cut);
    }
    v.source.charsmap = map.data;
    v.source.n_charsmap_bytes = sizeof map.data;
    start_map(&map, 2);
    map.data[sizeof map.data - 1] = 'x'; /* the last text does not end */
    expect_error(&v, TN_ERR_FORMAT, "the last text has no end");
    put_u32(map.data, UINT32_MAX - 3);
    expect_error(&v, TN_ERR_FORMAT, "cannot hold a trie");

    tn_charsmap read;
    const char *by;
    size_t len;
    static const uint32_t far_texts[] = {16, 1000, 0x7FFFFFFF};
    for (size_t i = 0; i < sizeof far_texts / sizeof *far_texts; i++) {
        start_map(&map, far_texts[i]);
        assert_int_equal(tn_charsmap_read(&read, map.data, sizeof map.data, NULL), TN_OK);
        assert_int_equal(tn_charsmap_match(&read, "A", 1, &by, &len), 0);
    }
    start_map(&map, 2); /* offsets that lead outside: of the root, of a node, of a value */
    put_unit(&map, 0, (1 << 21) - 1, 0, false);
    assert_int_equal(tn_charsmap_match(&read, "A", 1, &by, &len), 0);
    start_map(&map, 2);
    put_unit(&map, 256 ^ 'A', (1 << 21) - 1, 'A', true);
    assert_int_equal(tn_charsmap_match(&read, "AA", 2, &by, &len), 0);
}

/* A node that is its own child matches as long as the text goes on; the longest rule bounds it. */
static void cyclic_charsmaps_end(void **state) {
    (void)state;
    static map_bytes map;
    tn_charsmap read;
    const char *by;
    size_t len;
    char text[1000];
    memset(text, 'A', sizeof text);
    start_map(&map, 2);
    put_unit(&map, 256 ^ 'A', 'A', 'A', true); /* back to 256, whose unit is zero: the value of text 0 */
    assert_int_equal(tn_charsmap_read(&read, map.data, sizeof map.data, NULL), TN_OK);
    assert_int_equal(tn_charsmap_match(&read, text, sizeof text, &by, &len), TN_CHARSMAP_MAX_RULE);
    assert_int_equal(len, 1);
}

static void random_charsmaps_stay_inside(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        uint8_t *data = malloc(4 + 4 * 64 + 8);
        assert_non_null(data);
        for (size_t i = 0; i < 4 + 4 * 64 + 8; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            data[i] = (uint8_t)(seed >> 56) & (i % 4 > 1 ? 3 : 255); /* offsets that often stay inside */
        }
        put_u32(data, 4 * 64);
        data[4 + 4 * 64 + 7] = 0;
        static vocab v;
        start_with_unknown(&v, "t5");
        add(&v, "a", TN_TOKEN_NORMAL, -1);
        v.source.charsmap = data;
        v.source.n_charsmap_bytes = 4 + 4 * 64 + 8;
        tn_tokenizer *tok = load(&v);
        use(tok);
        for (unsigned b = 1; b < 256; b++) {
            int32_t *ids;
            size_t n;
            char text[3] = {(char)b, (char)(b * 7), 'a'};
            if (tn_tokenize(tok, text, sizeof text, 0, &ids, &n, NULL) == TN_OK) free(ids);
        }
        tn_tokenizer_free(tok);
        free(data);
    }
}

/* ---- WordPiece ----------------------------------------------------------------------------------------- */

static void wordpiece_spells_words_from_the_left(void **state) {
    (void)state;
    static vocab v;
    start_with_unknown(&v, "bert");
    int32_t cls = add(&v, "[CLS]", TN_TOKEN_CONTROL, 0), sep = add(&v, "[SEP]", TN_TOKEN_CONTROL, 0);
    int32_t un = add(&v, MARK "un", TN_TOKEN_NORMAL, 0), able = add(&v, "able", TN_TOKEN_NORMAL, 0);
    int32_t bare = add(&v, "un", TN_TOKEN_NORMAL, 0), e = add(&v, MARK "e", TN_TOKEN_NORMAL, 0);
    int32_t point = add(&v, MARK ".", TN_TOKEN_NORMAL, 0),
            han = add(&v, MARK "\xE4\xB8\xAD", TN_TOKEN_NORMAL, 0);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "unable", 0, un, able);
    EXPECT(tok, "UnUN", 0, un, bare);
    EXPECT(tok, " un\n.\xC3\x89", 0, un, point, e); /* E acute: accent off, lower case */
    EXPECT(tok,
           "un\xE4\xB8\xAD"
           "e",
           0, un, han, e);            /* a Chinese character is a word */
    EXPECT(tok, "unx un", 0, 0, un);  /* the whole word is unknown */
    EXPECT(tok, "u\x01n\xFF", 0, un); /* what is not to be seen goes */
    EXPECT(tok, "un", TN_TOKENIZE_BOS, cls, un, sep);
    size_t len;
    assert_memory_equal(tn_token_bytes(tok, un, false, &len), " un", 3);
    assert_int_equal(len, 3);
    tn_tokenizer_free(tok);

    v.source.lowercase = 0;
    tok = load(&v);
    EXPECT(tok, "un Un", 0, un, 0);
    tn_tokenizer_free(tok);
    v.source.lowercase = 1;
    v.source.strip_accents = 0;
    tok = load(&v);
    EXPECT(tok, "E \xC3\x89", 0, e, 0);
    tn_tokenizer_free(tok);
    v.source.unk = -1; /* found by its text */
    v.texts[0] = "[unk]";
    expect_error(&v, TN_ERR_FORMAT, "tokenizer.ggml.unknown_token_id");
}

/* ---- RWKV ---------------------------------------------------------------------------------------------- */

static void rwkv_takes_the_longest_token(void **state) {
    (void)state;
    static vocab v;
    start_with_unknown(&v, "rwkv");
    int32_t a = add(&v, "a", TN_TOKEN_NORMAL, 0), abc = add(&v, "abc", TN_TOKEN_NORMAL, 0);
    int32_t b = add(&v, "b", TN_TOKEN_NORMAL, 0), line = add(&v, "\\n\\t", TN_TOKEN_NORMAL, 0);
    int32_t half = add(&v, "\\xc3\\\\", TN_TOKEN_NORMAL, 0), quote = add(&v, "\\'", TN_TOKEN_NORMAL, 0);
    add(&v, "[PAD7]", TN_TOKEN_UNUSED, 0);
    tn_tokenizer *tok = load(&v);
    EXPECT(tok, "abcaba", 0, abc, a, b, a);
    EXPECT(tok, "\n\t'\xC3\\", 0, line, quote, half);
    EXPECT(tok, "a?a", 0, a, 0, a);
    EXPECT(tok, "[PAD7]", 0, 0, 0, 0, 0, 0, 0);
    size_t len;
    assert_memory_equal(tn_token_bytes(tok, half, false, &len), "\xC3\\", 2);
    assert_int_equal(len, 2);
    tn_tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unigram_takes_the_best_sum),
        cmocka_unit_test(unigram_takes_a_cut_character_as_bytes),
        cmocka_unit_test(unigram_scores_must_be_finite),
        cmocka_unit_test(odd_tokens_do_no_harm),
        cmocka_unit_test(charsmap_rules_apply),
        cmocka_unit_test(hostile_charsmaps_are_refused_or_do_not_apply),
        cmocka_unit_test(cyclic_charsmaps_end),
        cmocka_unit_test(random_charsmaps_stay_inside),
        cmocka_unit_test(wordpiece_spells_words_from_the_left),
        cmocka_unit_test(rwkv_takes_the_longest_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
