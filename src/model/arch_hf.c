/* Reads what a description says about Hugging Face checkpoints: the fields `hf` and the section of that name. */
#include <string.h>

#include "arch_yaml.h"

typedef tn_status item_reader(tn_yaml *c, const yaml_node_t *node, const char **out);

/* A scalar, or a list of them. */
static tn_status parse_list(tn_yaml *c, const yaml_node_t *node, item_reader *read, const char ***out,
                            size_t *n) {
    const bool many = node && node->type == YAML_SEQUENCE_NODE;
    const size_t count = many ? tn_yaml_seq_size(node) : 1;
    const char **items = tn_arena_alloc(c->arena, count, sizeof *items);
    if (!items) return tn_yaml_no_memory(c);
    if (count == 0) return tn_yaml_bad(c, node, "an empty list", NULL);
    for (size_t i = 0; i < count; i++) {
        tn_status s = read(c, many ? tn_yaml_node(c, node->data.sequence.items.start[i]) : node, &items[i]);
        if (s) return s;
    }
    *out = items, *n = count;
    return TN_OK;
}

static tn_status parse_source(tn_yaml *c, const yaml_node_t *node, tn_hf_source *out) {
    return parse_list(c, node, tn_yaml_hf_expr, &out->exprs, &out->n);
}

static tn_status parse_conditional(tn_yaml *c, const yaml_node_t *map, tn_hparam_def *def) {
    static const char *const known[] = {"value", "when", NULL};
    tn_status s = tn_yaml_check_map(c, map, known);
    if (s || (s = parse_source(c, tn_yaml_get(c, map, "value"), &def->hf))) return s;
    return parse_source(c, tn_yaml_get(c, map, "when"), &def->hf_when);
}

tn_status tn_arch_parse_hf_hparam(tn_yaml *c, const yaml_node_t *node, tn_hparam_def *def) {
    if (def->kind != TN_HPARAM_CHOICE)
        return node->type == YAML_MAPPING_NODE ? parse_conditional(c, node, def)
                                               : parse_source(c, node, &def->hf);
    tn_status s = tn_yaml_check_map(c, node, NULL);
    if (s) return s;
    if (tn_yaml_map_size(node) == 0) return tn_yaml_bad(c, node, "an empty mapping", NULL);
    size_t n = 0;
    if (!(def->hf_choices = tn_arena_alloc(c->arena, def->n_choices, sizeof *def->hf_choices)))
        return tn_yaml_no_memory(c);
    for (size_t i = 0; i < def->n_choices; i++) {
        const yaml_node_t *when = tn_yaml_get(c, node, def->choices[i]);
        if (when && (s = parse_source(c, when, &def->hf_choices[i]))) return s;
        n += when != NULL;
    }
    if (n < tn_yaml_map_size(node)) return tn_yaml_bad(c, node, "a field that is none of the values", NULL);
    return TN_OK;
}

static tn_status parse_part(tn_yaml *c, const yaml_node_t *node, tn_hf_part *part) {
    static const char *const known[] = {"name",      "permute", "add",  "rows", "values",
                                        "transpose", "f32",     "when", NULL};
    if (node->type == YAML_SCALAR_NODE) return tn_yaml_string(c, node, &part->name);
    tn_status s = tn_yaml_check_map(c, node, known);
    if (s) return s;
    const struct {
        const char *field;
        item_reader *read;
        const char **out;
    } fields[] = {{"name", tn_yaml_string, &part->name},
                  {"permute", tn_yaml_hf_expr, &part->permute},
                  {"add", tn_yaml_hf_expr, &part->add},
                  {"rows", tn_yaml_hf_expr, &part->rows},
                  {"values", tn_yaml_hf_expr, &part->values}};
    const yaml_node_t *n;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if ((n = tn_yaml_get(c, node, fields[i].field)) && (s = fields[i].read(c, n, fields[i].out)))
            return s;
    if ((n = tn_yaml_get(c, node, "transpose")) && (s = tn_yaml_bool(c, n, &part->transpose))) return s;
    if ((n = tn_yaml_get(c, node, "f32")) && (s = tn_yaml_bool(c, n, &part->f32))) return s;
    if ((n = tn_yaml_get(c, node, "when")) && (s = parse_source(c, n, &part->when))) return s;
    if (!part->name == !part->values) return tn_yaml_bad(c, node, "expected either 'name' or 'values'", NULL);
    if (part->transpose && part->permute)
        return tn_yaml_bad(c, node, "'transpose' does not go with 'permute'", NULL);
    return TN_OK;
}

/* What a part may ask for by the dimensions of its tensor; {e} counts the last of them. */
static tn_status check_part(tn_yaml *c, const yaml_node_t *node, const tn_tensor_def *def,
                            const tn_hf_part *part) {
    const uint32_t inner = def->n_dims - (part->name && strstr(part->name, "{e}") ? 1 : 0);
    if (part->transpose && inner < 2) return tn_yaml_bad(c, node, "'transpose' is of matrices", NULL);
    if (part->values && (def->n_dims != 1 || part->rows || part->permute || part->add))
        return tn_yaml_bad(c, node, "'values' are of vectors, and go with 'f32' and 'when' alone", NULL);
    return TN_OK;
}

tn_status tn_arch_parse_hf_parts(tn_yaml *c, const yaml_node_t *node, tn_tensor_def *def) {
    const bool many = node->type == YAML_SEQUENCE_NODE;
    const size_t n = many ? tn_yaml_seq_size(node) : 1;
    if (!def->name) return tn_yaml_bad(c, node, "a tensor without a name is in no file", NULL);
    if (!(def->hf = tn_arena_alloc(c->arena, n, sizeof *def->hf))) return tn_yaml_no_memory(c);
    for (; def->n_hf < n; def->n_hf++) {
        const yaml_node_t *part = many ? tn_yaml_node(c, node->data.sequence.items.start[def->n_hf]) : node;
        tn_status s = parse_part(c, part, &def->hf[def->n_hf]);
        if (!s) s = check_part(c, part, def, &def->hf[def->n_hf]);
        if (s) return s;
    }
    return TN_OK;
}

/* A mapping of names to sources; `tokens`: {token: TEXT} may stand for a source. */
static tn_status parse_named(tn_yaml *c, const yaml_node_t *map, item_reader *read, bool tokens,
                             tn_hf_named **out, size_t *n) {
    static const char *const known[] = {"token", NULL};
    if (!map) return TN_OK;
    tn_status s = tn_yaml_check_map(c, map, NULL);
    if (s) return s;
    if (!(*out = tn_arena_alloc(c->arena, tn_yaml_map_size(map), sizeof **out))) return tn_yaml_no_memory(c);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++, (*n)++) {
        tn_hf_named *item = &(*out)[*n];
        const yaml_node_t *value = tn_yaml_node(c, p->value);
        if ((s = tn_yaml_string(c, tn_yaml_node(c, p->key), &item->name))) return s;
        if (tokens && value->type == YAML_MAPPING_NODE) {
            if ((s = tn_yaml_check_map(c, value, known)) ||
                (s = tn_yaml_string(c, tn_yaml_get(c, value, "token"), &item->token)))
                return s;
        } else if ((s = parse_list(c, value, read, &item->source.exprs, &item->source.n))) {
            return s;
        }
    }
    return TN_OK;
}

tn_status tn_arch_parse_hf(tn_yaml *c, const yaml_node_t *map) {
    static const char *const known[] = {"classes", "names",   "require",   "strip",
                                        "ignore",  "n_vocab", "tokenizer", NULL};
    tn_hf *hf = &c->arch->hf;
    if (!map) return TN_OK;
    tn_status s = tn_yaml_check_map(c, map, known);
    if (s) return s;
    const struct {
        const char *field;
        item_reader *read;
        const char ***out;
        size_t *n;
    } lists[] = {{"classes", tn_yaml_string, &hf->classes, &hf->n_classes},
                 {"require", tn_yaml_hf_expr, &hf->require, &hf->n_require},
                 {"strip", tn_yaml_string, &hf->strip, &hf->n_strip},
                 {"ignore", tn_yaml_string, &hf->ignore, &hf->n_ignore},
                 {"n_vocab", tn_yaml_hf_expr, &hf->n_vocab.exprs, &hf->n_vocab.n}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const yaml_node_t *node = tn_yaml_get(c, map, lists[i].field);
        if (node && (s = parse_list(c, node, lists[i].read, lists[i].out, lists[i].n))) return s;
    }
    if (!hf->n_classes || !hf->n_vocab.n) return tn_yaml_bad(c, map, "missing classes or n_vocab", NULL);
    if ((s = parse_named(c, tn_yaml_get(c, map, "names"), tn_yaml_string, false, &hf->names, &hf->n_names)))
        return s;
    return parse_named(c, tn_yaml_get(c, map, "tokenizer"), tn_yaml_hf_expr, true, &hf->tokenizer,
                       &hf->n_tokenizer);
}
