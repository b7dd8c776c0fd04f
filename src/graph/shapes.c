/* The shape function of every operation: what value it makes, and what it asks of its inputs. Files were checked before the
 * graph is built, so a shape that does not fit is our own bug. */
#include <assert.h>

#include "graph.h"

static const tn_value *input(const tn_graph *g, const tn_op *op, int i) {
    assert(op->in[i] >= 0 && op->in[i] < g->n_values);
    return &g->values[op->in[i]];
}

/* Floats with one row for each row of the step. */
static tn_value floats(uint32_t width) {
    return (tn_value){.layout = TN_LAYOUT_F32, .act = TN_ACT_F32, .width = width};
}

static tn_value same_floats(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->layout == TN_LAYOUT_F32);
    tn_value v = floats(input(g, op, 0)->width);
    v.copies = input(g, op, 0)->copies;
    return v;
}

static tn_value shape_embed(const tn_graph *g, const tn_op *op) {
    (void)g;
    return floats(op->embed.table.k);
}

static tn_value shape_norm(const tn_graph *g, const tn_op *op) {
    return same_floats(g, op);
}

static tn_value shape_quantize(const tn_graph *g, const tn_op *op) {
    tn_value v = same_floats(g, op);
    v.layout = TN_LAYOUT_ACT;
    v.act = op->quantize.act;
    return v;
}

static tn_value shape_matmul(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->width == op->weight.k && input(g, op, 0)->copies == 1);
    return floats(op->weight.n);
}

static tn_value shape_bias(const tn_graph *g, const tn_op *op) {
    return same_floats(g, op);
}

static tn_value shape_add(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->width == input(g, op, 1)->width && input(g, op, 1)->layout == TN_LAYOUT_F32);
    assert(input(g, op, 0)->copies == input(g, op, 1)->copies);
    return same_floats(g, op);
}

static tn_value shape_scale(const tn_graph *g, const tn_op *op) {
    return same_floats(g, op);
}

static tn_value shape_temper(const tn_graph *g, const tn_op *op) {
    return same_floats(g, op);
}

static tn_value shape_softcap(const tn_graph *g, const tn_op *op) {
    return same_floats(g, op);
}

static tn_value shape_clamp(const tn_graph *g, const tn_op *op) {
    return same_floats(g, op);
}

static tn_value shape_glu(const tn_graph *g, const tn_op *op) {
    return op->in[1] < 0 ? same_floats(g, op) : shape_add(g, op);
}

static tn_value shape_heads(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->layout == TN_LAYOUT_F32 && input(g, op, 0)->copies == 1);
    assert(op->heads.width <= op->heads.stride &&
           input(g, op, 0)->width == op->heads.count * op->heads.stride);
    tn_value v = floats(op->heads.width);
    v.copies = op->heads.count;
    return v;
}

static tn_value shape_head_product(const tn_graph *g, const tn_op *op) {
    const tn_head_product_params *p = &op->head_product;
    const uint32_t made = p->transposed ? p->of.weight.k : p->of.weight.n;
    assert(input(g, op, 0)->copies == p->of.count);
    assert(input(g, op, 0)->width == (p->transposed ? p->of.weight.n : p->of.weight.k));
    assert(!p->n_tail || input(g, op, 1)->width == p->of.count * p->tail_stride);
    return floats(p->of.count * (made + p->n_tail));
}

static tn_value shape_attention(const tn_graph *g, const tn_op *op) {
    const tn_attention_params *p = &op->attention;
    assert(input(g, op, 0)->width == p->n_heads * p->head_dim);
    assert(input(g, op, 1)->width == (p->latent ? 1 : p->n_kv_heads) * p->head_dim &&
           (p->latent || input(g, op, 2)->width == input(g, op, 1)->width));
    tn_value v = floats(p->n_heads * (p->head_dim + 2)); /* m, l and o for each head */
    v.layout = TN_LAYOUT_PARTS;
    return v;
}

static tn_value shape_attn_join(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->layout == TN_LAYOUT_PARTS);
    return floats(op->attention.n_heads * op->attention.head_dim);
}

static tn_value shape_shut(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 1)->width == 1 && input(g, op, 1)->copies == input(g, op, 0)->copies);
    return same_floats(g, op);
}

static tn_value shape_route(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->width == op->route.n_experts && input(g, op, 0)->copies == 1);
    tn_value v = floats(2 * op->route.n_used);
    v.layout = TN_LAYOUT_PICKS;
    return v;
}

/* The picks that an operation on experts' rows goes by. */
static const tn_value *picks(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 1)->layout == TN_LAYOUT_PICKS);
    return input(g, op, 1);
}

static tn_value shape_dispatch(const tn_graph *g, const tn_op *op) {
    tn_value v = *input(g, op, 0);
    assert(v.copies == 1);
    v.copies = picks(g, op)->width / 2;
    return v;
}

static tn_value shape_experts(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->width == op->experts.weight.k);
    assert(input(g, op, 0)->copies == picks(g, op)->width / 2);
    tn_value v = floats(op->experts.weight.n);
    v.copies = input(g, op, 0)->copies;
    return v;
}

static tn_value shape_expert_bias(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->copies == picks(g, op)->width / 2);
    return same_floats(g, op);
}

static tn_value shape_combine(const tn_graph *g, const tn_op *op) {
    assert(input(g, op, 0)->copies == picks(g, op)->width / 2);
    return floats(input(g, op, 0)->width);
}

tn_value tn_op_shape(const tn_graph *g, const tn_op *op) {
    typedef tn_value shape_fn(const tn_graph *, const tn_op *);
    static shape_fn *const table[TN_OP_COUNT] = {
#define X(NAME, name, class, what) shape_##name,
#include "ops.def"
#undef X
    };
    return table[op->kind](g, op);
}
