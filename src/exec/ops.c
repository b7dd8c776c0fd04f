/* The run functions of all operations but attention. */
#include <string.h>

#include "../base/fmath.h"
#include "run.h"

static const float *in_row(const tn_task *t, int input, size_t i) {
    return (const float *)(const void *)tn_task_row(t, t->op->in[input], i);
}

static float *out_row(const tn_task *t, size_t i) {
    return (float *)(void *)tn_task_row(t, t->op->out, i);
}

static size_t n_columns(const tn_task *t) {
    return t->columns.end - t->columns.begin;
}

void run_embed(const tn_task *t) {
    const tn_weight *w = &t->op->embed.table;
    const size_t row_bytes = tn_dtype_row_bytes(w->dtype, w->k);
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        const size_t rows[] = {[TN_EMBED_TOKEN] = (size_t)t->run->ids[i],
                               [TN_EMBED_POSITION] = t->run->pos + i,
                               [TN_EMBED_FIRST] = 0};
        const size_t row = rows[t->op->embed.by];
        t->run->plan->kernels->weight[w->dtype].dequantize(out_row(t, i), w->data + row * row_bytes, w->k);
    }
}

void run_norm(const tn_task *t) {
    const size_t width = t->run->plan->graph->values[t->op->out].width;
    const size_t n = t->op->norm.first ? t->op->norm.first : width;
    const tn_kernels *k = t->run->plan->kernels;
    tn_norm_fn *norm = t->op->norm.layer ? k->layer_norm : k->rms_norm;
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        float *out = out_row(t, i);
        const float *in = in_row(t, 0, i);
        norm(out, in, t->op->norm.weight, n, t->op->norm.eps);
        if (n < width) memcpy(out + n, in + n, (width - n) * sizeof *out);
    }
}

void run_quantize(const tn_task *t) {
    const size_t width = t->run->plan->graph->values[t->op->out].width;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        t->run->plan->kernels->quantize[t->op->quantize.act](tn_task_row(t, t->op->out, i), in_row(t, 0, i),
                                                             width);
}

void run_matmul(const tn_task *t) {
    const tn_plan *plan = t->run->plan;
    const tn_weight *w = &t->op->weight;
    const size_t row_bytes = tn_dtype_row_bytes(w->dtype, w->k);
    const tn_place *x = &plan->places[t->op->in[0]];
    const size_t y_stride =
        t->op->out == plan->graph->logits ? t->run->logits_stride : plan->places[t->op->out].stride;
    if (n_columns(t) == 0) return;
    const tn_matmul_args args = {
        .w = w->data + t->columns.begin * row_bytes,
        .w_stride = row_bytes,
        .x = tn_task_row(t, t->op->in[0], 0),
        .x_stride = x->stride,
        .y = out_row(t, 0) + t->columns.begin,
        .y_stride = y_stride / sizeof(float),
        .k = w->k,
        .n_rows = n_columns(t),
        .n_tokens = t->n_rows,
        .scratch = tn_private(t) + plan->kernel_scratch_at,
    };
    (t->n_rows == 1 ? plan->kernels->weight[w->dtype].gemv : plan->kernels->weight[w->dtype].gemm)(&args);
}

void run_bias(const tn_task *t) {
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        t->run->plan->kernels->add(out_row(t, i) + c, in_row(t, 0, i) + c, t->op->bias.vector + c,
                                   n_columns(t));
}

void run_add(const tn_task *t) {
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        t->run->plan->kernels->add(out_row(t, i) + c, in_row(t, 0, i) + c, in_row(t, 1, i) + c, n_columns(t));
}

void run_scale(const tn_task *t) {
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        t->run->plan->kernels->scale(out_row(t, i) + c, in_row(t, 0, i) + c, t->op->scale.factor,
                                     n_columns(t));
}

void run_temper(const tn_task *t) {
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++) {
        const uint32_t stretch = (uint32_t)(t->run->pos + i) / t->op->temper.length;
        const double factor = 1 + t->op->temper.beta * tn_log(1.0 + stretch);
        t->run->plan->kernels->scale(out_row(t, i) + c, in_row(t, 0, i) + c, (float)factor, n_columns(t));
    }
}

void run_softcap(const tn_task *t) {
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        t->run->plan->kernels->softcap(out_row(t, i) + c, in_row(t, 0, i) + c, t->op->softcap.cap,
                                       n_columns(t));
}

void run_clamp(const tn_task *t) {
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        t->run->plan->kernels->clamp(out_row(t, i) + c, in_row(t, 0, i) + c, t->op->clamp.limit,
                                     n_columns(t));
}

void run_glu(const tn_task *t) {
    tn_glu_fn *glu = t->run->plan->kernels->glu[t->op->glu.activation];
    const size_t c = t->columns.begin;
    for (size_t i = t->rows.begin; i < t->rows.end; i++)
        glu(out_row(t, i) + c, in_row(t, 0, i) + c, t->op->in[1] < 0 ? NULL : in_row(t, 1, i) + c,
            n_columns(t));
}
