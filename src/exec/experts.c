/* Mixtures of experts (Shazeer et al. 2017): who computes what, products of experts, sums of their results.
 *
 * A row of the step uses n_used experts, so a value of experts has n_used copies of rows: sorted by expert, those of one
 * expert by row. Where they lie follows from the picks alone, so that whoever needs it counts again: that is
 * n_rows * n_used additions, and no order has to be kept or agreed on.
 *
 *   picks     [row]     | expert[n_used] | weight[n_used] |      best first
 *   counts    [expert]  first of its rows; one more at the end
 *
 * One product an expert, over all of its rows; every thread has the same range of columns of each expert, whatever the
 * router chose. */
#include <math.h>
#include <string.h>

#include "run.h"

/* The experts' part of a thread's private area. */
typedef struct workspace {
    float *scores, *keys, *groups;
    uint32_t *counts; /* max_experts + 1; while a row chooses: what is taken */
} workspace;

static workspace workspace_of(const tn_task *t) {
    const tn_plan *plan = t->run->plan;
    float *base = (float *)(void *)(tn_private(t) + plan->work_at);
    const size_t n = plan->max_experts;
    return (workspace){base, base + n, base + 2 * n, (uint32_t *)(void *)(base + 3 * n)};
}

static const float *in_row(const tn_task *t, int input, size_t i) {
    return (const float *)(const void *)tn_task_row(t, t->op->in[input], i);
}

static float *out_row(const tn_task *t, size_t i) {
    return (float *)(void *)tn_task_row(t, t->op->out, i);
}

static uint32_t n_used_of(const tn_task *t) {
    return t->run->plan->graph->values[t->op->in[1]].width / 2;
}

static const int32_t *picks_of(const tn_task *t, size_t row) {
    return (const int32_t *)(const void *)tn_task_row(t, t->op->in[1], row);
}

/* ---- The router --------------------------------------------------------------------------------------------- */

/* The best of keys[0 .. n-1] that is not taken, the first of equals; takes it. Whatever the keys are, it is one that
 * was free. */
static uint32_t take_best(const float *keys, uint32_t *taken, uint32_t n) {
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || keys[i] > keys[best])) best = i;
    taken[best] = 1;
    return best;
}

/* Takes all experts whose group is not among the best. */
static void take_lesser_groups(const tn_route_params *p, const workspace *w) {
    const uint32_t n = p->n_experts / p->n_groups;
    memset(w->counts, 0, p->n_experts * sizeof *w->counts);
    for (uint32_t g = 0; g < p->n_groups; g++) {
        w->groups[g] = 0;
        for (uint32_t i = 0; i < p->group_best; i++)
            w->groups[g] += w->keys[g * n + take_best(w->keys + g * n, w->counts + g * n, n)];
    }
    uint32_t chosen[TN_MAX_EXPERT_GROUPS] = {0};
    for (uint32_t i = 0; i < p->n_groups_used; i++) take_best(w->groups, chosen, p->n_groups);
    for (uint32_t e = 0; e < p->n_experts; e++) w->counts[e] = !chosen[e / n];
}

/* SparseMixer's weight (Liu et al. 2024) of the best expert that is left: its part of the softmax over it and those left
 * whose logits are near it, by the larger of it and their size. */
static float weight_among_near(const tn_task *t, const workspace *w, const float *logits, uint32_t best) {
    const tn_route_params *p = &t->op->route;
    uint32_t n = 0;
    w->groups[n++] = logits[best];
    for (uint32_t e = 0; e < p->n_experts; e++) {
        const float size = fabsf(logits[e]) > logits[best] ? fabsf(logits[e]) : logits[best];
        if (!w->counts[e] && !((logits[best] - logits[e]) / size > p->near)) w->groups[n++] = logits[e];
    }
    t->run->plan->kernels->softmax(w->groups, w->groups, n);
    return w->groups[0];
}

static void score(const tn_task *t, const tn_route_params *p, const workspace *w, const float *logits) {
    const tn_kernels *k = t->run->plan->kernels;
    (p->sigmoid ? k->sigmoid : k->softmax)(w->scores, logits, p->n_experts);
    if (p->bias)
        k->add(w->keys, w->scores, p->bias, p->n_experts);
    else
        memcpy(w->keys, w->scores, p->n_experts * sizeof *w->keys);
}

static void route(const tn_task *t, const workspace *w, const float *logits, int32_t *expert, float *weight) {
    const tn_route_params *p = &t->op->route;
    score(t, p, w, logits);
    if (p->n_groups > 1)
        take_lesser_groups(p, w);
    else
        memset(w->counts, 0, p->n_experts * sizeof *w->counts);
    for (uint32_t i = 0; i < p->n_used; i++) {
        expert[i] = (int32_t)take_best(w->keys, w->counts, p->n_experts);
        weight[i] = p->near > 0 ? weight_among_near(t, w, logits, (uint32_t)expert[i]) : w->scores[expert[i]];
    }
    float sum = 1e-20f; /* sigmoids may all be 0 */
    for (uint32_t i = 0; i < p->n_used; i++) sum += weight[i];
    for (uint32_t i = 0; i < p->n_used; i++) {
        if (p->renormalise) weight[i] /= sum;
        weight[i] *= p->scale;
    }
}

void run_route(const tn_task *t) {
    const workspace w = workspace_of(t);
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        float *picks = out_row(t, i);
        route(t, &w, in_row(t, 0, i), (int32_t *)(void *)picks, picks + t->op->route.n_used);
    }
}

/* ---- Rows of experts ---------------------------------------------------------------------------------------- */

/* counts[e] becomes the first row of expert e, counts[n_experts] their number. */
static void count_rows(const tn_task *t, uint32_t *counts, uint32_t n_experts) {
    const uint32_t n_used = n_used_of(t);
    memset(counts, 0, (n_experts + (size_t)1) * sizeof *counts);
    for (size_t row = 0; row < t->n_rows; row++) {
        const int32_t *expert = picks_of(t, row);
        for (uint32_t i = 0; i < n_used; i++) counts[expert[i] + 1]++;
    }
    for (uint32_t e = 0; e < n_experts; e++) counts[e + 1] += counts[e];
}

void run_dispatch(const tn_task *t) {
    const workspace w = workspace_of(t);
    const uint32_t n_used = n_used_of(t);
    const size_t bytes = t->run->plan->places[t->op->out].stride;
    count_rows(t, w.counts, t->op->dispatch.n_experts);
    for (size_t row = 0; row < t->n_rows; row++) {
        const int32_t *expert = picks_of(t, row);
        for (uint32_t i = 0; i < n_used; i++) {
            const size_t to = w.counts[expert[i]]++;
            if (to < t->rows.begin || to >= t->rows.end) continue;
            memcpy(tn_task_row(t, t->op->out, to), tn_task_row(t, t->op->in[0], row), bytes);
        }
    }
}

void run_experts(const tn_task *t) {
    const tn_plan *plan = t->run->plan;
    const tn_matrices *p = &t->op->experts;
    const tn_weight_kernels *kernels = &plan->kernels->weight[p->weight.dtype];
    const size_t row_bytes = tn_dtype_row_bytes(p->weight.dtype, p->weight.k), c = t->columns.begin;
    const workspace w = workspace_of(t);
    tn_matmul_args args = {
        .w_stride = row_bytes,
        .x_stride = plan->places[t->op->in[0]].stride,
        .y_stride = plan->places[t->op->out].stride / sizeof(float),
        .k = p->weight.k,
        .n_rows = t->columns.end - c,
        .scratch = tn_private(t) + plan->kernel_scratch_at,
    };
    if (args.n_rows == 0) return;
    count_rows(t, w.counts, p->count);
    for (uint32_t e = 0; e < p->count; e++) {
        const uint32_t first = w.counts[e];
        args.n_tokens = w.counts[e + 1] - first;
        if (args.n_tokens == 0) continue;
        args.w = p->weight.data + e * p->stride + c * row_bytes;
        args.x = tn_task_row(t, t->op->in[0], first);
        args.y = out_row(t, first) + c;
        (args.n_tokens == 1 ? kernels->gemv : kernels->gemm)(&args);
    }
}

void run_expert_bias(const tn_task *t) {
    const workspace w = workspace_of(t);
    const size_t width = t->run->plan->graph->values[t->op->out].width, c = t->columns.begin;
    count_rows(t, w.counts, t->op->expert_bias.n_experts);
    for (uint32_t e = 0; e < t->op->expert_bias.n_experts; e++)
        for (size_t i = w.counts[e]; i < w.counts[e + 1]; i++)
            t->run->plan->kernels->add(out_row(t, i) + c, in_row(t, 0, i) + c,
                                       t->op->expert_bias.vectors + e * width + c, t->columns.end - c);
}

/* Of n columns from c on: the results of a row's experts times their weights, summed from the best on. */
static void sum_experts(const tn_task *t, size_t row, const uint32_t *rows, size_t c, size_t n) {
    const tn_kernels *k = t->run->plan->kernels;
    const uint32_t n_used = n_used_of(t);
    const float *weight = in_row(t, 1, row) + n_used;
    float *product = (float *)(void *)(tn_private(t) + t->run->plan->kernel_scratch_at);
    float *out = out_row(t, row) + c;
    k->scale(out, in_row(t, 0, rows[0]) + c, weight[0], n);
    for (uint32_t i = 1; i < n_used; i++) {
        k->scale(product, in_row(t, 0, rows[i]) + c, weight[i], n);
        k->add(out, out, product, n);
    }
}

void run_combine(const tn_task *t) {
    enum { AT_ONCE = TN_KERNEL_SCRATCH / sizeof(float) };
    const workspace w = workspace_of(t);
    const uint32_t n_used = n_used_of(t);
    uint32_t *rows = (uint32_t *)(void *)w.scores; /* of one row's experts */
    count_rows(t, w.counts, t->op->combine.n_experts);
    for (size_t row = 0; row < t->n_rows; row++) {
        const int32_t *expert = picks_of(t, row);
        for (uint32_t i = 0; i < n_used; i++) rows[i] = w.counts[expert[i]]++;
        for (size_t c = t->columns.begin; c < t->columns.end; c += AT_ONCE) {
            const size_t left = t->columns.end - c;
            sum_experts(t, row, rows, c, left < AT_ONCE ? left : AT_ONCE);
        }
    }
}

/* ---- A gate on a whole row ---------------------------------------------------------------------------------- */

void run_shut(const tn_task *t) {
    const tn_kernels *k = t->run->plan->kernels;
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        float open;
        k->sigmoid(&open, in_row(t, 1, i), 1);
        k->scale(out_row(t, i) + c, in_row(t, 0, i) + c, open, t->columns.end - c);
    }
}
