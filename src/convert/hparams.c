/* Hyper-parameters: their values, which shapes are made of, and the metadata keys of those that the checkpoint gives. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert_impl.h"

static tn_status out_of_range(const tn_converter *c, const tn_hparam_def *def, double value) {
    return TN_BAD(c, "config.json: '%s' (key '%s'): expected %s %.9g and at most %.9g, found %.9g", def->name,
                  def->key, def->min_is_outside ? "above" : "at least", def->min, def->max, value);
}

static tn_status check(const tn_converter *c, const tn_hparam_def *def, double value) {
    if (!(value <= def->max && (def->min_is_outside ? value > def->min : value >= def->min)))
        return out_of_range(c, def, value);
    if (def->kind == TN_HPARAM_INT && value != floor(value))
        return TN_BAD(c, "config.json: '%s' (key '%s'): expected a whole number, found %.9g", def->name,
                      def->key, value);
    return TN_OK;
}

/* The choice whose condition holds; *found is false where none does. */
static tn_status read_choice(const tn_converter *c, const tn_hparam_def *def, tn_place *at, double *value,
                             bool *found) {
    *found = false;
    for (size_t i = def->hf_choices ? def->n_choices : 0; i-- > 0;) { /* the usual "none" is the first */
        double holds = 0;
        tn_status s = tn_convert_source(c, at, &def->hf_choices[i], &holds, found);
        if (s) return s;
        *value = (double)i;
        if (*found && holds != 0) return TN_OK;
    }
    *found = false;
    return TN_OK;
}

static tn_status read_default(const tn_converter *c, const tn_hparam_def *def, tn_place *at, double *value) {
    if (!def->default_expr) {
        const bool named = def->hf.n > 0;
        return TN_BAD(c, "config.json: '%s' is missing (key '%s' of the model)",
                      named ? def->hf.exprs[0] : def->name, def->key);
    }
    if (def->kind != TN_HPARAM_CHOICE) return tn_convert_expr(c, at, def->default_expr, value);
    for (size_t i = 0; i < def->n_choices; i++)
        if (!strcmp(def->choices[i], def->default_expr)) *value = (double)i;
    return TN_OK;
}

static tn_status read_value(const tn_converter *c, const tn_hparam_def *def, tn_place *at, double *value,
                            bool *found) {
    double when = 1;
    bool said = true;
    *found = false;
    tn_status s = def->hf_when.n ? tn_convert_source(c, at, &def->hf_when, &when, &said) : TN_OK;
    if (s) return s;
    if (def->kind == TN_HPARAM_CHOICE)
        s = read_choice(c, def, at, value, found);
    else if (said && when != 0)
        s = tn_convert_source(c, at, &def->hf, value, found);
    if (!s && !*found) s = read_default(c, def, at, value);
    return s || def->kind == TN_HPARAM_CHOICE ? s : check(c, def, *value);
}

static bool is_flag(const tn_hparam_def *def) {
    return def->kind == TN_HPARAM_INT && !def->min_is_outside && def->min == 0 && def->max == 1;
}

static void write_scalar(const tn_converter *c, const tn_hparam_def *def, const char *key, double value) {
    if (def->kind == TN_HPARAM_CHOICE)
        tn_gguf_set_text(c->writer, key, def->choices[(size_t)value], strlen(def->choices[(size_t)value]));
    else if (def->kind == TN_HPARAM_FLOAT)
        tn_gguf_set_f32(c->writer, key, (float)value);
    else if (is_flag(def))
        tn_gguf_set_bool(c->writer, key, value != 0);
    else
        tn_gguf_set_u32(c->writer, key, (uint32_t)value);
}

static tn_status write_array(tn_converter *c, const tn_hparam_def *def, const char *key,
                             const double *values) {
    int32_t *whole = tn_arena_alloc(&c->arena, c->n_layers, sizeof *whole);
    float *real = tn_arena_alloc(&c->arena, c->n_layers, sizeof *real);
    uint8_t *flags = tn_arena_alloc(&c->arena, c->n_layers, sizeof *flags);
    if (!whole || !real || !flags) return tn_convert_no_memory(c);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        whole[l] = (int32_t)values[l];
        real[l] = (float)values[l];
        flags[l] = values[l] != 0;
    }
    if (def->kind == TN_HPARAM_FLOAT)
        tn_gguf_set_array(c->writer, key, TN_META_F32, real, c->n_layers);
    else if (is_flag(def))
        tn_gguf_set_array(c->writer, key, TN_META_BOOL, flags, c->n_layers);
    else
        tn_gguf_set_array(c->writer, key, TN_META_I32, whole, c->n_layers);
    return TN_OK;
}

static tn_status read_hparam(tn_converter *c, size_t h) {
    const tn_hparam_def *def = &c->arch.hparams[h];
    double *values = &c->values[h * c->n_layers];
    bool any = false, listed = false, varies = false;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        tn_place at = {.layer = l};
        bool found;
        tn_status s = read_value(c, def, &at, &values[l], &found);
        if (s) return s;
        any |= found;
        listed |= at.listed;
        varies |= values[l] != values[0];
    }
    if (!any) return TN_OK;
    char key[160];
    const bool of_vocab = !strncmp(def->key, "tokenizer.", 10); /* those are the same for all architectures */
    snprintf(key, sizeof key, "%s%s%s", of_vocab ? "" : c->arch.name, of_vocab ? "" : ".", def->key);
    if (def->per_layer && (listed || varies) && def->kind != TN_HPARAM_CHOICE)
        return write_array(c, def, key, values);
    if (varies) return TN_BAD(c, "config.json: '%s' (key '%s') differs between layers", def->name, def->key);
    write_scalar(c, def, key, values[0]);
    return TN_OK;
}

static tn_status read_n_vocab(tn_converter *c) {
    tn_place at = {0};
    bool found;
    double n = 0;
    tn_status s = tn_convert_source(c, &at, &c->arch.hf.n_vocab, &n, &found);
    if (s) return s;
    if (!found) return TN_BAD(c, "config.json: '%s' is missing", c->arch.hf.n_vocab.exprs[0]);
    if (!(n >= 1 && n <= 1 << 24) || n != floor(n))
        return TN_BAD(c, "config.json: a vocabulary of %.9g tokens, expected 1 to %d", n, 1 << 24);
    c->n_vocab = (uint32_t)n;
    return TN_OK;
}

tn_status tn_convert_read_hparams(tn_converter *c) {
    tn_place at = {0};
    bool found;
    double n_layers = 0;
    tn_status s = read_n_vocab(c);
    if (s || (s = read_value(c, &c->arch.hparams[0], &at, &n_layers, &found)))
        return s; /* it sizes the rest */
    c->n_layers = (uint32_t)n_layers;
    if (!(c->values = tn_arena_alloc(&c->arena, c->arch.n_hparams * c->n_layers, sizeof *c->values)))
        return tn_convert_no_memory(c);
    for (; c->n_known < c->arch.n_hparams; c->n_known++)
        if ((s = read_hparam(c, c->n_known))) return s;
    return TN_OK;
}
