/* The data: rows of each tensor are read from the checkpoint, brought into the file's order, made floats, and written in
 * the file's type. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/fmap.h"
#include "../quantize/quantize.h"
#include "convert_impl.h"
#include "floats.h"
#include "mxfp4.h"
#include "scales.h"

enum { CHUNK_FLOATS = 1 << 18 };

static const uint64_t RELEASE_BYTES = (uint64_t)32
                                      << 20; /* pages of the checkpoint are given back after so much output */

/* One tensor on its way. A vector or bias whose elements move is a matrix with rows of one element. */
typedef struct flow {
    tn_converter *c;
    const tn_job *job;
    uint64_t row_len, n_rows;
    uint64_t slice_rows; /* rows of a slice; n_rows where there are none */
    uint64_t heads;      /* of the permutation; 0: none */
    double add;
    float *x;       /* a chunk of rows */
    uint8_t *bytes; /* the same in the file's type */
    uint64_t chunk_rows;
    uint64_t *done, total; /* bytes of all tensors */
    uint64_t unreleased;
} flow;

static const tn_source *source_of(const flow *f, uint64_t row) {
    return f->job->slices ? f->job->slices[row / f->slice_rows] : f->job->source;
}

/* Rotary pairs (p, p + d/2) of a head of d rows become (2p, 2p + 1). */
static uint64_t permuted(uint64_t row, uint64_t head_rows) {
    const uint64_t p = row % head_rows;
    return row - p + p % 2 * (head_rows / 2) + p / 2;
}

/* The row of the source that becomes row `row` of its slice. */
static tn_status pick_row(const flow *f, uint64_t row, uint64_t available, uint64_t *out) {
    tn_place at = {.layer = f->job->layer};
    *out = f->heads ? permuted(row, f->slice_rows / f->heads) : row;
    if (f->job->part->rows) {
        at.row = *out;
        tn_status s = tn_convert_whole(f->c, &at, f->job->part->rows, out);
        if (s) return s;
    }
    if (*out < available) return TN_OK;
    return TN_BAD(f->c, "tensor '%s': row %llu is made of row %llu of the checkpoint's, which has %llu",
                  f->job->name, (unsigned long long)row, (unsigned long long)*out,
                  (unsigned long long)available);
}

static tn_status read_row(const flow *f, uint64_t row, float *x) {
    const tn_source *source = source_of(f, row);
    const tn_st_tensor *t = source->tensor;
    const uint32_t bytes = tn_st_type_bytes(t->type);
    tn_scales scales;
    uint64_t from;
    tn_status s = tn_scales_find(f->c, source, &scales);
    if (s || (s = pick_row(f, row % f->slice_rows, t->n_elems / f->row_len, &from))) return s;
    if (source->block_scales)
        tn_mxfp4_read(source, from * f->row_len, f->row_len, x);
    else
        tn_floats_read(t->type, t->data + from * f->row_len * bytes, (size_t)f->row_len, x);
    if (scales.data) { /* a row may be a single element: its place in the matrix */
        const uint64_t width = t->n_dims ? t->dims[t->n_dims - 1] : 1, at = from * f->row_len;
        tn_scales_apply(&scales, at / width, at % width, f->row_len, x);
    }
    return TN_OK;
}

/* A row that is a column of the source, from the element on that the description names. */
static tn_status read_column(const flow *f, uint64_t row, float *x) {
    const tn_source *source = source_of(f, row);
    const tn_st_tensor *t = source->tensor;
    const uint64_t width = t->dims[t->n_dims - 1];
    tn_place at = {.layer = f->job->layer, .row = row % f->slice_rows};
    tn_scales scales;
    uint64_t first;
    tn_status s = tn_scales_find(f->c, source, &scales);
    if (s || (s = tn_convert_whole(f->c, &at, f->job->part->rows, &first))) return s;
    if (first >= t->n_elems || f->row_len - 1 > (t->n_elems - 1 - first) / width)
        return TN_BAD(f->c, "tensor '%s': row %llu is made of %llu elements from %llu on, of %llu",
                      f->job->name, (unsigned long long)row, (unsigned long long)f->row_len,
                      (unsigned long long)first, (unsigned long long)t->n_elems);
    for (uint64_t k = 0; k < f->row_len; k++) {
        tn_floats_read(t->type, t->data + (first + k * width) * tn_st_type_bytes(t->type), 1, &x[k]);
        if (scales.data) tn_scales_apply(&scales, first / width + k, first % width, 1, &x[k]);
    }
    return TN_OK;
}

/* n rows from `row` on within one slice, which are columns of the source. */
static tn_status read_columns(const flow *f, uint64_t row, uint64_t n, float *x) {
    const tn_source *source = source_of(f, row);
    const tn_st_tensor *t = source->tensor;
    const uint32_t bytes = tn_st_type_bytes(t->type);
    const uint64_t width = f->job->dims[1], matrix = row % f->slice_rows / width, column = row % width;
    const uint8_t *data = t->data + matrix * width * f->row_len * bytes;
    float part[256];
    tn_scales scales;
    tn_status s = tn_scales_find(f->c, source, &scales);
    for (uint64_t done = 0; !s && done < n; done += sizeof part / sizeof *part) {
        const uint64_t some = n - done < sizeof part / sizeof *part ? n - done : sizeof part / sizeof *part;
        for (uint64_t k = 0; k < f->row_len; k++) {
            tn_floats_read(t->type, data + (k * width + column + done) * bytes, (size_t)some, part);
            if (scales.data) tn_scales_apply(&scales, k, column + done, some, part);
            for (uint64_t r = 0; r < some; r++) x[(done + r) * f->row_len + k] = part[r];
        }
    }
    return s;
}

static tn_status compute(const flow *f, float *x) {
    for (uint64_t j = 0; j < f->row_len; j++) {
        tn_place at = {.layer = f->job->layer, .element = j + 1, .n_elements = f->row_len};
        double value;
        tn_status s = tn_convert_expr(f->c, &at, f->job->part->values, &value);
        if (s) return s;
        x[j] = (float)value;
    }
    return TN_OK;
}

static tn_status read_chunk(const flow *f, uint64_t row, uint64_t n) {
    tn_status s = TN_OK;
    if (f->job->part->values) return compute(f, f->x);
    if (f->job->part->transpose && f->job->part->rows) {
        for (uint64_t r = 0; !s && r < n; r++) s = read_column(f, row + r, f->x + r * f->row_len);
    } else if (f->job->part->transpose) {
        const uint64_t width = f->job->dims[1];
        for (uint64_t done = 0, some; !s && done < n; done += some) { /* matrix by matrix */
            const uint64_t left = width - (row + done) % width;
            some = left < n - done ? left : n - done;
            s = read_columns(f, row + done, some, f->x + done * f->row_len);
        }
    } else {
        for (uint64_t r = 0; !s && r < n; r++) s = read_row(f, row + r, f->x + r * f->row_len);
    }
    for (uint64_t i = 0; !s && f->job->part->add && i < n * f->row_len; i++) f->x[i] += (float)f->add;
    return s;
}

/* The largest weight that does not become infinite. Scales of Q8_0 are F16, for codes up to 127. */
static float largest(tn_dtype dtype) {
    static const float most[TN_DTYPE_COUNT] = {[TN_DTYPE_F32] = 0x1.fffffep127f,
                                               [TN_DTYPE_F16] = 0x1.ffdffep15f,
                                               [TN_DTYPE_BF16] = 0x1.fefffep127f,
                                               [TN_DTYPE_Q8_0] = 65504.0f * 127};
    return most[dtype];
}

/* A weight must be a number, and one that the file's type can say. */
static tn_status check_values(const flow *f, uint64_t row, uint64_t n) {
    const float most = largest(f->job->dtype);
    float worst = 0;
    for (uint64_t i = 0; i < n * f->row_len; i++) worst = fabsf(f->x[i]) <= most ? worst : f->x[i];
    if (worst == 0) return TN_OK;
    return tn_fail(f->c->err, TN_ERR_NUMERIC, TN_CONVERT_WHAT, f->c->dir,
                   "tensor '%s': the weight %g in rows %llu to %llu %s", f->job->name, (double)worst,
                   (unsigned long long)row, (unsigned long long)(row + n - 1),
                   isfinite(worst) ? "is too large for the type (--type bf16 or f32)"
                                   : "is no finite number");
}

static void release(flow *f) {
    const tn_job *job = f->job;
    const uint64_t n = job->slices ? job->dims[job->n_dims - 1] : job->source ? 1 : 0;
    f->unreleased = 0;
    for (uint64_t i = 0; i < n; i++) {
        const tn_st_tensor *t = job->slices ? job->slices[i]->tensor : job->source->tensor;
        tn_fmap_release(t->data, t->n_bytes);
    }
}

/* Rows of MXFP4 that stay so. */
static tn_status copy_chunk(const flow *f, uint64_t row, uint64_t n, size_t row_bytes) {
    for (uint64_t r = 0; r < n; r++) {
        const tn_source *source = source_of(f, row + r);
        uint64_t from;
        const tn_status s =
            pick_row(f, (row + r) % f->slice_rows, source->tensor->n_elems / f->row_len, &from);
        if (s) return s;
        if (!tn_mxfp4_repack(source, from * f->row_len, f->row_len, f->bytes + r * row_bytes))
            return tn_fail(f->c->err, TN_ERR_NUMERIC, TN_CONVERT_WHAT, f->c->dir,
                           "tensor '%s': a scale in row %llu is no finite number", f->job->name,
                           (unsigned long long)(row + r));
    }
    return TN_OK;
}

static tn_status round_chunk(const flow *f, uint64_t row, uint64_t n, size_t row_bytes) {
    tn_status s = read_chunk(f, row, n);
    if (s || (s = check_values(f, row, n))) return s;
    for (uint64_t r = 0; r < n; r++)
        tn_quantize_row(f->job->dtype, f->x + r * f->row_len, (size_t)f->row_len, NULL,
                        f->bytes + r * row_bytes);
    return TN_OK;
}

static tn_status write_chunk(flow *f, uint64_t row, uint64_t n) {
    const size_t row_bytes = tn_dtype_row_bytes(f->job->dtype, (size_t)f->row_len);
    tn_status s = f->job->dtype == TN_DTYPE_MXFP4 ? copy_chunk(f, row, n, row_bytes)
                                                  : round_chunk(f, row, n, row_bytes);
    if (s) return s;
    if ((s = tn_gguf_write(f->c->writer, f->bytes, n * row_bytes, f->c->err))) return s;
    *f->done += n * row_bytes;
    f->unreleased += n * row_bytes;
    if (f->unreleased > RELEASE_BYTES) release(f);
    const tn_convert_options *o = f->c->options;
    if (!o->progress || o->progress(o->user, *f->done, f->total)) return TN_OK;
    return tn_fail(f->c->err, TN_ERR_CANCELLED, TN_CONVERT_WHAT, f->c->dir, "cancelled");
}

/* Rows and rows of slices, the permutation, the number to add. */
static tn_status measure(flow *f) {
    const tn_job *job = f->job;
    tn_place at = {.layer = job->layer};
    f->n_rows = 1;
    f->row_len = job->by_element ? 1 : job->dims[0];
    for (uint32_t d = 0; d < job->n_dims; d++) f->n_rows *= job->dims[d];
    f->n_rows /= f->row_len;
    f->slice_rows = job->slices ? f->n_rows / job->dims[job->n_dims - 1] : f->n_rows;
    tn_status s = TN_OK;
    if (job->part->permute && (s = tn_convert_whole(f->c, &at, job->part->permute, &f->heads))) return s;
    if (f->heads && f->slice_rows % (2 * f->heads))
        return TN_BAD(f->c, "tensor '%s': %llu rows are not pairs in %llu heads", job->name,
                      (unsigned long long)f->slice_rows, (unsigned long long)f->heads);
    return job->part->add ? tn_convert_expr(f->c, &at, job->part->add, &f->add) : TN_OK;
}

static tn_status write_tensor(flow *f) {
    tn_status s = measure(f);
    if (s) return s;
    f->chunk_rows = f->row_len < CHUNK_FLOATS ? CHUNK_FLOATS / f->row_len : 1;
    if (f->chunk_rows > f->n_rows) f->chunk_rows = f->n_rows;
    f->x = malloc((size_t)(f->chunk_rows * f->row_len) * sizeof *f->x);
    f->bytes = malloc((size_t)f->chunk_rows * tn_dtype_row_bytes(f->job->dtype, (size_t)f->row_len));
    if (!f->x || !f->bytes) s = tn_convert_no_memory(f->c);
    for (uint64_t row = 0; !s && row < f->n_rows; row += f->chunk_rows)
        s = write_chunk(f, row, f->n_rows - row < f->chunk_rows ? f->n_rows - row : f->chunk_rows);
    free(f->x);
    free(f->bytes);
    if (!s) release(f);
    return s;
}

tn_status tn_convert_write_tensors(tn_converter *c) {
    uint64_t done = 0;
    for (size_t i = 0; i < c->n_jobs; i++) {
        flow f = {.c = c, .job = &c->jobs[i], .done = &done, .total = tn_gguf_total_bytes(c->writer)};
        tn_status s = write_tensor(&f);
        if (s) return s;
    }
    return TN_OK;
}
