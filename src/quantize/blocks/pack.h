/* Bit fields of the 256-wide types. The unpacking side, with the layouts drawn, is kernels/ref/blocks.h. */
#ifndef TN_QUANTIZE_PACK_H
#define TN_QUANTIZE_PACK_H

#include <stdint.h>
#include <string.h>

/* The low two bits of 256 codes: byte 32 h + l holds elements 128 h + 32 g + l at bit 2 g. */
static inline void tn_pack_two_bits(uint8_t out[64], const uint8_t *q, int shift) {
    for (int h = 0; h < 2; h++) {
        for (int l = 0; l < 32; l++) {
            const uint8_t *at = q + 128 * h + l;
            out[32 * h + l] = (uint8_t)((at[0] >> shift & 3) | (at[32] >> shift & 3) << 2 |
                                        (at[64] >> shift & 3) << 4 | (at[96] >> shift & 3) << 6);
        }
    }
}

/* One bit of 256 codes: byte l holds elements 32 g + l at bit g. */
static inline void tn_pack_one_bit(uint8_t out[32], const uint8_t *q, int shift) {
    for (int l = 0; l < 32; l++) {
        unsigned byte = 0;
        for (int g = 0; g < 8; g++) byte |= (unsigned)(q[32 * g + l] >> shift & 1) << g;
        out[l] = (uint8_t)byte;
    }
}

/* The low four bits of 256 codes: each `run` bytes hold `run` elements in their low and the next `run` in their high halves. */
static inline void tn_pack_four_bits(uint8_t out[128], const uint8_t *q, int run) {
    for (int i = 0; i < 128; i++) {
        const uint8_t *at = q + i / run * 2 * run + i % run;
        out[i] = (uint8_t)((at[0] & 15) | (at[run] & 15) << 4);
    }
}

/* Eight scales and eight minimums of six bits. */
static inline void tn_pack_scales_k(uint8_t out[12], const int *scales, const int *mins) {
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(scales[j] | scales[j + 4] >> 4 << 6);
        out[j + 4] = (uint8_t)(mins[j] | mins[j + 4] >> 4 << 6);
        out[j + 8] = (uint8_t)((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
    }
}

/* Sixteen scales of six bits, -32 to 31, stored with 32 added. */
static inline void tn_pack_scales_q3_k(uint8_t out[12], const int *scales) {
    memset(out, 0, 12);
    for (int j = 0; j < 16; j++) {
        const int scale = scales[j] + 32;
        out[j % 8] = (uint8_t)(out[j % 8] | (scale & 15) << (j / 8 * 4));
        out[8 + j % 4] = (uint8_t)(out[8 + j % 4] | scale >> 4 << (j / 4 * 2));
    }
}

#endif
