/* Dot primitives of the dotprod level, as dot_neon.h explains them: SDOT adds four products of int8 to an
 * int32.
 *
 * A panel interleaves its rows by fours of elements, [4][8 rows][4], so that a vector holds four rows and
 * SDOT by element meets it with four elements of a token. */
#ifndef TN_KERNELS_ARM_DOT_DOTPROD_H
#define TN_KERNELS_ARM_DOT_DOTPROD_H

#include "simd_neon.h"

TN_INLINE int32x4_t tn_dot16(int8x16_t w, int8x16_t x) {
    return vdotq_s32(vdupq_n_s32(0), w, x);
}

TN_INLINE int32x4_t tn_dot32(int8x16x2_t w, int8x16x2_t x, bool is_narrow) {
    (void)is_narrow;
    return vdotq_s32(tn_dot16(w.val[0], x.val[0]), w.val[1], x.val[1]);
}

TN_INLINE void tn_pack16(int8_t *dst, const int8x16_t row[8]) {
    for (int h = 0; h < 2; h++) {
        int32x4_t v[4];
        for (int r = 0; r < 4; r++) v[r] = vreinterpretq_s32_s8(row[4 * h + r]);
        const int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(v[0], v[1]));
        const int64x2_t b = vreinterpretq_s64_s32(vtrn2q_s32(v[0], v[1]));
        const int64x2_t c = vreinterpretq_s64_s32(vtrn1q_s32(v[2], v[3]));
        const int64x2_t d = vreinterpretq_s64_s32(vtrn2q_s32(v[2], v[3]));
        vst1q_s8(dst + 16 * h, vreinterpretq_s8_s64(vtrn1q_s64(a, c)));
        vst1q_s8(dst + 16 * h + 32, vreinterpretq_s8_s64(vtrn1q_s64(b, d)));
        vst1q_s8(dst + 16 * h + 64, vreinterpretq_s8_s64(vtrn2q_s64(a, c)));
        vst1q_s8(dst + 16 * h + 96, vreinterpretq_s8_s64(vtrn2q_s64(b, d)));
    }
}

TN_INLINE void tn_dots(int32x4_t *acc, const int8_t *w, int sub, const int8_t *const *x, size_t at,
                       int n_tokens, bool is_narrow) {
    (void)is_narrow;
#pragma GCC unroll 8
    for (int i = 0; i < 2 * n_tokens; i++) acc[i] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int u = 0; u < sub / 16; u++) {
        int8x16_t token[4];
#pragma GCC unroll 4
        for (int t = 0; t < n_tokens; t++) token[t] = vld1q_s8(x[t] + at + 16 * u);
#define STEP(lane)                                                                                           \
    do {                                                                                                     \
        const int8x16_t low = vld1q_s8(w + 128 * u + 32 * lane),                                             \
                        high = vld1q_s8(w + 128 * u + 32 * lane + 16);                                       \
        _Pragma("GCC unroll 4") for (int t = 0; t < n_tokens; t++) {                                         \
            acc[2 * t] = vdotq_laneq_s32(acc[2 * t], low, token[t], lane);                                   \
            acc[2 * t + 1] = vdotq_laneq_s32(acc[2 * t + 1], high, token[t], lane);                          \
        }                                                                                                    \
        tn_in_step(acc, 2 * n_tokens);                                                                       \
    } while (0)
        STEP(0);
        STEP(1);
        STEP(2);
        STEP(3);
#undef STEP
    }
}

TN_INLINE int32x4_t tn_scale_of(const int32_t scale[8], int i) {
    return vld1q_s32(scale + i % 2 * 4);
}
TN_INLINE int32x4_t tn_rows_of(const int32x4_t *acc, int t, int h) {
    return acc[2 * t + h];
}

#endif
