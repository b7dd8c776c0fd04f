#include "arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "expr.h"

/* One parse: the YAML tree, where to report, where to allocate. */
typedef struct ctx {
    yaml_document_t doc;
    const char *label;
    tn_arena *arena;
    tn_arch *arch;
    tn_error *err;
} ctx;

static tn_status bad(const ctx *c, const yaml_node_t *node, const char *why, const char *what) {
    char where[128];
    snprintf(where, sizeof where, "%s:%zu:%zu", c->label, node ? node->start_mark.line + 1 : 1,
             node ? node->start_mark.column + 1 : 1);
    return tn_fail(c->err, TN_ERR_FORMAT, "bad architecture description", where, "%s%s%s%s", why,
                   what ? " '" : "", what ? what : "", what ? "'" : "");
}

static tn_status out_of_memory(const ctx *c) {
    return tn_fail(c->err, TN_ERR_MEMORY, "cannot read architecture", c->label, "out of memory");
}

static yaml_node_t *node_at(ctx *c, int index) {
    return yaml_document_get_node(&c->doc, index);
}

static const char *scalar(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static size_t map_size(const yaml_node_t *map) {
    return (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

static size_t seq_size(const yaml_node_t *seq) {
    return (size_t)(seq->data.sequence.items.top - seq->data.sequence.items.start);
}

static yaml_node_t *map_get(ctx *c, const yaml_node_t *map, const char *key) {
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *k = scalar(node_at(c, p->key));
        if (k && !strcmp(k, key)) return node_at(c, p->value);
    }
    return NULL;
}

/* A mapping whose keys are all among `known` (any keys if NULL) and given once. */
static tn_status check_map(ctx *c, const yaml_node_t *map, const char *const *known) {
    if (!map || map->type != YAML_MAPPING_NODE) return bad(c, map, "expected a mapping", NULL);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node_at(c, p->key);
        const char *name = scalar(key);
        if (!name) return bad(c, key, "expected a name", NULL);
        if (map_get(c, map, name) != node_at(c, p->value)) return bad(c, key, "given twice:", name);
        bool found = known == NULL;
        for (const char *const *k = known; k && *k; k++) found |= !strcmp(*k, name);
        if (!found) return bad(c, key, "unknown field", name);
    }
    return TN_OK;
}

static tn_status copy_string(ctx *c, const yaml_node_t *node, const char **out) {
    const char *text = scalar(node);
    if (!text || !*text || strlen(text) != node->data.scalar.length)
        return bad(c, node, "expected text", NULL);
    *out = tn_arena_strdup(c->arena, text, strlen(text));
    return *out ? TN_OK : out_of_memory(c);
}

static tn_status get_number(ctx *c, const yaml_node_t *node, double *out) {
    const char *text = scalar(node);
    char *end = NULL;
    if (text && *text) *out = strtod(text, &end);
    return end && !*end ? TN_OK : bad(c, node, "expected a number", NULL);
}

static tn_status get_bool(ctx *c, const yaml_node_t *node, bool *out) {
    const char *text = scalar(node);
    if (!text || (strcmp(text, "true") && strcmp(text, "false")))
        return bad(c, node, "expected true or false", NULL);
    *out = text[0] == 't';
    return TN_OK;
}

/* ---- Expressions: every name must exist -------------------------------------------------------------------- */

int tn_arch_hparam(const tn_arch *arch, const char *name, size_t n) {
    for (size_t i = 0; i < arch->n_hparams; i++)
        if (!strncmp(arch->hparams[i].name, name, n) && !arch->hparams[i].name[n]) return (int)i;
    return -1;
}

static bool name_exists(const void *user, const char *name, size_t n, double *value) {
    const tn_arch *arch = user;
    *value = 1;
    if (n == 1 && *name == 'i') return true;
    if (n == 7 && !memcmp(name, "n_vocab", 7)) return true;
    const char *dot = memchr(name, '.', n);
    int h = tn_arch_hparam(arch, name, dot ? (size_t)(dot - name) : n);
    if (h < 0) return false;
    const tn_hparam_def *def = &arch->hparams[h];
    if (!dot) return def->kind != TN_HPARAM_CHOICE;
    size_t left = n - (size_t)(dot + 1 - name);
    for (size_t i = 0; i < def->n_choices; i++)
        if (!strncmp(def->choices[i], dot + 1, left) && !def->choices[i][left]) return true;
    return false;
}

static tn_status get_expr(ctx *c, const yaml_node_t *node, const char **out) {
    tn_status s = copy_string(c, node, out);
    if (s) return s;
    double value;
    const char *why;
    if (!tn_expr_eval(*out, name_exists, c->arch, &value, &why)) return bad(c, node, "bad expression:", why);
    return TN_OK;
}

/* ---- Sections ---------------------------------------------------------------------------------------------- */

static tn_status parse_choices(ctx *c, const yaml_node_t *seq, tn_hparam_def *def) {
    if (!seq || seq->type != YAML_SEQUENCE_NODE || seq_size(seq) == 0)
        return bad(c, seq, "expected a list of values", NULL);
    const char **list = tn_arena_alloc(c->arena, seq_size(seq), sizeof *list);
    if (!list) return out_of_memory(c);
    def->choices = list;
    def->n_choices = seq_size(seq);
    for (size_t i = 0; i < def->n_choices; i++) {
        tn_status s = copy_string(c, node_at(c, seq->data.sequence.items.start[i]), &list[i]);
        if (s) return s;
    }
    return TN_OK;
}

static tn_status parse_hparam_kind(ctx *c, const yaml_node_t *map, tn_hparam_def *def) {
    const yaml_node_t *node = map_get(c, map, "type");
    const char *type = node ? scalar(node) : "int";
    if (type && !strcmp(type, "int"))
        def->kind = TN_HPARAM_INT;
    else if (type && !strcmp(type, "float"))
        def->kind = TN_HPARAM_FLOAT;
    else if (type && !strcmp(type, "choice"))
        def->kind = TN_HPARAM_CHOICE;
    else
        return bad(c, node, "expected int, float or choice", NULL);
    return TN_OK;
}

static tn_status parse_range(ctx *c, const yaml_node_t *map, tn_hparam_def *def) {
    const yaml_node_t *min = map_get(c, map, "min"), *above = map_get(c, map, "above"),
                      *max = map_get(c, map, "max");
    if ((!min && !above) || !max) return bad(c, map, "missing range: min or above, and max", NULL);
    def->min_is_outside = above != NULL;
    tn_status s = get_number(c, above ? above : min, &def->min);
    return s ? s : get_number(c, max, &def->max);
}

static tn_status parse_hparam(ctx *c, const yaml_node_t *key, const yaml_node_t *map, tn_hparam_def *def) {
    static const char *const known[] = {"key",     "type",      "min",    "above", "max",
                                        "default", "per_layer", "values", NULL};
    const yaml_node_t *node;
    tn_status s;
    if ((s = check_map(c, map, known)) || (s = copy_string(c, key, &def->name)) ||
        (s = copy_string(c, map_get(c, map, "key"), &def->key)) || (s = parse_hparam_kind(c, map, def)))
        return s;
    s = def->kind == TN_HPARAM_CHOICE ? parse_choices(c, map_get(c, map, "values"), def)
                                      : parse_range(c, map, def);
    if (s) return s;
    if ((node = map_get(c, map, "per_layer")) && (s = get_bool(c, node, &def->per_layer))) return s;
    if (!(node = map_get(c, map, "default"))) return TN_OK;
    if (def->kind != TN_HPARAM_CHOICE) return get_expr(c, node, &def->default_expr);
    if ((s = copy_string(c, node, &def->default_expr))) return s;
    for (size_t i = 0; i < def->n_choices; i++)
        if (!strcmp(def->choices[i], def->default_expr)) return TN_OK;
    return bad(c, node, "the default is none of the values:", def->default_expr);
}

static tn_status parse_hparams(ctx *c, const yaml_node_t *map) {
    tn_status s = check_map(c, map, NULL);
    if (s) return s;
    tn_arch *arch = c->arch;
    if (!(arch->hparams = tn_arena_alloc(c->arena, map_size(map), sizeof *arch->hparams)))
        return out_of_memory(c);
    for (size_t i = 0; i < map_size(map); i++) { /* a default sees only the names above it */
        const yaml_node_pair_t *p = &map->data.mapping.pairs.start[i];
        if ((s = parse_hparam(c, node_at(c, p->key), node_at(c, p->value), &arch->hparams[i]))) return s;
        arch->n_hparams++;
    }
    static const char *const needed[] = {"n_layers", "n_embd", "n_ctx_train", NULL};
    for (const char *const *n = needed; *n; n++)
        if (tn_arch_hparam(arch, *n, strlen(*n)) < 0) return bad(c, map, "missing hyper-parameter", *n);
    if (strcmp(arch->hparams[0].name, "n_layers"))
        return bad(c, map, "the first hyper-parameter must be n_layers", NULL);
    return TN_OK;
}

static tn_status parse_checks(ctx *c, const yaml_node_t *seq) {
    if (!seq) return TN_OK;
    if (seq->type != YAML_SEQUENCE_NODE) return bad(c, seq, "expected a list of expressions", NULL);
    if (!(c->arch->checks = tn_arena_alloc(c->arena, seq_size(seq), sizeof *c->arch->checks)))
        return out_of_memory(c);
    for (size_t i = 0; i < seq_size(seq); i++) {
        tn_status s =
            get_expr(c, node_at(c, seq->data.sequence.items.start[i]), &c->arch->checks[c->arch->n_checks++]);
        if (s) return s;
    }
    return TN_OK;
}

static int find_tensor(const tn_arch *arch, const char *id) {
    for (size_t i = 0; id && i < arch->n_tensors; i++)
        if (!strcmp(arch->tensors[i].id, id)) return (int)i;
    return -1;
}

static tn_status parse_hf(ctx *c, const yaml_node_t *node, tn_tensor_def *def) {
    static const char *const known[] = {"name", "permute", "add", NULL};
    if (node->type == YAML_SCALAR_NODE) return copy_string(c, node, &def->hf_name);
    tn_status s;
    const yaml_node_t *n;
    if ((s = check_map(c, node, known)) || (s = copy_string(c, map_get(c, node, "name"), &def->hf_name)))
        return s;
    if ((n = map_get(c, node, "permute")) && (s = get_expr(c, n, &def->hf_permute))) return s;
    if ((n = map_get(c, node, "add")) && (s = get_expr(c, n, &def->hf_add))) return s;
    return TN_OK;
}

static tn_status parse_shape(ctx *c, const yaml_node_t *seq, tn_tensor_def *def) {
    if (!seq || seq->type != YAML_SEQUENCE_NODE || seq_size(seq) < 1 || seq_size(seq) > 4)
        return bad(c, seq, "expected a shape: a list of 1 to 4 expressions", NULL);
    def->n_dims = (uint32_t)seq_size(seq);
    for (uint32_t i = 0; i < def->n_dims; i++) {
        tn_status s = get_expr(c, node_at(c, seq->data.sequence.items.start[i]), &def->shape[i]);
        if (s) return s;
    }
    return TN_OK;
}

static tn_status parse_tensor(ctx *c, const yaml_node_t *key, const yaml_node_t *map, bool per_layer) {
    static const char *const known[] = {"name", "shape", "optional", "or", "hf", NULL};
    tn_tensor_def *def = &c->arch->tensors[c->arch->n_tensors];
    const yaml_node_t *node;
    tn_status s;
    *def = (tn_tensor_def){.per_layer = per_layer, .fallback = -1};
    if ((s = check_map(c, map, known)) || (s = copy_string(c, key, &def->id)) ||
        (s = copy_string(c, map_get(c, map, "name"), &def->name)) ||
        (s = parse_shape(c, map_get(c, map, "shape"), def)))
        return s;
    if (find_tensor(c->arch, def->id) >= 0) return bad(c, key, "given twice:", def->id);
    if (per_layer != (strstr(def->name, "{i}") != NULL))
        return bad(c, map, "'{i}' belongs in the names of layer_tensors, and only there", NULL);
    if ((node = map_get(c, map, "optional")) && (s = get_bool(c, node, &def->optional))) return s;
    if ((node = map_get(c, map, "or")) && (def->fallback = find_tensor(c->arch, scalar(node))) < 0)
        return bad(c, node, "expected the name of a tensor above", NULL);
    if (node && !per_layer && c->arch->tensors[def->fallback].per_layer)
        return bad(c, node, "a layer's tensor outside the layers", NULL);
    if ((node = map_get(c, map, "hf")) && (s = parse_hf(c, node, def))) return s;
    c->arch->n_tensors++;
    return TN_OK;
}

static tn_status parse_tensors(ctx *c, const yaml_node_t *globals, const yaml_node_t *layers) {
    tn_status s;
    if ((s = check_map(c, globals, NULL)) || (s = check_map(c, layers, NULL))) return s;
    const yaml_node_t *sections[] = {globals, layers};
    c->arch->tensors =
        tn_arena_alloc(c->arena, map_size(globals) + map_size(layers), sizeof *c->arch->tensors);
    if (!c->arch->tensors) return out_of_memory(c);
    for (int section = 0; section < 2; section++) {
        const yaml_node_t *map = sections[section];
        for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
            if ((s = parse_tensor(c, node_at(c, p->key), node_at(c, p->value), section == 1))) return s;
    }
    return TN_OK;
}

/* ---- Steps: one table of fields a kind ----------------------------------------------------------------------- */

typedef enum field_kind { FIELD_TENSOR, FIELD_EXPR, FIELD_CHOICE, FIELD_MAP } field_kind;

typedef struct field {
    const char *name; /* NULL ends a table */
    field_kind kind;
    bool required;
    size_t offset;              /* in tn_step */
    const char *const *choices; /* CHOICE: NULL-ended */
    const struct field *fields; /* MAP */
} field;

#define AT(member) offsetof(tn_step, member)

static const char *const pair_names[] = {"adjacent", "halves", NULL};
static const char *const activation_names[] = {"silu", "gelu", NULL};

static const field norm_fields[] = {{"weight", FIELD_TENSOR, true, AT(weight), NULL, NULL},
                                    {"eps", FIELD_EXPR, true, AT(eps), NULL, NULL},
                                    {0}};
static const field rope_fields[] = {{"pairs", FIELD_CHOICE, true, AT(rope_pairs), pair_names, NULL},
                                    {"dim", FIELD_EXPR, true, AT(rope_dim), NULL, NULL},
                                    {"theta", FIELD_EXPR, true, AT(rope_theta), NULL, NULL},
                                    {"factor", FIELD_EXPR, false, AT(rope_factor), NULL, NULL},
                                    {"freq_factors", FIELD_TENSOR, false, AT(freq_factors), NULL, NULL},
                                    {0}};
static const field attention_fields[] = {{"q", FIELD_TENSOR, true, AT(q), NULL, NULL},
                                         {"k", FIELD_TENSOR, true, AT(k), NULL, NULL},
                                         {"v", FIELD_TENSOR, true, AT(v), NULL, NULL},
                                         {"out", FIELD_TENSOR, true, AT(out), NULL, NULL},
                                         {"q_bias", FIELD_TENSOR, false, AT(q_bias), NULL, NULL},
                                         {"k_bias", FIELD_TENSOR, false, AT(k_bias), NULL, NULL},
                                         {"v_bias", FIELD_TENSOR, false, AT(v_bias), NULL, NULL},
                                         {"out_bias", FIELD_TENSOR, false, AT(out_bias), NULL, NULL},
                                         {"q_norm", FIELD_TENSOR, false, AT(q_norm), NULL, NULL},
                                         {"k_norm", FIELD_TENSOR, false, AT(k_norm), NULL, NULL},
                                         {"qk_norm_eps", FIELD_EXPR, false, AT(qk_norm_eps), NULL, NULL},
                                         {"heads", FIELD_EXPR, true, AT(heads), NULL, NULL},
                                         {"kv_heads", FIELD_EXPR, true, AT(kv_heads), NULL, NULL},
                                         {"head_dim", FIELD_EXPR, true, AT(head_dim), NULL, NULL},
                                         {"scale", FIELD_EXPR, true, AT(scale), NULL, NULL},
                                         {"window", FIELD_EXPR, false, AT(window), NULL, NULL},
                                         {"rope", FIELD_MAP, false, 0, NULL, rope_fields},
                                         {0}};
static const field mlp_fields[] = {{"gate", FIELD_TENSOR, true, AT(gate), NULL, NULL},
                                   {"up", FIELD_TENSOR, true, AT(up), NULL, NULL},
                                   {"down", FIELD_TENSOR, true, AT(down), NULL, NULL},
                                   {"activation", FIELD_CHOICE, true, AT(activation), activation_names, NULL},
                                   {0}};
static const field logits_fields[] = {{"weight", FIELD_TENSOR, true, AT(weight), NULL, NULL}, {0}};
static const field no_fields[] = {{0}};

static const struct {
    const char *name;
    tn_step_kind kind;
    const field *fields;
} step_table[] = {{"norm", TN_STEP_NORM, norm_fields},
                  {"attention", TN_STEP_ATTENTION, attention_fields},
                  {"mlp", TN_STEP_MLP, mlp_fields},
                  {"residual", TN_STEP_RESIDUAL, no_fields},
                  {"logits", TN_STEP_LOGITS, logits_fields}};

static tn_status parse_choice(ctx *c, const yaml_node_t *node, const field *f, int *out) {
    const char *text = scalar(node);
    for (int i = 0; text && f->choices[i]; i++)
        if (!strcmp(f->choices[i], text)) {
            *out = i;
            return TN_OK;
        }
    return bad(c, node, "unknown value of", f->name);
}

static tn_status parse_fields(ctx *c, const yaml_node_t *map, const field *fields, bool in_layer,
                              tn_step *step) {
    const char *known[32] = {0};
    for (size_t i = 0; fields[i].name; i++) known[i] = fields[i].name;
    tn_status s = check_map(c, map, known);
    for (const field *f = fields; !s && f->name; f++) {
        const yaml_node_t *node = map_get(c, map, f->name);
        char *member = (char *)step + f->offset;
        if (!node) {
            if (f->required) s = bad(c, map, "missing field", f->name);
        } else if (f->kind == FIELD_TENSOR) {
            int index = find_tensor(c->arch, scalar(node));
            if (index < 0)
                s = bad(c, node, "unknown tensor in", f->name);
            else if (c->arch->tensors[index].per_layer && !in_layer)
                s = bad(c, node, "a layer's tensor outside the block", NULL);
            else
                memcpy(member, &index, sizeof index);
        } else if (f->kind == FIELD_EXPR) {
            const char *text = NULL;
            if (!(s = get_expr(c, node, &text))) memcpy(member, &text, sizeof text);
        } else if (f->kind == FIELD_CHOICE) {
            int value = 0;
            if (!(s = parse_choice(c, node, f, &value))) memcpy(member, &value, sizeof value);
        } else {
            s = parse_fields(c, node, f->fields, in_layer, step);
        }
    }
    return s;
}

static tn_status parse_step(ctx *c, const yaml_node_t *node, bool in_layer, tn_step *step) {
    *step = (tn_step){.weight = -1,
                      .q = -1,
                      .k = -1,
                      .v = -1,
                      .out = -1,
                      .q_bias = -1,
                      .k_bias = -1,
                      .v_bias = -1,
                      .out_bias = -1,
                      .q_norm = -1,
                      .k_norm = -1,
                      .freq_factors = -1,
                      .gate = -1,
                      .up = -1,
                      .down = -1};
    const char *name = scalar(node);
    const yaml_node_t *fields = NULL;
    if (node && node->type == YAML_MAPPING_NODE && map_size(node) == 1) {
        name = scalar(node_at(c, node->data.mapping.pairs.start[0].key));
        fields = node_at(c, node->data.mapping.pairs.start[0].value);
    }
    if (!name) return bad(c, node, "expected a step: its name, and its fields", NULL);
    for (size_t i = 0; i < sizeof step_table / sizeof *step_table; i++) {
        if (strcmp(step_table[i].name, name)) continue;
        step->kind = step_table[i].kind;
        if (!fields && step_table[i].fields == no_fields) return TN_OK;
        if (!fields) return bad(c, node, "missing fields of", name);
        return parse_fields(c, fields, step_table[i].fields, in_layer, step);
    }
    return bad(c, node, "unknown step", name);
}

static tn_status parse_steps(ctx *c, const yaml_node_t *seq, bool in_layer, tn_step **out, size_t *n) {
    if (!seq || seq->type != YAML_SEQUENCE_NODE || seq_size(seq) == 0)
        return bad(c, seq, "expected a list of steps", NULL);
    if (!(*out = tn_arena_alloc(c->arena, seq_size(seq), sizeof **out))) return out_of_memory(c);
    *n = seq_size(seq);
    for (size_t i = 0; i < *n; i++) {
        const yaml_node_t *node = node_at(c, seq->data.sequence.items.start[i]);
        tn_status s = parse_step(c, node, in_layer, &(*out)[i]);
        if (s) return s;
        bool last_of_head = !in_layer && i + 1 == *n;
        if (((*out)[i].kind == TN_STEP_LOGITS) != last_of_head)
            return bad(c, node, "logits ends the head, and only that", NULL);
        if (!in_layer && (*out)[i].kind == TN_STEP_ATTENTION)
            return bad(c, node, "attention belongs in the block", NULL);
    }
    return TN_OK;
}

static tn_status parse_embed(ctx *c, const yaml_node_t *map) {
    static const char *const known[] = {"table", "scale", NULL};
    tn_status s = check_map(c, map, known);
    if (s) return s;
    c->arch->embed_table = find_tensor(c->arch, scalar(map_get(c, map, "table")));
    if (c->arch->embed_table < 0) return bad(c, map, "unknown tensor in 'table'", NULL);
    const yaml_node_t *scale = map_get(c, map, "scale");
    return scale ? get_expr(c, scale, &c->arch->embed_scale) : TN_OK;
}

static tn_status parse_root(ctx *c, const yaml_node_t *root) {
    static const char *const known[] = {"name",  "hparams", "checks", "tensors", "layer_tensors",
                                        "embed", "block",   "head",   NULL};
    tn_status s;
    if ((s = check_map(c, root, known)) || (s = copy_string(c, map_get(c, root, "name"), &c->arch->name)) ||
        (s = parse_hparams(c, map_get(c, root, "hparams"))) ||
        (s = parse_checks(c, map_get(c, root, "checks"))) ||
        (s = parse_tensors(c, map_get(c, root, "tensors"), map_get(c, root, "layer_tensors"))) ||
        (s = parse_embed(c, map_get(c, root, "embed"))) ||
        (s = parse_steps(c, map_get(c, root, "block"), true, &c->arch->block, &c->arch->n_block)))
        return s;
    return parse_steps(c, map_get(c, root, "head"), false, &c->arch->head, &c->arch->n_head);
}

tn_status tn_arch_parse(const char *text, size_t size, const char *label, tn_arena *arena, tn_arch *out,
                        tn_error *err) {
    ctx c = {.label = label, .arena = arena, .arch = out, .err = err};
    *out = (tn_arch){0};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return out_of_memory(&c);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    tn_status s;
    if (!yaml_parser_load(&parser, &c.doc)) {
        char where[128];
        snprintf(where, sizeof where, "%s:%zu:%zu", label, parser.problem_mark.line + 1,
                 parser.problem_mark.column + 1);
        s = tn_fail(err, TN_ERR_FORMAT, "bad architecture description", where, "%s",
                    parser.problem ? parser.problem : "not YAML");
    } else {
        s = parse_root(&c, yaml_document_get_root_node(&c.doc));
        yaml_document_delete(&c.doc);
    }
    yaml_parser_delete(&parser);
    return s;
}
