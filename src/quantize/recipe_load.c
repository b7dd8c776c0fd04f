/* Recipes from YAML. Every failure is an error with line and column. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../formats/yaml_doc.h"
#include "../base/c_locale.h"
#include "../base/fmap.h"
#include "mixes.h"
#include "quantize.h"
#include "recipe.h"

enum { MAX_RECIPE_BYTES = 1 << 20, MAX_RULES = 10000 };

/* One parse: the tree, where to report, where to allocate. */
typedef struct source {
    yaml_document_t doc;
    const char *label;
    tn_arena *arena;
    tn_error *err;
} source;

static tn_status bad(const source *c, const yaml_node_t *node, const char *why, const char *what) {
    char where[160];
    snprintf(where, sizeof where, "%.100s:%zu:%zu", c->label, node ? node->start_mark.line + 1 : 1,
             node ? node->start_mark.column + 1 : 1);
    return tn_fail(c->err, TN_ERR_FORMAT, "bad recipe", where, "%s%s%.100s%s", why, what ? " '" : "",
                   what ? what : "", what ? "'" : "");
}

static tn_status no_memory(const source *c) {
    return tn_fail(c->err, TN_ERR_MEMORY, "cannot read recipe", c->label, "out of memory");
}

static yaml_node_t *node_at(source *c, int index) {
    return yaml_document_get_node(&c->doc, index);
}

/* The text of a scalar without NUL inside; NULL if it is none. */
static const char *scalar(const yaml_node_t *node) {
    if (!node || node->type != YAML_SCALAR_NODE) return NULL;
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL;
}

static yaml_node_t *get(source *c, const yaml_node_t *map, const char *key) {
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *name = scalar(node_at(c, p->key));
        if (name && strcmp(name, key) == 0) return node_at(c, p->value);
    }
    return NULL;
}

/* A mapping whose keys are all known and given once. */
static tn_status check_map(source *c, const yaml_node_t *map, const char *const *known) {
    if (!map || map->type != YAML_MAPPING_NODE) return bad(c, map, "expected a mapping", NULL);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node_at(c, p->key);
        const char *name = scalar(key);
        bool found = false;
        for (const char *const *k = known; name && *k; k++) found |= strcmp(*k, name) == 0;
        if (!found) return bad(c, key, "unknown field", name);
        if (get(c, map, name) != node_at(c, p->value)) return bad(c, key, "given twice:", name);
    }
    return TN_OK;
}

static bool find_dtype(const char *name, tn_dtype *out) {
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (strcmp(tn_dtypes[t].name, name) != 0 || !tn_can_quantize((tn_dtype)t)) continue;
        *out = (tn_dtype)t;
        return true;
    }
    return false;
}

static tn_status read_type(source *c, const yaml_node_t *map, const yaml_node_t *node, tn_dtype *out) {
    const char *name = scalar(node);
    if (!name) return bad(c, node ? node : map, "expected the name of a type in field 'type'", NULL);
    return find_dtype(name, out) ? TN_OK : bad(c, node, "not a type that can be made:", name);
}

static tn_status read_number(source *c, const yaml_node_t *node, uint32_t *out) {
    const char *text = scalar(node);
    if (!text || !*text || strlen(text) > 9 || text[strspn(text, "0123456789")])
        return bad(c, node, "expected a number from 0 to 999999999", NULL);
    *out = (uint32_t)strtoul(text, NULL, 10);
    return TN_OK;
}

/* ---- Layers: "0-3, 7, first 1/8, last 1/8, 1/8-7/8, every 3 after 1/8" ---- */

/* Digits at *at, at most six. */
static bool take_number(const char **at, uint32_t *out) {
    const size_t n = strspn(*at, "0123456789");
    if (n == 0 || n > 6) return false;
    *out = (uint32_t)strtoul(*at, NULL, 10);
    *at += n;
    return true;
}

static bool take_word(const char **at, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) return false;
    *at += n;
    return true;
}

static bool take_fraction(const char **at, uint32_t *num, uint32_t *den) {
    return take_number(at, num) && take_word(at, "/") && take_number(at, den) && *den > 0 && *num <= *den;
}

static bool take_range(const char **at, tn_layer_range *r) {
    *r = (tn_layer_range){.first_den = 1, .last_num = 1, .last_den = 1}; /* all */
    if (take_word(at, "first ")) return take_fraction(at, &r->last_num, &r->last_den);
    if (take_word(at, "last ")) {
        if (!take_fraction(at, &r->first_num, &r->first_den)) return false;
        r->first_num = r->first_den - r->first_num;
        return true;
    }
    if (take_word(at, "every ")) {
        if (!take_number(at, &r->every) || r->every == 0) return false;
        return !take_word(at, " after ") || take_fraction(at, &r->first_num, &r->first_den);
    }
    if (!take_number(at, &r->first_num)) return false;
    if (take_word(at, "/")) {
        if (!take_number(at, &r->first_den) || r->first_den == 0 || !take_word(at, "-")) return false;
        return take_fraction(at, &r->last_num, &r->last_den);
    }
    r->first_den = r->last_den = 0;
    r->last_num = r->first_num;
    if (take_word(at, "-") && (!take_number(at, &r->last_num) || r->last_num < r->first_num)) return false;
    r->last_num++;
    return true;
}

static tn_status read_layers(source *c, const yaml_node_t *node, tn_rule *rule) {
    const char *text = scalar(node), *at = text;
    if (!text)
        return bad(c, node, "expected layers such as '0-3, first 1/8, last 1/8, every 3 after 1/8'", NULL);
    size_t n = 1;
    for (const char *p = text; *p; p++) n += *p == ',';
    tn_layer_range *ranges = tn_arena_alloc(c->arena, n, sizeof *ranges);
    rule->layers_text = tn_arena_strdup(c->arena, text, strlen(text));
    if (!ranges || !rule->layers_text) return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        if (!take_range(&at, &ranges[i])) return bad(c, node, "not layers:", text);
        if (i + 1 < n && !(take_word(&at, ", ") || take_word(&at, ",")))
            return bad(c, node, "not layers:", text);
    }
    if (*at) return bad(c, node, "not layers:", text);
    rule->layers = ranges;
    rule->n_ranges = n;
    return TN_OK;
}

/* ---- Rules ---- */

static tn_status read_patterns(source *c, const yaml_node_t *map, const yaml_node_t *node, tn_rule *rule) {
    const bool list = node && node->type == YAML_SEQUENCE_NODE;
    const size_t n = list ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start) : 1;
    const char **patterns = tn_arena_alloc(c->arena, n, sizeof *patterns);
    if (!patterns) return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *item = list ? node_at(c, node->data.sequence.items.start[i]) : node;
        const char *text = scalar(item);
        if (!text || !*text)
            return bad(c, item ? item : map, "expected a pattern of tensor names in field 'tensors'", NULL);
        patterns[i] = tn_arena_strdup(c->arena, text, strlen(text));
        if (!patterns[i]) return no_memory(c);
    }
    rule->patterns = patterns;
    rule->n_patterns = n;
    return TN_OK;
}

static tn_status read_imatrix(source *c, const yaml_node_t *node, tn_rule *rule) {
    const char *text = scalar(node);
    if (!text || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
        return bad(c, node, "expected true or false", NULL);
    rule->imatrix = text[0] == 't';
    return TN_OK;
}

static tn_status read_rule(source *c, const yaml_node_t *map, tn_rule *rule) {
    static const char *const known[] = {"tensors", "layers",      "type",     "imatrix", "min_gqa",
                                        "experts", "min_experts", "n_layers", NULL};
    *rule = (tn_rule){.imatrix = -1};
    tn_status s = check_map(c, map, known);
    if (s == TN_OK) s = read_patterns(c, map, get(c, map, "tensors"), rule);
    if (s == TN_OK) s = read_type(c, map, get(c, map, "type"), &rule->type);
    if (s != TN_OK) return s;
    const yaml_node_t *layers = get(c, map, "layers"), *imatrix = get(c, map, "imatrix");
    const yaml_node_t *gqa = get(c, map, "min_gqa"), *experts = get(c, map, "experts"),
                      *n = get(c, map, "n_layers");
    if (layers) s = read_layers(c, layers, rule);
    if (s == TN_OK && imatrix) s = read_imatrix(c, imatrix, rule);
    if (s == TN_OK && gqa) s = read_number(c, gqa, &rule->min_gqa);
    if (s == TN_OK && experts) s = read_number(c, experts, &rule->experts);
    const yaml_node_t *min_experts = get(c, map, "min_experts");
    if (s == TN_OK && min_experts) s = read_number(c, min_experts, &rule->min_experts);
    if (s == TN_OK && n) s = read_number(c, n, &rule->model_layers);
    return s;
}

/* ---- Recipes ---- */

static tn_status read_role(source *c, const yaml_node_t *map, const char *key, tn_rule_role role,
                           tn_recipe *out) {
    const yaml_node_t *node = get(c, map, key);
    if (!node) return TN_OK;
    tn_rule *rule = &out->rules[out->n_rules++];
    *rule = (tn_rule){.role = role, .imatrix = -1};
    return read_type(c, map, node, &rule->type);
}

/* Its own rules, then its output and embedding, then the rules of its base. */
static tn_status read_rules(source *c, const yaml_node_t *map, const tn_recipe *base, tn_recipe *out) {
    const yaml_node_t *list = get(c, map, "rules");
    if (list && list->type != YAML_SEQUENCE_NODE) return bad(c, list, "expected a list of rules", NULL);
    const size_t n = list ? (size_t)(list->data.sequence.items.top - list->data.sequence.items.start) : 0;
    if (n > MAX_RULES) return bad(c, list, "more than 10000 rules", NULL);
    out->rules = tn_arena_alloc(c->arena, n + 2 + base->n_rules, sizeof *out->rules);
    if (!out->rules) return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        const tn_status s = read_rule(c, node_at(c, list->data.sequence.items.start[i]), &out->rules[i]);
        if (s != TN_OK) return s;
    }
    out->n_rules = n;
    tn_status s = read_role(c, map, "output", TN_RULE_OUTPUT, out);
    if (s == TN_OK) s = read_role(c, map, "embedding", TN_RULE_EMBEDDING, out);
    if (s != TN_OK) return s;
    if (base->n_rules) memcpy(out->rules + out->n_rules, base->rules, base->n_rules * sizeof *out->rules);
    out->n_rules += base->n_rules;
    return TN_OK;
}

/* "4.5", or "90M" with K, M or G for powers of 1000; false if it is neither. */
static bool parse_size(const char *text, double *out) {
    static const char units[] = "KMG";
    char *end;
    if (!text || !*text || text[strspn(text, "0123456789.KMG")]) return false;
    *out = tn_strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++) *out *= 1000;
    return !end[unit ? 1 : 0] && *out > 0 && *out < 1e18;
}

static void usual_ladder(tn_recipe *out) {
    static const tn_dtype usual[] = {TN_DTYPE_Q2_K, TN_DTYPE_Q3_K, TN_DTYPE_IQ4_NL, TN_DTYPE_Q4_K,
                                     TN_DTYPE_Q5_K, TN_DTYPE_Q6_K, TN_DTYPE_Q8_0};
    memcpy(out->ladder, usual, sizeof usual);
    out->n_ladder = sizeof usual / sizeof *usual;
}

tn_recipe tn_recipe_of_target(double bpw) {
    tn_recipe recipe = {.name = "target", .file_type = -1, .target_bpw = bpw};
    usual_ladder(&recipe);
    return recipe;
}

static tn_status read_ladder(source *c, const yaml_node_t *list, tn_recipe *out) {
    if (!list) {
        usual_ladder(out);
        return TN_OK;
    }
    const size_t n = list->type == YAML_SEQUENCE_NODE
                         ? (size_t)(list->data.sequence.items.top - list->data.sequence.items.start)
                         : 0;
    if (n < 2 || n > TN_MAX_LADDER) return bad(c, list, "expected a list of 2 to 16 types", NULL);
    for (size_t i = 0; i < n; i++) {
        const tn_status s =
            read_type(c, list, node_at(c, list->data.sequence.items.start[i]), &out->ladder[i]);
        if (s != TN_OK) return s;
    }
    out->n_ladder = n;
    return TN_OK;
}

static tn_status read_target(source *c, const yaml_node_t *map, tn_recipe *out) {
    const yaml_node_t *bpw = get(c, map, "target_bpw"), *size = get(c, map, "target_size"),
                      *ladder = get(c, map, "ladder");
    double value;
    if (!bpw && !size)
        return ladder ? bad(c, ladder, "a ladder without target_bpw or target_size", NULL) : TN_OK;
    if (bpw && size) return bad(c, size, "target_bpw and target_size are one too many", NULL);
    if (!parse_size(scalar(bpw ? bpw : size), &value) || (bpw && value > 32))
        return bad(c, bpw ? bpw : size,
                   bpw ? "expected bits a weight such as 4.5" : "expected a size such as 90M", NULL);
    if (bpw)
        out->target_bpw = value;
    else
        out->target_bytes = (uint64_t)value;
    return read_ladder(c, ladder, out);
}

static tn_status read_recipe(source *c, const yaml_node_t *map, const tn_recipe *base, tn_recipe *out) {
    static const char *const known[] = {"base",  "type",       "file_type",   "output", "embedding",
                                        "rules", "target_bpw", "target_size", "ladder", NULL};
    *out = (tn_recipe){.name = c->label, .file_type = base->file_type, .type = base->type};
    tn_status s = check_map(c, map, known);
    if (s != TN_OK) return s;
    const yaml_node_t *type = get(c, map, "type"), *file_type = get(c, map, "file_type");
    s = read_target(c, map, out);
    if (s == TN_OK && (type || (!base->rules && !out->n_ladder))) s = read_type(c, map, type, &out->type);
    if (s == TN_OK && file_type) {
        uint32_t number = 0;
        s = read_number(c, file_type, &number);
        if (s == TN_OK) out->file_type = number;
    }
    return s == TN_OK ? read_rules(c, map, base, out) : s;
}

static tn_status parse(source *c, const char *text, size_t size,
                       tn_status (*read)(source *c, const yaml_node_t *root, void *arg), void *arg) {
    tn_yaml_problem problem;
    if (!tn_yaml_load(text, size, &c->doc, &problem)) {
        if (!problem.text) return no_memory(c);
        char where[160];
        snprintf(where, sizeof where, "%.100s:%zu:%zu", c->label, problem.line, problem.column);
        return tn_fail(c->err, TN_ERR_FORMAT, "bad recipe", where, "%s", problem.text);
    }
    const yaml_node_t *root = yaml_document_get_root_node(&c->doc);
    const tn_status s = root ? read(c, root, arg) : bad(c, NULL, "the recipe is empty", NULL);
    yaml_document_delete(&c->doc);
    return s;
}

typedef struct wanted {
    const char *name;
    tn_recipe *out;
} wanted;

static tn_status unknown_type(source *c, const yaml_node_t *root, const char *name) {
    char names[400] = "";
    size_t at = 0;
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        const char *known = scalar(node_at(c, p->key));
        at += (size_t)snprintf(names + at, sizeof names - at, " %s", known);
        if (at >= sizeof names) break;
    }
    return tn_fail(c->err, TN_ERR_ARG, "unknown type", name, "expected one of%s", names);
}

static tn_status read_mix(source *c, const yaml_node_t *root, void *arg) {
    const wanted *w = arg;
    const yaml_node_t *map = get(c, root, w->name);
    if (!map) return unknown_type(c, root, w->name);
    tn_status s = read_recipe(c, map, &(tn_recipe){.file_type = -1}, w->out);
    w->out->name = tn_arena_strdup(c->arena, w->name, strlen(w->name));
    return s == TN_OK && !w->out->name ? no_memory(c) : s;
}

tn_status tn_recipe_builtin(const char *name, tn_arena *arena, tn_recipe *out, tn_error *err) {
    source c = {.label = "mixes.yaml", .arena = arena, .err = err};
    return parse(&c, tn_mixes[0].text, tn_mixes[0].size, read_mix, &(wanted){name, out});
}

static tn_status read_file(source *c, const yaml_node_t *root, void *arg) {
    tn_recipe base = {.file_type = -1};
    const yaml_node_t *node = root->type == YAML_MAPPING_NODE ? get(c, root, "base") : NULL;
    const char *name = scalar(node);
    if (node && !name) return bad(c, node, "expected the name of a built-in type", NULL);
    const tn_status s = name ? tn_recipe_builtin(name, c->arena, &base, c->err) : TN_OK;
    return s == TN_OK ? read_recipe(c, root, &base, arg) : s;
}

tn_status tn_recipe_load(const char *path, tn_arena *arena, tn_recipe *out, tn_error *err) {
    source c = {.label = tn_arena_strdup(arena, path, strlen(path)), .arena = arena, .err = err};
    tn_fmap map;
    if (!c.label) return tn_fail(err, TN_ERR_MEMORY, "cannot read recipe", path, "out of memory");
    tn_status s = tn_fmap_open(&map, path, err);
    if (s != TN_OK) return s;
    s = map.size > MAX_RECIPE_BYTES
            ? tn_fail(err, TN_ERR_FORMAT, "bad recipe", path, "larger than 1 MiB")
            : parse(&c, map.data ? (const char *)map.data : "", map.size, read_file, out);
    tn_fmap_close(&map);
    return s;
}
