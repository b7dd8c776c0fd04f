/* Streams against a decoder that works another way: whatever the cuts between tokens, the pieces are whole
 * characters and their sum is the text with U+FFFD for each maximal ill-formed part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/text/tokenizer.h"

enum { N_BYTES = 256, MAX_TEXT = 4096 };

/* Every byte as a byte token (ids 0-255), then some longer tokens. */
static const char *const longer[] = {"ab",           "\xE2\x82\xAC", "\xE2\x82",        "\xAC",
                                     "\xF0\x9F\x98", "\x80\x41",     "\xFF\xC3",        "\xE2\x96\x81x",
                                     "\xE2\x96\x81", "\xED\xA0",     "\xE2\x82\xAC\xC3"};
enum { N_LONGER = sizeof longer / sizeof *longer, CONTROL_ID = N_BYTES + N_LONGER, N_TOKENS };

static tn_tokenizer *make(bool space_prefix) {
    static char byte_text[N_BYTES][8];
    static const char *texts[N_TOKENS];
    static uint32_t lens[N_TOKENS];
    static int32_t types[N_TOKENS];
    static float scores[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) {
        if (i < N_BYTES) snprintf(byte_text[i], sizeof byte_text[i], "<0x%02X>", (unsigned)i);
        texts[i] = i < N_BYTES ? byte_text[i] : i < CONTROL_ID ? longer[i - N_BYTES] : "<|c|>";
        types[i] = i < N_BYTES ? TN_TOKEN_BYTE : i < CONTROL_ID ? TN_TOKEN_NORMAL : TN_TOKEN_CONTROL;
        lens[i] = (uint32_t)strlen(texts[i]);
    }
    tn_vocab_source source = {.model = "llama",
                              .n_tokens = N_TOKENS,
                              .token_text = texts,
                              .token_len = lens,
                              .scores = scores,
                              .types = types,
                              .bos = -1,
                              .eos = -1,
                              .eot = -1,
                              .unk = -1,
                              .add_bos = -1,
                              .add_eos = -1,
                              .add_space_prefix = space_prefix};
    tn_tokenizer *tok;
    assert_int_equal(tn_tokenizer_new(&source, NULL, &tok, NULL), TN_OK);
    return tok;
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* Decodes by arithmetic on the value rather than by byte ranges: a sequence is good when its lead and length
 * agree and the value needs that length, is no surrogate and is at most U+10FFFF. A beginning is good when
 * some continuation is. */
static bool has_completion(const uint8_t *p, size_t n, size_t want) {
    uint32_t low = want == 2 ? p[0] & 0x1Fu : want == 3 ? p[0] & 0x0Fu : p[0] & 0x07u, high;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) return false;
        low = low << 6 | (p[i] & 0x3F);
    }
    high = low;
    for (size_t i = n; i < want; i++) {
        low <<= 6;
        high = high << 6 | 0x3F;
    }
    uint32_t least = want == 2 ? 0x80 : want == 3 ? 0x800 : 0x10000;
    return high >= least && low <= 0x10FFFF && !(low >= 0xD800 && high <= 0xDFFF);
}

static size_t reference_decode(const uint8_t *p, size_t n, char *dst) {
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        size_t want = p[i] < 0x80             ? 1
                      : (p[i] & 0xE0) == 0xC0 ? 2
                      : (p[i] & 0xF0) == 0xE0 ? 3
                      : (p[i] & 0xF8) == 0xF0 ? 4
                                              : 0;
        size_t good = want == 1 ? 1 : 0;
        while (want > 1 && good < want && i + good < n && has_completion(p + i, good + 1, want)) good++;
        if (want && good == want) {
            memcpy(dst + len, p + i, want);
            len += want;
            i += want;
        } else {
            memcpy(dst + len, "\xEF\xBF\xBD", 3);
            len += 3;
            i += good ? good : 1;
        }
    }
    return len;
}

static bool is_whole(const char *text, size_t n) {
    char out[3 * MAX_TEXT];
    size_t len = reference_decode((const uint8_t *)text, n, out);
    return len == n && memcmp(out, text, n) == 0;
}

static void any_cut_gives_whole_characters_and_the_same_text(void **state) {
    (void)state;
    tn_tokenizer *tok = make(false);
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[MAX_TEXT];
        char text[3 * MAX_TEXT], want[3 * MAX_TEXT];
        size_t n_bytes = 0, n_text = 0;
        tn_text_stream stream = {0};
        for (uint64_t i = next(&random) % 12; i > 0; i--) {
            /* Half longer tokens, half single bytes, mostly those with which characters begin and go on. */
            uint64_t r = next(&random) % 8, pick = next(&random);
            int32_t id = (int32_t)(r < 4   ? N_BYTES + pick % (N_LONGER + 1)
                                   : r < 7 ? 0x80 + pick % 0x80
                                           : pick % 0x80);
            bool special = next(&random) % 2;
            size_t len, bound = tn_stream_bound(tok, id);
            const char *token = tn_token_bytes(tok, id, special, &len);
            memcpy(bytes + n_bytes, token, len);
            n_bytes += len;
            size_t n = tn_stream_push(tok, &stream, id, special, text + n_text);
            assert_true(n <= bound);
            assert_true(is_whole(text + n_text, n));
            n_text += n;
        }
        size_t n = tn_stream_flush(&stream, text + n_text);
        assert_true(n <= 12 && is_whole(text + n_text, n));
        n_text += n;
        assert_int_equal(tn_stream_flush(&stream, text + n_text), 0);
        assert_int_equal(n_text, reference_decode(bytes, n_bytes, want));
        assert_memory_equal(text, want, n_text);
    }
    tn_tokenizer_free(tok);
}

static void expect_text(const tn_tokenizer *tok, const int32_t *ids, size_t n_ids, bool special,
                        const char *want) {
    char text[256];
    size_t n = 0;
    tn_text_stream stream = {0};
    for (size_t i = 0; i < n_ids; i++) n += tn_stream_push(tok, &stream, ids[i], special, text + n);
    n += tn_stream_flush(&stream, text + n);
    text[n] = '\0';
    assert_string_equal(text, want);
}

static void only_the_very_first_space_of_a_prefixed_text_is_dropped(void **state) {
    (void)state;
    const int32_t x = N_BYTES + 7, space = N_BYTES + 8;
    tn_tokenizer *prefixed = make(true), *plain = make(false);
    expect_text(prefixed, (int32_t[]){x, x}, 2, false, "x x");
    expect_text(plain, (int32_t[]){x, x}, 2, false, " x x");
    expect_text(prefixed, (int32_t[]){CONTROL_ID, x, x}, 3, false, "x x"); /* a silent token begins no text */
    expect_text(prefixed, (int32_t[]){CONTROL_ID, x}, 2, true, "<|c|> x");
    expect_text(prefixed, (int32_t[]){space, x}, 2, false, " x");
    expect_text(prefixed, (int32_t[]){'a', x}, 2, false, "a x");
    expect_text(prefixed, (int32_t[]){-1, 1 << 30, x}, 3, true, "x");
    tn_tokenizer_free(prefixed);
    tn_tokenizer_free(plain);
}

static void ill_formed_bytes_follow_unicode_practice(void **state) {
    (void)state;
    /* The Unicode Standard, table 3-8: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64. */
    tn_tokenizer *tok = make(false);
    const int32_t ids[] = {0x61, 0xF1, 0x80, 0x80, 0xE1, 0x80, 0xC2, 0x62, 0x80, 0x63, 0x80, 0xBF, 0x64};
    expect_text(tok, ids, 13, false,
                "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                "b\xEF\xBF\xBD"
                "c\xEF\xBF\xBD\xEF\xBF\xBD"
                "d");
    tn_tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_gives_whole_characters_and_the_same_text),
        cmocka_unit_test(only_the_very_first_space_of_a_prefixed_text_is_dropped),
        cmocka_unit_test(ill_formed_bytes_follow_unicode_practice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
