/* Products with matrices of the heads' own: latent attention (DeepSeek-AI 2024, section 2.1) takes queries into the space
 * of what is cached, and what attention sums there back to values.
 *
 *   heads         a row is cut, one row a head: those of one row stand together
 *   head_product  each head's part times the head's matrix; all heads' results stand in one row again, and behind each
 *                 there may be a tail, copied from another row */
#include <string.h>

#include "run.h"

static const float *in_row(const tn_task *t, int input, size_t i) {
    return (const float *)(const void *)tn_task_row(t, t->op->in[input], i);
}

static float *out_row(const tn_task *t, size_t i) {
    return (float *)(void *)tn_task_row(t, t->op->out, i);
}

void run_heads(const tn_task *t) {
    const tn_value *out = &t->run->plan->graph->values[t->op->out];
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        memcpy(out_row(t, i), in_row(t, 0, i / out->copies) + i % out->copies * t->op->heads.stride,
               out->width * sizeof(float));
}

/* Columns [begin, end) of a head's product, for all rows: weight rows times each row's part. */
static void product(const tn_task *t, size_t head, size_t begin, size_t end, size_t to) {
    const tn_plan *plan = t->run->plan;
    const tn_head_product_params *p = &t->op->head_product;
    const tn_weight_kernels *kernels = &plan->kernels->weight[p->of.weight.dtype];
    const size_t row_bytes = tn_dtype_row_bytes(p->of.weight.dtype, p->of.weight.k);
    const tn_matmul_args args = {
        .w = p->of.weight.data + head * p->of.stride + begin * row_bytes,
        .w_stride = row_bytes,
        .x = tn_task_row(t, t->op->in[0], head),
        .x_stride = plan->places[t->op->in[0]].stride * p->of.count,
        .y = out_row(t, 0) + to,
        .y_stride = plan->places[t->op->out].stride / sizeof(float),
        .k = p->of.weight.k,
        .n_rows = end - begin,
        .n_tokens = t->n_rows,
        .scratch = tn_private(t) + plan->kernel_scratch_at,
    };
    (t->n_rows == 1 ? kernels->gemv : kernels->gemm)(&args);
}

/* The same with the transposed matrix, whose rows are summed, each times an element, from the first on. */
static void transposed_product(const tn_task *t, size_t head, size_t begin, size_t end, size_t to) {
    const tn_head_product_params *p = &t->op->head_product;
    const tn_kernels *k = t->run->plan->kernels;
    const size_t row_bytes = tn_dtype_row_bytes(p->of.weight.dtype, p->of.weight.k), n = end - begin;
    const uint8_t *w = p->of.weight.data + head * p->of.stride;
    float *row = (float *)(void *)(tn_private(t) + t->run->plan->kernel_scratch_at),
          *term = row + p->of.weight.k;
    for (size_t i = 0; i < p->of.weight.n; i++) {
        k->weight[p->of.weight.dtype].dequantize(row, w + i * row_bytes, p->of.weight.k);
        for (size_t token = 0; token < t->n_rows; token++) {
            float *y = out_row(t, token) + to;
            k->scale(i ? term : y, row + begin, in_row(t, 0, token * p->of.count + head)[i], n);
            if (i) k->add(y, y, term, n);
        }
    }
}

static void copy_tail(const tn_task *t, size_t head, size_t begin, size_t end, size_t to) {
    const tn_head_product_params *p = &t->op->head_product;
    for (size_t token = 0; token < t->n_rows; token++)
        memcpy(out_row(t, token) + to, in_row(t, 1, token) + head * p->tail_stride + p->tail_at + begin,
               (end - begin) * sizeof(float));
}

void run_head_product(const tn_task *t) {
    const tn_head_product_params *p = &t->op->head_product;
    const size_t made = p->transposed ? p->of.weight.k : p->of.weight.n, width = made + p->n_tail;
    for (size_t c = t->columns.begin, end; c < t->columns.end;
         c = end) { /* to the end of a product or a tail */
        const size_t head = c / width, at = c % width, stop = head * width + (at < made ? made : width);
        end = t->columns.end < stop ? t->columns.end : stop;
        if (at >= made)
            copy_tail(t, head, at - made, at - made + end - c, c);
        else
            (p->transposed ? transposed_product : product)(t, head, at, at + end - c, c);
    }
}
