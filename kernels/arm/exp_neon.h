/* exp of floats: the operations of tn_exp_f32 (ref/math.h) in its order, so the same bits. */
#ifndef TN_KERNELS_ARM_EXP_NEON_H
#define TN_KERNELS_ARM_EXP_NEON_H

#include "simd_neon.h"

TN_INLINE float32x4_t tn_exp4(float32x4_t x) {
    const float32x4_t round = vdupq_n_f32(TN_EXP_ROUND);
    const float32x4_t n = vsubq_f32(vaddq_f32(vmulq_f32(x, vdupq_n_f32(TN_EXP_LOG2E)), round), round);
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(TN_EXP_LN2_HI));
    r = vfmsq_f32(r, n, vdupq_n_f32(TN_EXP_LN2_LO));
    float32x4_t p = vdupq_n_f32(TN_EXP_P0);
    p = vfmaq_f32(vdupq_n_f32(TN_EXP_P1), p, r);
    p = vfmaq_f32(vdupq_n_f32(TN_EXP_P2), p, r);
    p = vfmaq_f32(vdupq_n_f32(TN_EXP_P3), p, r);
    p = vfmaq_f32(vdupq_n_f32(TN_EXP_P4), p, r);
    p = vfmaq_f32(vdupq_n_f32(TN_EXP_P5), p, r);
    const float32x4_t y = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
    const uint32x4_t exponent =
        vreinterpretq_u32_s32(vcvtq_s32_f32(n)); /* unsigned: beyond the limits it wraps */
    const uint32x4_t biased = vshlq_n_u32(vaddq_u32(exponent, vdupq_n_u32(127)), 23);
    const float32x4_t power = vreinterpretq_f32_u32(biased);
    /* A NaN passes both comparisons by and comes out of the arithmetic. */
    const uint32x4_t above = vcgtq_f32(x, vdupq_n_f32(TN_EXP_MAX)),
                     below = vcltq_f32(x, vdupq_n_f32(TN_EXP_MIN));
    const float32x4_t inside = vbslq_f32(above, vdupq_n_f32(INFINITY), vmulq_f32(y, power));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(inside), below));
}

#endif
