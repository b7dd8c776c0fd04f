/* From a description's steps to the graph. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "model.h"

typedef struct builder {
    tn_model *m;
    tn_graph *g;
    tn_error *err;
    tn_status status; /* the first failure */
    int32_t layer;    /* -1 outside the block */
    tn_rows rows;     /* of what is being computed */
    tn_value_id x, h; /* the residual stream, and the value that steps transform */
} builder;

static uint32_t layer_index(const builder *b) {
    return b->layer < 0 ? 0 : (uint32_t)b->layer;
}

static const tn_tensor *tensor(const builder *b, int def) {
    if (def < 0) return NULL;
    const bool per_layer = b->m->arch.tensors[def].per_layer;
    return b->m->tensors[(size_t)def * b->m->hparams.n_layers + (per_layer ? layer_index(b) : 0)];
}

static double number(builder *b, const char *expr, double absent) {
    double v = absent;
    if (expr && !b->status) b->status = tn_model_eval(b->m, expr, layer_index(b), &v, b->err);
    return b->status ? absent : v;
}

static uint32_t whole(builder *b, const char *expr, uint32_t absent) {
    uint32_t v = absent;
    if (expr && !b->status) b->status = tn_model_eval_u32(b->m, expr, layer_index(b), &v, b->err);
    return b->status ? absent : v;
}

static void fail(builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(builder *b, const char *format, ...) {
    if (b->status) return;
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    b->status = tn_fail(b->err, TN_ERR_FORMAT, "cannot run model", tn_file_path(b->m->file),
                        "architecture %s, layer %d: %s", b->m->arch.name, b->layer, why);
}

static uint32_t width_of(const builder *b, tn_value_id value) {
    return b->status ? 0 : b->g->values[value].width;
}

/* A vector of n floats; NULL where the step does not name one or an optional one is absent. A description that gives a tensor
 * of another shape is refused. */
static const float *vector(builder *b, int def, uint32_t n) {
    const tn_tensor *t = tensor(b, def);
    if (!t) return NULL;
    if (b->m->arch.tensors[def].n_dims != 1 || t->dims[0] != n)
        return fail(b, "tensor '%s' is not a vector of %u, as the step needs", b->m->arch.tensors[def].id, n),
               NULL;
    return (const float *)(const void *)t->data;
}

static const float *needed_vector(builder *b, int def, uint32_t n) {
    const float *v = vector(b, def, n);
    if (!v) fail(b, "tensor '%s' is absent, and the step needs it", b->m->arch.tensors[def].id);
    return v;
}

/* A matrix whose rows are k long; zero after a failure. */
static tn_weight matrix(builder *b, int def, uint32_t k) {
    const tn_tensor *t = tensor(b, def);
    const char *id = b->m->arch.tensors[def].id;
    if (!t) return fail(b, "tensor '%s' is absent, and the step needs it", id), (tn_weight){0};
    if (b->m->arch.tensors[def].n_dims != 2 || t->dims[0] != k)
        return fail(b, "tensor '%s' is not a matrix with rows of %u, as the step needs", id, k),
               (tn_weight){0};
    return (tn_weight){t->data, t->dtype, (uint32_t)t->dims[0], (uint32_t)t->dims[1]};
}

/* After a failure nothing more is added, and the value is one that exists. */
static tn_value_id add(builder *b, tn_op op) {
    op.layer = b->layer;
    op.rows = b->rows;
    const tn_value_id value = b->status ? 0 : tn_graph_add(b->g, op);
    if (b->g->out_of_memory && !b->status)
        b->status =
            tn_fail(b->err, TN_ERR_MEMORY, "cannot run model", tn_file_path(b->m->file), "out of memory");
    return value;
}

static tn_value_id linear(builder *b, tn_value_id x, int weight, int bias) {
    const tn_weight w = matrix(b, weight, width_of(b, x));
    tn_value_id y = add(b, (tn_op){.kind = TN_OP_MATMUL, .in = {x, -1, -1}, .weight = w});
    const float *v = b->status ? NULL : vector(b, bias, w.n);
    return v ? add(b, (tn_op){.kind = TN_OP_BIAS, .in = {y, -1, -1}, .bias = {v}}) : y;
}

static void check_factors(builder *b, const tn_tensor *t, uint32_t n_pairs) {
    const float *factors = t ? (const float *)(const void *)t->data : NULL;
    for (uint32_t i = 0; t && !b->status && i < n_pairs; i++)
        if (!(factors[i] > 0) || isinf(factors[i]))
            b->status = tn_fail(b->err, TN_ERR_FORMAT, "cannot run model", tn_file_path(b->m->file),
                                "tensor '%s': element %u is %g, expected a factor above 0", t->cname, i,
                                (double)factors[i]);
}

static uint32_t rope_of(builder *b, const tn_step *step) {
    tn_rope_config rope = {.halves = step->rope_pairs == TN_ROPE_HALVES, .factor = 1, .theta = 1};
    if (step->rope_dim) {
        rope.n_pairs = whole(b, step->rope_dim, 0) / 2;
        rope.theta = number(b, step->rope_theta, 1);
        rope.factor = number(b, step->rope_factor, 1);
        rope.freq_factors = vector(b, step->freq_factors, rope.n_pairs);
        if (rope.theta <= 0 || rope.factor <= 0) fail(b, "rotary base and factor must be above 0");
        check_factors(b, tensor(b, step->freq_factors), rope.n_pairs);
    }
    return tn_graph_add_rope(b->g, rope);
}

static void check_attention(builder *b, const tn_attention_params *p, uint32_t n_pairs) {
    if (b->status) return;
    if (!p->n_kv_heads || p->n_heads % p->n_kv_heads)
        fail(b, "the heads are not a multiple of the key-value heads");
    else if (p->n_heads / p->n_kv_heads > 64)
        fail(b, "more than 64 heads share a key-value head");
    else if (p->head_dim % 8 || p->head_dim > 512)
        fail(b, "the head size must be a multiple of 8, at most 512");
    else if (n_pairs * 2 > p->head_dim)
        fail(b, "the rotary dimensions exceed the head size");
    else if ((p->q_norm || p->k_norm) && !(p->norm_eps > 0))
        fail(b, "q_norm and k_norm need qk_norm_eps above 0");
}

static void attention(builder *b, const tn_step *step, bool last_layer) {
    tn_attention_params p = {.n_heads = whole(b, step->heads, 0),
                             .n_kv_heads = whole(b, step->kv_heads, 0),
                             .head_dim = whole(b, step->head_dim, 0),
                             .window = whole(b, step->window, 0),
                             .scale = (float)number(b, step->scale, 0),
                             .norm_eps = (float)number(b, step->qk_norm_eps, 0),
                             .rope = rope_of(b, step),
                             .outputs_only = last_layer};
    p.q_norm = vector(b, step->q_norm, p.head_dim);
    p.k_norm = vector(b, step->k_norm, p.head_dim);
    if (b->status) return;
    check_attention(b, &p, b->g->n_ropes ? b->g->ropes[p.rope].n_pairs : 0);
    const uint64_t q_width = (uint64_t)p.n_heads * p.head_dim, kv_width = (uint64_t)p.n_kv_heads * p.head_dim;
    const uint32_t width = width_of(b, b->h);
    if (matrix(b, step->q, width).n != q_width || matrix(b, step->k, width).n != kv_width ||
        matrix(b, step->v, width).n != kv_width)
        fail(b, "the projections do not have the width of the heads");
    if (b->status) return;
    p.cache = tn_graph_add_cache(b->g, (tn_cache_shape){p.n_kv_heads, p.head_dim, p.window});
    tn_value_id q = linear(b, b->h, step->q, step->q_bias);
    tn_value_id k = linear(b, b->h, step->k, step->k_bias);
    tn_value_id v = linear(b, b->h, step->v, step->v_bias);
    tn_value_id parts = add(b, (tn_op){.kind = TN_OP_ATTENTION, .in = {q, k, v}, .attention = p});
    if (last_layer) b->rows = TN_ROWS_OUTPUTS; /* only rows whose logits are asked for go on from here */
    tn_value_id o = add(b, (tn_op){.kind = TN_OP_ATTN_JOIN, .in = {parts, -1, -1}, .attention = p});
    b->h = linear(b, o, step->out, step->out_bias);
}

static void mlp(builder *b, const tn_step *step) {
    tn_value_id gate = linear(b, b->h, step->gate, -1), up = linear(b, b->h, step->up, -1);
    if (width_of(b, gate) != width_of(b, up)) fail(b, "gate and up are not of one width");
    tn_value_id act = add(
        b, (tn_op){.kind = TN_OP_GLU, .in = {gate, up, -1}, .glu = {step->activation == TN_ACTIVATION_GELU}});
    b->h = linear(b, act, step->down, -1);
}

static void norm(builder *b, const tn_step *step) {
    const float *weight = needed_vector(b, step->weight, width_of(b, b->h));
    const float eps = (float)number(b, step->eps, 0);
    if (!(eps > 0)) fail(b, "the epsilon of a norm must be above 0");
    b->h = add(b, (tn_op){.kind = TN_OP_NORM, .in = {b->h, -1, -1}, .norm = {weight, eps}});
}

static void residual(builder *b) {
    if (width_of(b, b->x) != width_of(b, b->h))
        fail(b, "the residual stream and the value added to it are not of one width");
    b->x = b->h = add(b, (tn_op){.kind = TN_OP_ADD, .in = {b->x, b->h, -1}});
}

static void logits(builder *b, const tn_step *step) {
    b->g->logits = linear(b, b->h, step->weight, -1);
    if (!b->status && width_of(b, b->g->logits) != b->m->hparams.n_vocab)
        fail(b, "the logits are not as many as the vocabulary has tokens");
}

static void build_step(builder *b, const tn_step *step, bool last_layer) {
    switch (step->kind) {
    case TN_STEP_NORM: norm(b, step); break;
    case TN_STEP_ATTENTION: attention(b, step, last_layer); break;
    case TN_STEP_MLP: mlp(b, step); break;
    case TN_STEP_RESIDUAL: residual(b); break;
    case TN_STEP_LOGITS: logits(b, step); break;
    }
}

tn_status tn_model_build_graph(tn_model *m, tn_error *err) {
    builder b = {.m = m, .g = &m->graph, .err = err, .layer = -1, .rows = TN_ROWS_TOKENS};
    tn_graph_init(b.g, &m->arena);
    const tn_weight table = matrix(&b, m->arch.embed_table, m->hparams.n_embd);
    if (!b.status && table.n != m->hparams.n_vocab)
        fail(&b, "the embedding table does not have a row for each token");
    b.x = add(&b, (tn_op){.kind = TN_OP_EMBED, .in = {-1, -1, -1}, .weight = table});
    if (m->arch.embed_scale)
        b.x = add(&b, (tn_op){.kind = TN_OP_SCALE,
                              .in = {b.x, -1, -1},
                              .scale = {(float)number(&b, m->arch.embed_scale, 1)}});
    b.h = b.x;
    const uint32_t n_layers = m->hparams.n_layers;
    for (uint32_t i = 0; i < n_layers && !b.status; i++) {
        b.layer = (int32_t)i;
        for (size_t s = 0; s < m->arch.n_block && !b.status; s++)
            build_step(&b, &m->arch.block[s], i + 1 == n_layers);
    }
    b.layer = -1;
    b.rows = TN_ROWS_OUTPUTS;
    for (size_t s = 0; s < m->arch.n_head && !b.status; s++) build_step(&b, &m->arch.head[s], true);
    return b.status ? b.status : tn_graph_fuse(b.g, err);
}
