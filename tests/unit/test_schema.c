/* Schemas made at random of what schemas are made of: each becomes a grammar that can be read, or one error that names a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/text/grammar.h"
#include "src/text/schema.h"

static uint64_t random_state = 5;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static const char *const scalars[] = {
    "true",  "false",         "null",        "0",           "1",         "3",          "-7",       "2.5",
    "1e300", "\"string\"",    "\"integer\"", "\"object\"",  "\"array\"", "\"number\"", "\"date\"", "\"^a+$\"",
    "\"#\"", "\"#/$defs/a\"", "\"(\"",       "\"\\u00e9\"", "[]",        "{}"};
static const char *const keywords[] = {"type",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "items",
                                       "prefixItems",
                                       "minItems",
                                       "maxItems",
                                       "enum",
                                       "const",
                                       "anyOf",
                                       "oneOf",
                                       "allOf",
                                       "$ref",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "title",
                                       "$defs",
                                       "not",
                                       "a"};

/* A value that fits the keyword, most of the time. */
static char *put_value(char *at, const char *keyword, int depth);

static char *put_schema(char *at, int depth) {
    const uint32_t n = depth > 0 ? random_below(4) : 0;
    bool used[26] = {false};
    at += sprintf(at, "{");
    for (uint32_t i = 0, done = 0; i < n; i++) {
        const uint32_t k = random_below(26);
        if (used[k]) continue;
        used[k] = true;
        at += sprintf(at, "%s\"%s\":", done++ ? "," : "", keywords[k]);
        at = put_value(at, keywords[k], depth - 1);
    }
    return at + sprintf(at, "}");
}

static char *put_value(char *at, const char *keyword, int depth) {
    const bool odd = random_below(12) == 0;
    if (odd) return at + sprintf(at, "%s", scalars[random_below(22)]);
    if (!strcmp(keyword, "properties") || !strcmp(keyword, "$defs")) {
        at += sprintf(at, "{\"a\":");
        at = put_schema(at, depth);
        at += sprintf(at, ",\"b\":");
        at = put_schema(at, depth);
        return at + sprintf(at, "}");
    }
    if (strstr(keyword, "Of") || !strcmp(keyword, "prefixItems")) {
        at += sprintf(at, "[");
        at = put_schema(at, depth);
        at += sprintf(at, ",");
        at = put_schema(at, depth);
        return at + sprintf(at, "]");
    }
    if (!strcmp(keyword, "items") || !strcmp(keyword, "additionalProperties") || !strcmp(keyword, "not"))
        return put_schema(at, depth);
    if (!strcmp(keyword, "required")) return at + sprintf(at, "[\"a\"]");
    if (!strcmp(keyword, "enum")) return at + sprintf(at, "[1,\"a\",null]");
    if (!strcmp(keyword, "type")) return at + sprintf(at, "%s", scalars[9 + random_below(5)]);
    if (!strcmp(keyword, "$ref")) return at + sprintf(at, "%s", scalars[16 + random_below(2)]);
    if (!strcmp(keyword, "pattern") || !strcmp(keyword, "format"))
        return at + sprintf(at, "%s", scalars[14 + random_below(2)]);
    return at + sprintf(at, "%s", scalars[3 + random_below(5)]);
}

static void random_schemas_become_grammars_or_errors(void **state) {
    (void)state;
    int n_good = 0, n_bad = 0;
    for (int round = 0; round < 6000; round++) {
        static char text[200000];
        const char *end = put_schema(text, 1 + round % 5);
        char *grammar_text;
        tn_grammar *grammar;
        tn_error err = {0};
        if (tn_schema_to_grammar(text, (size_t)(end - text), &grammar_text, &err) != TN_OK) {
            assert_null(grammar_text);
            if (!strstr(err.message, "bad JSON schema: ")) fail_msg("%s", err.message);
            n_bad++;
            continue;
        }
        if (tn_grammar_parse(grammar_text, strlen(grammar_text), "made", &grammar, &err) != TN_OK) {
            if (!strstr(err.message, "left-recursive"))
                fail_msg("%s for\n%s\n%s", err.message, text, grammar_text);
            n_bad++;
        } else {
            n_good++;
            tn_grammar_free(grammar);
        }
        free(grammar_text);
    }
    assert_true(n_good > 1500 && n_bad > 500);
}

static void random_bytes_in_schemas_do_no_harm(void **state) {
    (void)state;
    for (int round = 0; round < 4000; round++) {
        static char text[200000];
        char *grammar_text;
        char *end = put_schema(text, 3);
        const uint32_t n = (uint32_t)(end - text);
        for (int i = 0; i < 2; i++) text[random_below(n)] = (char)random_below(256);
        if (tn_schema_to_grammar(text, n, &grammar_text, NULL) == TN_OK) free(grammar_text);
    }
}

/* Patterns of the characters that mean something in them. */
static void random_patterns_do_no_harm(void **state) {
    (void)state;
    static const char *const pieces[] = {
        "a", "b", "[",     "]",     "(",     ")", "|",   "*",    "+",        "?",    "{2}", "{1,3}", "^",
        "$", ".", "\\\\d", "\\\\W", "\\\\s", "-", "(?:", "\\\\", "\xC3\xA9", "\\\"", ",",   "}"};
    int n_good = 0;
    for (int round = 0; round < 20000; round++) {
        char text[400], *grammar_text, *at = text + sprintf(text, "{\"pattern\":\"");
        const uint32_t n = random_below(9);
        for (uint32_t i = 0; i < n; i++) at += sprintf(at, "%s", pieces[random_below(25)]);
        at += sprintf(at, "\"}");
        tn_grammar *grammar;
        tn_error err = {0};
        if (tn_schema_to_grammar(text, (size_t)(at - text), &grammar_text, &err) != TN_OK) continue;
        if (tn_grammar_parse(grammar_text, strlen(grammar_text), "made", &grammar, &err) != TN_OK)
            fail_msg("%s for %s", err.message, text);
        tn_grammar_free(grammar);
        free(grammar_text);
        n_good++;
    }
    assert_true(n_good > 2000);
}

/* A text, and many of them: each fits by itself, the grammar not. */
static void a_grammar_that_is_too_large_is_an_error(void **state) {
    (void)state;
    enum { LENGTH = 100000 };
    static char text[120 * LENGTH];
    static const int counts[] = {1, 80, 110};
    for (int i = 0; i < 3; i++) {
        char *at = text + sprintf(text, "{\"enum\":[0"), *grammar_text;
        for (int k = 0; k < counts[i]; k++) at += sprintf(at, ",\"%0*d\"", LENGTH, k);
        at += sprintf(at, "]}");
        tn_error err = {0};
        const tn_status status = tn_schema_to_grammar(text, (size_t)(at - text), &grammar_text, &err);
        assert_int_equal(status, counts[i] < 110 ? TN_OK : TN_ERR_UNSUPPORTED);
        if (status != TN_OK)
            assert_non_null(strstr(err.message, "too large: the grammar would have more than 8 MiB"));
        free(grammar_text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schemas_become_grammars_or_errors),
        cmocka_unit_test(random_bytes_in_schemas_do_no_harm),
        cmocka_unit_test(random_patterns_do_no_harm),
        cmocka_unit_test(a_grammar_that_is_too_large_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
