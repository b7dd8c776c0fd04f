#include "graph.h"

#include <assert.h>
#include <string.h>

const tn_op_info tn_op_infos[TN_OP_COUNT] = {
#define X(NAME, name, class, what) {#name, TN_CLASS_##class},
#include "ops.def"
#undef X
};

void tn_graph_init(tn_graph *g, tn_arena *arena) {
    *g = (tn_graph){.arena = arena, .logits = -1};
}

/* Makes room for one more element; the old array stays in the arena. */
static void *grow(tn_graph *g, void *items, size_t count, size_t *cap, size_t size) {
    if (count < *cap) return items;
    size_t wanted = *cap ? *cap * 2 : 64;
    void *bigger = tn_arena_alloc(g->arena, wanted, size);
    if (!bigger) {
        g->out_of_memory = true;
        return NULL;
    }
    if (count) memcpy(bigger, items, count * size);
    *cap = wanted;
    return bigger;
}

static tn_value_id add_value(tn_graph *g, tn_value value) {
    size_t cap = (size_t)g->cap_values;
    tn_value *values = grow(g, g->values, (size_t)g->n_values, &cap, sizeof *values);
    if (!values) return 0;
    g->values = values;
    g->cap_values = (int32_t)cap;
    g->values[g->n_values] = value;
    return g->n_values++;
}

tn_value_id tn_graph_add(tn_graph *g, tn_op op) {
    if (g->out_of_memory) return 0;
    size_t cap = (size_t)g->cap_ops;
    tn_op *ops = grow(g, g->ops, (size_t)g->n_ops, &cap, sizeof *ops);
    if (!ops) return 0;
    g->ops = ops;
    g->cap_ops = (int32_t)cap;
    tn_value value = tn_op_shape(g, &op);
    value.rows = op.rows;
    if (!value.copies) value.copies = 1;
    value.producer = value.last_use = g->n_ops;
    op.out = add_value(g, value);
    if (g->out_of_memory) return 0;
    for (int i = 0; i < 3; i++)
        if (op.in[i] >= 0) g->values[op.in[i]].last_use = g->n_ops;
    g->ops[g->n_ops++] = op;
    return op.out;
}

uint32_t tn_graph_add_cache(tn_graph *g, tn_cache_shape shape) {
    size_t cap = g->cap_caches;
    tn_cache_shape *caches = grow(g, g->caches, g->n_caches, &cap, sizeof *caches);
    if (!caches) return 0;
    g->caches = caches;
    g->cap_caches = (uint32_t)cap;
    g->caches[g->n_caches] = shape;
    return g->n_caches++;
}

static bool same_rope(const tn_rope_config *a, const tn_rope_config *b) {
    return a->n_pairs == b->n_pairs && a->halves == b->halves && a->yarn == b->yarn && a->theta == b->theta &&
           a->factor == b->factor && a->yarn_first == b->yarn_first && a->yarn_last == b->yarn_last &&
           a->magnitude == b->magnitude && a->freq_factors == b->freq_factors &&
           a->long_factors == b->long_factors;
}

uint32_t tn_graph_add_rope(tn_graph *g, tn_rope_config rope) {
    for (uint32_t i = 0; i < g->n_ropes; i++)
        if (same_rope(&g->ropes[i], &rope)) return i;
    size_t cap = g->cap_ropes;
    tn_rope_config *ropes = grow(g, g->ropes, g->n_ropes, &cap, sizeof *ropes);
    if (!ropes) return 0;
    g->ropes = ropes;
    g->cap_ropes = (uint32_t)cap;
    g->ropes[g->n_ropes] = rope;
    return g->n_ropes++;
}
