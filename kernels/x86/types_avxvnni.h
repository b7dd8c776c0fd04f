/* The quantized weight types as the levels above AVX2 see them, one line each. */
#ifndef TN_KERNELS_X86_TYPES_AVXVNNI_H
#define TN_KERNELS_X86_TYPES_AVXVNNI_H

#include "levels_avx512.h"
#include "unpack256_avx2.h"
#include "unpack_grid_avx2.h"

/* How a type is computed.
 *   bits     of an element made unsigned; 8: the element is signed
 *   offset   that makes it unsigned
 *   step     elements that share a scale in the computation; of a 32-wide block all
 *   fits16   the dot of a step fits int16 and scales are not negative, so that a product of pairs applies
 * them */
typedef struct tn_shape {
    uint8_t bytes, d_at, bits, offset, step;
    bool fits16, has_min, e8m0;
    uint16_t elems;
} tn_shape;

typedef __m256i tn_q32_fn(const uint8_t *block);

TN_INLINE __m256i tn_q_q4_0(const uint8_t *block) {
    return tn_nibbles(block + 2);
}
TN_INLINE __m256i tn_q_q4_1(const uint8_t *block) {
    return tn_nibbles(block + 4);
}
TN_INLINE __m256i tn_q_q5_0(const uint8_t *block) {
    return tn_nibbles_fifth(block + 6, block + 2);
}
TN_INLINE __m256i tn_q_q5_1(const uint8_t *block) {
    return tn_nibbles_fifth(block + 8, block + 4);
}
TN_INLINE __m256i tn_q_q8_0(const uint8_t *block) {
    return tn_load256(block + 2);
}
TN_INLINE __m256i tn_q_iq4_nl(const uint8_t *block) {
    return tn_iq4_decode(tn_nibbles(block + 2));
}
TN_INLINE __m256i tn_q_mxfp4(const uint8_t *block) {
    return tn_mxfp4_decode(tn_nibbles(block + 1));
}

#define tn_scales_q4_k tn_scales_k4
#define tn_scales_q5_k tn_scales_k4

/*                     bytes d_at bits offset step fits16 has_min e8m0 elems */
#define TN_SHAPE_Q4_0   ((tn_shape){18, 0, 4, 8, 32, false, false, false, 32})
#define TN_SHAPE_Q4_1   ((tn_shape){20, 0, 4, 0, 32, false, true, false, 32})
#define TN_SHAPE_Q5_0   ((tn_shape){22, 0, 5, 16, 32, false, false, false, 32})
#define TN_SHAPE_Q5_1   ((tn_shape){24, 0, 5, 0, 32, false, true, false, 32})
#define TN_SHAPE_Q8_0   ((tn_shape){34, 0, 8, 0, 32, false, false, false, 32})
#define TN_SHAPE_IQ4_NL ((tn_shape){18, 0, 8, 0, 32, false, false, false, 32})
#define TN_SHAPE_MXFP4  ((tn_shape){17, 0, 5, TN_MXFP4_BIAS, 32, false, false, true, 32})
#define TN_SHAPE_Q2_K   ((tn_shape){84, 80, 2, 0, 16, true, true, false, 256})
#define TN_SHAPE_Q3_K   ((tn_shape){110, 108, 3, 4, 16, true, false, false, 256})
#define TN_SHAPE_Q4_K   ((tn_shape){144, 0, 4, 0, 16, true, true, false, 256})
#define TN_SHAPE_Q5_K   ((tn_shape){176, 0, 5, 0, 32, false, true, false, 256})
#define TN_SHAPE_Q6_K   ((tn_shape){210, 208, 6, 32, 16, false, false, false, 256})
#define TN_SHAPE_IQ4_XS ((tn_shape){136, 0, 8, 0, 32, false, false, false, 256})
/* unpacked ones; of 5 bits the dot of 16 fits int16 */
#define TN_SHAPE_IQ2_XXS ((tn_shape){66, 0, 7, TN_GRID7_OFFSET, 32, false, false, false, 256})
#define TN_SHAPE_IQ2_XS  ((tn_shape){74, 0, 7, TN_GRID7_OFFSET, 16, false, false, false, 256})
#define TN_SHAPE_IQ2_S   ((tn_shape){82, 0, 7, TN_GRID7_OFFSET, 16, false, false, false, 256})
#define TN_SHAPE_IQ3_XXS ((tn_shape){98, 0, 6, TN_GRID6_OFFSET, 32, false, false, false, 256})
#define TN_SHAPE_IQ3_S   ((tn_shape){110, 0, 5, TN_GRID5_OFFSET, 16, true, false, false, 256})
#define TN_SHAPE_IQ1_S   ((tn_shape){50, 0, 5, TN_GRID5_OFFSET, 16, true, false, false, 256})
#define TN_SHAPE_IQ1_M   ((tn_shape){56, 0, 5, TN_GRID5_OFFSET, 16, true, false, false, 256})
#define TN_SHAPE_TQ1_0   ((tn_shape){54, 0, 5, TN_GRID5_OFFSET, 16, true, false, false, 256})
#define TN_SHAPE_TQ2_0   ((tn_shape){66, 0, 5, TN_GRID5_OFFSET, 16, true, false, false, 256})

#endif
