/* One block of quantized weights, unpacked: small integers, their integer scales and one or two float factors. What a
 * block means, for element i of sub-block j = i / sub:
 *   x_i = (d * scale_j) * q_i                     plain types
 *   x_i = (d * scale_j) * q_i - m * min_j         types with a minimum
 * q is what the file stores with the type's offset already taken off, so dot - 8*S of kernels.h is one dot
 * here. The 32-wide types have one sub-block with scale 1 and min 1. */
#ifndef TN_KERNELS_REF_BLOCK_H
#define TN_KERNELS_REF_BLOCK_H

#include <stdbool.h>

#include "../../src/base/dtype.h"
#include "math.h"

enum {
#define X(name, id, elems, bytes, act) TN_BLOCK_BYTES_##name = bytes,
#include "../../src/base/dtype.def"
#undef X
};

typedef struct tn_block {
    int8_t q[256];
    int16_t scale[16], min[16];
    float d, m;
} tn_block;

typedef void tn_unpack_fn(tn_block *b, const uint8_t *p);

/* Two-bit fields: byte 32*h + l holds elements 128*h + 32*g + l, g = 0..3, at bit 2*g. */
static inline int tn_two_bits(const uint8_t *p, int i) {
    return p[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

#endif
