/* JSON text: what is good and what comes of it, as jansson's own parser has it; and never anything else where memory is out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_memory.h"
#include "src/base/json.h"
#include "tools/json_read.h"

enum { ALL = JSON_DECODE_ANY | JSON_ALLOW_NUL };

/* ---- Comparison ---- */

/* Both parsers' answers are the same, to the order of keys; what it is. */
static bool agree(const char *text, size_t n, size_t flags) {
    json_error_t error, theirs;
    json_t *found = tn_json_parse(text, n, flags, &error), *expected = json_loadb(text, n, flags, &theirs);
    if (!found != !expected)
        fail_msg("%.*s: found '%s', expected '%s'", (int)n, text, error.text, theirs.text);
    assert_int_equal(tn_json_no_memory(&error), false);
    if (found) {
        char *a = json_dumps(found, JSON_ENCODE_ANY), *b = json_dumps(expected, JSON_ENCODE_ANY);
        assert_true(json_equal(found, expected));
        assert_string_equal(a, b);
        free(a);
        free(b);
    } else {
        assert_true(error.line > 0 && error.column > 0 && error.text[0]);
    }
    const bool good = found;
    json_decref(found);
    json_decref(expected);
    return good;
}

static const char *const good[] = {
    "null",
    "true",
    " false ",
    "[]",
    "{}",
    "\t[ ]\r\n",
    "0",
    "-0",
    "-0.0",
    "12",
    "9223372036854775807",
    "-9223372036854775808",
    "1e5",
    "1E+5",
    "1.25e-3",
    "0.1",
    "123456789.0123456789012345678901234567890",
    "1e-400",
    "5e-324",
    "1.7976931348623157e308",
    "\"\"",
    "\"plain h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x7f\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0041\\u00e9\\u20AC\\uffff\"",
    "\"a\\ud83d\\ude00b\\uDBFF\\uDFFF\"",
    "\"a\\u0000b\"",
    "[1,[2,[3,{\"a\":[]}]],{}]",
    "{\"a\":1,\"b\":{\"c\":[true,null]},\"\":\"\"}",
    "{\"b\":1,\"a\":2,\"b\":3}",
    "{\"k\\u00e9\\n\":\"v\\t\",\"x\":\"\\\\\"}",
};

static const char *const wrong[] = {
    "",
    " ",
    "nul",
    "nulll",
    "True",
    "truefalse",
    "[",
    "]",
    "{",
    "}",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "[}",
    "{]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{\"a\" 1}",
    "{a:1}",
    "{1:1}",
    "{\"a\":1 \"b\":2}",
    "1 2",
    "[] []",
    "[]x",
    "01",
    "-",
    "-a",
    "--1",
    "+1",
    ".5",
    "1.",
    "1.e5",
    "1e",
    "1e+",
    "1e5.5",
    "0x10",
    "00",
    "-01",
    "9223372036854775808",
    "-9223372036854775809",
    "1e309",
    "-1e999999999999999999999",
    "NaN",
    "Infinity",
    "\"",
    "\"a",
    "\"a\\",
    "\"a\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u123",
    "\"\\ud800\"",
    "\"\\ud800x\"",
    "\"\\ud800\\n\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\"",
    "\"\\ud800\\ud800\"",
    "\"a\nb\"",
    "\"a\tb\"",
    "\"\x1f\"",
    "\"\x80\"",
    "\"\xc0\x80\"",
    "\"\xe2\x82\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\xef\xbb\xbf[]",
    "[1]\xff",
    "/**/[]",
    "'a'",
    "{\"a\\u0000b\":1}",
};

static void good_and_bad_texts_are_those_of_jansson(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!agree(good[i], strlen(good[i]), ALL)) fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (agree(wrong[i], strlen(wrong[i]), ALL)) fail_msg("%s", wrong[i]);
    assert_false(agree("\"\0\"", 3, ALL));
    assert_false(agree("\"a\\u0000b\"", 10, JSON_DECODE_ANY));
    assert_false(agree("1", 1, JSON_ALLOW_NUL));
    assert_true(agree("[1]", 3, 0));
    assert_false(agree("{\"b\":1,\"a\":2,\"b\":3}", 19, JSON_REJECT_DUPLICATES));
    assert_false(agree("{\"b\":1,\"\\u0062\":3}", 18, JSON_REJECT_DUPLICATES));
    assert_true(agree("{\"b\":{\"b\":1},\"a\":2}", 19, JSON_REJECT_DUPLICATES));
}

/* jansson takes one for the end of the text, whatever is behind it. */
static void a_nul_byte_outside_of_strings_is_an_error(void **state) {
    (void)state;
    json_error_t error;
    assert_null(tn_json_parse("[1]\0", 4, ALL, &error));
    assert_int_equal(error.column, 4);
    assert_null(tn_json_parse("[1\0]", 4, ALL, &error));
    assert_null(tn_json_parse("\0[1]", 4, ALL, &error));
}

static void lists_are_as_deep_as_jansson_lets_them_be(void **state) {
    (void)state;
    static char text[2 * TN_JSON_DEPTH + 8];
    for (size_t depth = TN_JSON_DEPTH - 1; depth < TN_JSON_DEPTH + 2; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(agree(text, 2 * depth, 0), depth <= TN_JSON_DEPTH);
        text[depth] = '1';
        memset(text + depth + 1, ']', depth);
        assert_int_equal(agree(text, 2 * depth + 1, 0), depth < TN_JSON_DEPTH);
    }
}

/* Every text cut, with each byte in turn another, and with two texts' halves together. */
static void texts_nearly_good_are_those_of_jansson(void **state) {
    (void)state;
    static const char signs[] = "\"\\u0d8cA{}[]:,.-+eE1tn \x01\x80\xed\xa0";
    const size_t n_good = sizeof good / sizeof *good;
    size_t n_taken = 0, n_refused = 0;
    char text[256];
    for (size_t i = 0; i < n_good; i++) {
        const size_t n = strlen(good[i]);
        for (size_t at = 0; at < n; at++) {
            for (size_t j = 0; j < sizeof signs - 1; j++) {
                memcpy(text, good[i], n);
                text[at] = signs[j];
                const bool taken = agree(text, n, ALL);
                n_taken += taken, n_refused += !taken;
            }
            agree(good[i], at, ALL);
            for (size_t j = 0; j < n_good; j++) {
                const size_t more = strlen(good[j]) / 2;
                memcpy(text, good[i], at);
                memcpy(text + at, good[j] + more, strlen(good[j]) - more);
                agree(text, at + strlen(good[j]) - more, ALL | JSON_REJECT_DUPLICATES);
            }
        }
    }
    assert_true(n_taken > 1000 && n_refused > 1000);
}

static void an_error_says_where(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int line, column;
    } cases[] = {{"[1,\n  x]", 2, 3},    {"[\"h\xc3\xa9\", y]", 1, 8}, {"{\"a\": 1,\n\"a\": 2}", 2, 1},
                 {"[1\n,2\n,03]", 3, 3}, {"[\"ab\\q\"]", 1, 6},        {"[1", 1, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_error_t error;
        assert_null(tn_json_parse(cases[i].text, strlen(cases[i].text), JSON_REJECT_DUPLICATES, &error));
        assert_int_equal(error.line, cases[i].line);
        assert_int_equal(error.column, cases[i].column);
    }
}

/* ---- Without memory ---- */

typedef json_t *parse(const char *text, size_t n, size_t flags, json_error_t *error);

static bool says_so(const json_error_t *error) {
    return strcmp(error->text, "out of memory") == 0;
}

/* Once for each allocation, which fails; how many. */
static long spoil(parse *parser, const char *text) {
    json_error_t error;
    const size_t n = strlen(text);
    json_t *expected = json_loadb(text, n, ALL, &error);
    assert_non_null(expected);
    for (long at = 0;; at++) {
        n_allocations = 0;
        failing_allocation = at;
        json_t *found = parser(text, n, ALL, &error);
        failing_allocation = -1;
        if (!(found ? json_equal(found, expected) : says_so(&error)))
            fail_msg("allocation %ld of %s: %s", at, text, found ? "another value" : error.text);
        json_decref(found);
        if (n_allocations > at) continue;
        json_decref(expected);
        return at;
    }
}

/* jansson's own takes the second for a bad text, and drops characters of the others. */
static void without_memory_no_text_is_bad_or_another(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"the key\": \"a text that is longer than sixteen bytes\"}",
        "[true, false, null]",
        "[1.00000000000000000001e-5, 123456789012345678, -0.12345678901234567890123]",
        "{\"with escapes \\n\\n\\n\\n\\n\\n\\n\\n\": "
        "\"\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\"}",
        "[{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":[]},1,2,3,4,5,6,7,8,"
        "9]",
    };
    long n_failed = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        n_failed += spoil(tn_json_parse, texts[i]) + spoil(tn_json_read, texts[i]);
    assert_true(n_failed > 100 || !memory_can_fail);
    print_message("%ld allocations failed\n", n_failed);
}

static void a_command_reads_no_text_with_a_nul_byte(void **state) {
    (void)state;
    json_error_t error;
    assert_null(tn_json_read("[1]\0x", 5, ALL, &error));
    assert_string_equal(error.text, "expected JSON, found a zero byte");
    json_t *read = tn_json_read("[1]", 3, ALL, &error);
    assert_non_null(read);
    json_decref(read);
    assert_null(tn_json_read("[1", 2, ALL, &error));
    assert_true(error.line == 1 && !says_so(&error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_and_bad_texts_are_those_of_jansson),
        cmocka_unit_test(a_nul_byte_outside_of_strings_is_an_error),
        cmocka_unit_test(lists_are_as_deep_as_jansson_lets_them_be),
        cmocka_unit_test(texts_nearly_good_are_those_of_jansson),
        cmocka_unit_test(an_error_says_where),
        cmocka_unit_test(without_memory_no_text_is_bad_or_another),
        cmocka_unit_test(a_command_reads_no_text_with_a_nul_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
