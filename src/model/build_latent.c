/* The latent_attention step (DeepSeek-AI 2024, section 2.1): what is cached of a position is one short vector and one
 * rotated key, which all heads share. A head's query is taken into the space of that vector, so that keys and values are
 * never made: the cache's row is the key, and its first part the value. */
#include "build.h"

/* The heads' matrices, n rows of k each: a tensor of three dimensions. Zero after a failure. */
static tn_matrices split(tn_builder *b, int def, uint32_t k, uint32_t n, uint32_t heads) {
    const tn_tensor *t = tn_build_tensor(b, def);
    if (!t) {
        tn_build_fail(b, "the matrices of keys or values of the heads are absent, and the step needs them");
        return (tn_matrices){0};
    }
    if (b->m->arch.tensors[def].n_dims != 3 || t->dims[0] != k || t->dims[1] != n || t->dims[2] != heads)
        tn_build_fail(b, "tensor '%s' is not %u matrices of %u x %u, as the step needs",
                      b->m->arch.tensors[def].id, heads, k, n);
    return (tn_matrices){{t->data, t->dtype, k, n}, heads, tn_dtype_row_bytes(t->dtype, k) * n};
}

/* The same as n rows, from `row` on, of each head's part of a matrix. */
static tn_matrices together(const tn_weight *kv_b, uint32_t row, uint32_t n, uint32_t heads) {
    const size_t row_bytes = tn_dtype_row_bytes(kv_b->dtype, kv_b->k);
    const tn_weight w = {kv_b->data + row * row_bytes, kv_b->dtype, kv_b->k, n};
    return (tn_matrices){w, heads, kv_b->n / (heads ? heads : 1) * row_bytes};
}

/* ---- The step ------------------------------------------------------------------------------------------------ */

typedef struct shape {
    uint32_t heads, head_dim, value_dim, rank, rope_dim, groups;
} shape;

/* Heads are walked in equal groups that fit a call of the kernel. */
static uint32_t n_groups(uint32_t heads) {
    uint32_t n = 1;
    while (n < heads && (heads % n || heads / n > TN_MAX_HEADS_OF_ONE)) n++;
    return n;
}

static shape shape_of(tn_builder *b, const tn_step *step, const tn_rope_config *rope) {
    const shape s = {.heads = tn_build_whole(b, step->heads, 0),
                     .head_dim = tn_build_whole(b, step->head_dim, 0),
                     .value_dim = tn_build_whole(b, step->value_dim, 0),
                     .rank = tn_build_whole(b, step->rank, 0),
                     .rope_dim = 2 * rope->n_pairs,
                     .groups = n_groups(tn_build_whole(b, step->heads, 0))};
    const uint64_t cached = (uint64_t)s.rank + s.rope_dim;
    if (!s.heads || !s.rank || !s.value_dim || s.head_dim <= s.rope_dim)
        tn_build_fail(b, "heads, values, rank and the part of a head that is not rotated must be above 0");
    else if (cached % 8 || cached > TN_MAX_HEAD_DIM)
        tn_build_fail(b, "rank and rotated part together must be a multiple of 8, at most %d",
                      TN_MAX_HEAD_DIM);
    return s;
}

/* Cuts the first `width` elements of each head out of rows, and multiplies by the heads' matrices. */
static tn_value_id product(tn_builder *b, tn_value_id x, uint32_t stride, uint32_t width, tn_value_id tail,
                           const tn_head_product_params *p) {
    const tn_value_id parts = tn_build_add(
        b, (tn_op){.kind = TN_OP_HEADS, .in = {x, -1, -1}, .heads = {p->of.count, stride, width}});
    return tn_build_add(b, (tn_op){.kind = TN_OP_HEAD_PRODUCT, .in = {parts, tail, -1}, .head_product = *p});
}

/* The matrices that take queries into the space of the cache, and what is summed there to values: tensors of their own,
 * or both in one, for each head those of its keys, transposed, and then those of its values. */
static void set_matrices(tn_builder *b, const tn_step *step, const shape *s, tn_head_product_params *into,
                         tn_head_product_params *out) {
    const uint32_t plain = s->head_dim - s->rope_dim;
    if (tn_build_tensor(b, step->kv_b)) {
        const tn_weight kv_b = tn_build_bare_matrix(b, step->kv_b, s->rank);
        if (!b->status && kv_b.n != (uint64_t)s->heads * ((uint64_t)plain + s->value_dim))
            tn_build_fail(b, "tensor '%s' does not have the keys and values of all heads",
                          b->m->arch.tensors[step->kv_b].id);
        if (b->status) return;
        into->of = together(&kv_b, 0, plain, s->heads);
        into->transposed = true;
        out->of = together(&kv_b, plain, s->value_dim, s->heads);
    } else {
        into->of = split(b, step->k_b, plain, s->rank, s->heads);
        out->of = split(b, step->v_b, s->rank, s->value_dim, s->heads);
    }
    into->n_tail = s->rope_dim, into->tail_at = plain, into->tail_stride = s->head_dim;
}

static tn_value_id attend(tn_builder *b, const tn_step *step, const shape *s, tn_rope_config rope,
                          tn_value_id q, tn_value_id kv) {
    const tn_attention_params p = {
        .n_heads = s->heads,
        .n_kv_heads = s->groups,
        .head_dim = s->rank + s->rope_dim,
        .scale = (float)tn_build_number(b, step->scale, 0),
        .rope = tn_graph_add_rope(b->g, rope),
        .rope_at = s->rank,
        .latent = true,
        .cache = tn_graph_add_cache(b->g, (tn_cache_shape){1, s->rank + s->rope_dim, 0, true}),
        .outputs_only = b->last_layer};
    const tn_value_id parts =
        tn_build_add(b, (tn_op){.kind = TN_OP_ATTENTION, .in = {q, kv, kv}, .attention = p});
    if (b->last_layer) b->rows = TN_ROWS_OUTPUTS; /* only rows whose logits are asked for go on from here */
    return tn_build_add(b, (tn_op){.kind = TN_OP_ATTN_JOIN, .in = {parts, -1, -1}, .attention = p});
}

void tn_build_latent(tn_builder *b, const tn_step *step) {
    const tn_rope_config rope = tn_build_rope(b, step);
    const shape s = shape_of(b, step, &rope);
    tn_head_product_params into = {0}, out = {0};
    if (!b->status) set_matrices(b, step, &s, &into, &out);
    if (b->status) return;
    const bool in_two = tn_build_tensor(b, step->q_a) != NULL;
    tn_value_id q = tn_build_linear(b, b->h, in_two ? step->q_a : step->q, -1);
    tn_value_id kv = tn_build_linear(b, b->h, step->kv_a, -1);
    if (!b->status && tn_build_width(b, kv) != s.rank + s.rope_dim)
        tn_build_fail(b, "what is cached is not as wide as rank and rotated part");
    const float eps = (float)tn_build_number(b, step->eps, 0),
                *weight = tn_build_vector(b, step->kv_a_norm, s.rank);
    if (!weight || !(eps > 0))
        tn_build_fail(b, "the norm of what is cached needs a weight and an epsilon above 0");
    kv = tn_build_add(b,
                      (tn_op){.kind = TN_OP_NORM, .in = {kv, -1, -1}, .norm = {weight, eps, false, s.rank}});
    if (in_two) q = tn_build_linear(b, tn_build_norm(b, q, step, step->q_a_norm, -1), step->q_b, -1);
    if (!b->status && tn_build_width(b, q) != (uint64_t)s.heads * s.head_dim)
        tn_build_fail(b, "the queries do not have the width of the heads");
    if (b->status) return;
    const tn_value_id taken = product(b, q, s.head_dim, s.head_dim - s.rope_dim, q, &into);
    const tn_value_id summed = attend(b, step, &s, rope, taken, kv);
    b->h = tn_build_linear(b, product(b, summed, s.rank + s.rope_dim, s.rank, -1, &out), step->out, -1);
}
