/* Panel primitives of the i8mm level, as dot_neon.h explains them: SMMLA multiplies 2 x 8 by 8 x 2 int8 and
 * adds to 2 x 2 int32. One token at a time has nothing to gain from it, so GEMV stays with dotprod.
 *
 * A panel interleaves its rows by eights of elements, [2][8 rows][8], so that a vector holds two rows; two
 * tokens are interleaved as they are loaded. A vector of sums is (t, r), (t, r+1), (t+1, r), (t+1, r+1). */
#ifndef TN_KERNELS_ARM_DOT_I8MM_H
#define TN_KERNELS_ARM_DOT_I8MM_H

#include "simd_neon.h"

TN_INLINE void tn_pack16(int8_t *dst, const int8x16_t row[8]) {
    for (int r = 0; r < 8; r++) {
        vst1_s8(dst + 8 * r, vget_low_s8(row[r]));
        vst1_s8(dst + 64 + 8 * r, vget_high_s8(row[r]));
    }
}

/* Eight elements of two tokens: the low or the high eight of `a` and `b`. */
TN_INLINE int8x16_t tn_token_pair(int8x16_t a, int8x16_t b, int high) {
    const int64x2_t a64 = vreinterpretq_s64_s8(a), b64 = vreinterpretq_s64_s8(b);
    return vreinterpretq_s8_s64(high ? vzip2q_s64(a64, b64) : vzip1q_s64(a64, b64));
}

TN_INLINE void tn_dots(int32x4_t *acc, const int8_t *w, int sub, const int8_t *const *x, size_t at,
                       int n_tokens, bool is_narrow) {
    (void)is_narrow;
#pragma GCC unroll 8
    for (int i = 0; i < 2 * n_tokens; i++) acc[i] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int u = 0; u < sub / 16; u++) {
        int8x16_t pair[2][2];
#pragma GCC unroll 2
        for (int p = 0; p < n_tokens / 2; p++) {
            const int8x16_t a = vld1q_s8(x[2 * p] + at + 16 * u), b = vld1q_s8(x[2 * p + 1] + at + 16 * u);
            pair[0][p] = tn_token_pair(a, b, 0);
            pair[1][p] = tn_token_pair(a, b, 1);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                const int8x16_t rows = vld1q_s8(w + 128 * u + 64 * half + 16 * r);
#pragma GCC unroll 2
                for (int p = 0; p < n_tokens / 2; p++) {
                    acc[4 * p + r] = vmmlaq_s32(acc[4 * p + r], pair[half][p], rows);
                }
            }
            tn_in_step(acc, 2 * n_tokens);
        }
    }
}

TN_INLINE int32x4_t tn_scale_of(const int32_t scale[8], int i) {
    return vreinterpretq_s32_s64(vld1q_dup_s64((const int64_t *)(const void *)(scale + i % 4 * 2)));
}

TN_INLINE int32x4_t tn_rows_of(const int32x4_t *acc, int t, int h) {
    const int64x2_t a = vreinterpretq_s64_s32(acc[t / 2 * 4 + 2 * h]);
    const int64x2_t b = vreinterpretq_s64_s32(acc[t / 2 * 4 + 2 * h + 1]);
    return vreinterpretq_s32_s64(t % 2 ? vzip2q_s64(a, b) : vzip1q_s64(a, b));
}

#endif
