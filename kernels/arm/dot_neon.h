/* Dot primitives of the neon level: products of int8 widen to int16 and are added pairwise to int32.
 *
 * A dot primitive header gives gemv.h and gemm.h
 *   tn_dot16, tn_dot32   four partial sums of 16 or 32 products
 *   tn_pack16            how 16 elements of the 8 rows of a panel are laid out, 128 bytes
 *   tn_dots              the sums of one sub-block of a panel with a tile of tokens, in 2 vectors a token
 *   tn_scale_of, tn_rows_of   the scales that belong to such a vector; rows 4*h .. 4*h+3 of token t out of
 * them
 *
 * Here a panel keeps its rows apart: [8 rows][16]. */
#ifndef TN_KERNELS_ARM_DOT_NEON_H
#define TN_KERNELS_ARM_DOT_NEON_H

#include "simd_neon.h"

/* Two products fit an int16 whatever the weight: |x| <= 127, so they sum to at most 2 * 128 * 127. */
TN_INLINE int16x8_t tn_two_products(int8x16_t w, int8x16_t x) {
    return vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x);
}

TN_INLINE int32x4_t tn_dot16(int8x16_t w, int8x16_t x) {
    return vpaddlq_s16(tn_two_products(w, x));
}

/* Four products fit if the weights are narrow: at most 4 * 32 * 127. */
TN_INLINE int32x4_t tn_dot32(int8x16x2_t w, int8x16x2_t x, bool is_narrow) {
    int16x8_t sum = tn_two_products(w.val[0], x.val[0]);
    if (!is_narrow) return vpadalq_s16(vpaddlq_s16(sum), tn_two_products(w.val[1], x.val[1]));
    sum = vmlal_s8(sum, vget_low_s8(w.val[1]), vget_low_s8(x.val[1]));
    return vpaddlq_s16(vmlal_high_s8(sum, w.val[1], x.val[1]));
}

TN_INLINE void tn_pack16(int8_t *dst, const int8x16_t row[8]) {
    for (int r = 0; r < 8; r++) vst1q_s8(dst + 16 * r, row[r]);
}

TN_INLINE void tn_dots(int32x4_t *acc, const int8_t *w, int sub, const int8_t *const *x, size_t at,
                       int n_tokens, bool is_narrow) {
    for (int h = 0; h < 2; h++) {
        int8x16x2_t row[4];
        for (int r = 0; r < 4; r++) {
            row[r].val[0] = vld1q_s8(w + 16 * (4 * h + r));
            row[r].val[1] = sub == 32 ? vld1q_s8(w + 128 + 16 * (4 * h + r)) : row[r].val[0];
        }
#pragma GCC unroll 4
        for (int t = 0; t < n_tokens; t++) {
            int32x4_t dot[4];
            for (int r = 0; r < 4; r++) {
                dot[r] = sub == 16 ? tn_dot16(row[r].val[0], vld1q_s8(x[t] + at))
                                   : tn_dot32(row[r], vld1q_s8_x2(x[t] + at), is_narrow);
            }
            acc[2 * t + h] = tn_sum4x4(dot);
        }
    }
}

TN_INLINE int32x4_t tn_scale_of(const int32_t scale[8], int i) {
    return vld1q_s32(scale + i % 2 * 4);
}
TN_INLINE int32x4_t tn_rows_of(const int32x4_t *acc, int t, int h) {
    return acc[2 * t + h];
}

#endif
