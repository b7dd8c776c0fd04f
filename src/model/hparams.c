/* Hyper-parameters: read from metadata by the description, checked against its ranges. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/c_locale.h"
#include "expr.h"
#include "model.h"

typedef struct scope {
    const tn_model *model;
    uint32_t layer;
    size_t n_known; /* hyper-parameters read so far */
} scope;

/* "has.ID": whether the layer has the tensor. Only steps can ask, when all tensors are bound. */
static bool has_tensor(const tn_model *m, uint32_t layer, const char *id, size_t n, double *value) {
    for (size_t t = 0; m->tensors && t < m->arch.n_tensors; t++) {
        const tn_tensor_def *def = &m->arch.tensors[t];
        if (strncmp(def->id, id, n) != 0 || def->id[n]) continue;
        *value = m->tensors[t * m->hparams.n_layers + (def->per_layer ? layer : 0)] != NULL;
        return true;
    }
    return false;
}

static bool lookup(const void *user, const char *name, size_t n, double *value) {
    const scope *s = user;
    const tn_model *m = s->model;
    *value = s->layer;
    if (n == 1 && *name == 'i') return true;
    *value = m->hparams.n_vocab;
    if (n == 7 && !memcmp(name, "n_vocab", 7)) return true;
    if (n > 4 && !memcmp(name, "has.", 4)) return has_tensor(m, s->layer, name + 4, n - 4, value);
    const char *dot = memchr(name, '.', n);
    int h = tn_arch_hparam(&m->arch, name, dot ? (size_t)(dot - name) : n);
    if (h < 0 || (size_t)h >= s->n_known) return false;
    *value = m->hparams.values[(size_t)h * m->hparams.n_layers + s->layer];
    if (!dot) return true;
    const char *choice = m->arch.hparams[h].choices[(size_t)*value];
    size_t left = n - (size_t)(dot + 1 - name);
    *value = !strncmp(choice, dot + 1, left) && !choice[left];
    return true;
}

static tn_status eval(const scope *s, const char *expr, double *value, tn_error *err) {
    const char *why;
    if (tn_expr_eval(expr, lookup, s, value, &why) && isfinite(*value)) return TN_OK;
    return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(s->model->file),
                   "'%s' cannot be computed: %s", expr, why ? why : "the result is not finite");
}

tn_status tn_model_eval(const tn_model *m, const char *expr, uint32_t layer, double *value, tn_error *err) {
    const scope s = {m, layer, m->arch.n_hparams};
    return eval(&s, expr, value, err);
}

tn_status tn_model_eval_u32(const tn_model *m, const char *expr, uint32_t layer, uint32_t *value,
                            tn_error *err) {
    double d;
    tn_status s = tn_model_eval(m, expr, layer, &d, err);
    if (s) return s;
    if (d < 0 || d > 4294967295.0 || d != floor(d))
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "'%s' is %g in layer %u, expected a whole number", expr, d, layer);
    *value = (uint32_t)d;
    return TN_OK;
}

static tn_status bad_value(const tn_model *m, const char *key, tn_error *err, const char *expected,
                           double found) {
    return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                   "key '%s': expected %s, found %g", key, expected, found);
}

static tn_status check_range(const tn_model *m, const tn_hparam_def *def, const char *key, double v,
                             tn_error *err) {
    if (v <= def->max && (def->min_is_outside ? v > def->min : v >= def->min))
        return TN_OK; /* false for NaN */
    char expected[96];
    tn_snprintf(expected, sizeof expected, "%s %.9g and at most %.9g",
                def->min_is_outside ? "above" : "at least", def->min, def->max);
    return bad_value(m, key, err, expected, v);
}

static tn_status read_number(const tn_model *m, const tn_hparam_def *def, const char *key,
                             const tn_meta *meta, uint64_t i, double *out, tn_error *err) {
    int64_t whole;
    uint64_t large;
    bool flag;
    bool ok;
    if (def->kind == TN_HPARAM_FLOAT && tn_meta_f64(meta, i, out)) return check_range(m, def, key, *out, err);
    if ((ok = tn_meta_i64(meta, i, &whole)))
        *out = (double)whole;
    else if ((ok = tn_meta_u64(meta, i, &large)))
        *out = (double)large;
    else if (def->kind == TN_HPARAM_INT && (ok = tn_meta_bool(meta, i, &flag)))
        *out = flag;
    if (ok) return check_range(m, def, key, *out, err);
    return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                   "key '%s': expected a number, found %s", key, tn_meta_type_name(meta->elem_type));
}

static tn_status read_choice(const tn_model *m, const tn_hparam_def *def, const char *key,
                             const tn_meta *meta, double *out, tn_error *err) {
    tn_str text = {NULL, 0};
    char known[160] = "", found[64] = "";
    bool is_text = tn_meta_str(meta, 0, &text);
    for (size_t i = 0; i < def->n_choices; i++) {
        if (is_text && strlen(def->choices[i]) == text.len && !memcmp(def->choices[i], text.ptr, text.len)) {
            *out = (double)i;
            return TN_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", def->choices[i]);
    }
    if (is_text) tn_escape(found, sizeof found, text.ptr, text.len);
    return tn_fail(err, TN_ERR_UNSUPPORTED, "cannot run model", tn_file_path(m->file),
                   "key '%s': expected one of %s, found '%s'", key, known, found);
}

static tn_status read_default(const tn_model *m, const tn_hparam_def *def, size_t h, const char *key,
                              double *values, tn_error *err) {
    if (!def->default_expr)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file), "key '%s' is missing",
                       key);
    if (def->kind == TN_HPARAM_CHOICE) {
        for (size_t i = 0; i < def->n_choices; i++)
            if (!strcmp(def->choices[i], def->default_expr))
                for (uint32_t l = 0; l < m->hparams.n_layers; l++) values[l] = (double)i;
        return TN_OK;
    }
    for (uint32_t l = 0; l < m->hparams.n_layers; l++) {
        const scope s = {m, l, h};
        tn_status status = eval(&s, def->default_expr, &values[l], err);
        if (status) return status;
        if (def->kind == TN_HPARAM_INT && values[l] != floor(values[l]))
            return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                           "key '%s' is missing, and its default '%s' is %g, not a whole number", key,
                           def->default_expr, values[l]);
        if ((status = check_range(m, def, key, values[l], err))) return status;
    }
    return TN_OK;
}

static tn_status read_hparam(tn_model *m, size_t h, tn_error *err) {
    const tn_hparam_def *def = &m->arch.hparams[h];
    const uint32_t n = m->hparams.n_layers;
    double *values = &m->hparams.values[h * n];
    char key[160];
    const bool own =
        strncmp(def->key, "tokenizer.", 10) != 0; /* those of the vocabulary are the same for all */
    snprintf(key, sizeof key, "%s%s%s", own ? m->arch_name : "", own ? "." : "", def->key);
    const tn_meta *meta = tn_file_meta(m->file, key);
    if (!meta) return read_default(m, def, h, key, values, err);
    const bool array = meta->type == TN_META_ARRAY;
    if (array && !def->per_layer)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "key '%s': expected one value, found an array", key);
    if (array && meta->count != n)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "key '%s': expected %u values, one a layer, found %llu", key, n,
                       (unsigned long long)meta->count);
    for (uint32_t l = 0; l < n; l++) {
        tn_status s = TN_OK;
        if (l && !array)
            values[l] = values[0];
        else if (def->kind == TN_HPARAM_CHOICE)
            s = read_choice(m, def, key, meta, &values[l], err);
        else
            s = read_number(m, def, key, meta, array ? l : 0, &values[l], err);
        if (s) return s;
    }
    return TN_OK;
}

/* The vocabulary's size: that of the vocabulary, else the key vocab_size. */
static tn_status read_n_vocab(tn_model *m, tn_error *err) {
    char key[160];
    uint64_t n = 0;
    snprintf(key, sizeof key, "%s.vocab_size", m->arch_name);
    const tn_meta *size = tn_file_meta(m->file, key);
    const tn_meta *tokens =
        tn_file_meta(m->file, "tokenizer.ggml.tokens"); /* there may be tokens but no tokenizer */
    if (m->vocab.n_tokens || tokens)
        n = m->vocab.n_tokens ? m->vocab.n_tokens : tokens->count;
    else if (size && !tn_meta_u64(size, 0, &n))
        n = 0;
    if (n < 1 || n > INT32_MAX)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "no vocabulary, and key '%s' is %s", key, size ? "out of range" : "missing");
    m->hparams.n_vocab = (uint32_t)n;
    return TN_OK;
}

/* The key that all architectures have in common. */
static tn_status read_pooling(tn_model *m, tn_error *err) {
    char key[160];
    snprintf(key, sizeof key, "%s.pooling_type", m->arch_name);
    const tn_meta *meta = tn_file_meta(m->file, key);
    uint64_t n = TN_POOLING_UNKNOWN;
    if (meta && (meta->type == TN_META_ARRAY || !tn_meta_u64(meta, 0, &n)))
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "key '%s': expected a number from 0 to %d, found %s", key, TN_POOLING_RANK,
                       tn_meta_type_name(meta->type));
    if (meta && n > TN_POOLING_RANK)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "key '%s': expected a number from 0 to %d, found %llu", key, TN_POOLING_RANK,
                       (unsigned long long)n);
    m->hparams.pooling = (tn_pooling)n;
    return TN_OK;
}

static tn_status run_checks(const tn_model *m, tn_error *err) {
    for (size_t c = 0; c < m->arch.n_checks; c++) {
        for (uint32_t l = 0; l < m->hparams.n_layers; l++) {
            double value;
            tn_status s = tn_model_eval(m, m->arch.checks[c], l, &value, err);
            if (s) return s;
            if (value == 0)
                return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                               "the hyper-parameters contradict each other in layer %u: expected %s", l,
                               m->arch.checks[c]);
        }
    }
    return TN_OK;
}

/* Keeps the layers that the description computes. */
static tn_status drop_layers(tn_model *m, tn_error *err) {
    const uint32_t n_all = m->hparams.n_layers;
    uint32_t n = n_all;
    tn_status s = m->arch.n_computed ? tn_model_eval_u32(m, m->arch.n_computed, 0, &n, err) : TN_OK;
    if (s) return s;
    if (n == 0 || n > n_all)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "'%s' is %u, expected at least 1 and at most %u layers", m->arch.n_computed, n, n_all);
    for (size_t h = 0; h < m->arch.n_hparams; h++)
        memmove(m->hparams.values + h * n, m->hparams.values + h * n_all, n * sizeof(double));
    m->hparams.n_layers = n;
    return TN_OK;
}

static uint32_t whole(const tn_model *m, const char *name) {
    int h = tn_arch_hparam(&m->arch, name, strlen(name));
    return (uint32_t)m->hparams.values[(size_t)h * m->hparams.n_layers];
}

tn_status tn_model_read_hparams(tn_model *m, tn_error *err) {
    double n_layers = 0;
    m->hparams = (tn_hparams){.n_layers = 1, .values = &n_layers};
    tn_status s = read_hparam(m, 0, err); /* n_layers, by itself: it sizes the rest */
    if (s || (s = read_n_vocab(m, err)) || (s = read_pooling(m, err))) return s;
    m->hparams.n_layers = (uint32_t)n_layers;
    m->hparams.values = tn_arena_alloc(&m->arena, m->arch.n_hparams * (size_t)n_layers, sizeof(double));
    if (!m->hparams.values)
        return tn_fail(err, TN_ERR_MEMORY, "cannot run model", tn_file_path(m->file), "out of memory");
    for (size_t h = 0; h < m->arch.n_hparams; h++)
        if ((s = read_hparam(m, h, err))) return s;
    if ((s = drop_layers(m, err))) return s;
    m->hparams.n_embd = whole(m, "n_embd");
    m->hparams.n_ctx_train = whole(m, "n_ctx_train");
    return run_checks(m, err);
}
