/* The attention step: projections, norms of q and k, rotation, cache. */
#include <math.h>

#include "../base/fmath.h"
#include "build.h"

/* ---- Rotation ------------------------------------------------------------------------------------------------ */

/* A vector of factors that frequencies are divided by. */
static const float *factors(tn_builder *b, int def, uint32_t n_pairs) {
    const float *v = tn_build_vector(b, def, n_pairs);
    for (uint32_t i = 0; v && i < n_pairs; i++) {
        if (v[i] > 0 && !isinf(v[i])) continue;
        if (!b->status)
            b->status = tn_fail(b->err, TN_ERR_FORMAT, "cannot run model", tn_file_path(b->m->file),
                                "tensor '%s': element %u is %g, expected a factor above 0",
                                tn_build_tensor(b, def)->cname, i, (double)v[i]);
    }
    return v;
}

/* The pair, as a real number, that turns `turns` times over the original context. */
static double pair_of_turns(const tn_rope_config *rope, double original, double turns) {
    const double two_pi = 6.28318530717958648;
    return rope->n_pairs * tn_log(original / (turns * two_pi)) / tn_log(rope->theta);
}

static void add_yarn(tn_builder *b, const tn_step *step, tn_rope_config *rope) {
    const double original = tn_build_number(b, step->yarn_original, 0);
    const double fast = tn_build_number(b, step->yarn_beta_fast, 0),
                 slow = tn_build_number(b, step->yarn_beta_slow, 0);
    if (b->status || original == 0) return;
    if (!(original > 0) || !(slow > 0) || !(fast >= slow) || rope->theta <= 1) {
        tn_build_fail(
            b, "yarn needs an original context and beta_slow above 0, beta_fast not below, theta above 1");
        return;
    }
    const bool truncate = tn_build_number(b, step->yarn_truncate, 1) != 0; /* to whole pairs, outwards */
    const double from = pair_of_turns(rope, original, fast), to = pair_of_turns(rope, original, slow);
    const double first = truncate ? floor(from) : from, last = truncate ? ceil(to) : to,
                 end = 2.0 * rope->n_pairs - 1;
    rope->yarn = true;
    /* A base just above 1 puts them anywhere, at infinity too. */
    rope->yarn_first = first > 0 ? (first < end ? first : end) : 0;
    rope->yarn_last = last < end ? last : end;
    if (rope->yarn_first == rope->yarn_last) rope->yarn_last += 0.001;
}

static void add_long_factors(tn_builder *b, const tn_step *step, tn_rope_config *rope) {
    rope->long_factors = factors(b, step->long_factors, rope->n_pairs);
    if (!rope->long_factors) return;
    const uint32_t above = tn_build_whole(b, step->long_above, 0);
    if (b->status) return;
    if (above == 0 || (b->g->long_above && b->g->long_above != above))
        tn_build_fail(b,
                      "the length above which rotations change must be above 0 and the same for all layers");
    b->g->long_above = above;
}

/* Sines of large angles are exact to 2^31 (fmath.h), which leaves two million positions for the fastest pair allowed. */
static void check_speed(tn_builder *b, const tn_rope_config *rope) {
    enum { FASTEST = 1024 };
    const float *const lists[] = {rope->freq_factors, rope->long_factors};
    const double fastest = (rope->theta < 1 ? 1 / rope->theta : 1) / rope->factor;
    double least = 1;
    for (size_t l = 0; l < 2; l++)
        for (uint32_t i = 0; lists[l] && i < rope->n_pairs; i++)
            if ((double)lists[l][i] < least) least = (double)lists[l][i];
    if (b->status || fastest / least <= FASTEST) return;
    tn_build_fail(b,
                  "rotary base %g, factor %g and least factor %g of a pair turn by more than %d a position",
                  rope->theta, rope->factor, least, FASTEST);
}

tn_rope_config tn_build_rope(tn_builder *b, const tn_step *step) {
    tn_rope_config rope = {
        .halves = step->rope_pairs == TN_ROPE_HALVES, .factor = 1, .theta = 1, .magnitude = 1};
    if (!step->rope_dim || (rope.n_pairs = tn_build_whole(b, step->rope_dim, 0) / 2) == 0) return rope;
    rope.theta = tn_build_number(b, step->rope_theta, 1);
    rope.factor = tn_build_number(b, step->rope_factor, 1);
    rope.magnitude = tn_build_number(b, step->rope_magnitude, 1);
    rope.freq_factors = factors(b, step->freq_factors, rope.n_pairs);
    if (rope.theta <= 0 || rope.factor <= 0 || rope.magnitude <= 0)
        tn_build_fail(b, "rotary base, factor and magnitude must be above 0");
    if (step->long_above) add_long_factors(b, step, &rope);
    if (step->yarn_original) add_yarn(b, step, &rope);
    check_speed(b, &rope);
    return rope;
}

/* ---- The step ------------------------------------------------------------------------------------------------ */

static void check(tn_builder *b, const tn_attention_params *p, uint32_t n_pairs) {
    if (b->status) return;
    if (!p->n_kv_heads || p->n_heads % p->n_kv_heads)
        tn_build_fail(b, "the heads are not a multiple of the key-value heads");
    else if (p->n_heads / p->n_kv_heads > TN_MAX_HEADS_OF_ONE)
        tn_build_fail(b, "more than %d heads share a key-value head", TN_MAX_HEADS_OF_ONE);
    else if (p->head_dim % 8 || p->head_dim > TN_MAX_HEAD_DIM)
        tn_build_fail(b, "the head size must be a multiple of 8, at most %d", TN_MAX_HEAD_DIM);
    else if (n_pairs * 2 > p->head_dim)
        tn_build_fail(b, "the rotary dimensions exceed the head size");
    else if ((p->q_norm || p->k_norm) && !(p->norm_eps > 0))
        tn_build_fail(b, "the epsilon of a norm must be above 0");
}

static void check_projections(tn_builder *b, const tn_step *step, const tn_attention_params *p) {
    const uint64_t q_width = (uint64_t)p->n_heads * p->head_dim,
                   kv_width = (uint64_t)p->n_kv_heads * p->head_dim;
    const uint32_t width = tn_build_width(b, b->h);
    if (tn_build_matrix(b, step->q, width).n != q_width || tn_build_matrix(b, step->k, width).n != kv_width ||
        tn_build_matrix(b, step->v, width).n != kv_width)
        tn_build_fail(b, "the projections do not have the width of the heads");
}

/* q, k or v: projected and clamped. */
static tn_value_id clamped(tn_builder *b, const tn_step *step, int weight, int bias) {
    const tn_value_id value = tn_build_linear(b, b->h, weight, bias);
    const float limit = (float)tn_build_number(b, step->clamp, 0);
    if (limit < 0) tn_build_fail(b, "the limit of q, k and v is below 0");
    return limit > 0 ? tn_build_add(b, (tn_op){.kind = TN_OP_CLAMP, .in = {value, -1, -1}, .clamp = {limit}})
                     : value;
}

/* q or k, normed over the whole width where the step says so. */
static tn_value_id project(tn_builder *b, const tn_step *step, int weight, int bias, int norm,
                           int norm_bias) {
    const tn_value_id value = clamped(b, step, weight, bias);
    const bool whole = step->norm_span == TN_NORM_ALL && tn_build_tensor(b, norm);
    return whole ? tn_build_norm(b, value, step, norm, norm_bias) : value;
}

static tn_value_id temper(tn_builder *b, const tn_step *step, tn_value_id q) {
    const double beta = tn_build_number(b, step->temper_beta, 0);
    if (beta == 0) return q;
    const uint32_t length = tn_build_whole(b, step->temper_length, 0);
    if (!length) tn_build_fail(b, "the length of the temperature must be above 0");
    return tn_build_add(b, (tn_op){.kind = TN_OP_TEMPER, .in = {q, -1, -1}, .temper = {beta, length}});
}

/* The weights of a norm on heads: a vector for all, or a row for each. */
static const float *head_norm(tn_builder *b, int def, tn_attention_params *p, uint32_t n_heads) {
    const tn_tensor *t = tn_build_tensor(b, def);
    if (!t || b->m->arch.tensors[def].n_dims == 1) return tn_build_vector(b, def, p->head_dim);
    const tn_weight rows = tn_build_bare_matrix(b, def, p->head_dim);
    if (!b->status && (rows.n != n_heads || rows.dtype != TN_DTYPE_F32 || (uintptr_t)rows.data % 4))
        tn_build_fail(b, "tensor '%s' is not a row of F32 for each of %u heads, as the step needs",
                      b->m->arch.tensors[def].id, n_heads);
    p->norm_own = true;
    return (const float *)(const void *)rows.data;
}

static void set_head_norms(tn_builder *b, const tn_step *step, tn_attention_params *p) {
    p->norm_eps = (float)tn_build_number(b, step->eps, 0);
    p->norm_layer = step->norm_kind == TN_NORM_LAYER;
    p->norm_last = step->norm_place == TN_NORM_AFTER_ROPE;
    if (step->norm_span == TN_NORM_ALL) {
        if (p->norm_last) tn_build_fail(b, "a norm over the whole width cannot stand behind the rotation");
        return;
    }
    if (tn_build_tensor(b, step->q_norm_bias) || tn_build_tensor(b, step->k_norm_bias))
        tn_build_fail(b, "norms of heads have no biases");
    p->q_norm = head_norm(b, step->q_norm, p, p->n_heads);
    const bool own = p->norm_own;
    p->k_norm = head_norm(b, step->k_norm, p, p->n_kv_heads);
    if (p->q_norm && p->k_norm && own != p->norm_own)
        tn_build_fail(b, "the norms of q and k must both have a row for each head, or neither");
}

/* ALiBi's slopes (Press et al. 2022, section 3): for n heads, n a power of 2, 2^(-largest * h / n) for h = 1 .. n. Heads
 * beyond the last power of 2 get every other slope of twice as many heads. */
static const float *slopes(tn_builder *b, double largest, uint32_t n_heads) {
    if (b->status || largest == 0) return NULL;
    if (largest < 0) tn_build_fail(b, "the largest bias of alibi is below 0");
    float *slope = tn_arena_alloc(&b->m->arena, n_heads, sizeof *slope);
    if (!slope) b->g->out_of_memory = true;
    uint32_t n = 1;
    while (n <= n_heads / 2) n *= 2;
    for (uint32_t h = 0; slope && h < n_heads; h++) {
        const double part = h < n ? (h + 1.0) / n : (2.0 * (h - n) + 1) / (2.0 * n);
        slope[h] = (float)tn_pow(2, -largest * part);
    }
    return slope;
}

void tn_build_attention(tn_builder *b, const tn_step *step) {
    tn_attention_params p = {.n_heads = tn_build_whole(b, step->heads, 0),
                             .n_kv_heads = tn_build_whole(b, step->kv_heads, 0),
                             .head_dim = tn_build_whole(b, step->head_dim, 0),
                             .ahead = tn_build_number(b, step->causal, 1) == 0,
                             .window = tn_build_whole(b, step->window, 0),
                             .scale = (float)tn_build_number(b, step->scale, 0),
                             .softcap = (float)tn_build_number(b, step->softcap, 0),
                             .outputs_only = b->last_layer};
    const tn_rope_config rope = tn_build_rope(b, step);
    if (p.ahead && rope.long_factors)
        tn_build_fail(b, "attention that sees ahead cannot change its rotation with the length");
    set_head_norms(b, step, &p);
    p.slopes = slopes(b, tn_build_number(b, step->alibi, 0), p.n_heads);
    p.sinks = tn_build_vector(b, step->sinks, p.n_heads);
    check(b, &p, rope.n_pairs);
    check_projections(b, step, &p);
    if (b->status) return;
    b->g->whole |= p.ahead;
    p.rope = tn_graph_add_rope(b->g, rope);
    p.cache = tn_graph_add_cache(b->g, (tn_cache_shape){p.n_kv_heads, p.head_dim, p.window, false});
    tn_value_id q = temper(b, step, project(b, step, step->q, step->q_bias, step->q_norm, step->q_norm_bias));
    tn_value_id k = project(b, step, step->k, step->k_bias, step->k_norm, step->k_norm_bias);
    tn_value_id v = clamped(b, step, step->v, step->v_bias);
    tn_value_id parts = tn_build_add(b, (tn_op){.kind = TN_OP_ATTENTION, .in = {q, k, v}, .attention = p});
    if (b->last_layer) b->rows = TN_ROWS_OUTPUTS; /* only rows whose logits are asked for go on from here */
    tn_value_id o = tn_build_add(b, (tn_op){.kind = TN_OP_ATTN_JOIN, .in = {parts, -1, -1}, .attention = p});
    b->h = tn_build_linear(b, o, step->out, step->out_bias);
}
