/* What is made of texts and files, with each allocation in turn one that fails: the same as else, or the error of memory; never another
 * result, nor an error that blames the text, and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "failing_memory.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors.h"
#include "gguf_expect.h"
#include "src/quantize/imatrix.h"
#include "src/quantize/recipe.h"
#include "src/text/grammar.h"
#include "src/text/schema.h"
#include "src/text/template.h"

typedef tn_status make(const char *text, char **result, tn_error *err);

/* How many allocations failed. libyaml 0.2.5 itself loses a node when memory runs out while it reads a document. */
static long spoil(make *maker, const char *text) {
    char *expected, *result = NULL;
    tn_error err = {0};
    if (maker(text, &expected, &err) != TN_OK) fail_msg("%s: %s", text, err.message);
    for (long at = 0;; at++) {
        const long live = n_live_allocations;
        n_allocations = 0;
        err = (tn_error){0};
        failing_allocation = at;
        const tn_status status = maker(text, &result, &err);
        failing_allocation = -1;
        if (status != TN_OK && (status != TN_ERR_MEMORY || err.code != status))
            fail_msg("allocation %ld of %s: %s", at, text, err.message);
        if (status == TN_OK && strcmp(result, expected) != 0)
            fail_msg("allocation %ld of %s: %s, expected %s", at, text, result, expected);
        if (status == TN_OK) free(result);
        if (n_live_allocations != live && !strstr(err.message, "cannot read recipe"))
            fail_msg("allocation %ld of %s: %ld are left: %s", at, text, n_live_allocations - live,
                     err.message);
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

/* ---- Files ---- */

static tn_status result_of(char **result, tn_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static tn_status result_of(char **result, tn_error *err, const char *format, ...) {
    enum { MOST = 8192 };
    *result = malloc(MOST);
    if (!*result) return tn_fail(err, TN_ERR_MEMORY, "test", NULL, "out of memory");
    va_list args;
    va_start(args, format);
    vsnprintf(*result, MOST, format, args);
    va_end(args);
    return TN_OK;
}

/* With calls of the system alone. */
static void put_file(const char *path, const void *bytes, size_t n) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
}

static int count_files(void) {
    DIR *d = opendir(dir);
    int n = 0;
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static tn_file *model; /* that is read from */

static tn_status fill_model(tn_gguf_writer *w, bool split, tn_error *err) {
    static const tn_str texts[] = {{"one", 3}, {"", 0}, {"three", 5}};
    static const float zeros[512];
    static const uint64_t dims[] = {256, 2}, narrow[] = {40, 2};
    enum { N_KEYS = 70, N_TENSORS = 70 }; /* the lists grow behind the 64th */
    tn_gguf_set_u32(w, "number", 1);
    if (model) tn_gguf_set_all(w, model);
    tn_gguf_set_text(w, "general.architecture", "none", 4);
    tn_gguf_set_u32(w, "none.attention.head_count", 8);
    tn_gguf_set_u32(w, "none.attention.head_count_kv", 2);
    tn_gguf_set_texts(w, "texts", texts, 3);
    tn_gguf_set_array(w, "numbers", TN_META_F32, zeros, 3);
    for (int i = 0; i < N_KEYS + N_TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof name, i < N_KEYS ? "key%d" : "blk.%d.x.weight", i < N_KEYS ? i : i - N_KEYS);
        if (i < N_KEYS)
            tn_gguf_set_u32(w, name, 7);
        else
            tn_gguf_add_tensor(w, name, TN_DTYPE_F32, 2, i % 2 ? dims : narrow);
    }
    if (split) tn_gguf_split_by_bytes(w, 50000);
    tn_status status = tn_gguf_begin(w, model, err);
    for (int i = 0; i < N_TENSORS && status == TN_OK; i++)
        status = tn_gguf_write(w, zeros, i % 2 ? sizeof zeros : 320, err);
    return status;
}

/* Writes it and reads it. */
static tn_status make_model(const char *text, char **result, tn_error *err) {
    const bool split = strcmp(text, "split") == 0;
    tn_gguf_writer *w = tn_gguf_writer_new(in_dir("made.gguf"));
    if (!w) return tn_fail(err, TN_ERR_MEMORY, "test", NULL, "out of memory");
    tn_status status = fill_model(w, split, err);
    if (status == TN_OK)
        status = tn_gguf_commit(w, err);
    else
        tn_gguf_abort(w);
    if (status != TN_OK) return status;
    tn_file *file;
    status = tn_file_open(in_dir(split ? "made-00001-of-00002.gguf" : "made.gguf"), &file, err);
    if (status == TN_OK) {
        status =
            result_of(result, err, "%llu %llu %llu", (unsigned long long)tn_file_n_meta(file),
                      (unsigned long long)tn_file_n_tensors(file), (unsigned long long)tn_file_bytes(file));
        tn_file_close(file);
    }
    return status;
}

static const char *const models[] = {"one", "split"};

static void a_model_is_written_and_read_or_an_error_of_memory(void **state) {
    (void)state;
    const long n = spoil_all(make_model, models, sizeof models / sizeof *models);
    assert_true(n > 20 || !memory_can_fail);
    model = expect_path_loads(in_dir("made.gguf"));
    spoil_all(make_model, models + 1, 1);
    assert_int_equal(count_files(), 3); /* nothing of those that failed */
}

static tn_status make_plan(const char *text, char **result, tn_error *err) {
    tn_arena arena = {0};
    tn_recipe recipe;
    tn_plan_item *items;
    put_file(in_dir("recipe.yaml"), text, strlen(text));
    tn_status status = tn_recipe_load(in_dir("recipe.yaml"), &arena, &recipe, err);
    if (status == TN_OK)
        status = tn_plan_types(model, &(tn_plan_request){.recipe = &recipe}, &arena, &items, err);
    if (status == TN_OK) {
        char *printed = tn_recipe_text(&recipe);
        status = printed ? result_of(result, err, "%s: %d", printed, (int)items[7].type)
                         : tn_fail(err, TN_ERR_MEMORY, "test", NULL, "out of memory");
        free(printed);
    }
    tn_arena_free(&arena);
    return status;
}

static const char *const recipes[] = {
    "base: Q4_K_M\noutput: Q8_0\nembedding: F16\n",
    "type: Q4_K\nrules: [{tensors: [a, '*b'], layers: '0-3, first 1/8', imatrix: false, type: Q8_0}]\n",
    "target_bpw: 4\n",
};

static void a_recipe_is_a_plan_or_an_error_of_memory(void **state) {
    (void)state;
    assert_true(spoil_all(make_plan, recipes, sizeof recipes / sizeof *recipes) > 20 || !memory_can_fail);
}

static tn_status make_importances(const char *text, char **result, tn_error *err) {
    tn_imatrix *m;
    const float *values;
    tn_status status = tn_imatrix_open(in_dir(text), &m, err);
    if (status != TN_OK) return status;
    status = tn_imatrix_find(m, "a", 2, 1, &values, err);
    if (status == TN_OK) status = result_of(result, err, "%g %g", (double)values[0], (double)values[1]);
    tn_imatrix_close(m);
    return status;
}

static void put_importances(void) {
    gb b = {0};
    const float values[] = {3, 6}, count = 3;
    gb_header(&b, 3, 2, 0);
    gb_tensor(&b, "a.in_sum2", 2, 1, 0, 0);
    gb_tensor(&b, "a.counts", 1, 1, 0, 32);
    gb_align(&b, 32);
    gb_bytes(&b, values, sizeof values);
    gb_align(&b, 32);
    gb_bytes(&b, &count, sizeof count);
    gb_align(&b, 32);
    gb_write(&b, in_dir("imatrix.gguf"));
    gb_free(&b);
    gb_u32(&b, 1);
    gb_u32(&b, 1);
    gb_bytes(&b, "a", 1);
    gb_u32(&b, 3);
    gb_u32(&b, 2);
    gb_bytes(&b, values, sizeof values);
    gb_write(&b, in_dir("imatrix.dat"));
    gb_free(&b);
}

static const char *const importances[] = {"imatrix.gguf", "imatrix.dat"};

static void importances_are_read_or_an_error_of_memory(void **state) {
    (void)state;
    put_importances();
    assert_true(spoil_all(make_importances, importances, 2) > 5 || !memory_can_fail);
}

static tn_status make_checkpoint(const char *text, char **result, tn_error *err) {
    tn_checkpoint *c;
    tn_status status = tn_checkpoint_open(in_dir(text), &c, err);
    if (status == TN_OK && strcmp(text, "one") == 0)
        status = tn_checkpoint_add(c, in_dir(text), "second.", err);
    if (status != TN_OK) {
        tn_checkpoint_close(c);
        return status;
    }
    const tn_st_tensor *last = tn_checkpoint_at(c, tn_checkpoint_n_tensors(c) - 1);
    status =
        result_of(result, err, "%.*s %s", (int)last->name.len, last->name.ptr, tn_checkpoint_path(c, last));
    tn_checkpoint_close(c);
    return status;
}

static void put_shard(const char *path, const char *name) {
    char header[200];
    snprintf(header, sizeof header,
             "{\"__metadata__\": {\"format\": \"pt\"}, \"%s\": {\"dtype\": \"F32\", \"shape\": [2], "
             "\"data_offsets\": [0, 8]}}",
             name);
    gb b = {0};
    gb_str(&b, header);
    gb_zeros(&b, 8);
    gb_write(&b, path);
    gb_free(&b);
}

static const char *const checkpoints[] = {"one", "indexed"};

static void a_checkpoint_is_opened_or_an_error_of_memory(void **state) {
    (void)state;
    static const char index[] = "{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}";
    for (int i = 0; i < 2; i++) assert_int_equal(mkdir(in_dir(checkpoints[i]), 0700), 0);
    put_shard(in_dir("one/model.safetensors"), "a");
    put_shard(in_dir("indexed/1.safetensors"), "a");
    put_shard(in_dir("indexed/2.safetensors"), "b");
    put_file(in_dir("indexed/model.safetensors.index.json"), index, sizeof index - 1);
    assert_true(spoil_all(make_checkpoint, checkpoints, 2) > 20 || !memory_can_fail);
}

static int remove_all(void **state) {
    tn_file_close(model);
    return expect_remove_dir(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_is_its_grammar_or_an_error_of_memory),
        cmocka_unit_test(a_grammar_is_read_or_an_error_of_memory),
        cmocka_unit_test(a_growing_grammar_is_read_or_an_error_of_memory),
        cmocka_unit_test(a_template_is_rendered_or_an_error_of_memory),
        cmocka_unit_test(a_model_is_written_and_read_or_an_error_of_memory),
        cmocka_unit_test(a_recipe_is_a_plan_or_an_error_of_memory),
        cmocka_unit_test(importances_are_read_or_an_error_of_memory),
        cmocka_unit_test(a_checkpoint_is_opened_or_an_error_of_memory),
    };
    return cmocka_run_group_tests(tests, expect_make_dir, remove_all);
}
