/* Unpackers of the block types below three and a half bits: IQ1, IQ2 and IQ3, whose indices look up several weights in
 * a grid (grids.h), and the ternary ones. For group g of 8 weights, in bytes:
 *
 *   IQ2_XXS  d f16 | for each 32 weights: index u8 x 4, then u32: signs of g in 7 bits from bit 7*g, scale 4 bits
 *   IQ2_XS   d f16 | u16 x 32: index 9 bits, signs 7 | scale nibbles 8
 *   IQ2_S    d f16 | index u8 x 32 | signs u8 x 32 | two more bits of 4 indices u8 x 8 | scale nibbles 8
 *   IQ3_XXS  d f16 | index u8 x 64, of 4 weights each | u32 x 8 as in IQ2_XXS
 *   IQ3_S    d f16 | index u8 x 64 | one more bit of 8 indices u8 x 8 | signs u8 x 32 | scale nibbles 4
 *   IQ1_S    d f16 | index u8 x 32 | u16 x 8: 3 more bits of 4 indices, scale 3 bits, shift
 *   IQ1_M    index u8 x 32 | nibbles 16: 3 more bits of an index, shift | u16 x 4: 3-bit scales x 4, a nibble of d
 *   TQ1_0    base-3 digits, 5 a byte: 32 bytes, 16 bytes; 4 a byte: 4 bytes | d f16
 *   TQ2_0    two-bit 64 | d f16                                                                  q - 1
 *
 * A scale s stands for 2*s + 1, which is half of what the file means by it in IQ2 (with a quarter of d) and IQ3_XXS
 * (with half of d, the grid being even): d is d/8, d/2, and d for IQ3_S. IQ1's weights are value +- 1/8, 8*value +- 1
 * here with d/8; a shift that is set takes off. */
#ifndef TN_KERNELS_REF_BLOCKS_GRID_H
#define TN_KERNELS_REF_BLOCKS_GRID_H

#include "block.h"
#include "grids.h"

/* n magnitudes with their signs. */
static inline void tn_unpack_signed(int8_t *q, uint64_t magnitudes, unsigned signs, int n) {
    for (int i = 0; i < n; i++) {
        int magnitude = (int)(magnitudes >> 8 * i & 0xff);
        q[i] = (int8_t)(signs >> i & 1 ? -magnitude : magnitude);
    }
}

static inline void tn_unpack_shifted(int8_t *q, uint64_t bytes, bool down) {
    for (int i = 0; i < 8; i++) q[i] = (int8_t)((int)(bytes >> 8 * i & 0xff) - (down ? 9 : 7));
}

static inline int16_t tn_odd_scale(uint32_t s) {
    return (int16_t)(2 * s + 1);
}

/* Scale nibbles, the low one first. */
static inline void tn_unpack_scale_nibbles(tn_block *b, const uint8_t *p, int n) {
    for (int j = 0; j < n; j++) b->scale[j] = tn_odd_scale(p[j / 2] >> (j % 2 * 4) & 15);
}

static inline void tn_unpack_iq2_xxs(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_load_u16(p)) * 0.125f;
    for (int g = 0; g < 32; g++) {
        const uint8_t *group = p + 2 + g / 4 * 8;
        uint32_t signs = tn_load_u32(group + 4);
        tn_unpack_signed(b->q + 8 * g, tn_grid_iq2_xxs[group[g % 4]],
                         tn_signs_of_seven(signs >> (g % 4 * 7) & 127), 8);
        b->scale[g / 4] = tn_odd_scale(signs >> 28);
    }
}

static inline void tn_unpack_iq2_xs(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_load_u16(p)) * 0.125f;
    for (int g = 0; g < 32; g++) {
        unsigned word = tn_load_u16(p + 2 + 2 * g);
        tn_unpack_signed(b->q + 8 * g, tn_grid_iq2_xs[word & 511], tn_signs_of_seven(word >> 9), 8);
    }
    tn_unpack_scale_nibbles(b, p + 66, 16);
}

static inline void tn_unpack_iq2_s(tn_block *b, const uint8_t *p) {
    const uint8_t *low = p + 2, *signs = p + 34, *high = p + 66;
    b->d = tn_f16_to_f32(tn_load_u16(p)) * 0.125f;
    for (int g = 0; g < 32; g++) {
        int index = low[g] | (high[g / 4] >> (g % 4 * 2) & 3) << 8;
        tn_unpack_signed(b->q + 8 * g, tn_grid_iq2_s[index], signs[g], 8);
    }
    tn_unpack_scale_nibbles(b, p + 74, 16);
}

static inline void tn_unpack_iq3_xxs(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_load_u16(p)) * 0.5f;
    for (int g = 0; g < 32; g++) {
        const uint8_t *index = p + 2 + 2 * g;
        uint32_t word = tn_load_u32(p + 66 + g / 4 * 4);
        unsigned signs = tn_signs_of_seven(word >> (g % 4 * 7) & 127);
        tn_unpack_signed(b->q + 8 * g, tn_grid_iq3_xxs[index[0]], signs, 4);
        tn_unpack_signed(b->q + 8 * g + 4, tn_grid_iq3_xxs[index[1]], signs >> 4, 4);
        b->scale[g / 4] = tn_odd_scale(word >> 28);
    }
}

static inline void tn_unpack_iq3_s(tn_block *b, const uint8_t *p) {
    const uint8_t *low = p + 2, *high = p + 66, *signs = p + 74;
    b->d = tn_f16_to_f32(tn_load_u16(p));
    for (int i = 0; i < 64; i++) {
        int index = low[i] | (high[i / 8] >> (i % 8) & 1) << 8;
        tn_unpack_signed(b->q + 4 * i, tn_grid_iq3_s[index], signs[i / 2] >> (i % 2 * 4), 4);
    }
    tn_unpack_scale_nibbles(b, p + 106, 8);
}

static inline void tn_unpack_iq1_s(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_load_u16(p)) * 0.125f;
    for (int g = 0; g < 32; g++) {
        unsigned word = tn_load_u16(p + 34 + g / 4 * 2);
        unsigned index = p[2 + g] | (word >> (g % 4 * 3) & 7) << 8;
        tn_unpack_shifted(b->q + 8 * g, tn_grid_iq1[index], word >> 15);
        b->scale[g / 4] = tn_odd_scale(word >> 12 & 7);
    }
}

static inline void tn_unpack_iq1_m(tn_block *b, const uint8_t *p) {
    b->d = tn_f16_to_f32(tn_iq1_m_factor(p)) * 0.125f;
    for (int g = 0; g < 32; g++) {
        unsigned high = p[32 + g / 2] >> (g % 2 * 4) & 15;
        tn_unpack_shifted(b->q + 8 * g, tn_grid_iq1[p[g] | (high & 7) << 8], high >> 3);
    }
    for (int j = 0; j < 16; j++)
        b->scale[j] = tn_odd_scale(tn_load_u16(p + 48 + j / 4 * 2) >> (j % 4 * 3) & 7);
}

/* A byte is its digits as a fraction of 256, so the next digit comes out of its product by 3, and the one after that
 * out of what is left of it in 8 bits. */
static inline void tn_unpack_digits(int8_t *q, const uint8_t *p, int n_bytes, int n_digits) {
    for (int l = 0; l < n_bytes; l++) {
        unsigned rest = p[l];
        for (int i = 0; i < n_digits; i++) {
            q[i * n_bytes + l] = (int8_t)((int)(3 * rest >> 8) - 1);
            rest = 3 * rest & 0xff;
        }
    }
}

/* The ternary types have no scales; ones for each 32, as others do. */
static inline void tn_unpack_ones(tn_block *b) {
    for (int j = 0; j < 8; j++) b->scale[j] = 1;
}

static inline void tn_unpack_tq1_0(tn_block *b, const uint8_t *p) {
    tn_unpack_digits(b->q, p, 32, 5);
    tn_unpack_digits(b->q + 160, p + 32, 16, 5);
    tn_unpack_digits(b->q + 240, p + 48, 4, 4);
    tn_unpack_ones(b);
    b->d = tn_f16_to_f32(tn_load_u16(p + 52));
}

static inline void tn_unpack_tq2_0(tn_block *b, const uint8_t *p) {
    for (int i = 0; i < 256; i++) b->q[i] = (int8_t)(tn_two_bits(p, i) - 1);
    tn_unpack_ones(b);
    b->d = tn_f16_to_f32(tn_load_u16(p + 64));
}

#endif
