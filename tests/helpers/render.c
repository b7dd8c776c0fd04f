/* Renders chat templates for a Python test, many in one process.
 *
 * Requests on stdin: three texts, each u32 n and n bytes (little-endian): a template, variables and trusted variables as JSON
 * objects. Answers on stdout: u32 status, u32 n, n bytes (the text or the error's message), u32 n_data, n_data pairs of u32. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/text/template.h"

static void put_u32(size_t value) {
    uint32_t v = (uint32_t)value;
    fwrite(&v, sizeof v, 1, stdout);
}

/* NULL at the end of the input. */
static char *read_text(uint32_t *n) {
    if (fread(n, sizeof *n, 1, stdin) != 1) return NULL;
    char *text = malloc((size_t)*n + 1);
    if (!text || (*n && fread(text, *n, 1, stdin) != 1)) exit(1);
    return text;
}

static json_t *read_json(void) {
    uint32_t n;
    char *text = read_text(&n);
    if (!text) exit(1);
    json_t *json = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    free(text);
    if (!json) exit(1);
    return json;
}

static void answer(tn_status status, const tn_rendered *rendered, const tn_error *err) {
    size_t n = status ? strlen(err->message) : rendered->n;
    put_u32(status);
    put_u32(n);
    fwrite(status ? err->message : rendered->text, 1, n, stdout);
    put_u32(rendered->n_data);
    for (size_t i = 0; i < rendered->n_data; i++) {
        put_u32(rendered->data[i].begin);
        put_u32(rendered->data[i].end);
    }
    fflush(stdout);
}

int main(void) {
    uint32_t n;
    for (char *source; (source = read_text(&n));) {
        json_t *variables = read_json(), *trusted = read_json();
        tn_template *t = NULL;
        tn_rendered rendered = {0};
        tn_error err = {0};
        tn_status status = tn_template_parse(source, n, &t, &err);
        if (status == TN_OK) status = tn_template_render(t, variables, trusted, &rendered, &err);
        answer(status, &rendered, &err);
        tn_rendered_free(&rendered);
        tn_template_free(t);
        json_decref(variables), json_decref(trusted);
        free(source);
    }
    return 0;
}
