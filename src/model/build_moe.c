/* The moe step: a router, and the MLPs of the experts that it chooses. */
#include "build.h"

enum { MAX_EXPERTS = 4096 };

/* The experts' matrices of a tensor with three dimensions, rows of k; zero after a failure. */
static tn_matrices matrices(tn_builder *b, int def, uint32_t k, uint32_t n_experts) {
    const tn_tensor *t = tn_build_tensor(b, def);
    const char *id = b->m->arch.tensors[def].id;
    if (!t)
        tn_build_fail(b, "tensor '%s' is absent, and the step needs it", id);
    else if (b->m->arch.tensors[def].n_dims != 3 || t->dims[0] != k || t->dims[2] != n_experts)
        tn_build_fail(b, "tensor '%s' is not matrices with rows of %u for %u experts, as the step needs", id,
                      k, n_experts);
    if (b->status) return (tn_matrices){0};
    const tn_weight w = {t->data, t->dtype, (uint32_t)t->dims[0], (uint32_t)t->dims[1]};
    const size_t bytes = tn_dtype_row_bytes(w.dtype, w.k) * w.n;
    /* those of a part of a tensor lie apart */
    return (tn_matrices){w, n_experts, n_experts > 1 ? (t->n_bytes - bytes) / (n_experts - 1) : 0};
}

static tn_value_id add_bias(tn_builder *b, tn_value_id x, tn_value_id picks, int def, uint32_t n_experts) {
    const tn_tensor *t = tn_build_tensor(b, def);
    if (!t || b->status) return x;
    const tn_weight rows = tn_build_matrix(b, def, tn_build_width(b, x));
    if (!b->status && (rows.n != n_experts || rows.dtype != TN_DTYPE_F32 || (uintptr_t)rows.data % 4))
        tn_build_fail(b, "tensor '%s' is not a row of F32 for each of %u experts, as the step needs",
                      b->m->arch.tensors[def].id, n_experts);
    return tn_build_add(b, (tn_op){.kind = TN_OP_EXPERT_BIAS,
                                   .in = {x, picks, -1},
                                   .expert_bias = {(const float *)(const void *)rows.data, n_experts}});
}

static tn_value_id products(tn_builder *b, tn_value_id x, tn_value_id picks, const tn_matrices *p, int bias) {
    const tn_op op = {.kind = TN_OP_EXPERTS, .in = {x, picks, -1}, .experts = *p};
    return add_bias(b, tn_build_add(b, op), picks, bias, p->count);
}

/* ---- The router ------------------------------------------------------------------------------------------------ */

static void check_route(tn_builder *b, const tn_route_params *p) {
    if (b->status) return;
    if (!p->n_experts || p->n_experts > MAX_EXPERTS)
        tn_build_fail(b, "there must be 1 to %d experts", MAX_EXPERTS);
    else if (!p->n_used || p->n_used > p->n_experts)
        tn_build_fail(b, "%u of %u experts cannot be used", p->n_used, p->n_experts);
    else if (!p->n_groups || p->n_groups > TN_MAX_EXPERT_GROUPS || p->n_experts % p->n_groups)
        tn_build_fail(b, "%u experts do not make %u groups", p->n_experts, p->n_groups);
    else if (!p->n_groups_used || p->n_groups_used > p->n_groups ||
             p->n_experts / p->n_groups * p->n_groups_used < p->n_used)
        tn_build_fail(b, "%u of %u groups do not have the %u experts used", p->n_groups_used, p->n_groups,
                      p->n_used);
    else if (!p->group_best || p->group_best > p->n_experts / p->n_groups)
        tn_build_fail(b, "a group does not have the %u experts that it is judged by", p->group_best);
}

static tn_value_id route(tn_builder *b, const tn_step *step) {
    const tn_value_id logits = tn_build_linear(b, b->h, step->router, step->router_bias);
    const uint32_t n_experts = tn_build_width(b, logits);
    const tn_route_params p = {.n_experts = n_experts,
                               .n_used = tn_build_whole(b, step->used, 0),
                               .sigmoid = tn_build_number(b, step->sigmoid, 0) != 0,
                               .near = (float)tn_build_number(b, step->near, 0),
                               .n_groups = tn_build_whole(b, step->groups, 1),
                               .n_groups_used = tn_build_whole(b, step->groups_used, 1),
                               .group_best = tn_build_whole(b, step->group_best, 1),
                               .renormalise = tn_build_number(b, step->renormalise, 0) != 0,
                               .scale = (float)tn_build_number(b, step->scale, 1),
                               .bias = tn_build_vector(b, step->select_bias, n_experts)};
    check_route(b, &p);
    return tn_build_add(b, (tn_op){.kind = TN_OP_ROUTE, .in = {logits, -1, -1}, .route = p});
}

/* ---- The step -------------------------------------------------------------------------------------------------- */

static tn_value_id dispatch(tn_builder *b, tn_value_id picks, const tn_matrices *to) {
    const tn_op op = {.kind = TN_OP_DISPATCH,
                      .in = {b->h, picks, -1},
                      .dispatch = {tn_dtypes[to->weight.dtype].act, to->count}};
    return tn_build_add(b, op);
}

void tn_build_moe(tn_builder *b, const tn_step *step) {
    const tn_value_id picks = route(b, step);
    if (b->status) return;
    const uint32_t n_experts = b->g->ops[b->g->values[picks].producer].route.n_experts;
    const tn_matrices gate = matrices(b, step->gate, tn_build_width(b, b->h), n_experts),
                      up = matrices(b, step->up, tn_build_width(b, b->h), n_experts),
                      down = matrices(b, step->down, up.weight.n, n_experts);
    if (!b->status && gate.weight.n != up.weight.n) tn_build_fail(b, "gate and up are not of one width");
    if (b->status) return;
    const bool same_rows = tn_dtypes[gate.weight.dtype].act == tn_dtypes[up.weight.dtype].act;
    const tn_value_id to_gate = dispatch(b, picks, &gate),
                      to_up = same_rows ? to_gate : dispatch(b, picks, &up);
    const tn_value_id gated = products(b, to_gate, picks, &gate, step->gate_bias);
    const tn_value_id raised = products(b, to_up, picks, &up, step->up_bias);
    const tn_op unit = {
        .kind = TN_OP_GLU, .in = {gated, raised, -1}, .glu = {(tn_activation)step->activation}};
    const tn_value_id made = products(b, tn_build_add(b, unit), picks, &down, step->down_bias);
    b->h = tn_build_add(b, (tn_op){.kind = TN_OP_COMBINE, .in = {made, picks, -1}, .combine = {n_experts}});
}
