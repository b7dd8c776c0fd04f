#include "run.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/kernels.h"
#include "../base/memory.h"
#include "../exec/pool.h"
#include "quantize.h"

#define WHAT "cannot quantize"

enum { CHUNK_ELEMS = 4 << 20, BATCH_ELEMS = 64 << 10, COPY_BYTES = 16 << 20 };

/* What all tensors share. */
typedef struct state {
    const tn_quantize_run *run;
    tn_gguf_writer *writer; /* NULL: the data is made in memory, where `out` is a whole tensor */
    tn_kernels kernels;
    const tn_quantizers *quantizers;
    tn_pool *pool;
    float *rows;  /* one of max_columns for each thread */
    uint8_t *out; /* blocks of a chunk, or of all */
    uint64_t max_columns;
    uint64_t done_bytes, total_bytes;
} state;

/* Rows first to first + n of a tensor. */
typedef struct chunk {
    const state *s;
    const tn_tensor *tensor;
    tn_dequantize_fn *dequantize;
    tn_quantize_row_fn *quantize; /* NULL: only looked at */
    const float *weights;         /* of the first matrix, or NULL */
    uint8_t *out;
    size_t in_stride, out_stride;
    uint64_t first, n, batch;
    _Atomic uint64_t next;    /* row of the chunk that nobody has taken */
    _Atomic uint64_t bad_row; /* the first row that is not finite; n if all are */
} chunk;

static bool all_finite(const float *x, uint64_t n) {
    uint32_t worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        worst = bits > worst ? bits : worst;
    }
    return worst < 0x7f800000;
}

static void note_bad_row(chunk *c, uint64_t row) {
    uint64_t known = atomic_load(&c->bad_row);
    while (row < known && !atomic_compare_exchange_weak(&c->bad_row, &known, row)) {
    }
}

static void work(void *arg, uint32_t thread) {
    chunk *c = arg;
    const uint64_t columns = c->tensor->dims[0];
    float *x = c->s->rows + c->s->max_columns * thread;
    for (;;) {
        const uint64_t begin = atomic_fetch_add(&c->next, c->batch);
        const uint64_t end = begin + c->batch < c->n ? begin + c->batch : c->n;
        if (begin >= c->n) return;
        for (uint64_t r = begin; r < end; r++) {
            c->dequantize(x, c->tensor->data + (c->first + r) * c->in_stride, columns);
            if (!all_finite(x, columns)) {
                note_bad_row(c, r);
            } else if (c->quantize) {
                const uint64_t matrix = (c->first + r) / c->tensor->dims[1];
                const float *weights = c->weights ? c->weights + matrix * columns : NULL;
                c->quantize(x, columns, weights, c->out + r * c->out_stride);
            }
        }
    }
}

static tn_status not_finite(const chunk *c, tn_error *err) {
    float *x = c->s->rows;
    uint64_t column = 0;
    const uint64_t row = c->first + atomic_load(&c->bad_row);
    c->dequantize(x, c->tensor->data + row * c->in_stride, c->tensor->dims[0]);
    while (isfinite(x[column])) column++;
    return tn_fail(err, TN_ERR_FORMAT, WHAT, tn_file_path(c->s->run->file),
                   "tensor '%s': row %" PRIu64 ", column %" PRIu64 " is %g, expected a finite number",
                   c->tensor->cname, row, column, (double)x[column]);
}

static tn_status report(state *s, uint64_t n_bytes, tn_error *err) {
    s->done_bytes += n_bytes;
    if (!s->run->progress || s->run->progress(s->run->user, s->done_bytes, s->total_bytes)) return TN_OK;
    return tn_fail(err, TN_ERR_CANCELLED, WHAT, tn_file_path(s->run->file), "cancelled");
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static tn_status run_chunk(state *s, chunk *c, const tn_plan_item *item, tn_error *err) {
    atomic_init(&c->next, 0);
    atomic_init(&c->bad_row, c->n);
    c->out = s->writer ? s->out : s->out + c->first * c->out_stride;
    tn_pool_run(s->pool, work, c);
    if (atomic_load(&c->bad_row) < c->n) return not_finite(c, err);
    if (!s->writer) return TN_OK;
    const uint8_t *bytes = c->quantize ? s->out : item->tensor->data + c->first * c->in_stride;
    tn_status status = tn_gguf_write(s->writer, bytes, c->n * c->out_stride, err);
    return status == TN_OK ? report(s, c->n * c->in_stride, err) : status;
}

static uint64_t n_rows(const tn_tensor *t) {
    return t->dims[1] * t->dims[2] * t->dims[3];
}

static uint64_t chunk_rows(const tn_tensor *t) {
    return t->dims[0] < CHUNK_ELEMS ? CHUNK_ELEMS / t->dims[0] : 1;
}

/* By rows, through floats. */
static tn_status run_tensor(state *s, const tn_plan_item *item, tn_error *err) {
    const tn_tensor *t = item->tensor;
    const uint64_t columns = t->dims[0], rows = n_rows(t);
    chunk c = {.s = s, .tensor = t, .dequantize = s->kernels.weight[t->dtype].dequantize};
    c.in_stride = tn_dtype_row_bytes(t->dtype, columns);
    c.out_stride = tn_dtype_row_bytes(item->type, columns);
    c.batch = columns < BATCH_ELEMS ? BATCH_ELEMS / columns : 1;
    if (item->type != t->dtype) c.quantize = s->quantizers->row[item->type];
    tn_status status = TN_OK;
    if (c.quantize && s->run->imatrix)
        status =
            tn_imatrix_find(s->run->imatrix, t->cname, columns, t->dims[2] * t->dims[3], &c.weights, err);
    for (; status == TN_OK && c.first < rows; c.first += c.n) {
        c.n = least(chunk_rows(t), rows - c.first);
        status = run_chunk(s, &c, item, err);
    }
    return status;
}

/* Types that nothing computes with yet are copied unseen. */
static tn_status copy_tensor(state *s, const tn_tensor *t, tn_error *err) {
    tn_status status = TN_OK;
    for (uint64_t at = 0, n; status == TN_OK && at < t->n_bytes; at += n) {
        n = least(COPY_BYTES, t->n_bytes - at);
        status = tn_gguf_write(s->writer, t->data + at, n, err);
        if (status == TN_OK) status = report(s, n, err);
    }
    return status;
}

/* What chunks need, with room for max_columns in each thread's row. */
static tn_status prepare(state *s, tn_error *err) {
    const tn_quantize_run *run = s->run;
    s->rows = tn_reserve(s->max_columns * run->n_threads * sizeof *s->rows);
    if (!s->rows || !s->out)
        return tn_fail(err, TN_ERR_MEMORY, WHAT, tn_file_path(run->file), "out of memory");
    tn_isa isa;
    tn_status status = tn_isa_choose(&isa, err);
    if (status != TN_OK) return status;
    tn_kernels_fill(&s->kernels, isa);
    s->quantizers = tn_quantizers_for(isa);
    return tn_pool_new(run->n_threads, false, &s->pool, err);
}

static void release(state *s) {
    tn_pool_free(s->pool);
    if (s->rows) tn_unreserve(s->rows, s->max_columns * s->run->n_threads * sizeof *s->rows);
}

/* The sizes of the whole file's chunks. */
static uint64_t measure(state *s) {
    const tn_quantize_run *run = s->run;
    uint64_t out_bytes = 1;
    s->max_columns = 1;
    for (uint64_t i = 0; i < tn_file_n_tensors(run->file); i++) {
        const tn_tensor *t = run->items[i].tensor;
        const uint64_t bytes =
            least(chunk_rows(t), n_rows(t)) * tn_dtype_row_bytes(run->items[i].type, t->dims[0]);
        s->total_bytes += t->n_bytes;
        if (t->dims[0] > s->max_columns) s->max_columns = t->dims[0];
        if (run->items[i].type != t->dtype && bytes > out_bytes) out_bytes = bytes;
    }
    return out_bytes;
}

tn_status tn_quantize_tensors(const tn_quantize_run *run, tn_gguf_writer *writer, tn_error *err) {
    state s = {.run = run, .writer = writer};
    s.out = malloc(measure(&s));
    tn_status status = prepare(&s, err);
    for (uint64_t i = 0; status == TN_OK && i < tn_file_n_tensors(run->file); i++) {
        const tn_plan_item *item = &run->items[i];
        const bool computable = s.kernels.weight[item->tensor->dtype].dequantize != NULL;
        status = computable ? run_tensor(&s, item, err) : copy_tensor(&s, item->tensor, err);
    }
    release(&s);
    free(s.out);
    return status;
}

tn_status tn_quantize_into(const tn_quantize_run *run, uint64_t at, uint8_t *out, tn_error *err) {
    const tn_plan_item *item = &run->items[at];
    state s = {.run = run, .out = out, .max_columns = item->tensor->dims[0]};
    tn_status status = prepare(&s, err);
    if (status == TN_OK) status = run_tensor(&s, item, err);
    release(&s);
    return status;
}
