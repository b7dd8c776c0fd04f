/* From a description's steps to the graph. */
#include "build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint32_t layer_index(const tn_builder *b) {
    return b->layer < 0 ? 0 : (uint32_t)b->layer;
}

const tn_tensor *tn_build_tensor(const tn_builder *b, int def) {
    if (def < 0) return NULL;
    const bool per_layer = b->m->arch.tensors[def].per_layer;
    return b->m->tensors[(size_t)def * b->m->hparams.n_layers + (per_layer ? layer_index(b) : 0)];
}

double tn_build_number(tn_builder *b, const char *expr, double absent) {
    double v = absent;
    if (expr && !b->status) b->status = tn_model_eval(b->m, expr, layer_index(b), &v, b->err);
    return b->status ? absent : v;
}

uint32_t tn_build_whole(tn_builder *b, const char *expr, uint32_t absent) {
    uint32_t v = absent;
    if (expr && !b->status) b->status = tn_model_eval_u32(b->m, expr, layer_index(b), &v, b->err);
    return b->status ? absent : v;
}

void tn_build_fail(tn_builder *b, const char *format, ...) {
    if (b->status) return;
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    b->status = tn_fail(b->err, TN_ERR_FORMAT, "cannot run model", tn_file_path(b->m->file),
                        "architecture %s, layer %d: %s", b->m->arch.name, b->layer, why);
}

static void out_of_memory(tn_builder *b) {
    if (!b->status)
        b->status =
            tn_fail(b->err, TN_ERR_MEMORY, "cannot run model", tn_file_path(b->m->file), "out of memory");
}

uint32_t tn_build_width(const tn_builder *b, tn_value_id value) {
    return b->status ? 0 : b->g->values[value].width;
}

/* A description that gives a tensor of another shape is refused. */
const float *tn_build_vector(tn_builder *b, int def, uint32_t n) {
    const tn_tensor *t = tn_build_tensor(b, def);
    if (!t) return NULL;
    if (b->m->arch.tensors[def].n_dims == 1 && t->dims[0] == n) return (const float *)(const void *)t->data;
    tn_build_fail(b, "tensor '%s' is not a vector of %u, as the step needs", b->m->arch.tensors[def].id, n);
    return NULL;
}

tn_weight tn_build_matrix(tn_builder *b, int def, uint32_t k) {
    const tn_tensor *t = tn_build_tensor(b, def);
    const char *id = b->m->arch.tensors[def].id;
    if (!t)
        tn_build_fail(b, "tensor '%s' is absent, and the step needs it", id);
    else if (b->m->arch.tensors[def].n_dims != 2 || t->dims[0] != k)
        tn_build_fail(b, "tensor '%s' is not a matrix with rows of %u, as the step needs", id, k);
    return b->status ? (tn_weight){0}
                     : (tn_weight){t->data, t->dtype, (uint32_t)t->dims[0], (uint32_t)t->dims[1]};
}

tn_value_id tn_build_add(tn_builder *b, tn_op op) {
    op.layer = b->layer;
    op.rows = b->rows;
    const tn_value_id value = b->status ? 0 : tn_graph_add(b->g, op);
    if (b->g->out_of_memory) out_of_memory(b);
    return value;
}

static tn_value_id add_bias(tn_builder *b, tn_value_id x, int def) {
    const float *v = tn_build_vector(b, def, tn_build_width(b, x));
    return v ? tn_build_add(b, (tn_op){.kind = TN_OP_BIAS, .in = {x, -1, -1}, .bias = {v}}) : x;
}

static tn_value_id scaled_by(tn_builder *b, tn_value_id x, float factor) {
    return factor == 1.0f
               ? x
               : tn_build_add(b, (tn_op){.kind = TN_OP_SCALE, .in = {x, -1, -1}, .scale = {factor}});
}

static tn_value_id scaled(tn_builder *b, tn_value_id x, const char *expr) {
    return scaled_by(b, x, (float)tn_build_number(b, expr, 1));
}

tn_weight tn_build_bare_matrix(tn_builder *b, int def, uint32_t k) {
    const tn_weight w = tn_build_matrix(b, def, k);
    const tn_tensor *t = b->status ? NULL : tn_build_tensor(b, def);
    if (t && tn_model_factor(b->m, t))
        tn_build_fail(b, "tensor '%s' has a factor, which what is made of it does not apply",
                      b->m->arch.tensors[def].id);
    return w;
}

tn_value_id tn_build_linear(tn_builder *b, tn_value_id x, int weight, int bias) {
    const tn_weight w = tn_build_matrix(b, weight, tn_build_width(b, x));
    tn_value_id y = tn_build_add(b, (tn_op){.kind = TN_OP_MATMUL, .in = {x, -1, -1}, .weight = w});
    const tn_tensor *t = tn_build_tensor(b, weight), *factor = t ? tn_model_factor(b->m, t) : NULL;
    float value = 1.0f;
    if (factor) memcpy(&value, factor->data, sizeof value);
    return add_bias(b, scaled_by(b, y, value), bias);
}

/* The weights of a norm that has none. */
static const float *ones(tn_builder *b, uint32_t n) {
    float *v = tn_arena_alloc(&b->m->arena, n, sizeof *v);
    if (!v) out_of_memory(b);
    for (uint32_t i = 0; v && i < n; i++) v[i] = 1;
    return v;
}

tn_value_id tn_build_norm(tn_builder *b, tn_value_id x, const tn_step *step, int weight, int bias) {
    const uint32_t width = tn_build_width(b, x);
    const float *w = weight < 0 ? ones(b, width) : tn_build_vector(b, weight, width);
    if (!w && weight >= 0)
        tn_build_fail(b, "tensor '%s' is absent, and the step needs it", b->m->arch.tensors[weight].id);
    const float eps = (float)tn_build_number(b, step->eps, 0);
    if (!(eps > 0)) tn_build_fail(b, "the epsilon of a norm must be above 0");
    const tn_op op = {
        .kind = TN_OP_NORM, .in = {x, -1, -1}, .norm = {w, eps, step->norm_kind == TN_NORM_LAYER}};
    return add_bias(b, tn_build_add(b, op), bias);
}

/* The product of each row with one row of weights, a matrix or a vector. */
static tn_value_id row_product(tn_builder *b, tn_value_id x, int def) {
    const float *v = NULL;
    if (b->m->arch.tensors[def].n_dims == 1 && !(v = tn_build_vector(b, def, tn_build_width(b, x))))
        tn_build_fail(b, "tensor '%s' is absent, and the step needs it", b->m->arch.tensors[def].id);
    const uint32_t width = tn_build_width(b, x);
    const tn_weight w = b->m->arch.tensors[def].n_dims != 1 ? tn_build_bare_matrix(b, def, width)
                        : v ? (tn_weight){(const uint8_t *)v, TN_DTYPE_F32, width, 1}
                            : (tn_weight){0};
    if (w.n != 1)
        tn_build_fail(b, "tensor '%s' is not one row, as the step needs", b->m->arch.tensors[def].id);
    return tn_build_add(b, (tn_op){.kind = TN_OP_MATMUL, .in = {x, -1, -1}, .weight = w});
}

static void mlp(tn_builder *b, const tn_step *step) {
    const tn_value_id open = step->output_gate < 0 ? -1 : row_product(b, b->h, step->output_gate);
    const bool gated = step->gate >= 0;
    const tn_value_id gate = gated ? tn_build_linear(b, b->h, step->gate, step->gate_bias) : -1;
    const tn_value_id up = tn_build_linear(b, b->h, step->up, step->up_bias);
    if (gated && tn_build_width(b, gate) != tn_build_width(b, up))
        tn_build_fail(b, "gate and up are not of one width");
    const tn_op op = {.kind = TN_OP_GLU,
                      .in = {gated ? gate : up, gated ? up : -1, -1},
                      .glu = {(tn_activation)step->activation}};
    b->h = tn_build_linear(b, tn_build_add(b, op), step->down, step->down_bias);
    if (open >= 0) b->h = tn_build_add(b, (tn_op){.kind = TN_OP_SHUT, .in = {b->h, open, -1}});
}

static tn_value_id sum(tn_builder *b, tn_value_id saved) {
    if (saved < 0)
        tn_build_fail(b, "a value is added that no step of this layer has saved");
    else if (tn_build_width(b, saved) != tn_build_width(b, b->h))
        tn_build_fail(b, "the residual stream and the value added to it are not of one width");
    return tn_build_add(b, (tn_op){.kind = TN_OP_ADD, .in = {saved, b->h, -1}});
}

static void load(tn_builder *b, tn_value_id saved) {
    if (saved < 0)
        tn_build_fail(b, "a value is loaded that no step of this layer has saved");
    else
        b->h = saved;
}

static void logits(tn_builder *b, const tn_step *step) {
    if (b->embeddings) {
        b->g->logits = b->h;
        return;
    }
    tn_value_id value = scaled(b, tn_build_linear(b, b->h, step->weight, step->bias), step->scale);
    const double cap = tn_build_number(b, step->softcap, 0);
    if (cap > 0)
        value =
            tn_build_add(b, (tn_op){.kind = TN_OP_SOFTCAP, .in = {value, -1, -1}, .softcap = {(float)cap}});
    b->g->logits = value;
    if (!b->status && tn_build_width(b, value) != b->m->hparams.n_vocab)
        tn_build_fail(b, "the logits are not as many as the vocabulary has tokens");
}

static void build_step(tn_builder *b, const tn_step *step) {
    if (tn_build_number(b, step->when, 1) == 0) return;
    switch (step->kind) {
    case TN_STEP_NORM: b->h = tn_build_norm(b, b->h, step, step->weight, step->bias); break;
    case TN_STEP_ATTENTION: tn_build_attention(b, step); break;
    case TN_STEP_LATENT: tn_build_latent(b, step); break;
    case TN_STEP_MLP: mlp(b, step); break;
    case TN_STEP_MOE: tn_build_moe(b, step); break;
    case TN_STEP_RESIDUAL: b->saved[0] = b->h = sum(b, b->saved[0]); break;
    case TN_STEP_SAVE: b->saved[step->value] = b->h; break;
    case TN_STEP_LOAD: load(b, b->saved[step->value]); break;
    case TN_STEP_ADD: b->h = sum(b, b->saved[step->value]); break;
    case TN_STEP_SCALE: b->h = scaled(b, b->h, step->scale); break;
    case TN_STEP_LINEAR: b->h = tn_build_linear(b, b->h, step->weight, step->bias); break;
    case TN_STEP_LOGITS: logits(b, step); break;
    case TN_STEP_EMBEDDING: b->g->logits = b->h; break;
    }
}

/* Steps see x and what they have saved themselves. */
static void build_steps(tn_builder *b, const tn_step *steps, size_t n) {
    for (int i = 1; i < TN_MAX_SAVED; i++) b->saved[i] = -1;
    for (size_t s = 0; s < n && !b->status; s++) build_step(b, &steps[s]);
}

static tn_value_id look_up(tn_builder *b, const tn_weight *table, tn_embed_by by) {
    return tn_build_add(b, (tn_op){.kind = TN_OP_EMBED, .in = {-1, -1, -1}, .embed = {*table, by}});
}

/* x plus rows of another table; x where there is none. */
static tn_value_id add_rows(tn_builder *b, tn_value_id x, int def, tn_embed_by by) {
    if (!tn_build_tensor(b, def)) return x;
    const tn_weight table = tn_build_bare_matrix(b, def, b->m->hparams.n_embd);
    if (by == TN_EMBED_POSITION) b->g->n_positions = table.n;
    return tn_build_add(b, (tn_op){.kind = TN_OP_ADD, .in = {x, look_up(b, &table, by), -1}});
}

static tn_value_id embed(tn_builder *b) {
    const tn_step *step = &b->m->arch.embed;
    const tn_weight table = tn_build_bare_matrix(b, step->table, b->m->hparams.n_embd);
    if (!b->status && table.n != b->m->hparams.n_vocab)
        tn_build_fail(b, "the embedding table does not have a row for each token");
    tn_value_id x = scaled(b, look_up(b, &table, TN_EMBED_TOKEN), step->scale);
    x = add_rows(b, x, step->positions, TN_EMBED_POSITION);
    x = add_rows(b, x, step->types, TN_EMBED_FIRST);
    return step->eps ? tn_build_norm(b, x, step, step->weight, step->bias) : x;
}

static tn_status build(tn_model *m, tn_graph *g, bool embeddings, tn_error *err) {
    tn_builder b = {
        .m = m, .g = g, .err = err, .embeddings = embeddings, .layer = -1, .rows = TN_ROWS_TOKENS};
    tn_graph_init(b.g, &m->arena);
    b.h = b.saved[0] = embed(&b);
    const uint32_t n_layers = m->hparams.n_layers;
    for (uint32_t i = 0; i < n_layers && !b.status; i++) {
        b.layer = (int32_t)i;
        b.last_layer = i + 1 == n_layers;
        build_steps(&b, m->arch.block, m->arch.n_block);
        b.h = b.saved[0];
    }
    b.layer = -1;
    b.rows = TN_ROWS_OUTPUTS;
    build_steps(&b, m->arch.head, m->arch.n_head);
    return b.status ? b.status : tn_graph_fuse(b.g, err);
}

tn_status tn_model_build_graphs(tn_model *m, tn_error *err) {
    const tn_arch *arch = &m->arch;
    m->encoder = arch->head[arch->n_head - 1].kind == TN_STEP_EMBEDDING;
    tn_status s = build(m, &m->graph, false, err);
    if (s || !m->encoder) return s ? s : build(m, &m->embedding_graph, true, err);
    m->embedding_graph = m->graph; /* both in the model's arena */
    return TN_OK;
}
