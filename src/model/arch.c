#include "arch.h"

#include <stdio.h>
#include <string.h>

#include "../base/hash.h"
#include "arch_yaml.h"

/* ---- Sections ---------------------------------------------------------------------------------------------- */

static tn_status parse_choices(tn_yaml *c, const yaml_node_t *seq, tn_hparam_def *def) {
    if (!seq || seq->type != YAML_SEQUENCE_NODE || tn_yaml_seq_size(seq) == 0)
        return tn_yaml_bad(c, seq, "expected a list of values", NULL);
    const char **list = tn_arena_alloc(c->arena, tn_yaml_seq_size(seq), sizeof *list);
    if (!list) return tn_yaml_no_memory(c);
    def->choices = list;
    def->n_choices = tn_yaml_seq_size(seq);
    for (size_t i = 0; i < def->n_choices; i++) {
        tn_status s = tn_yaml_string(c, tn_yaml_node(c, seq->data.sequence.items.start[i]), &list[i]);
        if (s) return s;
    }
    return TN_OK;
}

static tn_status parse_hparam_kind(tn_yaml *c, const yaml_node_t *map, tn_hparam_def *def) {
    const yaml_node_t *node = tn_yaml_get(c, map, "type");
    const char *type = node ? tn_yaml_scalar(node) : "int";
    if (type && !strcmp(type, "int"))
        def->kind = TN_HPARAM_INT;
    else if (type && !strcmp(type, "float"))
        def->kind = TN_HPARAM_FLOAT;
    else if (type && !strcmp(type, "choice"))
        def->kind = TN_HPARAM_CHOICE;
    else
        return tn_yaml_bad(c, node, "expected int, float or choice", NULL);
    return TN_OK;
}

static tn_status parse_range(tn_yaml *c, const yaml_node_t *map, tn_hparam_def *def) {
    const yaml_node_t *min = tn_yaml_get(c, map, "min"), *above = tn_yaml_get(c, map, "above"),
                      *max = tn_yaml_get(c, map, "max");
    if ((!min && !above) || !max) return tn_yaml_bad(c, map, "missing range: min or above, and max", NULL);
    def->min_is_outside = above != NULL;
    tn_status s = tn_yaml_number(c, above ? above : min, &def->min);
    return s ? s : tn_yaml_number(c, max, &def->max);
}

static tn_status parse_hparam(tn_yaml *c, const yaml_node_t *key, const yaml_node_t *map,
                              tn_hparam_def *def) {
    static const char *const known[] = {"key",     "type",      "min",    "above", "max",
                                        "default", "per_layer", "values", "hf",    NULL};
    const yaml_node_t *node;
    tn_status s;
    if ((s = tn_yaml_check_map(c, map, known)) || (s = tn_yaml_string(c, key, &def->name)) ||
        (s = tn_yaml_string(c, tn_yaml_get(c, map, "key"), &def->key)) ||
        (s = parse_hparam_kind(c, map, def)))
        return s;
    s = def->kind == TN_HPARAM_CHOICE ? parse_choices(c, tn_yaml_get(c, map, "values"), def)
                                      : parse_range(c, map, def);
    if (s) return s;
    if ((node = tn_yaml_get(c, map, "per_layer")) && (s = tn_yaml_bool(c, node, &def->per_layer))) return s;
    if ((node = tn_yaml_get(c, map, "hf")) && (s = tn_arch_parse_hf_hparam(c, node, def))) return s;
    if (!(node = tn_yaml_get(c, map, "default"))) return TN_OK;
    if (def->kind != TN_HPARAM_CHOICE) return tn_yaml_expr(c, node, &def->default_expr);
    if ((s = tn_yaml_string(c, node, &def->default_expr))) return s;
    for (size_t i = 0; i < def->n_choices; i++)
        if (!strcmp(def->choices[i], def->default_expr)) return TN_OK;
    return tn_yaml_bad(c, node, "the default is none of the values:", def->default_expr);
}

static tn_status parse_hparams(tn_yaml *c, const yaml_node_t *map) {
    tn_status s = tn_yaml_check_map(c, map, NULL);
    if (s) return s;
    tn_arch *arch = c->arch;
    if (!(arch->hparams = tn_arena_alloc(c->arena, tn_yaml_map_size(map), sizeof *arch->hparams)))
        return tn_yaml_no_memory(c);
    for (size_t i = 0; i < tn_yaml_map_size(map); i++) { /* a default sees only the names above it */
        const yaml_node_pair_t *p = &map->data.mapping.pairs.start[i];
        if ((s = parse_hparam(c, tn_yaml_node(c, p->key), tn_yaml_node(c, p->value), &arch->hparams[i])))
            return s;
        arch->n_hparams++;
    }
    static const char *const needed[] = {"n_layers", "n_embd", "n_ctx_train", NULL};
    for (const char *const *n = needed; *n; n++)
        if (tn_arch_hparam(arch, *n, strlen(*n)) < 0)
            return tn_yaml_bad(c, map, "missing hyper-parameter", *n);
    if (strcmp(arch->hparams[0].name, "n_layers"))
        return tn_yaml_bad(c, map, "the first hyper-parameter must be n_layers", NULL);
    return TN_OK;
}

static tn_status parse_layers(tn_yaml *c, const yaml_node_t *node) {
    return node ? tn_yaml_expr(c, node, &c->arch->n_computed) : TN_OK;
}

static tn_status parse_checks(tn_yaml *c, const yaml_node_t *seq) {
    if (!seq) return TN_OK;
    if (seq->type != YAML_SEQUENCE_NODE) return tn_yaml_bad(c, seq, "expected a list of expressions", NULL);
    if (!(c->arch->checks = tn_arena_alloc(c->arena, tn_yaml_seq_size(seq), sizeof *c->arch->checks)))
        return tn_yaml_no_memory(c);
    for (size_t i = 0; i < tn_yaml_seq_size(seq); i++) {
        tn_status s = tn_yaml_expr(c, tn_yaml_node(c, seq->data.sequence.items.start[i]),
                                   &c->arch->checks[c->arch->n_checks++]);
        if (s) return s;
    }
    return TN_OK;
}

int tn_arch_tensor(const tn_arch *arch, const char *id) {
    for (size_t i = 0; id && i < arch->n_tensors; i++)
        if (!strcmp(arch->tensors[i].id, id)) return (int)i;
    return -1;
}

static tn_status parse_shape(tn_yaml *c, const yaml_node_t *seq, tn_tensor_def *def) {
    if (!seq || seq->type != YAML_SEQUENCE_NODE || tn_yaml_seq_size(seq) < 1 || tn_yaml_seq_size(seq) > 4)
        return tn_yaml_bad(c, seq, "expected a shape: a list of 1 to 4 expressions", NULL);
    def->n_dims = (uint32_t)tn_yaml_seq_size(seq);
    for (uint32_t i = 0; i < def->n_dims; i++) {
        tn_status s = tn_yaml_expr(c, tn_yaml_node(c, seq->data.sequence.items.start[i]), &def->shape[i]);
        if (s) return s;
    }
    return TN_OK;
}

/* What is used where a tensor is absent: another above it, or some rows of that. Those of the layers stand below the others. */
static tn_status parse_fallback(tn_yaml *c, const yaml_node_t *map, tn_tensor_def *def) {
    const yaml_node_t *other = tn_yaml_get(c, map, "or"), *row = tn_yaml_get(c, map, "row");
    if (!other)
        return row || !def->name ? tn_yaml_bad(c, map, row ? "'row' needs 'or'" : "missing name", NULL)
                                 : TN_OK;
    if ((def->fallback = tn_arch_tensor(c->arch, tn_yaml_scalar(other))) < 0)
        return tn_yaml_bad(c, other, "expected the name of a tensor above", NULL);
    if (row && def->n_dims > 3) return tn_yaml_bad(c, row, "rows are of matrices and vectors", NULL);
    return row ? tn_yaml_expr(c, row, &def->row) : TN_OK;
}

/* `true`, or where. */
static tn_status parse_optional(tn_yaml *c, const yaml_node_t *node, tn_tensor_def *def) {
    const char *text = tn_yaml_scalar(node);
    if (!text || strcmp(text, "true")) return tn_yaml_expr(c, node, &def->optional);
    def->optional = "1";
    return TN_OK;
}

static tn_status parse_tensor(tn_yaml *c, const yaml_node_t *key, const yaml_node_t *map, bool per_layer) {
    static const char *const known[] = {"name", "shape", "optional", "or", "row", "hf", NULL};
    tn_tensor_def *def = &c->arch->tensors[c->arch->n_tensors];
    const yaml_node_t *node;
    tn_status s;
    *def = (tn_tensor_def){.per_layer = per_layer, .fallback = -1};
    if ((s = tn_yaml_check_map(c, map, known)) || (s = tn_yaml_string(c, key, &def->id)) ||
        (s = parse_shape(c, tn_yaml_get(c, map, "shape"), def)))
        return s;
    if ((node = tn_yaml_get(c, map, "name")) && (s = tn_yaml_string(c, node, &def->name))) return s;
    if (tn_arch_tensor(c->arch, def->id) >= 0) return tn_yaml_bad(c, key, "given twice:", def->id);
    if (def->name && per_layer != (strstr(def->name, "{i}") != NULL))
        return tn_yaml_bad(c, map, "'{i}' belongs in the names of layer_tensors, and only there", NULL);
    if ((node = tn_yaml_get(c, map, "optional")) && (s = parse_optional(c, node, def))) return s;
    if ((s = parse_fallback(c, map, def))) return s;
    if ((node = tn_yaml_get(c, map, "hf")) && (s = tn_arch_parse_hf_parts(c, node, def))) return s;
    c->arch->n_tensors++;
    return TN_OK;
}

static tn_status parse_tensors(tn_yaml *c, const yaml_node_t *globals, const yaml_node_t *layers) {
    tn_status s;
    if ((s = tn_yaml_check_map(c, globals, NULL)) || (s = tn_yaml_check_map(c, layers, NULL))) return s;
    const yaml_node_t *sections[] = {globals, layers};
    c->arch->tensors = tn_arena_alloc(c->arena, tn_yaml_map_size(globals) + tn_yaml_map_size(layers),
                                      sizeof *c->arch->tensors);
    if (!c->arch->tensors) return tn_yaml_no_memory(c);
    for (int section = 0; section < 2; section++) {
        const yaml_node_t *map = sections[section];
        for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
            if ((s = parse_tensor(c, tn_yaml_node(c, p->key), tn_yaml_node(c, p->value), section == 1)))
                return s;
    }
    return TN_OK;
}

static tn_status parse_root(tn_yaml *c, const yaml_node_t *root) {
    static const char *const known[] = {"name",  "hparams", "layers", "checks", "tensors", "layer_tensors",
                                        "embed", "block",   "head",   "hf",     NULL};
    tn_status s;
    if ((s = tn_yaml_check_map(c, root, known)) ||
        (s = tn_yaml_string(c, tn_yaml_get(c, root, "name"), &c->arch->name)) ||
        (s = parse_hparams(c, tn_yaml_get(c, root, "hparams"))) ||
        (s = parse_layers(c, tn_yaml_get(c, root, "layers"))) ||
        (s = parse_checks(c, tn_yaml_get(c, root, "checks"))) ||
        (s = parse_tensors(c, tn_yaml_get(c, root, "tensors"), tn_yaml_get(c, root, "layer_tensors"))) ||
        (s = tn_arch_parse_embed(c, tn_yaml_get(c, root, "embed"), &c->arch->embed)) ||
        (s = tn_arch_parse_steps(c, tn_yaml_get(c, root, "block"), true, &c->arch->block, &c->arch->n_block)))
        return s;
    s = tn_arch_parse_steps(c, tn_yaml_get(c, root, "head"), false, &c->arch->head, &c->arch->n_head);
    return s ? s : tn_arch_parse_hf(c, tn_yaml_get(c, root, "hf"));
}

tn_status tn_arch_parse(const char *text, size_t size, const char *label, tn_arena *arena, tn_arch *out,
                        tn_error *err) {
    tn_yaml c = {.label = label, .arena = arena, .arch = out, .err = err};
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add(&hash, text, size);
    *out = (tn_arch){.hash = tn_hash_value(&hash)};
    tn_yaml_problem problem;
    if (!tn_yaml_load(text, size, &c.doc, &problem)) {
        if (!problem.text) return tn_yaml_no_memory(&c);
        char where[128];
        snprintf(where, sizeof where, "%s:%zu:%zu", label, problem.line, problem.column);
        return tn_fail(err, TN_ERR_FORMAT, "bad architecture description", where, "%s", problem.text);
    }
    const tn_status s = parse_root(&c, yaml_document_get_root_node(&c.doc));
    yaml_document_delete(&c.doc);
    return s;
}
