/* Parsing and rendering as a whole: memory, variables, the result. */
#include "template.h"

#include <stdlib.h>
#include <string.h>

#include "template_run.h"

enum {
    MAX_PARSE_DEPTH = 400,  /* two a pair of parentheses */
    MAX_RENDER_DEPTH = 900, /* about eight a call of a macro by itself */
};
static const size_t base_bytes = (size_t)64 << 20; /* of memory, and what a byte of input adds */
static const size_t bytes_a_byte = 64;
static const size_t base_output = (size_t)16 << 20;
static const uint64_t base_steps = 20000000, steps_a_byte = 64;

/* ---- Parsing ------------------------------------------------------------------------------------------- */

tn_status tn_template_parse(const char *source, size_t n, tn_template **out, tn_error *err) {
    enum { MAX_SOURCE = 4 << 20 };
    *out = NULL;
    if (n > MAX_SOURCE)
        return tn_fail(err, TN_ERR_FORMAT, "chat template", NULL, "%zu bytes, expected at most %d", n,
                       MAX_SOURCE);
    tn_template *t = calloc(1, sizeof *t);
    if (!t) return tn_fail(err, TN_ERR_MEMORY, "chat template", NULL, "out of memory");
    t->m = (tn_tmem){.max_bytes = base_bytes + bytes_a_byte * 16 * n,
                     .steps_left = base_steps + steps_a_byte * n,
                     .max_depth = MAX_PARSE_DEPTH,
                     .line = 1,
                     .err = err};
    if (setjmp(t->m.fail)) {
        const tn_status status = t->m.status;
        tn_template_free(t);
        return status;
    }
    tn_tparse(&t->m, t, source, n);
    tn_tbind(t);
    t->m.err = NULL;
    *out = t;
    return TN_OK;
}

void tn_template_free(tn_template *t) {
    if (!t) return;
    tn_arena_free(&t->m.arena);
    free(t);
}

/* ---- Variables ----------------------------------------------------------------------------------------- */

static tn_tval from_json(tn_trun *r, const json_t *json, bool is_data);

static tn_tval from_text(tn_trun *r, const char *p, size_t n, bool is_data) {
    r->m.max_bytes += bytes_a_byte * n;
    r->m.steps_left += steps_a_byte * n;
    r->out->max += n * bytes_a_byte;
    tn_tval v = tn_ttext(&r->m, p, n);
    if (!is_data || n == 0) return v;
    tn_range_pair *all = tn_talloc(&r->m, 1, sizeof *all);
    tn_tstr *s = tn_talloc(&r->m, 1, sizeof *s);
    *all = (tn_range_pair){0, n};
    *s = *v.s;
    s->data = all;
    s->n_data = 1;
    return tn_tstring(s);
}

/* Templates make control tokens of roles, as '<|' + role + '|>'; a single word cannot hold one itself. */
static bool is_role(const char *key, const json_t *value) {
    if (strcmp(key, "role") != 0 || !json_is_string(value)) return false;
    const char *p = json_string_value(value);
    size_t n = json_string_length(value);
    return n && n == strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
}

static void add_object(tn_trun *r, tn_tdict *d, const json_t *object, bool is_data, bool names_are_data) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) { /* which only reads */
        tn_tval v = from_json(r, value, is_data && !is_role(key, value));
        tn_tdict_set(&r->m, d, from_text(r, key, strlen(key), names_are_data), v);
    }
}

static tn_tval from_array(tn_trun *r, const json_t *array, bool is_data) {
    tn_tlist *l = tn_tlist_new(&r->m, json_array_size(array));
    for (size_t i = 0; i < json_array_size(array); i++)
        tn_tlist_add(&r->m, l, from_json(r, json_array_get(array, i), is_data));
    return tn_tlist_val(l);
}

static tn_tval from_json(tn_trun *r, const json_t *json, bool is_data) {
    tn_tval v = TN_TNONE;
    r->m.max_bytes += 256; /* for the value's own size */
    tn_tenter(&r->m);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        v = (tn_tval){.kind = TN_T_DICT, .d = tn_tdict_new(&r->m, json_object_size(json))};
        add_object(r, v.d, json, is_data, is_data);
        break;
    case JSON_ARRAY: v = from_array(r, json, is_data); break;
    case JSON_STRING: v = from_text(r, json_string_value(json), json_string_length(json), is_data); break;
    case JSON_INTEGER: v = tn_tint(json_integer_value(json)); break;
    case JSON_REAL: v = tn_tfloat(json_real_value(json)); break;
    case JSON_TRUE: v = tn_tbool(true); break;
    case JSON_FALSE: v = tn_tbool(false); break;
    case JSON_NULL: break;
    }
    tn_tleave(&r->m);
    return v;
}

/* ---- Rendering ----------------------------------------------------------------------------------------- */

/* The output in memory of its own. False if there is none. */
static bool copy_out(const tn_tbuf *b, tn_rendered *out) {
    out->text = malloc(b->n + 1);
    if (b->n_data) out->data = malloc(b->n_data * sizeof *out->data);
    if (!out->text || (b->n_data && !out->data)) {
        tn_rendered_free(out);
        return false;
    }
    if (b->n) memcpy(out->text, b->p, b->n);
    out->text[b->n] = '\0';
    out->n = b->n;
    if (b->n_data) memcpy(out->data, b->data, b->n_data * sizeof *out->data);
    out->n_data = b->n_data;
    return true;
}

static void render(tn_trun *r, const tn_template *t, const json_t *variables, const json_t *trusted) {
    r->variables = tn_tdict_new(&r->m, 0);
    tn_tadd_globals(r, r->variables);
    if (trusted) add_object(r, r->variables, trusted, false, false);
    if (variables) add_object(r, r->variables, variables, true, false);
    tn_texec_template(r, t);
}

tn_status tn_template_render(const tn_template *t, const json_t *variables, const json_t *trusted,
                             tn_rendered *out, tn_error *err) {
    *out = (tn_rendered){0};
    struct {
        tn_trun run;
        tn_tbuf out;
    } *state = calloc(1, sizeof *state);
    if (!state) return tn_fail(err, TN_ERR_MEMORY, "chat template", NULL, "out of memory");
    tn_trun *r = &state->run;
    r->m = (tn_tmem){.max_bytes = base_bytes,
                     .steps_left = base_steps,
                     .max_depth = MAX_RENDER_DEPTH,
                     .line = 1,
                     .err = err};
    r->out = &state->out;
    state->out = (tn_tbuf){.m = &r->m, .max = base_output};
    if (setjmp(r->m.fail) == 0) {
        render(r, t, variables, trusted);
        if (!copy_out(&state->out, out))
            r->m.status = tn_fail(err, TN_ERR_MEMORY, "chat template", NULL, "out of memory");
    }
    const tn_status status = r->m.status;
    tn_arena_free(&r->m.arena);
    free(state);
    return status;
}

void tn_rendered_free(tn_rendered *rendered) {
    free(rendered->text);
    free(rendered->data);
    *rendered = (tn_rendered){0};
}
