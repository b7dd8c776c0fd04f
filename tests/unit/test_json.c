/* JSON text: jansson's values, and never others where memory is out. */
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

/* Which jansson takes for the end of a number, and goes on behind it. */
static void a_nul_byte_is_an_error(void **state) {
    (void)state;
    json_error_t error;
    assert_null(tn_json_parse("[1]\0", 4, ALL, &error));
    assert_int_equal(error.column, 4);
    assert_null(tn_json_parse("[1\0]", 4, ALL, &error));
    assert_null(tn_json_parse("\0[1]", 4, ALL, &error));
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
        cmocka_unit_test(a_nul_byte_is_an_error),
        cmocka_unit_test(without_memory_no_text_is_bad_or_another),
        cmocka_unit_test(a_command_reads_no_text_with_a_nul_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
