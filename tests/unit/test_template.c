/* Chat templates from inside: what a parse or a rendering leaves behind, and where the text came from. Comparisons with jinja2 are in
 * tests/test_template.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/text/template.h"
#include "vocab_fixture.h"

static tn_template *parse(const char *source) {
    tn_template *t;
    tn_error err = {0};
    if (tn_template_parse(source, strlen(source), &t, &err) != TN_OK) fail_msg("%s: %s", source, err.message);
    return t;
}

/* The text with "[" and "]" around what came from the variables. */
static char *render(const char *source, const char *variables, const char *trusted) {
    tn_template *t = parse(source);
    json_t *json = json_loads(variables, 0, NULL), *more = trusted ? json_loads(trusted, 0, NULL) : NULL;
    tn_rendered r;
    tn_error err = {0};
    assert_non_null(json);
    if (tn_template_render(t, json, more, &r, &err) != TN_OK) fail_msg("%s: %s", source, err.message);
    assert_int_equal(r.text[r.n], 0);
    char *marked = calloc(1, 3 * r.n + 3), *p = marked;
    size_t k = 0;
    for (size_t i = 0; i < r.n; i++) {
        if (k < r.n_data && r.data[k].begin == i) *p++ = '[';
        *p++ = r.text[i];
        if (k < r.n_data && r.data[k].end == i + 1) {
            *p++ = ']';
            k++;
        }
    }
    assert_int_equal(k, r.n_data);
    for (k = 1; k < r.n_data; k++) assert_true(r.data[k - 1].end < r.data[k].begin);
    tn_rendered_free(&r);
    tn_template_free(t);
    json_decref(json), json_decref(more);
    return marked;
}

static void expect(const char *expression, const char *want) {
    char source[300];
    snprintf(source, sizeof source, "%s", expression);
    char *got =
        render(source,
               "{\"x\": \"user\", \"y\": \" \\u00e4 <b>\\n\", \"n\": 5, \"d\": {\"key\": \"v\"}, \"l\": "
               "[\"p\", \"q\"],"
               " \"m\": [{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"a<b\", \"content\": \"\"}]}",
               "{\"bos_token\": \"<s>\", \"x2\": \"t\"}");
    assert_string_equal(got, want);
    free(got);
}

static void text_of_the_caller_is_known_byte_by_byte(void **state) {
    (void)state;
    expect("a{{ x }}b", "a[user]b");
    expect("{{ x }}{{ x }}{{ 'u' + x + 'v' }}{{ x ~ 1 ~ x }}", "[useruser]u[user]v[user]1[user]");
    expect("{{ x[1:3] }}{{ x[::-1] }}{{ ('a' + x)[0:2] }}{{ x[0] }}", "[seresu]a[uu]");
    expect("{{ y|trim }}|{{ y.strip() }}|{{ ('--' + x + '--').strip('-') }}",
           "[\xc3\xa4 <b>]|[\xc3\xa4 <b>]|[user]");
    expect("{{ x.split('s')|join('-') }}", "[u]-[er]");
    expect("{{ 'a,b'.split(',')|join(x) }}", "a[user]b");
    expect("{{ x.replace('s', '__') }}{{ 'abc'.replace('b', x) }}{{ 'abc'|replace('b', x) }}",
           "[u]__[er]a[user]ca[user]c");
    expect("{{ x|upper }}{{ ('a' ~ x)|title }}{{ y|lower }}", "[USER]A[user \xc3\xa4 <b>\n]");
    expect("{{ [x, 'a']|tojson }}{{ y|tojson(ensure_ascii=true) }}",
           "[\"[user]\", \"a\"]\"[ \\u00e4 <b>\\n]\"");
    expect("{{ [x, 'a'] }}{{ d }}", "['[user]', 'a']{'[key]': '[v]'}");
    expect("{{ '%s-%5s' % (x, 'a') }}{{ '{}{:>6}'.format(x, x) }}", "[user]-    a[user]  [user]");
    expect("{{ x|indent(2, true) }}{{ x|center(6) }}{{ x|truncate(3, true, '.', 0) }}",
           "  [user] [user] [us].");
    expect("{{ y|escape }}{{ y|striptags }}{{ 'a b'|urlencode }}{{ y|urlencode }}",
           "[ \xc3\xa4 &lt;b&gt;\n\xc3\xa4]a%20b[%20%C3%A4%20%3Cb%3E%0A]");
    expect("{% set s %}<{{ x }}>{% endset %}{{ s }}{% filter upper %}a{{ x }}{% endfilter %}",
           "<[user]>A[USER]");
    expect("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(x) }}{{ f('b') }}", "<[user]><b>");
    expect("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}{{ l|join(', ') }}", "[key]=[vp], [q]");
    expect(
        "{% set ns = namespace(s='') %}{% for i in l %}{% set ns.s = ns.s + i + ';' %}{% endfor %}{{ ns.s }}",
        "[p];[q];");
    expect("{{ n }}{{ n ~ 'a' }}{{ x|length }}", "55a4"); /* numbers hold no text */
}

static void trusted_text_and_roles_are_the_templates_own(void **state) {
    (void)state;
    expect("{{ bos_token }}{{ bos_token + x }}", "<s><s>[user]");
    expect("{{ '<|' + m[0].role + '|>' + m[0].content }}", "<|user|>[c]");
    expect("{{ m[1].role }}", "[a<b]"); /* more than a word */
    char *got = render("{{ x }}{{ y }}", "{\"x\": \"a\"}", "{\"x\": \"b\", \"y\": \"c\"}");
    assert_string_equal(got, "[a]c");
    free(got);
}

static void a_template_is_rendered_any_number_of_times(void **state) {
    (void)state;
    tn_template *t =
        parse("{% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}");
    for (int k = 0; k < 3; k++) {
        json_t *v = json_pack("{s:[i,i]}", "l", k, 1);
        tn_rendered r;
        char want[8];
        assert_int_equal(tn_template_render(t, v, NULL, &r, NULL), TN_OK);
        snprintf(want, sizeof want, "%d", k + 1);
        assert_string_equal(r.text, want);
        assert_int_equal(r.n_data, 0);
        tn_rendered_free(&r);
        json_decref(v);
    }
    tn_rendered r;
    tn_error err = {0};
    assert_int_equal(tn_template_render(t, NULL, NULL, &r, &err), TN_OK); /* what is undefined has no items */
    assert_string_equal(r.text, "0");
    tn_rendered_free(&r);
    tn_template_free(t);
}

/* Every prefix of a template with all of the syntax: parsed or refused, rendered or refused. */
static void every_prefix_of_a_template_is_parsed_or_refused(void **state) {
    (void)state;
    static const char source[] =
        "a\n{%- if x is defined and n in [1, 5] -%} b {% elif not (x ~ 'q')|upper == \"\\u00e4\" %}{{ "
        "d['key'].y[1:-1:2] }}{%+ else %}"
        "{# c #}{% raw %}{{ {% endraw %}{% endif %}{% for k, (v, w) in l if k recursive %}{{ loop.index }}{% "
        "continue %}{% else %}e{% endfor %}"
        "{% macro g(a, b={'x': 1.5e3}) %}{{ caller(a) }}{{ varargs }}{% endmacro %}{% call(q) g(1, b=2, *l, "
        "**d) %}{{ q }}{% endcall %}"
        "{% set ns = namespace(a=0x1F) %}{% set ns.a, z = 1, 2 %}{% set t | trim %} x {% endset %}{% filter "
        "upper %}a{% endfilter %}{% with a = 1 %}{{ a }}{% endwith %}"
        "{% block b %}{% generation %}g{% endgeneration %}{% endblock b %}{{ '%5.2f' % 1 if n > 2 else -n ** "
        "2 // 3 }}";
    json_t *v = json_loads("{\"x\": \"u\", \"n\": 5, \"d\": {\"key\": \"v\"}, \"l\": [1, 2]}", 0, NULL);
    for (size_t n = 0; n < sizeof source; n++) {
        char *copy = malloc(n + 1); /* so that a read behind its end is found */
        tn_template *t;
        tn_rendered r;
        tn_error err = {0};
        memcpy(copy, source, n);
        if (tn_template_parse(copy, n, &t, &err) == TN_OK) {
            free(copy);
            copy = NULL; /* the source is copied */
            if (tn_template_render(t, v, NULL, &r, &err) != TN_OK)
                assert_non_null(strstr(err.message, "chat template: line "));
            tn_rendered_free(&r);
        } else {
            assert_null(t);
            assert_non_null(strstr(err.message, "chat template: line "));
        }
        tn_template_free(t);
        free(copy);
    }
    json_decref(v);
}

static void refuse(const char *source, size_t n, const char *part) {
    tn_template *t;
    tn_rendered r = {0};
    tn_error err = {0};
    tn_status status = tn_template_parse(source, n, &t, &err);
    if (status == TN_OK) status = tn_template_render(t, NULL, NULL, &r, &err);
    assert_int_not_equal(status, TN_OK);
    assert_null(r.text);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
    tn_template_free(t);
}

static void what_is_deep_or_endless_is_refused(void **state) {
    (void)state;
    enum { N = 100000 };
    static const struct {
        const char *open, *part;
    } deep[] = {
        {"{% if 1 %}", "nested"}, {"{% for x in y %}", "nested"}, {"{{ (", "nested"}, {"{{ -", "nested"}};
    char *source = malloc(N * 20);
    for (size_t k = 0; k < sizeof deep / sizeof *deep; k++) {
        size_t n = strlen(deep[k].open);
        for (size_t i = 0; i < N; i++) memcpy(source + i * n, deep[k].open, n);
        refuse(source, N * n, deep[k].part);
    }
    memcpy(source, "{{ ", 3);
    for (const char *open = "([{-"; *open; open++) {
        memset(source + 3, *open, N);
        refuse(source, N, "nested");
    }
    free(source);
    static const char *const endless[] = {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                                          "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"};
    for (size_t k = 0; k < 2; k++) refuse(endless[k], strlen(endless[k]), "nested too deeply");
}

static void control_tokens_are_made_of_the_templates_text_alone(void **state) {
    (void)state;
    vocab *v = malloc(sizeof *v);
    start(v, "rwkv", NULL);
    add(v, "?", TN_TOKEN_NORMAL, 0);
    for (const char *text = "a\0b\0c\0d\0e\0"; *text; text += 2) add(v, text, TN_TOKEN_NORMAL, 0);
    int32_t control = add(v, "abc", TN_TOKEN_CONTROL, 0), user = add(v, "de", TN_TOKEN_USER_DEFINED, 0),
            shorter = add(v, "ab", TN_TOKEN_CONTROL, 0);
    tn_tokenizer *tok = load(v);
    const struct {
        tn_range_pair plain[2];
        size_t n_plain, n_ids;
        int32_t ids[12];
    } cases[] = {
        {{{0, 0}}, 0, 3, {control, user, control}},    /* abc de abc */
        {{{0, 3}}, 1, 5, {1, 2, 3, user, control}},    /* the first is text */
        {{{2, 3}}, 1, 4, {shorter, 3, user, control}}, /* a shorter one ends before the range */
        {{{1, 2}}, 1, 5, {1, 2, 3, user, control}},    /* no byte of it may be plain */
        {{{2, 6}}, 1, 6, {shorter, 3, user, 1, 2, 3}}, /* a range over several; user-defined tokens stay */
        {{{0, 1}, {7, 8}}, 2, 6, {1, 2, 3, user, shorter, 3}}, /* two ranges */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t *ids;
        size_t n;
        assert_int_equal(tn_tokenize_marked(tok, "abcdeabc", 8, cases[i].plain, cases[i].n_plain,
                                            TN_TOKENIZE_SPECIAL, &ids, &n, NULL),
                         TN_OK);
        assert_int_equal(n, cases[i].n_ids);
        assert_memory_equal(ids, cases[i].ids, n * sizeof *ids);
        free(ids);
    }
    tn_tokenizer_free(tok);
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_the_caller_is_known_byte_by_byte),
        cmocka_unit_test(trusted_text_and_roles_are_the_templates_own),
        cmocka_unit_test(a_template_is_rendered_any_number_of_times),
        cmocka_unit_test(every_prefix_of_a_template_is_parsed_or_refused),
        cmocka_unit_test(what_is_deep_or_endless_is_refused),
        cmocka_unit_test(control_tokens_are_made_of_the_templates_text_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
