/* The weight blocks, as Advanced SIMD registers. ref/blocks.h draws the layouts.
 *
 * tn_q_NAME reads elements 32*j .. 32*j+31 of a block as signed bytes, the type's offset already taken off; j
 * is a constant wherever speed counts, and 0 for the 32-wide types. tn_scales_NAME reads the integer scales
 * of a 256-wide block, and the minimums where there are any: 16 of them where a sub-block is 16 elements, 8
 * where it is 32. All fit int8. */
#ifndef TN_KERNELS_ARM_UNPACK_NEON_H
#define TN_KERNELS_ARM_UNPACK_NEON_H

#include "../ref/blocks.h"
#include "simd_neon.h"

typedef struct tn_scales {
    int8x16_t scale, min;
} tn_scales;

typedef int8x16x2_t tn_q_fn(const uint8_t *block, int j);
typedef tn_scales tn_scales_fn(const uint8_t *block);

/* (v >> shift) & mask in each byte. */
TN_INLINE uint8x16_t tn_bits(uint8x16_t v, int shift, int mask) {
    return vandq_u8(vshlq_u8(v, vdupq_n_s8((int8_t)-shift)), vdupq_n_u8((uint8_t)mask));
}

/* `value` in the bytes where bit `bit` of v is set, else 0. */
TN_INLINE uint8x16_t tn_flag(uint8x16_t v, int bit, int value) {
    return vandq_u8(vtstq_u8(v, vdupq_n_u8((uint8_t)(1 << bit))), vdupq_n_u8((uint8_t)value));
}

TN_INLINE int8x16_t tn_signed(uint8x16_t v, int offset) {
    return vsubq_s8(vreinterpretq_s8_u8(v), vdupq_n_s8((int8_t)offset));
}

/* ---- 32-wide --------------------------------------------------------------------------------------------
 */

/* 16 bytes of nibbles: low ones are elements 0-15, high ones 16-31. */
TN_INLINE uint8x16x2_t tn_nibbles(const uint8_t *p) {
    const uint8x16_t v = vld1q_u8(p);
    return (uint8x16x2_t){{vandq_u8(v, vdupq_n_u8(15)), vshrq_n_u8(v, 4)}};
}

TN_INLINE int8x16x2_t tn_nibbles_minus(const uint8_t *p, int offset) {
    const uint8x16x2_t q = tn_nibbles(p);
    return (int8x16x2_t){{tn_signed(q.val[0], offset), tn_signed(q.val[1], offset)}};
}

TN_INLINE int8x16x2_t tn_nibbles_lookup(const uint8_t *p, const int8_t table[16]) {
    const uint8x16x2_t q = tn_nibbles(p);
    const int8x16_t values = vld1q_s8(table);
    return (int8x16x2_t){{vqtbl1q_s8(values, q.val[0]), vqtbl1q_s8(values, q.val[1])}};
}

/* 0x10 in byte i where bit i of the two bytes at `bits` is set. */
TN_INLINE uint8x16_t tn_fifth_bits(const uint8_t *bits) {
    const uint8x16_t one = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x16_t both = vcombine_u8(vdup_n_u8(bits[0]), vdup_n_u8(bits[1]));
    return vandq_u8(vtstq_u8(both, one), vdupq_n_u8(0x10));
}

TN_INLINE int8x16x2_t tn_fives_minus(const uint8_t *bits, int offset) {
    const uint8x16x2_t q = tn_nibbles(bits + 4);
    return (int8x16x2_t){{tn_signed(vorrq_u8(q.val[0], tn_fifth_bits(bits)), offset),
                          tn_signed(vorrq_u8(q.val[1], tn_fifth_bits(bits + 2)), offset)}};
}

TN_INLINE int8x16x2_t tn_q_q4_0(const uint8_t *block, int j) {
    (void)j;
    return tn_nibbles_minus(block + 2, 8);
}
TN_INLINE int8x16x2_t tn_q_q4_1(const uint8_t *block, int j) {
    (void)j;
    return tn_nibbles_minus(block + 4, 0);
}
TN_INLINE int8x16x2_t tn_q_q5_0(const uint8_t *block, int j) {
    (void)j;
    return tn_fives_minus(block + 2, 16);
}
TN_INLINE int8x16x2_t tn_q_q5_1(const uint8_t *block, int j) {
    (void)j;
    return tn_fives_minus(block + 4, 0);
}
TN_INLINE int8x16x2_t tn_q_q8_0(const uint8_t *block, int j) {
    (void)j;
    return (int8x16x2_t){
        {vreinterpretq_s8_u8(vld1q_u8(block + 2)), vreinterpretq_s8_u8(vld1q_u8(block + 18))}};
}
TN_INLINE int8x16x2_t tn_q_iq4_nl(const uint8_t *block, int j) {
    (void)j;
    return tn_nibbles_lookup(block + 2, tn_iq4_values);
}
TN_INLINE int8x16x2_t tn_q_mxfp4(const uint8_t *block, int j) {
    (void)j;
    return tn_nibbles_lookup(block + 1, tn_e2m1_doubled);
}

/* ---- 256-wide -------------------------------------------------------------------------------------------
 */

TN_INLINE int8x16x2_t tn_q_q2_k(const uint8_t *block, int j) {
    const uint8_t *low = block + 16 + j / 4 * 32;
    int8x16x2_t q;
    for (int i = 0; i < 2; i++) q.val[i] = tn_signed(tn_bits(vld1q_u8(low + 16 * i), j % 4 * 2, 3), 0);
    return q;
}

TN_INLINE int8x16x2_t tn_q_q3_k(const uint8_t *block, int j) {
    const uint8_t *high = block, *low = block + 32 + j / 4 * 32;
    int8x16x2_t q;
    for (int i = 0; i < 2; i++) {
        const uint8x16_t two = tn_bits(vld1q_u8(low + 16 * i), j % 4 * 2, 3);
        q.val[i] = tn_signed(vorrq_u8(two, tn_flag(vld1q_u8(high + 16 * i), j, 4)), 4);
    }
    return q;
}

TN_INLINE int8x16x2_t tn_q_q4_k(const uint8_t *block, int j) {
    const uint8_t *low = block + 16 + j / 2 * 32;
    int8x16x2_t q;
    for (int i = 0; i < 2; i++) q.val[i] = tn_signed(tn_bits(vld1q_u8(low + 16 * i), j % 2 * 4, 15), 0);
    return q;
}

TN_INLINE int8x16x2_t tn_q_q5_k(const uint8_t *block, int j) {
    const uint8_t *high = block + 16, *low = block + 48 + j / 2 * 32;
    int8x16x2_t q;
    for (int i = 0; i < 2; i++) {
        const uint8x16_t four = tn_bits(vld1q_u8(low + 16 * i), j % 2 * 4, 15);
        q.val[i] = tn_signed(vorrq_u8(four, tn_flag(vld1q_u8(high + 16 * i), j, 16)), 0);
    }
    return q;
}

TN_INLINE int8x16x2_t tn_q_q6_k(const uint8_t *block, int j) {
    const uint8_t *low = block + j / 4 * 64 + j % 2 * 32, *high = block + 128 + j / 4 * 32;
    int8x16x2_t q;
    for (int i = 0; i < 2; i++) {
        const uint8x16_t four = tn_bits(vld1q_u8(low + 16 * i), j % 4 / 2 * 4, 15);
        const uint8x16_t two = tn_bits(vld1q_u8(high + 16 * i), j % 4 * 2, 3);
        q.val[i] = tn_signed(vorrq_u8(four, vshlq_n_u8(two, 4)), 32);
    }
    return q;
}

TN_INLINE int8x16x2_t tn_q_iq4_xs(const uint8_t *block, int j) {
    return tn_nibbles_lookup(block + 8 + 16 * j, tn_iq4_values);
}

/* ---- Scales of the 256-wide types -----------------------------------------------------------------------
 */

/* Sixteen bytes from four words, the first in the lowest bytes. */
TN_INLINE int8x16_t tn_from_words(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint64x2_t v = {a | (uint64_t)b << 32, c | (uint64_t)d << 32};
    return vreinterpretq_s8_u64(v);
}

#define TN_LOW6 0x3f3f3f3fu
#define TN_LOW4 0x0f0f0f0fu
#define TN_LOW2 0x03030303u

TN_INLINE tn_scales tn_scales_q2_k(const uint8_t *block) {
    const uint8x16_t v = vld1q_u8(block);
    return (tn_scales){vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))),
                       vreinterpretq_s8_u8(vshrq_n_u8(v, 4))};
}

TN_INLINE tn_scales tn_scales_q3_k(const uint8_t *block) {
    const uint32_t a = tn_load_u32(block + 96), b = tn_load_u32(block + 100), high = tn_load_u32(block + 104);
    const int8x16_t v = tn_from_words(
        (a & TN_LOW4) | (high & TN_LOW2) << 4, (b & TN_LOW4) | (high >> 2 & TN_LOW2) << 4,
        (a >> 4 & TN_LOW4) | (high >> 4 & TN_LOW2) << 4, (b >> 4 & TN_LOW4) | (high >> 6 & TN_LOW2) << 4);
    return (tn_scales){vsubq_s8(v, vdupq_n_s8(32)), vdupq_n_s8(0)};
}

/* Eight 6-bit scales and minimums in the 12 bytes behind d and m. */
TN_INLINE tn_scales tn_scales_q4_k(const uint8_t *block) {
    const uint32_t a = tn_load_u32(block + 4), b = tn_load_u32(block + 8), c = tn_load_u32(block + 12);
    return (tn_scales){tn_from_words(a & TN_LOW6, (c & TN_LOW4) | (a >> 6 & TN_LOW2) << 4, 0, 0),
                       tn_from_words(b & TN_LOW6, (c >> 4 & TN_LOW4) | (b >> 6 & TN_LOW2) << 4, 0, 0)};
}

TN_INLINE tn_scales tn_scales_q5_k(const uint8_t *block) {
    return tn_scales_q4_k(block);
}

TN_INLINE tn_scales tn_scales_q6_k(const uint8_t *block) {
    return (tn_scales){vreinterpretq_s8_u8(vld1q_u8(block + 192)), vdupq_n_s8(0)};
}

TN_INLINE tn_scales tn_scales_iq4_xs(const uint8_t *block) {
    const uint32_t low = tn_load_u32(block + 4);
    const uint8x8_t even = vcreate_u8(low & TN_LOW4), odd = vcreate_u8(low >> 4 & TN_LOW4);
    const int16x8_t shift = {0, -2, -4, -6, -8, -10, -12, -14};
    const uint16x8_t high = vandq_u16(vshlq_u16(vdupq_n_u16(tn_load_u16(block + 2)), shift), vdupq_n_u16(3));
    const uint8x8_t six = vorr_u8(vzip1_u8(even, odd), vshl_n_u8(vmovn_u16(high), 4));
    const int8x8_t scale = vsub_s8(vreinterpret_s8_u8(six), vdup_n_s8(32));
    return (tn_scales){vcombine_s8(scale, vdup_n_s8(0)), vdupq_n_s8(0)};
}

/* ---- Blocks that the reference has unpacked -------------------------------------------------------------
 */

TN_INLINE int8x16x2_t tn_q_unpacked(const uint8_t *block, int j) {
    return vld1q_s8_x2(((const tn_block *)(const void *)block)->q + 32 * j);
}

TN_INLINE tn_scales tn_scales_unpacked(const uint8_t *block) {
    const int16_t *scale = ((const tn_block *)(const void *)block)->scale;
    return (tn_scales){vcombine_s8(vmovn_s16(vld1q_s16(scale)), vmovn_s16(vld1q_s16(scale + 8))),
                       vdupq_n_s8(0)};
}

#endif
