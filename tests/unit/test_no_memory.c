/* What is made of texts, with each allocation in turn one that fails: the same as else, or the error of memory; never another result,
 * nor an error that blames the text, and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "failing_memory.h"
#include "src/text/grammar.h"
#include "src/text/schema.h"
#include "src/text/template.h"

typedef tn_status make(const char *text, char **result, tn_error *err);

/* How many allocations failed. */
static long spoil(make *maker, const char *text) {
    char *expected, *result = NULL;
    tn_error err = {0};
    if (maker(text, &expected, &err) != TN_OK) fail_msg("%s: %s", text, err.message);
    for (long at = 0;; at++) {
        const long live = n_live_allocations;
        n_allocations = 0;
        failing_allocation = at;
        const tn_status status = maker(text, &result, &err);
        failing_allocation = -1;
        if (status != TN_OK && (status != TN_ERR_MEMORY || err.code != status))
            fail_msg("allocation %ld of %s: %s", at, text, err.message);
        if (status == TN_OK && strcmp(result, expected) != 0)
            fail_msg("allocation %ld of %s: %s, expected %s", at, text, result, expected);
        if (status == TN_OK) free(result);
        if (n_live_allocations != live) fail_msg("allocation %ld of %s: something is left", at, text);
        if (n_allocations > at) continue;
        free(expected);
        return at;
    }
}

static long spoil_all(make *maker, const char *const *texts, size_t n) {
    long sum = 0;
    for (size_t i = 0; i < n; i++) sum += spoil(maker, texts[i]);
    print_message("%ld allocations failed\n", sum);
    return sum;
}

/* ---- Schemas ---- */

static tn_status make_schema(const char *text, char **result, tn_error *err) {
    return tn_schema_to_grammar(text, strlen(text), result, err);
}

static const char *const schemas[] = {
    "true",
    "{\"enum\": [\"a text of some length\", 1, 2.5, null, true, [1, {\"a\": \"b\"}]]}",
    "{\"const\": {\"key\": [1, 2, 3]}}",
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"minLength\": 1, "
    "\"maxLength\": 20}, "
    "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 150}, \"date\": {\"type\": \"string\", "
    "\"format\": "
    "\"date\"}, \"tags\": {\"type\": \"array\", \"items\": {\"pattern\": \"^[a-z]+(-[0-9]{2,3})?$\"}, "
    "\"maxItems\": 4}}, "
    "\"required\": [\"name\", \"other\"], \"additionalProperties\": {\"type\": \"number\", "
    "\"exclusiveMinimum\": -3}}",
    "{\"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {\"left\": {\"$ref\": \"#/$defs/tree\"}, "
    "\"value\": "
    "{\"type\": [\"integer\", \"null\"]}}}}, \"$ref\": \"#/$defs/tree\"}",
    /* a list of jansson's grows behind its eighth */
    "{\"allOf\": [{\"enum\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}, {\"enum\": [12, 11, 10, 9, 8, 7, 6, "
    "5, 4, 3, 0]}]}",
    "{\"allOf\": [{\"required\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\"]}, "
    "{\"required\": [\"k\"]}],"
    " \"type\": \"object\"}",
    "{\"allOf\": [{\"type\": [\"integer\", \"string\", \"null\"]}, {\"type\": [\"null\", \"number\"]}]}",
    "{\"allOf\": [{\"properties\": {\"a\": {\"minimum\": 1}, \"b\": {}}, \"required\": [\"a\"]}, "
    "{\"properties\": {\"a\": "
    "{\"maximum\": 9}, \"c\": {\"items\": {}}}, \"required\": [\"b\", \"a\"]}], \"type\": \"object\"}",
    "{\"anyOf\": [{\"type\": \"string\"}, {\"properties\": {\"x\": {\"const\": 1}}}], \"required\": [\"x\"], "
    "\"minLength\": "
    "2, \"maxLength\": 5}",
    "{\"oneOf\": [{\"properties\": {\"kind\": {\"const\": \"a\"}}, \"required\": [\"kind\"], \"type\": "
    "\"object\"}, "
    "{\"properties\": {\"kind\": {\"enum\": [\"b\", \"c\"]}}, \"required\": [\"kind\"], \"type\": "
    "\"object\"}]}",
    "{\"anyOf\": [{\"minimum\": 1}, {\"minimum\": 2}, {\"minimum\": 3}, {\"minimum\": 4}, {\"minimum\": 5}, "
    "{\"minimum\": 6}, "
    "{\"minimum\": 7}, {\"anyOf\": [{\"minimum\": 8}, {\"minimum\": 9}]}], \"type\": \"integer\"}",
    "{\"anyOf\": [{\"minimum\": 1}, {\"minimum\": 2}, {\"minimum\": 3}, {\"minimum\": 4}, {\"minimum\": 5}, "
    "{\"minimum\": 6}, "
    "{\"minimum\": 7}, {\"minimum\": 8}], \"type\": \"integer\"}",
    "{\"prefixItems\": [{\"type\": \"number\"}, {\"type\": \"boolean\"}], \"items\": {\"format\": \"uuid\"}, "
    "\"minItems\": 3}",
};

static void a_schema_is_its_grammar_or_an_error_of_memory(void **state) {
    (void)state;
    assert_true(spoil_all(make_schema, schemas, sizeof schemas / sizeof *schemas) > 500 || !memory_can_fail);
}

/* ---- Grammars ---- */

/* Which bytes may come first, and after each of them. */
static tn_status make_grammar(const char *text, char **result, tn_error *err) {
    tn_grammar *grammar;
    const tn_status status = tn_grammar_parse(text, strlen(text), "made", &grammar, err);
    if (status != TN_OK) return status;
    tn_grammar_free(grammar);
    *result = malloc(1);
    if (!*result) return tn_fail(err, TN_ERR_MEMORY, "test", NULL, "out of memory");
    **result = '\0';
    return TN_OK;
}

static const char *const grammars[] = {
    "root ::= \"a\"",
    "root ::= (item \",\" ws)* item\nitem ::= [a-z0-9_\\u00e9-\\u00ff]{2,5} | \"\\x41\\n\" | [^x\\]] | .\nws "
    "::= \" \"?\n",
    "root ::= a | b | c # a comment\na ::= b+ c{3}\nb ::= (\"x\" | \"y\" (\"z\" | root \"end\"))?\nc ::= "
    "\"\\U0001F600\" "
    "[\\t-\\r]*",
};

static void a_grammar_is_read_or_an_error_of_memory(void **state) {
    (void)state;
    assert_true(spoil_all(make_grammar, grammars, sizeof grammars / sizeof *grammars) > 20 ||
                !memory_can_fail);
}

/* Behind so many others that each state and each rule is the one for which there is no room. */
static void a_growing_grammar_is_read_or_an_error_of_memory(void **state) {
    (void)state;
    long sum = 0;
    for (int n = 0; n < 64; n++) {
        char text[4096],
            *at = text + sprintf(text, "root ::= %s\"%.*s\" (b+ c{2,3} (\"d\" | a0)? [^x-z\\n] .){2,}\n",
                                 n % 2 ? "\"\" " : "", n / 2, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        for (int i = 0; i < n; i++) at += sprintf(at, "a%d ::= a%d\n", i, i + 1);
        sprintf(at, "a%d ::= b | c{0,1} \"x\"*\nb ::= \"b\"\nc ::= (\"c\"){3}", n);
        sum += spoil(make_grammar, text);
    }
    print_message("%ld allocations failed\n", sum);
    assert_true(sum > 64 * 8 || !memory_can_fail);
}

/* ---- Templates ---- */

static json_t *variables;

static tn_status make_template(const char *text, char **result, tn_error *err) {
    tn_template *t;
    tn_rendered rendered;
    tn_status status = tn_template_parse(text, strlen(text), &t, err);
    if (status != TN_OK) return status;
    status = tn_template_render(t, variables, NULL, &rendered, err);
    tn_template_free(t);
    if (status != TN_OK) return status;
    *result = malloc(rendered.n + 1);
    if (*result) memcpy(*result, rendered.text, rendered.n + 1);
    tn_rendered_free(&rendered);
    return *result ? TN_OK : tn_fail(err, TN_ERR_MEMORY, "test", NULL, "out of memory");
}

static const char *const templates[] = {
    "plain",
    "{% for m in messages %}<{{ m.role|upper }}>{{ m.content|trim }}{{ loop.index0 }}{% if not loop.last "
    "%},{% endif %}"
    "{% endfor %}",
    "{% set ns = namespace(n=0, list=[]) %}{% for m in messages if m.role != 'system' %}{% set ns.n = ns.n + "
    "1 %}"
    "{% set ns.list = ns.list + [m['content'][1:3]] %}{% endfor %}{{ ns.n }}{{ ns.list|join('-') }}",
    "{% macro show(a, b='x') %}[{{ a }}/{{ b }}]{% endmacro %}{{ show('q') }}{{ show(messages|length, b=2.5) "
    "}}",
    "{{ messages|tojson(indent=2) }}{{ {'a': [1, none, true], 'b': 'c' ~ 1}|tojson }}",
    "{{ 'a,b,c'.split(',')|map('upper')|list }}{{ messages|selectattr('role', 'equalto', 'user')|list|length "
    "}}"
    "{{ ' x '.strip() }}{{ 'abc'.replace('b', 'long text to put in its place') }}{{ range(12)|list|sum }}",
    "{%- set text = 'the ' * 200 -%}{{ text|length }}{{ text.title()[:30] }}{{ messages[-1].content is "
    "defined }}",
};

static void a_template_is_rendered_or_an_error_of_memory(void **state) {
    (void)state;
    variables = json_pack("{s:[{s:s,s:s},{s:s,s:s},{s:s,s:s}]}", "messages", "role", "system", "content",
                          " be kind ", "role", "user", "content", "what is in the sea, and what is on it?",
                          "role", "assistant", "content", "ships \xc3\xa9\n");
    assert_non_null(variables);
    assert_true(spoil_all(make_template, templates, sizeof templates / sizeof *templates) > 20 ||
                !memory_can_fail);
    json_decref(variables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_is_its_grammar_or_an_error_of_memory),
        cmocka_unit_test(a_grammar_is_read_or_an_error_of_memory),
        cmocka_unit_test(a_growing_grammar_is_read_or_an_error_of_memory),
        cmocka_unit_test(a_template_is_rendered_or_an_error_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
