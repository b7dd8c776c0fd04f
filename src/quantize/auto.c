#include "auto.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/checked.h"
#include "../base/hash.h"
#include "run.h"

#define WHAT "cannot quantize"

enum { PARTS = 3, UNITS = 1 << 14, NO_GROUP = -1 };

typedef struct planner {
    const tn_auto_request *request;
    const char *path;
    uint64_t n_items;
    tn_arena *arena;
    tn_plan_item *items, *trial; /* trial: with the types of a candidate */
    int32_t *group_of;           /* of an item; NO_GROUP: a rule named it, or it is kept */
    tn_auto_group *groups;
    uint32_t n_groups;
    tn_tensor *made; /* of one group */
    uint64_t n_measured, n_candidates;
} planner;

static tn_status tell(const planner *p, tn_error *err) {
    const tn_auto_request *r = p->request;
    if (r->progress(r->user, p->n_measured, p->n_candidates)) return TN_OK;
    return tn_fail(err, TN_ERR_CANCELLED, WHAT, p->path, "cancelled");
}

static tn_status no_memory(const planner *p, tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, WHAT, p->path, "out of memory");
}

/* ---- Groups ---- */

static const char *behind_layer(const char *name) {
    return tn_layer_of(name) < 0 ? name : strchr(name + strlen("blk."), '.');
}

/* Bytes of a name that could mean something in a pattern, or to YAML, become '?', which they match. */
static const char *pattern_of(const planner *p, const char *name, bool layered) {
    const char *rest = behind_layer(name), *start = layered ? "blk.*" : "";
    const size_t n_start = strlen(start), n = n_start + strlen(rest);
    char *pattern = tn_arena_alloc(p->arena, n + 1, 1);
    if (!pattern) return NULL;
    memcpy(pattern, start, n_start);
    for (size_t i = n_start; i < n; i++) {
        const char c = rest[i - n_start];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        pattern[i] = plain || c == '.' || c == '_' || c == '-' ? c : '?';
    }
    return pattern;
}

static bool is_of(const tn_auto_group *g, bool layered, uint32_t part, const char *rest) {
    return g->layered == layered && g->part == part && strcmp(g->rest, rest) == 0;
}

static tn_status add_to_group(planner *p, uint64_t at, uint64_t n_layers, tn_error *err) {
    const tn_tensor *t = p->items[at].tensor;
    const int64_t layer = tn_layer_of(t->cname);
    const bool layered = layer >= 0;
    const uint32_t part = layered ? (uint32_t)((uint64_t)layer * PARTS / n_layers) : 0;
    const char *rest = behind_layer(t->cname);
    uint32_t i = 0;
    while (i < p->n_groups && !is_of(&p->groups[i], layered, part, rest)) i++;
    tn_auto_group *g = &p->groups[i];
    if (i == p->n_groups) {
        const char *pattern = pattern_of(p, t->cname, layered);
        if (!pattern) return no_memory(p, err);
        *g = (tn_auto_group){.pattern = pattern, .rest = rest, .part = part, .layered = layered};
        g->first_layer = g->last_layer = layered ? (uint32_t)layer : 0;
        p->n_groups++;
    }
    if (layered && layer < g->first_layer) g->first_layer = (uint32_t)layer;
    if (layered && layer > g->last_layer) g->last_layer = (uint32_t)layer;
    g->n_tensors++;
    g->n_elements += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    p->group_of[at] = (int32_t)i;
    return TN_OK;
}

static tn_status make_groups(planner *p, tn_error *err) {
    uint64_t n_layers = 1;
    for (uint64_t i = 0; i < p->n_items; i++) {
        const int64_t layer = tn_layer_of(p->items[i].tensor->cname);
        if (layer >= (int64_t)n_layers) n_layers = (uint64_t)layer + 1;
    }
    tn_status s = TN_OK;
    for (uint64_t i = 0; s == TN_OK && i < p->n_items; i++) {
        p->group_of[i] = NO_GROUP;
        if (p->items[i].by_default) s = add_to_group(p, i, n_layers, err);
    }
    return s;
}

/* ---- Candidates ---- */

static bool same_types(const planner *p, uint32_t group, tn_dtype a, tn_dtype b) {
    for (uint64_t i = 0; i < p->n_items; i++) {
        const tn_tensor *t = p->items[i].tensor;
        if (p->group_of[i] == (int32_t)group && tn_plan_type(t, a, false) != tn_plan_type(t, b, false))
            return false;
    }
    return true;
}

/* Gives a type of the ladder to the group's items. */
static tn_status give(const planner *p, tn_plan_item *items, uint32_t group, tn_candidate *c, tn_error *err) {
    tn_status s = TN_OK;
    c->n_bytes = 0;
    for (uint64_t i = 0; s == TN_OK && i < p->n_items; i++) {
        if (p->group_of[i] != (int32_t)group) continue;
        s = tn_plan_give(p->request->file, p->request->plan, c->wanted, false, p->arena, &items[i], err);
        if (!c->n_bytes) c->type = items[i].type;
        if (s == TN_OK && !tn_add_u64(c->n_bytes, items[i].n_bytes, &c->n_bytes))
            s = tn_fail(err, TN_ERR_ARG, WHAT, p->path, "the tensors are too large");
    }
    return s;
}

static tn_status list_candidates(const planner *p, uint32_t group, tn_error *err) {
    const tn_recipe *recipe = p->request->plan->recipe;
    tn_auto_group *g = &p->groups[group];
    tn_status s = TN_OK;
    for (size_t i = 0; s == TN_OK && i < recipe->n_ladder; i++) {
        uint32_t same = 0;
        while (same < g->n_candidates && !same_types(p, group, g->candidates[same].wanted, recipe->ladder[i]))
            same++;
        if (same < g->n_candidates) continue;
        g->candidates[same].wanted = recipe->ladder[i];
        s = give(p, p->trial, group, &g->candidates[same], err);
        g->n_candidates++;
    }
    return s;
}

static uint64_t smallest(const tn_auto_group *g) {
    uint64_t least = g->candidates[0].n_bytes;
    for (uint32_t i = 1; i < g->n_candidates; i++)
        if (g->candidates[i].n_bytes < least) least = g->candidates[i].n_bytes;
    return least;
}

/* What the target leaves when each group is made of its smallest candidate. */
static tn_status bytes_left(const planner *p, uint64_t *left, tn_error *err) {
    const uint64_t target = tn_plan_target(p->request->file, p->request->plan->recipe);
    uint64_t least = 0;
    for (uint64_t i = 0; i < p->n_items; i++)
        if (p->group_of[i] == NO_GROUP) least += p->items[i].n_bytes;
    for (uint32_t g = 0; g < p->n_groups; g++) least += smallest(&p->groups[g]);
    *left = target - least;
    if (least <= target) return TN_OK;
    return tn_fail(err, TN_ERR_ARG, WHAT, p->path,
                   "the target is %" PRIu64 " bytes of tensors, but the smallest types need %" PRIu64, target,
                   least);
}

/* ---- Measurements ---- */

/* The tensors of the group whose type changes, in one piece of memory. */
static tn_status make_tensors(const planner *p, uint32_t group, uint8_t *data, size_t *n, tn_error *err) {
    const tn_quantize_run run = {.file = p->request->file,
                                 .items = p->trial,
                                 .imatrix = p->request->imatrix,
                                 .n_threads = p->request->n_threads};
    tn_status s = TN_OK;
    *n = 0;
    for (uint64_t i = 0; s == TN_OK && i < p->n_items; i++) {
        const tn_plan_item *item = &p->trial[i];
        if (p->group_of[i] != (int32_t)group || item->type == item->tensor->dtype) continue;
        s = tn_quantize_into(&run, i, data, err);
        if (s == TN_OK) s = tell(p, err);
        tn_tensor *t = &p->made[(*n)++];
        *t = *item->tensor;
        t->dtype = item->type;
        t->n_bytes = item->n_bytes;
        t->data = data;
        data += (item->n_bytes + 63) / 64 * 64;
    }
    return s;
}

static tn_status measure(const planner *p, uint32_t group, tn_candidate *c, tn_error *err) {
    const uint64_t padding = 64 * (uint64_t)p->groups[group].n_tensors;
    size_t n;
    tn_status s;
    uint8_t *data = aligned_alloc(64, (c->n_bytes + padding + 63) / 64 * 64);
    if (!data) return no_memory(p, err);
    s = make_tensors(p, group, data, &n, err);
    if (s == TN_OK && n) s = p->request->measure(p->request->user, p->made, n, &c->divergence, err);
    free(data);
    /* Rounding may make that of two models that are alike a little less than nothing. */
    if (c->divergence < 0) c->divergence = 0;
    return s;
}

/* Of the tensors that are replaced, and by which types. */
static uint64_t key_of(const planner *p, uint32_t group) {
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add_u64(&hash, p->request->identity);
    for (uint64_t i = 0; i < p->n_items; i++) {
        if (p->group_of[i] != (int32_t)group) continue;
        const char *name = p->items[i].tensor->cname;
        tn_hash_add(&hash, name, strlen(name) + 1);
        tn_hash_add_u64(&hash, p->trial[i].type);
    }
    return tn_hash_value(&hash);
}

static tn_status look_up_or_measure(const planner *p, uint32_t group, tn_candidate *c, tn_error *err) {
    tn_measures *kept = p->request->measures;
    tn_status s = give(p, p->trial, group, c, err);
    if (s != TN_OK || !kept) return s == TN_OK ? measure(p, group, c, err) : s;
    const uint64_t key = key_of(p, group);
    if (tn_measures_find(kept, key, &c->divergence)) return TN_OK;
    s = measure(p, group, c, err);
    return s == TN_OK ? tn_measures_add(kept, key, c->divergence, err) : s;
}

static tn_status measure_all(planner *p, tn_error *err) {
    tn_status s = TN_OK;
    for (uint32_t g = 0; g < p->n_groups; g++) p->n_candidates += p->groups[g].n_candidates;
    for (uint32_t g = 0; s == TN_OK && g < p->n_groups; g++) {
        for (uint32_t i = 0; s == TN_OK && i < p->groups[g].n_candidates; i++) {
            s = look_up_or_measure(p, g, &p->groups[g].candidates[i], err);
            p->n_measured++;
            if (s == TN_OK) s = tell(p, err);
        }
    }
    return s;
}

/* ---- The choice ---- */

/* What a candidate costs beside the group's smallest, rounded up, so that no sum of costs is too small. */
static uint64_t cost(const tn_auto_group *g, uint32_t candidate, uint64_t unit) {
    const uint64_t more = g->candidates[candidate].n_bytes - smallest(g);
    return more / unit + (more % unit != 0);
}

/* best[c] is the least sum of divergences for at most c units: of the groups before, then of this one too. */
static void add_group(const tn_auto_group *g, uint64_t unit, double *best, uint8_t *picks) {
    uint64_t costs[TN_MAX_LADDER];
    for (uint32_t i = 0; i < g->n_candidates; i++) costs[i] = cost(g, i, unit);
    for (uint64_t c = UNITS + 1; c-- > 0;) {
        double least = INFINITY;
        for (uint32_t i = 0; i < g->n_candidates; i++) {
            if (costs[i] > c || !(best[c - costs[i]] + g->candidates[i].divergence < least)) continue;
            least = best[c - costs[i]] + g->candidates[i].divergence;
            picks[c] = (uint8_t)i;
        }
        best[c] = least;
    }
}

static tn_status choose(const planner *p, uint64_t left, double *divergence, tn_error *err) {
    const uint64_t unit = left / UNITS + 1;
    double *best = tn_arena_alloc(p->arena, UNITS + 1, sizeof *best);
    uint8_t *picks = tn_arena_alloc(p->arena, p->n_groups, UNITS + 1);
    if (!best || !picks) return no_memory(p, err);
    for (uint32_t g = 0; g < p->n_groups; g++)
        add_group(&p->groups[g], unit, best, picks + (size_t)g * (UNITS + 1));
    uint64_t c = left / unit;
    *divergence = best[c];
    for (uint32_t g = p->n_groups; g-- > 0;) {
        p->groups[g].chosen = picks[(size_t)g * (UNITS + 1) + c];
        c -= cost(&p->groups[g], p->groups[g].chosen, unit);
    }
    return TN_OK;
}

tn_status tn_plan_auto(const tn_auto_request *request, tn_arena *arena, tn_plan_item *items,
                       tn_auto_result *out, tn_error *err) {
    planner p = {.request = request,
                 .path = tn_file_path(request->file),
                 .n_items = tn_file_n_tensors(request->file),
                 .arena = arena,
                 .items = items};
    p.trial = tn_arena_alloc(arena, p.n_items, sizeof *p.trial);
    p.group_of = tn_arena_alloc(arena, p.n_items, sizeof *p.group_of);
    p.groups = tn_arena_alloc(arena, p.n_items, sizeof *p.groups);
    p.made = tn_arena_alloc(arena, p.n_items, sizeof *p.made);
    if (!p.trial || !p.group_of || !p.groups || !p.made) return no_memory(&p, err);
    memcpy(p.trial, items, p.n_items * sizeof *items);
    *out = (tn_auto_result){.groups = p.groups};
    tn_status s = make_groups(&p, err);
    for (uint32_t g = 0; s == TN_OK && g < p.n_groups; g++) s = list_candidates(&p, g, err);
    uint64_t left = 0;
    if (s == TN_OK) s = bytes_left(&p, &left, err);
    if (s == TN_OK) s = measure_all(&p, err);
    if (s == TN_OK) s = choose(&p, left, &out->divergence, err);
    for (uint32_t g = 0; s == TN_OK && g < p.n_groups; g++)
        s = give(&p, items, g, &p.groups[g].candidates[p.groups[g].chosen], err);
    out->n_groups = p.n_groups;
    return s;
}

/* ---- Rules ---- */

static bool make_rule(const tn_auto_group *g, tn_arena *arena, tn_rule *rule) {
    const char **patterns = tn_arena_alloc(arena, 1, sizeof *patterns);
    if (!patterns) return false;
    patterns[0] = g->pattern;
    *rule = (tn_rule){.role = TN_RULE_PATTERNS,
                      .patterns = patterns,
                      .n_patterns = 1,
                      .imatrix = -1,
                      .type = g->candidates[g->chosen].wanted};
    if (!g->layered) return true;
    char text[32];
    const int n = snprintf(text, sizeof text, "%" PRIu32 "-%" PRIu32, g->first_layer, g->last_layer);
    tn_layer_range *range = tn_arena_alloc(arena, 1, sizeof *range);
    rule->layers_text = tn_arena_strdup(arena, text, (size_t)n);
    if (!range || !rule->layers_text) return false;
    *range = (tn_layer_range){.first_num = g->first_layer, .last_num = g->last_layer + 1};
    rule->layers = range;
    rule->n_ranges = 1;
    return true;
}

tn_status tn_auto_rules(const tn_auto_result *result, tn_arena *arena, tn_recipe *recipe, tn_error *err) {
    const size_t n = recipe->n_rules;
    tn_rule *rules = tn_arena_alloc(arena, n + result->n_groups, sizeof *rules);
    bool whole = rules != NULL;
    if (whole && n) memcpy(rules, recipe->rules, n * sizeof *rules);
    for (uint32_t i = 0; whole && i < result->n_groups; i++)
        whole = make_rule(&result->groups[i], arena, &rules[n + i]);
    if (!whole) return tn_fail(err, TN_ERR_MEMORY, WHAT, recipe->name, "out of memory");
    recipe->rules = rules;
    recipe->n_rules = n + result->n_groups;
    recipe->target_bytes = 0;
    recipe->target_bpw = 0;
    recipe->n_ladder = 0;
    recipe->type = TN_DTYPE_Q8_0; /* of what another file has beside these */
    return TN_OK;
}
