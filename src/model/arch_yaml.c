#include "arch_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/c_locale.h"
#include "expr.h"

tn_status tn_yaml_bad(const tn_yaml *c, const yaml_node_t *node, const char *why, const char *what) {
    char where[128];
    snprintf(where, sizeof where, "%s:%zu:%zu", c->label, node ? node->start_mark.line + 1 : 1,
             node ? node->start_mark.column + 1 : 1);
    return tn_fail(c->err, TN_ERR_FORMAT, "bad architecture description", where, "%s%s%s%s", why,
                   what ? " '" : "", what ? what : "", what ? "'" : "");
}

tn_status tn_yaml_no_memory(const tn_yaml *c) {
    return tn_fail(c->err, TN_ERR_MEMORY, "cannot read architecture", c->label, "out of memory");
}

yaml_node_t *tn_yaml_node(tn_yaml *c, int index) {
    return yaml_document_get_node(&c->doc, index);
}

const char *tn_yaml_scalar(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

size_t tn_yaml_map_size(const yaml_node_t *map) {
    return (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

size_t tn_yaml_seq_size(const yaml_node_t *seq) {
    return (size_t)(seq->data.sequence.items.top - seq->data.sequence.items.start);
}

yaml_node_t *tn_yaml_get(tn_yaml *c, const yaml_node_t *map, const char *key) {
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *k = tn_yaml_scalar(tn_yaml_node(c, p->key));
        if (k && !strcmp(k, key)) return tn_yaml_node(c, p->value);
    }
    return NULL;
}

tn_status tn_yaml_check_map(tn_yaml *c, const yaml_node_t *map, const char *const *known) {
    if (!map || map->type != YAML_MAPPING_NODE) return tn_yaml_bad(c, map, "expected a mapping", NULL);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = tn_yaml_node(c, p->key);
        const char *name = tn_yaml_scalar(key);
        if (!name) return tn_yaml_bad(c, key, "expected a name", NULL);
        if (tn_yaml_get(c, map, name) != tn_yaml_node(c, p->value))
            return tn_yaml_bad(c, key, "given twice:", name);
        bool found = known == NULL;
        for (const char *const *k = known; k && *k; k++) found |= !strcmp(*k, name);
        if (!found) return tn_yaml_bad(c, key, "unknown field", name);
    }
    return TN_OK;
}

tn_status tn_yaml_string(tn_yaml *c, const yaml_node_t *node, const char **out) {
    const char *text = tn_yaml_scalar(node);
    if (!text || !*text || strlen(text) != node->data.scalar.length)
        return tn_yaml_bad(c, node, "expected text", NULL);
    *out = tn_arena_strdup(c->arena, text, strlen(text));
    return *out ? TN_OK : tn_yaml_no_memory(c);
}

tn_status tn_yaml_number(tn_yaml *c, const yaml_node_t *node, double *out) {
    const char *text = tn_yaml_scalar(node);
    char *end = NULL;
    if (text && *text) *out = tn_strtod(text, &end);
    return end && !*end ? TN_OK : tn_yaml_bad(c, node, "expected a number", NULL);
}

tn_status tn_yaml_bool(tn_yaml *c, const yaml_node_t *node, bool *out) {
    const char *text = tn_yaml_scalar(node);
    if (!text || (strcmp(text, "true") && strcmp(text, "false")))
        return tn_yaml_bad(c, node, "expected true or false", NULL);
    *out = text[0] == 't';
    return TN_OK;
}

/* ---- Expressions: every name must exist -------------------------------------------------------------------- */

int tn_arch_hparam(const tn_arch *arch, const char *name, size_t n) {
    for (size_t i = 0; i < arch->n_hparams; i++)
        if (!strncmp(arch->hparams[i].name, name, n) && !arch->hparams[i].name[n]) return (int)i;
    return -1;
}

static bool tensor_exists(const tn_arch *arch, const char *id, size_t n) {
    for (size_t i = 0; i < arch->n_tensors; i++)
        if (!strncmp(arch->tensors[i].id, id, n) && !arch->tensors[i].id[n]) return true;
    return false;
}

static bool name_exists(const void *user, const char *name, size_t n, double *value) {
    const tn_arch *arch = user;
    *value = 1;
    if (n == 1 && *name == 'i') return true;
    if (n == 7 && !memcmp(name, "n_vocab", 7)) return true;
    if (n > 4 && !memcmp(name, "has.", 4)) return tensor_exists(arch, name + 4, n - 4);
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

/* What a checkpoint has is not known here: its names are tried as numbers that differ with their length, so that the
 * difference of two is seldom 0. */
static bool name_may_exist(const void *user, const char *name, size_t n, double *value) {
    if (!name_exists(user, name, n, value)) *value = (double)n + 1;
    return true;
}

static tn_status parse_expr(tn_yaml *c, const yaml_node_t *node, tn_expr_lookup *lookup, const char **out) {
    tn_status s = tn_yaml_string(c, node, out);
    if (s) return s;
    double value;
    const char *why;
    if (!tn_expr_eval(*out, lookup, c->arch, &value, &why))
        return tn_yaml_bad(c, node, "bad expression:", why);
    return TN_OK;
}

tn_status tn_yaml_expr(tn_yaml *c, const yaml_node_t *node, const char **out) {
    return parse_expr(c, node, name_exists, out);
}

tn_status tn_yaml_hf_expr(tn_yaml *c, const yaml_node_t *node, const char **out) {
    return parse_expr(c, node, name_may_exist, out);
}
