/* Matrix products of every weight type: one loop for blocks, one for floats.
 *
 * Each block of weights is unpacked once and met with all tokens. y holds the accumulators meanwhile: a float
 * in memory is the same float, and no limit on the number of tokens follows. */
#include "ref.h"

typedef struct q8_row {
    const int8_t *q;
    const float *d;
    const void *s; /* int32 per 32 or int16 per 16 */
} q8_row;

static inline q8_row q8_row_at(const tn_matmul_args *args, tn_act kind, size_t t) {
    const uint8_t *row = args->x + t * args->x_stride;
    return (q8_row){(const int8_t *)row, (const float *)(const void *)(row + tn_act_d_offset(args->k)),
                    row + tn_act_s_offset(kind, args->k)};
}

/* The sum of q over sub-block j of block b. */
static inline int32_t q8_sum(const q8_row *x, size_t b, size_t j, size_t elems, size_t sub) {
    if (elems == 32) return ((const int32_t *)x->s)[b];
    const int16_t *s = (const int16_t *)x->s + b * 16;
    return sub == 16 ? s[j] : s[2 * j] + s[2 * j + 1];
}

static inline int32_t dot_int8(const int8_t *a, const int8_t *b, size_t n) {
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* acc after block b. The integers stay below 2^28, so their sums are exact in int32. */
static inline __attribute__((always_inline)) float
block_step(float acc, const tn_block *w, const q8_row *x, size_t b, size_t elems, size_t sub, bool has_min) {
    int32_t dots = 0, mins = 0;
    for (size_t j = 0; j < elems / sub; j++) {
        dots += w->scale[j] * dot_int8(w->q + j * sub, x->q + b * elems + j * sub, sub);
        if (has_min) mins += w->min[j] * q8_sum(x, b, j, elems, sub);
    }
    acc = fmaf(w->d * x->d[b], (float)dots, acc);
    return has_min ? fmaf(-(w->m * x->d[b]), (float)mins, acc) : acc;
}

static inline __attribute__((always_inline)) void matmul_blocks(const tn_matmul_args *args,
                                                                tn_unpack_fn *unpack, size_t elems,
                                                                size_t bytes, size_t sub, bool has_min) {
    tn_act kind = elems == 32 ? TN_ACT_Q8_32 : TN_ACT_Q8_256;
    for (size_t n = 0; n < args->n_rows; n++) {
        const uint8_t *row = args->w + n * args->w_stride;
        for (size_t t = 0; t < args->n_tokens; t++) args->y[t * args->y_stride + n] = 0.0f;
        for (size_t b = 0; b < args->k / elems; b++) {
            tn_block block;
            unpack(&block, row + b * bytes);
            for (size_t t = 0; t < args->n_tokens; t++) {
                q8_row x = q8_row_at(args, kind, t);
                float *y = &args->y[t * args->y_stride + n];
                *y = block_step(*y, &block, &x, b, elems, sub, has_min);
            }
        }
    }
}

#define X(NAME, name, elems, sub, has_min)                                                                   \
    void tn_matmul_##name##_q8_ref(const tn_matmul_args *args) {                                             \
        matmul_blocks(args, tn_unpack_##name, elems, TN_BLOCK_BYTES_##NAME, sub, has_min);                   \
    }
TN_BLOCK_TYPES(X)
#undef X

/* Widened a piece at a time; a piece is a multiple of 8, so that stripes run on. */
enum { WIDEN_ELEMS = 256 };

static void matmul_floats(const tn_matmul_args *args, tn_dequantize_fn *widen, size_t elem_bytes) {
    float w[WIDEN_ELEMS];
    for (size_t n = 0; n < args->n_rows; n++) {
        for (size_t t = 0; t < args->n_tokens; t++) {
            const float *x = (const float *)(const void *)(args->x + t * args->x_stride);
            float stripes[8] = {0};
            for (size_t i = 0; i < args->k; i += WIDEN_ELEMS) {
                size_t piece = args->k - i < WIDEN_ELEMS ? args->k - i : WIDEN_ELEMS;
                widen(w, args->w + n * args->w_stride + i * elem_bytes, piece);
                tn_stripes8(stripes, w, x + i, piece);
            }
            args->y[t * args->y_stride + n] = tn_join8(stripes);
        }
    }
}

void tn_matmul_f32_f32_ref(const tn_matmul_args *args) {
    matmul_floats(args, tn_dequantize_f32_ref, 4);
}
void tn_matmul_f16_f32_ref(const tn_matmul_args *args) {
    matmul_floats(args, tn_dequantize_f16_ref, 2);
}
void tn_matmul_bf16_f32_ref(const tn_matmul_args *args) {
    matmul_floats(args, tn_dequantize_bf16_ref, 2);
}
