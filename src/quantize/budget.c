#include "budget.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../../kernels/kernels.h"
#include "quantize.h"

#define WHAT "cannot quantize"

enum { SAMPLED_ROWS = 16 };

/* A rung of one tensor's ladder, as far as it lies on the lower hull of error over bytes. */
typedef struct rung {
    tn_dtype wanted;
    uint64_t n_bytes;
    double error;
} rung;

/* From the rung before to this one. */
typedef struct step {
    double gain; /* error taken away for each byte */
    uint64_t item, more_bytes;
    uint32_t order; /* of the steps of an item */
    tn_dtype wanted;
} step;

typedef struct budget {
    const tn_file *file;
    const tn_plan_request *request;
    const tn_imatrix *imatrix;
    tn_arena *arena;
    tn_kernels kernels;
    const tn_quantizers *quantizers;
    float *x, *y; /* rows of max_columns */
    uint8_t *blocks;
    step *steps;
    size_t n_steps;
} budget;

/* ---- Errors ---- */

static double row_error(const budget *b, const tn_tensor *t, tn_dtype type, uint64_t row,
                        const float *weights) {
    const uint64_t n = t->dims[0];
    b->kernels.weight[t->dtype].dequantize(b->x, t->data + row * tn_dtype_row_bytes(t->dtype, n), n);
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(b->x[i])) return INFINITY;
    b->quantizers->row[type](b->x, n, weights, b->blocks);
    b->kernels.weight[type].dequantize(b->y, b->blocks, n);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double e = (double)b->x[i] - b->y[i];
        sum += (weights ? weights[i] : 1) * e * e;
    }
    return sum;
}

/* Of the whole tensor, as its sampled rows suggest. Numbers that are not finite make it so, and are refused later, by name. */
static tn_status tensor_error(const budget *b, const tn_tensor *t, tn_dtype type, double *out,
                              tn_error *err) {
    const uint64_t rows = t->dims[1] * t->dims[2] * t->dims[3], n = rows < SAMPLED_ROWS ? rows : SAMPLED_ROWS;
    const float *weights = NULL;
    *out = 0;
    if (b->imatrix) {
        const tn_status s =
            tn_imatrix_find(b->imatrix, t->cname, t->dims[0], t->dims[2] * t->dims[3], &weights, err);
        if (s != TN_OK) return s;
    }
    for (uint64_t i = 0; i < n && type != t->dtype; i++) {
        const uint64_t row = rows / n * i + rows / n / 2;
        *out += row_error(b, t, type, row, weights ? weights + row / t->dims[1] * t->dims[0] : NULL);
    }
    *out *= (double)rows / (double)n;
    return TN_OK;
}

/* ---- Ladders ---- */

static int by_bytes(const void *a, const void *b) {
    const rung *x = a, *y = b;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return (x->error > y->error) - (x->error < y->error);
}

static double slope(const rung *a, const rung *b) {
    return (a->error - b->error) / (double)(b->n_bytes - a->n_bytes);
}

/* Keeps the rungs that take away ever less error for a byte; returns their number, at least 1. */
static size_t lower_hull(rung *r, size_t n) {
    size_t kept = 0;
    qsort(r, n, sizeof *r, by_bytes);
    for (size_t i = 0; i < n; i++) {
        if (kept && (r[i].n_bytes == r[kept - 1].n_bytes || !(r[i].error < r[kept - 1].error))) continue;
        while (kept > 1 && slope(&r[kept - 2], &r[kept - 1]) <= slope(&r[kept - 1], &r[i])) kept--;
        r[kept++] = r[i];
    }
    return kept;
}

/* Puts the item on its lowest rung and lists the steps from there. */
static tn_status list_steps(budget *b, tn_plan_item *items, uint64_t at, tn_error *err) {
    const tn_recipe *recipe = b->request->recipe;
    rung rungs[TN_MAX_LADDER];
    for (size_t i = 0; i < recipe->n_ladder; i++) {
        tn_plan_item item = items[at];
        tn_status s = tn_plan_give(b->file, b->request, recipe->ladder[i], false, b->arena, &item, err);
        if (s == TN_OK) s = tensor_error(b, item.tensor, item.type, &rungs[i].error, err);
        if (s != TN_OK) return s;
        rungs[i].wanted = recipe->ladder[i];
        rungs[i].n_bytes = item.n_bytes;
    }
    const size_t n = lower_hull(rungs, recipe->n_ladder);
    for (size_t i = 1; i < n; i++) {
        b->steps[b->n_steps++] =
            (step){slope(&rungs[i - 1], &rungs[i]), at, rungs[i].n_bytes - rungs[i - 1].n_bytes, (uint32_t)i,
                   rungs[i].wanted};
    }
    return tn_plan_give(b->file, b->request, rungs[0].wanted, false, b->arena, &items[at], err);
}

static int by_gain(const void *a, const void *b) {
    const step *x = a, *y = b;
    if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
    if (x->item != y->item) return x->item < y->item ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* ---- The budget ---- */

/* A step that does not fit is passed over, and with it the later ones of its tensor. */
static tn_status climb(budget *b, tn_plan_item *items, uint64_t left, tn_error *err) {
    bool *stopped = tn_arena_alloc(b->arena, tn_file_n_tensors(b->file), sizeof *stopped);
    if (!stopped) return tn_fail(err, TN_ERR_MEMORY, WHAT, tn_file_path(b->file), "out of memory");
    qsort(b->steps, b->n_steps, sizeof *b->steps, by_gain);
    tn_status s = TN_OK;
    for (size_t i = 0; s == TN_OK && i < b->n_steps; i++) {
        const step *next = &b->steps[i];
        if (stopped[next->item] || next->more_bytes > left) {
            stopped[next->item] = true;
            continue;
        }
        left -= next->more_bytes;
        s = tn_plan_give(b->file, b->request, next->wanted, false, b->arena, &items[next->item], err);
    }
    return s;
}

static tn_status share(budget *b, tn_plan_item *items, tn_error *err) {
    const uint64_t n = tn_file_n_tensors(b->file), target = tn_plan_target(b->file, b->request->recipe);
    uint64_t least = 0, max_columns = 1;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t columns = items[i].tensor->dims[0];
        if (items[i].by_default && columns > max_columns) max_columns = columns;
    }
    b->x = tn_arena_alloc(b->arena, max_columns, sizeof *b->x);
    b->y = tn_arena_alloc(b->arena, max_columns, sizeof *b->y);
    b->blocks = tn_arena_alloc(b->arena, max_columns, sizeof(float));
    b->steps = tn_arena_alloc(b->arena, n, b->request->recipe->n_ladder * sizeof *b->steps);
    if (!b->x || !b->y || !b->blocks || !b->steps)
        return tn_fail(err, TN_ERR_MEMORY, WHAT, tn_file_path(b->file), "out of memory");
    tn_status s = TN_OK;
    for (uint64_t i = 0; s == TN_OK && i < n; i++) {
        if (items[i].by_default) s = list_steps(b, items, i, err);
        least += items[i].n_bytes;
    }
    if (s == TN_OK && least > target)
        s = tn_fail(err, TN_ERR_ARG, WHAT, tn_file_path(b->file),
                    "the target is %" PRIu64 " bytes of tensors, but the smallest types need %" PRIu64,
                    target, least);
    return s == TN_OK ? climb(b, items, target - least, err) : s;
}

tn_status tn_plan_budget(const tn_file *file, const tn_plan_request *request, const tn_imatrix *imatrix,
                         tn_arena *arena, tn_plan_item *items, tn_error *err) {
    if (!request->recipe->target_bytes && !(request->recipe->target_bpw > 0)) return TN_OK;
    budget b = {.file = file, .request = request, .imatrix = imatrix, .arena = arena};
    tn_isa isa;
    const tn_status s = tn_isa_choose(&isa, err);
    if (s != TN_OK) return s;
    tn_kernels_fill(&b.kernels, isa);
    b.quantizers = tn_quantizers_for(isa);
    return share(&b, items, err);
}
