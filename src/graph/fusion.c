/* From a list of operations to steps: as few meetings of the threads as the data allows.
 *
 *   row operations ... | products, and element operations on their columns ...        one step
 *   attention                                                                        one step
 *
 * Inside the second part each thread works on its own columns, so that an operation may follow another there only if it
 * needs no other thread's columns: an ELEMENT operation, which is divided as the product before it is.
 *
 * Experts, with their rows: route dispatch | gate up glu, then quantize | down combine. */
#include <assert.h>

#include "graph.h"

/* ---- Quantization of activations ----------------------------------------------------------------------------- */

/* What input 0 has to be quantized to; NONE: it is read as it is. */
static tn_act wanted_act(const tn_graph *g, const tn_op *op) {
    tn_act act = TN_ACT_NONE;
    if (op->kind == TN_OP_MATMUL) act = tn_dtypes[op->weight.dtype].act;
    if (op->kind == TN_OP_DISPATCH) act = op->dispatch.act; /* before the rows are copied */
    if (op->kind == TN_OP_EXPERTS && g->ops[g->values[op->in[0]].producer].kind != TN_OP_DISPATCH)
        act = tn_dtypes[op->experts.weight.dtype].act;
    if (op->kind == TN_OP_HEAD_PRODUCT && !op->head_product.transposed)
        act = tn_dtypes[op->head_product.of.weight.dtype].act;
    return act == TN_ACT_F32 ? TN_ACT_NONE : act;
}

/* Rebuilds the list with a QUANTIZE right behind each value that quantized weights meet, one for each kind of
 * activation; those products then read its output. */
static void insert_quantize(tn_graph *g) {
    tn_graph old = *g;
    tn_value_id *moved = tn_arena_alloc(g->arena, (size_t)old.n_values + 1, sizeof *moved);
    tn_value_id(*quantized)[TN_ACT_COUNT] =
        tn_arena_alloc(g->arena, (size_t)old.n_values + 1, sizeof *quantized);
    if (!moved || !quantized) {
        g->out_of_memory = true;
        return;
    }
    g->ops = NULL, g->values = NULL;
    g->n_ops = g->cap_ops = g->n_values = g->cap_values = 0;
    bool(*wanted)[TN_ACT_COUNT] = tn_arena_alloc(g->arena, (size_t)old.n_values + 1, sizeof *wanted);
    if (!wanted) g->out_of_memory = true;
    for (int32_t i = 0; wanted && i < old.n_ops; i++)
        if (wanted_act(&old, &old.ops[i])) wanted[old.ops[i].in[0]][wanted_act(&old, &old.ops[i])] = true;
    for (int32_t i = 0; i < old.n_ops && !g->out_of_memory; i++) {
        tn_op op = old.ops[i];
        const tn_value_id was = op.out;
        const tn_act act = wanted_act(&old, &op);
        for (int j = 0; j < 3; j++)
            if (op.in[j] >= 0) op.in[j] = j == 0 && act ? quantized[op.in[j]][act] : moved[op.in[j]];
        moved[was] = tn_graph_add(g, op);
        for (int kind = 0; kind < TN_ACT_COUNT; kind++)
            if (wanted[was][kind])
                quantized[was][kind] = tn_graph_add(g, (tn_op){.kind = TN_OP_QUANTIZE,
                                                               .layer = op.layer,
                                                               .rows = op.rows,
                                                               .in = {moved[was], -1, -1},
                                                               .quantize = {(tn_act)kind}});
    }
    if (old.logits >= 0) g->logits = moved[old.logits];
}

/* ---- Steps --------------------------------------------------------------------------------------------------- */

/* Whether input i is made in the open step, behind its row operations. */
static bool reads_columns(const tn_graph *g, const tn_step_range *s, const tn_op *op) {
    for (int i = 0; i < 3; i++)
        if (op->in[i] >= 0 && g->values[op->in[i]].producer >= s->mats) return true;
    return false;
}

/* Whether an input made there is divided otherwise than the operation's own columns. */
static bool reads_other_width(const tn_graph *g, const tn_step_range *s, const tn_op *op) {
    for (int i = 0; i < 3; i++)
        if (op->in[i] >= 0 && g->values[op->in[i]].producer >= s->mats &&
            g->values[op->in[i]].width != g->values[op->out].width)
            return true;
    return false;
}

/* Whether the operation may join the open step, which has row operations only while mats == end. */
static bool fits(const tn_graph *g, const tn_step_range *s, const tn_op *op) {
    if (s->heads || s->rows != op->rows) return false;
    const bool rows_only = s->mats == s->end;
    switch (tn_op_infos[op->kind].class) {
    case TN_CLASS_ROW:
    case TN_CLASS_GATHER: return rows_only;
    case TN_CLASS_MAT: return rows_only || !reads_columns(g, s, op);
    case TN_CLASS_ELEMENT:
    case TN_CLASS_COLUMN: return !reads_other_width(g, s, op);
    default: return false;
    }
}

static void close_step(tn_graph *g, const tn_step_range *s) {
    for (int32_t i = s->first; i < s->end; i++) {
        g->values[g->ops[i].out].producer_step = g->n_steps;
        for (int j = 0; j < 3; j++)
            if (g->ops[i].in[j] >= 0) g->values[g->ops[i].in[j]].last_use_step = g->n_steps;
        if (g->values[g->ops[i].out].last_use_step < g->n_steps)
            g->values[g->ops[i].out].last_use_step = g->n_steps;
    }
    g->steps[g->n_steps++] = *s;
}

tn_status tn_graph_fuse(tn_graph *g, tn_error *err) {
    if (!g->out_of_memory) insert_quantize(g);
    if (!g->out_of_memory) g->steps = tn_arena_alloc(g->arena, (size_t)g->n_ops, sizeof *g->steps);
    if (g->out_of_memory || !g->steps)
        return tn_fail(err, TN_ERR_MEMORY, "cannot build the graph", NULL, "out of memory");
    tn_step_range s = {0};
    for (int32_t i = 0; i < g->n_ops; i++) {
        const tn_op *op = &g->ops[i];
        const tn_op_class class = tn_op_infos[op->kind].class;
        if (i == 0 || !fits(g, &s, op)) {
            if (i) close_step(g, &s);
            s = (tn_step_range){
                .first = i, .mats = i, .end = i, .rows = op->rows, .heads = class == TN_CLASS_HEADS};
        }
        const bool row = class == TN_CLASS_ROW || class == TN_CLASS_GATHER ||
                         (class == TN_CLASS_ELEMENT && s.mats == s.end);
        s.end = i + 1;
        if (row) s.mats = i + 1;
    }
    close_step(g, &s);
    return TN_OK;
}
