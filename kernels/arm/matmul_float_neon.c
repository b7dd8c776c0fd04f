/* Products with F32, F16 and BF16 weights, for one token or several: each weight row and each token is one
 * striped sum (kernels.h). Tiles of 4 rows by up to 3 tokens keep 24 accumulators in registers, so that a
 * widened weight meets three tokens and an activation four rows. */
#include "neon.h"
#include "simd_neon.h"

enum { ROWS = 4, TILE = 3 };

typedef float widen_fn(const uint8_t *row, size_t i);

TN_INLINE float widen_f32(const uint8_t *row, size_t i) {
    return tn_f32_from_bits(tn_load_u32(row + 4 * i));
}
TN_INLINE float widen_f16(const uint8_t *row, size_t i) {
    return tn_f16_to_f32(tn_load_u16(row + 2 * i));
}
TN_INLINE float widen_bf16(const uint8_t *row, size_t i) {
    return tn_bf16_to_f32(tn_load_u16(row + 2 * i));
}

/* The terms behind the last whole eight. */
TN_INLINE tn_f32x8 add_tail(tn_f32x8 acc, const uint8_t *w, const float *x, size_t from, size_t k,
                            widen_fn *widen) {
    float stripes[8];
    tn_store8(stripes, acc);
    for (size_t i = from; i < k; i++) stripes[i - from] = fmaf(widen(w, i), x[i], stripes[i - from]);
    return tn_load8(stripes);
}

/* out[t] = the sums of four rows with token t < n. */
TN_INLINE void tile(float32x4_t out[TILE], const uint8_t *const w[ROWS], const float *const x[TILE], size_t k,
                    int n, tn_load8_fn *load, widen_fn *widen) {
    const size_t whole = k & ~(size_t)7;
    tn_f32x8 acc[TILE][ROWS];
    for (int t = 0; t < n; t++) {
        for (int r = 0; r < ROWS; r++) acc[t][r] = tn_splat8(0.0f);
    }
    for (size_t i = 0; i < whole; i += 8) {
        tn_f32x8 a[TILE];
        for (int t = 0; t < n; t++) a[t] = tn_load8(x[t] + i);
        for (int r = 0; r < ROWS; r++) {
            const tn_f32x8 b = load(w[r], i);
            for (int t = 0; t < n; t++) acc[t][r] = tn_fma8(b, a[t], acc[t][r]);
        }
    }
    if (whole < k) {
        for (int t = 0; t < n; t++) {
            for (int r = 0; r < ROWS; r++) acc[t][r] = add_tail(acc[t][r], w[r], x[t], whole, k, widen);
        }
    }
    for (int t = 0; t < n; t++) out[t] = tn_join8x4(acc[t]);
}

TN_INLINE void matmul(const tn_matmul_args *args, tn_load8_fn *load, widen_fn *widen) {
    for (size_t n = 0; n < args->n_rows; n += ROWS) {
        const size_t n_rows = args->n_rows - n < ROWS ? args->n_rows - n : ROWS;
        const uint8_t *w[ROWS]; /* a short tile repeats its last row; those sums are not stored */
        for (size_t r = 0; r < ROWS; r++)
            w[r] = args->w + (n + (r < n_rows ? r : n_rows - 1)) * args->w_stride;
        for (size_t t = 0; t < args->n_tokens; t += TILE) {
            const size_t n_tile = args->n_tokens - t < TILE ? args->n_tokens - t : TILE;
            const float *x[TILE];
            float32x4_t out[TILE];
            for (size_t i = 0; i < TILE; i++) {
                x[i] = (const float *)(const void *)(args->x + (t + (i < n_tile ? i : 0)) * args->x_stride);
            }
            if (n_tile == 3)
                tile(out, w, x, args->k, 3, load, widen);
            else if (n_tile == 2)
                tile(out, w, x, args->k, 2, load, widen);
            else
                tile(out, w, x, args->k, 1, load, widen);
            for (size_t i = 0; i < n_tile; i++) {
                float *y = args->y + (t + i) * args->y_stride + n;
                if (n_rows == ROWS)
                    vst1q_f32(y, out[i]);
                else
                    memcpy(y, &out[i], n_rows * sizeof(float));
            }
        }
    }
}

#define X(NAME, name, bytes)                                                                                 \
    void tn_matmul_##name##_f32_neon(const tn_matmul_args *args) {                                           \
        matmul(args, tn_load8_##name, widen_##name);                                                         \
    }
TN_NEON_FLOAT_TYPES(X)
#undef X
