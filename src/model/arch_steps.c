/* The steps of a description: one table of fields a kind of step. */
#include <string.h>

#include "arch_yaml.h"

typedef enum field_kind { FIELD_TENSOR, FIELD_EXPR, FIELD_CHOICE, FIELD_MAP } field_kind;

typedef struct field {
    const char *name; /* NULL ends a table */
    field_kind kind;
    bool required;
    size_t offset;              /* in tn_step */
    const char *const *choices; /* CHOICE: NULL-ended */
    const struct field *fields; /* MAP */
} field;

#define TENSOR(name, member)                                                                                 \
    { name, FIELD_TENSOR, false, offsetof(tn_step, member), NULL, NULL }
#define NEEDED_TENSOR(name, member)                                                                          \
    { name, FIELD_TENSOR, true, offsetof(tn_step, member), NULL, NULL }
#define EXPR(name, member)                                                                                   \
    { name, FIELD_EXPR, false, offsetof(tn_step, member), NULL, NULL }
#define NEEDED_EXPR(name, member)                                                                            \
    { name, FIELD_EXPR, true, offsetof(tn_step, member), NULL, NULL }
#define CHOICE(name, member, choices)                                                                        \
    { name, FIELD_CHOICE, false, offsetof(tn_step, member), choices, NULL }
#define NEEDED_CHOICE(name, member, choices)                                                                 \
    { name, FIELD_CHOICE, true, offsetof(tn_step, member), choices, NULL }
#define MAP(name, fields)                                                                                    \
    { name, FIELD_MAP, false, 0, NULL, fields }

static const char *const norm_kinds[] = {"rms", "layer", NULL};
static const char *const norm_spans[] = {"heads", "all", NULL};
static const char *const norm_places[] = {"before_rope", "after_rope", NULL};
static const char *const pair_names[] = {"adjacent", "halves", NULL};
static const char *const activation_names[TN_ACTIVATION_COUNT + 1] = {
    [TN_ACTIVATION_SILU] = "silu", [TN_ACTIVATION_GELU] = "gelu",   [TN_ACTIVATION_GELU_ERF] = "gelu_erf",
    [TN_ACTIVATION_RELU] = "relu", [TN_ACTIVATION_RELU2] = "relu2", [TN_ACTIVATION_CLAMPED] = "clamped",
};

static const field norm_fields[] = {CHOICE("kind", norm_kind, norm_kinds),
                                    TENSOR("weight", weight),
                                    TENSOR("bias", bias),
                                    NEEDED_EXPR("eps", eps),
                                    {0}};
static const field yarn_fields[] = {NEEDED_EXPR("original", yarn_original),
                                    NEEDED_EXPR("beta_fast", yarn_beta_fast),
                                    NEEDED_EXPR("beta_slow", yarn_beta_slow),
                                    EXPR("truncate", yarn_truncate),
                                    {0}};
static const field long_fields[] = {
    NEEDED_TENSOR("factors", long_factors), NEEDED_EXPR("above", long_above), {0}};
static const field rope_fields[] = {NEEDED_CHOICE("pairs", rope_pairs, pair_names),
                                    NEEDED_EXPR("dim", rope_dim),
                                    NEEDED_EXPR("theta", rope_theta),
                                    EXPR("factor", rope_factor),
                                    EXPR("magnitude", rope_magnitude),
                                    TENSOR("freq_factors", freq_factors),
                                    MAP("yarn", yarn_fields),
                                    MAP("long", long_fields),
                                    {0}};
static const field qk_norm_fields[] = {TENSOR("q", q_norm),
                                       TENSOR("k", k_norm),
                                       TENSOR("q_bias", q_norm_bias),
                                       TENSOR("k_bias", k_norm_bias),
                                       NEEDED_EXPR("eps", eps),
                                       CHOICE("kind", norm_kind, norm_kinds),
                                       CHOICE("over", norm_span, norm_spans),
                                       CHOICE("place", norm_place, norm_places),
                                       {0}};
static const field temperature_fields[] = {
    NEEDED_EXPR("beta", temper_beta), NEEDED_EXPR("length", temper_length), {0}};
static const field attention_fields[] = {NEEDED_TENSOR("q", q),
                                         NEEDED_TENSOR("k", k),
                                         NEEDED_TENSOR("v", v),
                                         NEEDED_TENSOR("out", out),
                                         TENSOR("q_bias", q_bias),
                                         TENSOR("k_bias", k_bias),
                                         TENSOR("v_bias", v_bias),
                                         TENSOR("out_bias", out_bias),
                                         NEEDED_EXPR("heads", heads),
                                         NEEDED_EXPR("kv_heads", kv_heads),
                                         NEEDED_EXPR("head_dim", head_dim),
                                         NEEDED_EXPR("scale", scale),
                                         EXPR("causal", causal),
                                         EXPR("window", window),
                                         EXPR("softcap", softcap),
                                         EXPR("alibi", alibi),
                                         EXPR("clamp", clamp),
                                         TENSOR("sinks", sinks),
                                         MAP("qk_norm", qk_norm_fields),
                                         MAP("rope", rope_fields),
                                         MAP("temperature", temperature_fields),
                                         {0}};
static const field latent_fields[] = {TENSOR("q", q),
                                      TENSOR("q_a", q_a),
                                      TENSOR("q_a_norm", q_a_norm),
                                      TENSOR("q_b", q_b),
                                      NEEDED_TENSOR("kv_a", kv_a),
                                      NEEDED_TENSOR("kv_a_norm", kv_a_norm),
                                      TENSOR("kv_b", kv_b),
                                      TENSOR("k_b", k_b),
                                      TENSOR("v_b", v_b),
                                      NEEDED_TENSOR("out", out),
                                      NEEDED_EXPR("eps", eps),
                                      NEEDED_EXPR("heads", heads),
                                      NEEDED_EXPR("head_dim", head_dim),
                                      NEEDED_EXPR("value_dim", value_dim),
                                      NEEDED_EXPR("rank", rank),
                                      NEEDED_EXPR("scale", scale),
                                      MAP("rope", rope_fields),
                                      {0}};
static const field mlp_fields[] = {TENSOR("gate", gate),
                                   NEEDED_TENSOR("up", up),
                                   NEEDED_TENSOR("down", down),
                                   TENSOR("gate_bias", gate_bias),
                                   TENSOR("up_bias", up_bias),
                                   TENSOR("down_bias", down_bias),
                                   TENSOR("output_gate", output_gate),
                                   NEEDED_CHOICE("activation", activation, activation_names),
                                   {0}};
static const field groups_fields[] = {
    NEEDED_EXPR("of", groups), NEEDED_EXPR("used", groups_used), NEEDED_EXPR("best", group_best), {0}};
static const field moe_fields[] = {NEEDED_TENSOR("router", router),
                                   TENSOR("router_bias", router_bias),
                                   TENSOR("select_bias", select_bias),
                                   NEEDED_EXPR("used", used),
                                   EXPR("sigmoid", sigmoid),
                                   EXPR("near", near),
                                   MAP("groups", groups_fields),
                                   EXPR("renormalise", renormalise),
                                   EXPR("scale", scale),
                                   NEEDED_TENSOR("gate", gate),
                                   NEEDED_TENSOR("up", up),
                                   NEEDED_TENSOR("down", down),
                                   TENSOR("gate_bias", gate_bias),
                                   TENSOR("up_bias", up_bias),
                                   TENSOR("down_bias", down_bias),
                                   NEEDED_CHOICE("activation", activation, activation_names),
                                   {0}};
static const field linear_fields[] = {NEEDED_TENSOR("weight", weight), TENSOR("bias", bias), {0}};
static const field logits_fields[] = {NEEDED_TENSOR("weight", weight),
                                      TENSOR("bias", bias),
                                      EXPR("scale", scale),
                                      EXPR("softcap", softcap),
                                      {0}};

static const field embed_fields[] = {NEEDED_TENSOR("table", table),  EXPR("scale", scale),
                                     TENSOR("positions", positions), TENSOR("types", types),
                                     MAP("norm", norm_fields),       {0}};

/* What stands behind a step's name. */
typedef enum argument {
    ARGUMENT_NONE,
    ARGUMENT_FIELDS,
    ARGUMENT_EXPR,
    ARGUMENT_NEW_VALUE,
    ARGUMENT_VALUE
} argument;

static const struct step_row {
    const char *name;
    tn_step_kind kind;
    argument argument;
    const field *fields;
} step_table[] = {{"norm", TN_STEP_NORM, ARGUMENT_FIELDS, norm_fields},
                  {"attention", TN_STEP_ATTENTION, ARGUMENT_FIELDS, attention_fields},
                  {"latent_attention", TN_STEP_LATENT, ARGUMENT_FIELDS, latent_fields},
                  {"mlp", TN_STEP_MLP, ARGUMENT_FIELDS, mlp_fields},
                  {"moe", TN_STEP_MOE, ARGUMENT_FIELDS, moe_fields},
                  {"residual", TN_STEP_RESIDUAL, ARGUMENT_NONE, NULL},
                  {"save", TN_STEP_SAVE, ARGUMENT_NEW_VALUE, NULL},
                  {"load", TN_STEP_LOAD, ARGUMENT_VALUE, NULL},
                  {"add", TN_STEP_ADD, ARGUMENT_VALUE, NULL},
                  {"scale", TN_STEP_SCALE, ARGUMENT_EXPR, NULL},
                  {"linear", TN_STEP_LINEAR, ARGUMENT_FIELDS, linear_fields},
                  {"logits", TN_STEP_LOGITS, ARGUMENT_FIELDS, logits_fields},
                  {"embedding", TN_STEP_EMBEDDING, ARGUMENT_NONE, NULL}};

/* One list of steps, and the values that it has named so far; the first is x. */
typedef struct list {
    tn_yaml *c;
    bool in_layer;
    const char *values[TN_MAX_SAVED];
    int n_values;
} list;

static tn_status parse_choice(const list *l, const yaml_node_t *node, const field *f, int *out) {
    const char *text = tn_yaml_scalar(node);
    for (int i = 0; text && f->choices[i]; i++)
        if (!strcmp(f->choices[i], text)) {
            *out = i;
            return TN_OK;
        }
    return tn_yaml_bad(l->c, node, "unknown value of", f->name);
}

static tn_status parse_tensor(const list *l, const yaml_node_t *node, const field *f, int *out) {
    *out = tn_arch_tensor(l->c->arch, tn_yaml_scalar(node));
    if (*out < 0) return tn_yaml_bad(l->c, node, "unknown tensor in", f->name);
    if (l->c->arch->tensors[*out].per_layer && !l->in_layer)
        return tn_yaml_bad(l->c, node, "a layer's tensor outside the block", NULL);
    return TN_OK;
}

/* Tensors that are not named become -1; the rest stays 0 or NULL. */
static void set_absent(tn_step *step, const field *fields) {
    const int none = -1;
    for (const field *f = fields; f->name; f++) {
        if (f->kind == FIELD_TENSOR) memcpy((char *)step + f->offset, &none, sizeof none);
        if (f->kind == FIELD_MAP) set_absent(step, f->fields);
    }
}

static tn_status parse_fields(const list *l, const yaml_node_t *map, const field *fields, tn_step *step) {
    const char *known[32] = {0};
    for (size_t i = 0; fields[i].name; i++) known[i] = fields[i].name;
    tn_status s = tn_yaml_check_map(l->c, map, known);
    for (const field *f = fields; !s && f->name; f++) {
        const yaml_node_t *node = tn_yaml_get(l->c, map, f->name);
        char *member = (char *)step + f->offset;
        int index = 0;
        const char *text = NULL;
        if (!node) {
            if (f->required) s = tn_yaml_bad(l->c, map, "missing field", f->name);
        } else if (f->kind == FIELD_MAP) {
            s = parse_fields(l, node, f->fields, step);
        } else if (f->kind == FIELD_EXPR) {
            if (!(s = tn_yaml_expr(l->c, node, &text))) memcpy(member, &text, sizeof text);
        } else {
            s = f->kind == FIELD_TENSOR ? parse_tensor(l, node, f, &index) : parse_choice(l, node, f, &index);
            memcpy(member, &index, sizeof index);
        }
    }
    return s;
}

/* The number of a named value; a new name gets one where that is allowed. */
static tn_status parse_value(list *l, const yaml_node_t *node, bool may_be_new, int *out) {
    const char *name = NULL;
    tn_status s = tn_yaml_string(l->c, node, &name);
    if (s) return s;
    for (*out = 0; *out < l->n_values; ++*out)
        if (!strcmp(l->values[*out], name)) return TN_OK;
    if (!may_be_new) return tn_yaml_bad(l->c, node, "no step above saves", name);
    if (l->n_values == TN_MAX_SAVED) return tn_yaml_bad(l->c, node, "too many values are saved", NULL);
    l->values[l->n_values++] = name;
    return TN_OK;
}

/* The step's name, what stands behind it and its condition: a scalar, or a mapping with `when` beside the step. */
static tn_status split_step(list *l, const yaml_node_t *node, const char **name, const yaml_node_t **rest,
                            const yaml_node_t **when) {
    *name = tn_yaml_scalar(node);
    *rest = *when = NULL;
    if (*name) return TN_OK;
    const bool is_map = node->type == YAML_MAPPING_NODE;
    if (is_map) *when = tn_yaml_get(l->c, node, "when");
    if (!is_map || tn_yaml_map_size(node) != (*when ? 2 : 1))
        return tn_yaml_bad(l->c, node, "expected a step: its name, and what belongs to it", NULL);
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        if (tn_yaml_node(l->c, p->value) == *when) continue;
        *name = tn_yaml_scalar(tn_yaml_node(l->c, p->key));
        *rest = tn_yaml_node(l->c, p->value);
    }
    return *name ? TN_OK : tn_yaml_bad(l->c, node, "expected a step: its name, and what belongs to it", NULL);
}

static tn_status parse_argument(list *l, const yaml_node_t *node, const yaml_node_t *rest,
                                const struct step_row *row, tn_step *step) {
    if (row->argument == ARGUMENT_NONE)
        return rest && !(tn_yaml_scalar(rest) && !*tn_yaml_scalar(rest))
                   ? tn_yaml_bad(l->c, rest, "nothing belongs behind", row->name)
                   : TN_OK;
    if (!rest) return tn_yaml_bad(l->c, node, "missing fields of", row->name);
    if (row->argument == ARGUMENT_EXPR) return tn_yaml_expr(l->c, rest, &step->scale);
    if (row->argument == ARGUMENT_FIELDS) {
        set_absent(step, row->fields);
        return parse_fields(l, rest, row->fields, step);
    }
    return parse_value(l, rest, row->argument == ARGUMENT_NEW_VALUE, &step->value);
}

static tn_status parse_step(list *l, const yaml_node_t *node, tn_step *step) {
    const char *name;
    const yaml_node_t *rest, *when;
    tn_status s = split_step(l, node, &name, &rest, &when);
    *step = (tn_step){0};
    if (!s && when) s = tn_yaml_expr(l->c, when, &step->when);
    if (s) return s;
    for (size_t i = 0; i < sizeof step_table / sizeof *step_table; i++) {
        if (strcmp(step_table[i].name, name) != 0) continue;
        step->kind = step_table[i].kind;
        return parse_argument(l, node, rest, &step_table[i], step);
    }
    return tn_yaml_bad(l->c, node, "unknown step", name);
}

tn_status tn_arch_parse_embed(tn_yaml *c, const yaml_node_t *map, tn_step *out) {
    const list l = {.c = c};
    *out = (tn_step){0};
    set_absent(out, embed_fields);
    return parse_fields(&l, map, embed_fields, out);
}

tn_status tn_arch_parse_steps(tn_yaml *c, const yaml_node_t *seq, bool in_layer, tn_step **out, size_t *n) {
    if (!seq || seq->type != YAML_SEQUENCE_NODE || tn_yaml_seq_size(seq) == 0)
        return tn_yaml_bad(c, seq, "expected a list of steps", NULL);
    *n = tn_yaml_seq_size(seq);
    if (!(*out = tn_arena_alloc(c->arena, *n, sizeof **out))) return tn_yaml_no_memory(c);
    list l = {.c = c, .in_layer = in_layer, .values = {"x"}, .n_values = 1};
    for (size_t i = 0; i < *n; i++) {
        const yaml_node_t *node = tn_yaml_node(c, seq->data.sequence.items.start[i]);
        tn_status s = parse_step(&l, node, &(*out)[i]);
        if (s) return s;
        const bool is_result = (*out)[i].kind == TN_STEP_LOGITS || (*out)[i].kind == TN_STEP_EMBEDDING;
        if (is_result != (!in_layer && i + 1 == *n) || (is_result && (*out)[i].when))
            return tn_yaml_bad(c, node, "logits or embedding ends the head, and only that", NULL);
        if (!in_layer && ((*out)[i].kind == TN_STEP_ATTENTION || (*out)[i].kind == TN_STEP_LATENT))
            return tn_yaml_bad(c, node, "attention belongs in the block", NULL);
    }
    return TN_OK;
}
