/* Small Advanced SIMD pieces that several kernels share: vectors of 8 floats, the fixed join of stripes, the
 * factors of 8 rows' blocks, a 4 x 4 transpose. */
#ifndef TN_KERNELS_ARM_SIMD_NEON_H
#define TN_KERNELS_ARM_SIMD_NEON_H

#include <arm_neon.h>
#include <stdbool.h>

#include "../ref/math.h"

/* The kernels are written once and specialised by constant arguments, so everything on the way must be
 * inlined. */
#define TN_INLINE static inline __attribute__((always_inline))

/* Eight floats: stripes or rows 0-3 and 4-7. */
typedef struct tn_f32x8 {
    float32x4_t v[2];
} tn_f32x8;

TN_INLINE tn_f32x8 tn_splat8(float x) {
    return (tn_f32x8){{vdupq_n_f32(x), vdupq_n_f32(x)}};
}

TN_INLINE tn_f32x8 tn_load8(const float *p) {
    return (tn_f32x8){{vld1q_f32(p), vld1q_f32(p + 4)}};
}

TN_INLINE void tn_store8(float *p, tn_f32x8 a) {
    vst1q_f32(p, a.v[0]);
    vst1q_f32(p + 4, a.v[1]);
}

/* a * b + c, rounded once. */
TN_INLINE tn_f32x8 tn_fma8(tn_f32x8 a, tn_f32x8 b, tn_f32x8 c) {
    return (tn_f32x8){{vfmaq_f32(c.v[0], a.v[0], b.v[0]), vfmaq_f32(c.v[1], a.v[1], b.v[1])}};
}

/* Eight weights or cached values as floats, by the type they are stored in; i counts elements. */
typedef tn_f32x8 tn_load8_fn(const uint8_t *row, size_t i);

TN_INLINE tn_f32x8 tn_load8_f32(const uint8_t *row, size_t i) {
    return (tn_f32x8){
        {vreinterpretq_f32_u8(vld1q_u8(row + 4 * i)), vreinterpretq_f32_u8(vld1q_u8(row + 4 * i + 16))}};
}

TN_INLINE tn_f32x8 tn_load8_f16(const uint8_t *row, size_t i) {
    const float16x8_t h = vreinterpretq_f16_u8(vld1q_u8(row + 2 * i));
    return (tn_f32x8){{vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)}};
}

TN_INLINE tn_f32x8 tn_load8_bf16(const uint8_t *row, size_t i) {
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(row + 2 * i));
    return (tn_f32x8){{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                       vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))}};
}

/* Blocks of 32 int8 with an f16 factor in front. */
TN_INLINE tn_f32x8 tn_load8_q8_0(const uint8_t *row, size_t i) {
    const uint8_t *block = row + i / 32 * 34;
    const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(tn_load_u16(block))));
    const int16x8_t q = vmovl_s8(vreinterpret_s8_u8(vld1_u8(block + 2 + i % 32)));
    return (tn_f32x8){{vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(q)))),
                       vmulq_f32(d, vcvtq_f32_s32(vmovl_high_s16(q)))}};
}

/* The fixed join of stripes (kernels.h) of 4 vectors: lane i of the result is the join of a[i]. Pairwise
 * addition adds neighbours, which is that tree. */
TN_INLINE float32x4_t tn_join8x4(const tn_f32x8 a[4]) {
    float32x4_t x[4];
    for (int i = 0; i < 4; i++) x[i] = vaddq_f32(a[i].v[0], a[i].v[1]);
    return vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3]));
}

/* Keeps the compiler from finishing one sum of a tile before it starts the next: it would hold a whole
 * sub-block of weights in registers meanwhile, and spill. No instruction comes of it. */
TN_INLINE void tn_in_step(int32x4_t *acc, int n) {
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) __asm__ volatile("" : "+w"(acc[i]));
}

TN_INLINE int32x4_t tn_sum4x4(const int32x4_t a[4]) {
    return vpaddq_s32(vpaddq_s32(a[0], a[1]), vpaddq_s32(a[2], a[3]));
}

/* Raw block factors of 8 rows as floats: f16, or one byte e8m0 halved (2^(e-128), subnormal for e < 2). */
TN_INLINE tn_f32x8 tn_factors8(const uint16_t raw[8], bool is_e8m0) {
    const uint16x8_t h = vld1q_u16(raw);
    if (!is_e8m0) {
        const float16x8_t f = vreinterpretq_f16_u16(h);
        return (tn_f32x8){{vcvt_f32_f16(vget_low_f16(f)), vcvt_high_f32_f16(f)}};
    }
    tn_f32x8 out;
    for (int i = 0; i < 2; i++) {
        const uint32x4_t e = i == 0 ? vmovl_u16(vget_low_u16(h)) : vmovl_high_u16(h);
        const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
        const uint32x4_t subnormal = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
        out.v[i] = vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, vdupq_n_u32(1)), normal, subnormal));
    }
    return out;
}

#endif
