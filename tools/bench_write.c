/* A record as JSON, CSV or YAML. A YAML scalar is written as the JSON one, which YAML 1.2 contains. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json_print.h"

enum { FORMAT = JSON_REAL_PRECISION(7) };

static int no_memory(void) {
    return tn_cli_fail("cannot write the record: out of memory");
}

int tn_bench_write_json(const json_t *record) {
    return tn_json_print(stdout, record, FORMAT | JSON_INDENT(2));
}

/* ---- CSV (RFC 4180) ---- */

static void print_quoted(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static bool print_cell(const json_t *value) {
    if (json_is_null(value)) return true;
    if (json_is_string(value)) {
        char text[4200]; /* a path, and names that are no longer */
        tern_escape(text, sizeof text, json_string_value(value), json_string_length(value));
        if (text[strcspn(text, ",\"\r\n")])
            print_quoted(text);
        else
            fputs(text, stdout);
        return true;
    }
    char *text = tn_json_text(value, FORMAT);
    if (text) fputs(text, stdout);
    free(text);
    return text != NULL;
}

/* What the lines share stands in each of them, so that files of several runs can be joined. */
static const char *const shared[][2] = {
    {"model", "name"},   {"model", "file"}, {"model", "type"},
    {"model", "sha256"}, {"device", "cpu"}, {"os", "name"},
};

static const json_t *shared_value(const json_t *record, size_t i) {
    return json_object_get(json_object_get(record, shared[i][0]), shared[i][1]);
}

int tn_bench_write_csv(const json_t *record) {
    json_t *tests = json_object_get(record, "tests"), *value;
    const size_t n_shared = sizeof shared / sizeof *shared;
    const char *key;
    bool ok = true;
    json_object_foreach(json_array_get(tests, 0), key, value) printf("%s,", key);
    for (size_t i = 0; i < n_shared; i++) printf("%s_%s,", shared[i][0], shared[i][1]);
    puts("tern");
    for (size_t row = 0; row < json_array_size(tests); row++) {
        json_object_foreach(json_array_get(tests, row), key, value) {
            ok = print_cell(value) && ok;
            putchar(',');
        }
        for (size_t i = 0; i < n_shared; i++) {
            ok = print_cell(shared_value(record, i)) && ok;
            putchar(',');
        }
        print_cell(json_object_get(record, "tern"));
        putchar('\n');
    }
    return ok ? TN_EXIT_DONE : no_memory();
}

/* ---- YAML ---- */

/* Reals without an exponent: YAML 1.1 readers take 1e-5 for text. */
static bool emit_scalar(FILE *f, const json_t *value) {
    if (json_is_real(value)) {
        fprintf(f, " %.6f\n", json_real_value(value));
        return true;
    }
    char *text = tn_json_text(value, FORMAT | JSON_COMPACT);
    if (text) fprintf(f, " %s\n", text);
    free(text);
    return text != NULL;
}

static bool is_block(const json_t *value) {
    return (json_is_object(value) && json_object_size(value) > 0) ||
           (json_is_array(value) && json_array_size(value) > 0);
}

static bool emit_object(FILE *f, json_t *object, int indent, bool first_indented);

static bool emit_array(FILE *f, json_t *array, int indent) {
    bool ok = true;
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *item = json_array_get(array, i);
        fprintf(f, "%*s-", indent, "");
        if (json_is_object(item)) {
            putc(' ', f);
            ok = emit_object(f, item, indent + 2, true) && ok;
        } else {
            ok = emit_scalar(f, item) && ok;
        }
    }
    return ok;
}

/* Keys are our own words, which need no quotes. Depth is that of the record: no recursion without end. */
static bool emit_object(FILE *f, json_t *object, int indent, bool first_indented) {
    const char *key;
    json_t *value;
    bool ok = true;
    json_object_foreach(object, key, value) {
        fprintf(f, "%*s%s:", first_indented ? 0 : indent, "", key);
        first_indented = false;
        if (!is_block(value)) {
            ok = emit_scalar(f, value) && ok;
            continue;
        }
        putc('\n', f);
        ok = (json_is_object(value) ? emit_object(f, value, indent + 2, false)
                                    : emit_array(f, value, indent + 2)) &&
             ok;
    }
    return ok;
}

int tn_bench_write_yaml(const json_t *record, tn_output *output) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return no_memory();
    bool ok = emit_object(f, (json_t *)record, 0, false);
    ok = fclose(f) == 0 && ok;
    int failed = ok ? 0 : no_memory();
    if (!failed) failed = tn_output_write(output, text, n);
    if (!failed) failed = tn_output_commit(output);
    tn_output_discard(output);
    free(text);
    return failed;
}
