/* The quantized block layouts, each described once: an unpacker that reads one block of the file into small
 * integers, their integer scales and one or two float factors (block.h). Dequantizers and matrix products share them.
 *
 * Layouts, in bytes; f16 and u16 are little-endian. Nibbles of a 32-wide block: low ones are elements 0..15,
 * high ones 16..31. The types below three and a half bits are in blocks_grid.h, NVFP4 in nvfp4.c.
 *
 *   Q4_0    d f16 | nibbles 16                                                    q - 8
 *   Q4_1    d f16 | m f16 | nibbles 16                                            x = d*q + m
 *   Q5_0    d f16 | bit 4 of element i at bit i, u32 | nibbles 16                 q - 16
 *   Q5_1    d f16 | m f16 | u32 as Q5_0 | nibbles 16                              x = d*q + m
 *   Q8_0    d f16 | q i8 x 32
 *   IQ4_NL  d f16 | nibbles 16                                                    q = table[nibble]
 *   MXFP4   e u8 | nibbles 16                                                     q = 2 * e2m1(nibble), d = 2^(e-128)
 *   Q2_K    scale (low nibble), min (high) u8 x 16 | two-bit 64 | d f16 | m f16
 *   Q3_K    bit 2 x 32 | two-bit 64 | 6-bit scales 12 | d f16                     q - 4, scale - 32
 *   Q4_K    d f16 | m f16 | 6-bit scales and mins 12 | nibbles 128
 *   Q5_K    d f16 | m f16 | 6-bit scales and mins 12 | bit 4 x 32 | nibbles 128
 *   Q6_K    low nibbles 128 | high two bits 64 | scale i8 x 16 | d f16            q - 32
 *   IQ4_XS  d f16 | scales' high two bits u16 | their low nibbles 4 | nibbles 128 table, scale - 32 */
#ifndef TN_KERNELS_REF_BLOCKS_H
#define TN_KERNELS_REF_BLOCKS_H

#include "block.h"
#include "blocks_grid.h"

/* X(NAME, name, elements a block, elements a sub-block, has a minimum) */
#define TN_BLOCK_TYPES(X)                                                                                    \
    X(Q4_0, q4_0, 32, 32, false)                                                                             \
    X(Q4_1, q4_1, 32, 32, true)                                                                              \
    X(Q5_0, q5_0, 32, 32, false)                                                                             \
    X(Q5_1, q5_1, 32, 32, true)                                                                              \
    X(Q8_0, q8_0, 32, 32, false)                                                                             \
    X(IQ4_NL, iq4_nl, 32, 32, false)                                                                         \
    X(MXFP4, mxfp4, 32, 32, false)                                                                           \
    X(Q2_K, q2_k, 256, 16, true)                                                                             \
    X(Q3_K, q3_k, 256, 16, false)                                                                            \
    X(Q4_K, q4_k, 256, 32, true)                                                                             \
    X(Q5_K, q5_k, 256, 32, true)                                                                             \
    X(Q6_K, q6_k, 256, 16, false)                                                                            \
    X(IQ4_XS, iq4_xs, 256, 32, false)                                                                        \
    X(IQ2_XXS, iq2_xxs, 256, 32, false)                                                                      \
    X(IQ2_XS, iq2_xs, 256, 16, false)                                                                        \
    X(IQ2_S, iq2_s, 256, 16, false)                                                                          \
    X(IQ3_XXS, iq3_xxs, 256, 32, false)                                                                      \
    X(IQ3_S, iq3_s, 256, 32, false)                                                                          \
    X(IQ1_S, iq1_s, 256, 32, false)                                                                          \
    X(IQ1_M, iq1_m, 256, 16, false)                                                                          \
    X(TQ1_0, tq1_0, 256, 32, false)                                                                          \
    X(TQ2_0, tq2_0, 256, 32, false)

/* The 16 values of the IQ4 types, and of e2m1 doubled. */
static const int8_t tn_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t tn_e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* ---- 32-wide ----------------------------------------------------------------------------------------------
 */

static inline void tn_unpack_factors32(tn_block *b, float d, float m) {
    b->scale[0] = b->min[0] = 1;
    b->d = d;
    b->m = m;
}

static inline void tn_unpack_nibbles32(int8_t *q, const uint8_t *p, int offset) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((p[i] & 15) - offset);
        q[i + 16] = (int8_t)((p[i] >> 4) - offset);
    }
}

static inline void tn_unpack_lookup32(int8_t *q, const uint8_t *p, const int8_t table[16]) {
    for (int i = 0; i < 16; i++) {
        q[i] = table[p[i] & 15];
        q[i + 16] = table[p[i] >> 4];
    }
}

static inline void tn_unpack_fives32(int8_t *q, uint32_t high, const uint8_t *p, int offset) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)(((p[i] & 15) | (high >> i & 1) << 4) - offset);
        q[i + 16] = (int8_t)(((p[i] >> 4) | (high >> (i + 16) & 1) << 4) - offset);
    }
}

static inline void tn_unpack_q4_0(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_f16_to_f32(tn_load_u16(p)), 0);
    tn_unpack_nibbles32(b->q, p + 2, 8);
}

static inline void tn_unpack_q4_1(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_f16_to_f32(tn_load_u16(p)), -tn_f16_to_f32(tn_load_u16(p + 2)));
    tn_unpack_nibbles32(b->q, p + 4, 0);
}

static inline void tn_unpack_q5_0(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_f16_to_f32(tn_load_u16(p)), 0);
    tn_unpack_fives32(b->q, tn_load_u32(p + 2), p + 6, 16);
}

static inline void tn_unpack_q5_1(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_f16_to_f32(tn_load_u16(p)), -tn_f16_to_f32(tn_load_u16(p + 2)));
    tn_unpack_fives32(b->q, tn_load_u32(p + 4), p + 8, 0);
}

static inline void tn_unpack_q8_0(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_f16_to_f32(tn_load_u16(p)), 0);
    memcpy(b->q, p + 2, 32);
}

static inline void tn_unpack_iq4_nl(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_f16_to_f32(tn_load_u16(p)), 0);
    tn_unpack_lookup32(b->q, p + 2, tn_iq4_values);
}

static inline void tn_unpack_mxfp4(tn_block *b, const uint8_t *p) {
    tn_unpack_factors32(b, tn_e8m0_half_to_f32(p[0]), 0);
    tn_unpack_lookup32(b->q, p + 1, tn_e2m1_doubled);
}

/* ---- 256-wide ---------------------------------------------------------------------------------------------
 */

/* Nibbles of Q4_K and Q5_K: byte 32*h + l holds elements 64*h + l (low) and 64*h + 32 + l (high). */
static inline int tn_k_nibble(const uint8_t *p, int i) {
    return p[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

/* Eight 6-bit scales and mins in 12 bytes: bytes 0-3 hold scales 0-3 and bytes 4-7 mins 0-3 in their low six
 * bits; bytes 8-11 hold the low nibbles of scale 4-7 (low) and min 4-7 (high), whose top two bits are the top
 * two of bytes 0-3 and 4-7. */
static inline void tn_unpack_scales_k(tn_block *b, const uint8_t *p) {
    for (int j = 0; j < 4; j++) {
        b->scale[j] = p[j] & 63;
        b->min[j] = p[j + 4] & 63;
        b->scale[j + 4] = (int16_t)((p[j + 8] & 15) | p[j] >> 6 << 4);
        b->min[j + 4] = (int16_t)(p[j + 8] >> 4 | p[j + 4] >> 6 << 4);
    }
}

static inline void tn_unpack_q2_k(tn_block *b, const uint8_t *p) {
    for (int j = 0; j < 16; j++) {
        b->scale[j] = p[j] & 15;
        b->min[j] = p[j] >> 4;
    }
    for (int i = 0; i < 256; i++) b->q[i] = (int8_t)tn_two_bits(p + 16, i);
    b->d = tn_f16_to_f32(tn_load_u16(p + 80));
    b->m = tn_f16_to_f32(tn_load_u16(p + 82));
}

/* Sixteen 6-bit scales in 12 bytes: low nibbles of scales j and j + 8 in byte j; the high two bits of scale j
 * in byte 8 + j % 4 at bit 2 * (j / 4). */
static inline void tn_unpack_q3_k(tn_block *b, const uint8_t *p) {
    const uint8_t *high = p, *low = p + 32, *scales = p + 96;
    for (int j = 0; j < 16; j++) {
        int low4 = scales[j % 8] >> (j / 8 * 4) & 15, high2 = scales[8 + j % 4] >> (j / 4 * 2) & 3;
        b->scale[j] = (int16_t)((low4 | high2 << 4) - 32);
    }
    for (int i = 0; i < 256; i++) {
        int high1 = high[i % 32] >> (i / 32) & 1;
        b->q[i] = (int8_t)((tn_two_bits(low, i) | high1 << 2) - 4);
    }
    b->d = tn_f16_to_f32(tn_load_u16(p + 108));
}

static inline void tn_unpack_q4_k(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_load_u16(p));
    b->m = tn_f16_to_f32(tn_load_u16(p + 2));
    tn_unpack_scales_k(b, p + 4);
    for (int i = 0; i < 256; i++) b->q[i] = (int8_t)tn_k_nibble(p + 16, i);
}

static inline void tn_unpack_q5_k(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_load_u16(p));
    b->m = tn_f16_to_f32(tn_load_u16(p + 2));
    tn_unpack_scales_k(b, p + 4);
    for (int i = 0; i < 256; i++) {
        int high1 = p[16 + i % 32] >> (i / 32) & 1;
        b->q[i] = (int8_t)(tn_k_nibble(p + 48, i) | high1 << 4);
    }
}

/* Low nibbles: byte 64*h + l holds elements 128*h + l (low) and 128*h + 64 + l (high). */
static inline void tn_unpack_q6_k(tn_block *b, const uint8_t *p) {
    for (int i = 0; i < 256; i++) {
        int low4 = p[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
        b->q[i] = (int8_t)((low4 | tn_two_bits(p + 128, i) << 4) - 32);
    }
    for (int j = 0; j < 16; j++) b->scale[j] = (int8_t)p[192 + j];
    b->d = tn_f16_to_f32(tn_load_u16(p + 208));
}

static inline void tn_unpack_iq4_xs(tn_block *b, const uint8_t *p) {
    unsigned high = tn_load_u16(p + 2);
    for (int j = 0; j < 8; j++) {
        int low4 = p[4 + j / 2] >> (j % 2 * 4) & 15;
        b->scale[j] = (int16_t)((low4 | (high >> (2 * j) & 3) << 4) - 32);
        tn_unpack_lookup32(b->q + 32 * j, p + 8 + 16 * j, tn_iq4_values);
    }
    b->d = tn_f16_to_f32(tn_load_u16(p));
}

#endif
