/* Looks up what descriptions call by name: hyper-parameters, and values in the checkpoint's configuration. */
#include <math.h>
#include <string.h>

#include "../model/expr.h"
#include "convert_impl.h"

typedef struct scope {
    const tn_converter *c;
    tn_place *at;
    bool *missing;
} scope;

static bool is_word(const char *name, size_t n, const char *word) {
    return strlen(word) == n && !memcmp(name, word, n);
}

/* "NAME" or "CHOICE.VALUE" of a hyper-parameter that is known by now. */
static bool find_hparam(const tn_converter *c, const tn_place *at, const char *name, size_t n,
                        double *value) {
    const char *dot = memchr(name, '.', n);
    const int h = tn_arch_hparam(&c->arch, name, dot ? (size_t)(dot - name) : n);
    if (h < 0 || (size_t)h >= c->n_known) return false;
    const tn_hparam_def *def = &c->arch.hparams[h];
    *value = c->values[(size_t)h * c->n_layers + at->layer];
    if ((def->kind == TN_HPARAM_CHOICE) != (dot != NULL)) return false;
    if (dot) *value = is_word(dot + 1, n - (size_t)(dot + 1 - name), def->choices[(size_t)*value]);
    return true;
}

/* How many values a list has: one for each layer or element; 0 before the number of layers is known. */
static uint64_t list_length(const tn_converter *c, const tn_place *at) {
    return at->element ? at->n_elements : c->n_layers;
}

/* Follows "a.b.c" from an object: through lists by layer or element; at a text, the rest is what it is compared with. */
static bool follow(const tn_converter *c, const json_t *node, const char *path, size_t n, tn_place *at,
                   double *value, const json_t **end) {
    for (;;) {
        if (json_is_array(node)) {
            at->listed = true;
            if (json_array_size(node) != list_length(c, at)) at->list_length = json_array_size(node) + 1;
            node = json_array_get(node, (size_t)(at->element ? at->element - 1 : at->layer));
        }
        if (json_is_string(node) && n) {
            *value = is_word(path, n, json_string_value(node));
            *end = NULL;
            return true;
        }
        if (!n || !json_is_object(node)) break;
        const char *dot = memchr(path, '.', n);
        const size_t len = dot ? (size_t)(dot - path) : n;
        node = json_object_getn(node, path, len);
        path += len + (dot != NULL), n -= len + (dot != NULL);
    }
    *end = node;
    return n == 0 && node && !json_is_null(node);
}

/* A path from the configuration's root: the text model's part first. */
static bool follow_root(const tn_converter *c, const char *path, size_t n, tn_place *at, double *value,
                        const json_t **end) {
    static const struct {
        const char *name;
        size_t offset;
    } files[] = {{"tokenizer_config", offsetof(tn_converter, tokenizer_config)},
                 {"generation_config", offsetof(tn_converter, generation_config)},
                 {"modules", offsetof(tn_converter, modules)}};
    if (n > 7 && !memcmp(path, "config.", 7))
        path += 7, n -= 7; /* where a hyper-parameter has the same name */
    const char *dot = memchr(path, '.', n);
    const size_t len = dot ? (size_t)(dot - path) : n;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (dot && is_word(path, len, files[i].name))
            return follow(c, *(json_t *const *)((const char *)c + files[i].offset), dot + 1, n - len - 1, at,
                          value, end);
    const bool own = c->text_config && json_object_getn(c->text_config, path, len);
    return follow(c, own ? c->text_config : c->config, path, n, at, value, end);
}

static bool number(const json_t *node, double *value) {
    if (json_is_boolean(node))
        *value = json_is_true(node);
    else if (json_is_number(node))
        *value = json_number_value(node);
    else
        return false;
    return true;
}

static bool find_config(const tn_converter *c, tn_place *at, const char *name, size_t n, double *value) {
    const json_t *node;
    const char *dot = memchr(name, '.', n);
    const size_t len = dot ? (size_t)(dot - name) : n;
    for (size_t i = 0; i < c->arch.hf.n_names; i++) {
        const tn_hf_named *alias = &c->arch.hf.names[i];
        if (!is_word(name, len, alias->name)) continue;
        for (size_t k = 0; k < alias->source.n; k++) {
            const char *path = alias->source.exprs[k];
            if (!follow_root(c, path, strlen(path), at, value, &node)) continue;
            if (!follow(c, node, name + len + (dot != NULL), n - len - (dot != NULL), at, value, &node))
                return false;
            return !node || number(node, value);
        }
        return false;
    }
    return follow_root(c, name, n, at, value, &node) && (!node || number(node, value));
}

/* "has.ID": whether a tensor before this one is made, in this layer. */
static bool find_tensor(const tn_converter *c, const tn_place *at, const char *name, size_t n,
                        double *value) {
    if (n < 5 || memcmp(name, "has.", 4) != 0) return false;
    *value = 0;
    for (size_t i = c->n_jobs; i-- > 0 && c->jobs[i].layer == at->layer;)
        if (is_word(name + 4, n - 4, c->jobs[i].def->id)) *value = 1;
    return true;
}

static bool lookup(const void *user, const char *name, size_t n, double *value) {
    const scope *s = user;
    const tn_converter *c = s->c;
    if (n == 1 && (*name == 'i' || *name == 'j' || *name == 'r')) {
        *value = (double)(*name == 'i' ? s->at->layer : *name == 'j' ? s->at->element - 1 : s->at->row);
        return true;
    }
    *value = c->n_vocab;
    if (c->n_vocab && is_word(name, n, "n_vocab")) return true;
    if (find_tensor(c, s->at, name, n, value)) return true;
    if (find_hparam(c, s->at, name, n, value) || find_config(c, s->at, name, n, value)) return true;
    *s->missing = true;
    *value = 1;
    return true; /* go on: what is missing is told apart from what is wrong by the flag */
}

static tn_status wrong_list(const tn_converter *c, const tn_place *at, const char *expr) {
    const unsigned long long found = at->list_length - 1, expected = list_length(c, at);
    if (!expected) return TN_BAD(c, "config.json: '%s' is a list, expected a number", expr);
    return TN_BAD(c, "config.json: '%s': a list of %llu values, expected %llu, one for each %s", expr, found,
                  expected, at->element ? "element" : "layer");
}

static tn_status eval(const tn_converter *c, tn_place *at, const char *expr, double *value, bool *missing) {
    const char *why;
    *missing = false;
    const scope s = {c, at, missing};
    const bool ok = tn_expr_eval(expr, lookup, &s, value, &why);
    if (at->list_length) return wrong_list(c, at, expr);
    if (*missing || (ok && isfinite(*value))) return TN_OK;
    return TN_BAD(c, "'%s' cannot be computed from config.json: %s", expr,
                  ok ? "the result is not finite" : why);
}

tn_status tn_convert_source(const tn_converter *c, tn_place *at, const tn_hf_source *source, double *value,
                            bool *found) {
    *found = false;
    for (size_t i = 0; i < source->n && !*found; i++) {
        bool missing;
        tn_status s = eval(c, at, source->exprs[i], value, &missing);
        if (s) return s;
        *found = !missing;
    }
    return TN_OK;
}

tn_status tn_convert_expr(const tn_converter *c, tn_place *at, const char *expr, double *value) {
    bool missing;
    tn_status s = eval(c, at, expr, value, &missing);
    if (s || !missing) return s;
    return TN_BAD(c, "config.json: a name in '%s' is missing or has the wrong type", expr);
}

tn_status tn_convert_whole(const tn_converter *c, tn_place *at, const char *expr, uint64_t *value) {
    double d;
    tn_status s = tn_convert_expr(c, at, expr, &d);
    if (s) return s;
    if (d < 0 || d > 9007199254740992.0 || d != floor(d))
        return TN_BAD(c, "'%s' is %g, expected a whole number", expr, d);
    *value = (uint64_t)d;
    return TN_OK;
}

tn_status tn_convert_require(const tn_converter *c) {
    for (size_t i = 0; i < c->arch.hf.n_require * c->n_layers; i++) {
        const char *expr = c->arch.hf.require[i / c->n_layers];
        tn_place at = {.layer = i % c->n_layers};
        double value;
        bool missing;
        tn_status s = eval(c, &at, expr, &value, &missing);
        if (s) return s;
        if (!missing && value == 0)
            return TN_NOT_KNOWN(c, "config.json: architecture %s is converted only where %s", c->arch.name,
                                expr);
    }
    return TN_OK;
}
