/* Activations to int8 with one scale a block, and the sums that weight offsets and minimums need. */
#include "neon.h"
#include "simd_neon.h"

/* The largest magnitude of n floats, n a multiple of 16, as bits: NaN is above infinity. */
TN_INLINE uint32_t largest_bits(const float *x, size_t n) {
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
    uint32x4_t m[4];
    for (int i = 0; i < 4; i++) m[i] = vdupq_n_u32(0);
    for (size_t i = 0; i < n; i += 16) {
        for (size_t j = 0; j < 4; j++) {
            const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i + 4 * j));
            m[j] = vmaxq_u32(m[j], vandq_u32(bits, magnitude));
        }
    }
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(m[0], m[1]), vmaxq_u32(m[2], m[3])));
}

/* The scale and the factor of a block; a factor of 0 where all q are 0 by rule. */
TN_INLINE float block_scale(uint32_t bits, float *factor) {
    const float largest = tn_f32_from_bits(bits);
    *factor = 0.0f;
    if (bits >= 0x7f800000) return NAN;
    if (largest < 0x1p-100f) return 0.0f;
    *factor = 127.0f / largest;
    return largest / 127.0f;
}

/* 16 quantized elements. With a factor of 0 the products may be NaN, which converts to 0 as the rule wants;
 * an infinite element makes a NaN too. */
TN_INLINE int8x16_t quantize16(const float *x, float factor) {
    int32x4_t v[4];
    for (int i = 0; i < 4; i++) v[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), factor));
    const int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

void tn_quantize_q8_32_neon(uint8_t *row, const float *x, size_t k) {
    int8_t *q = (int8_t *)row;
    float *d = (float *)(void *)(row + tn_act_d_offset(k));
    int32_t *s = (int32_t *)(void *)(row + tn_act_s_offset(TN_ACT_Q8_32, k));
    for (size_t b = 0; b < k / 32; b++) {
        float factor;
        d[b] = block_scale(largest_bits(x + 32 * b, 32), &factor);
        const int8x16_t low = quantize16(x + 32 * b, factor), high = quantize16(x + 32 * b + 16, factor);
        vst1q_s8(q + 32 * b, low);
        vst1q_s8(q + 32 * b + 16, high);
        s[b] = vaddvq_s16(vpadalq_s8(vpaddlq_s8(low), high));
    }
}

void tn_quantize_q8_256_neon(uint8_t *row, const float *x, size_t k) {
    int8_t *q = (int8_t *)row;
    float *d = (float *)(void *)(row + tn_act_d_offset(k));
    int16_t *s = (int16_t *)(void *)(row + tn_act_s_offset(TN_ACT_Q8_256, k));
    for (size_t b = 0; b < k / 256; b++) {
        float factor;
        d[b] = block_scale(largest_bits(x + 256 * b, 256), &factor);
        for (size_t j = 16 * b; j < 16 * b + 16; j++) {
            const int8x16_t v = quantize16(x + 16 * j, factor);
            vst1q_s8(q + 16 * j, v);
            s[j] = vaddlvq_s8(v);
        }
    }
}
