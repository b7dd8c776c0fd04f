/* Products of several tokens with quantized weights, avx512 level. */
#include "dot_avx512.h" /* first: what the other is written in */

#include "gemm_avxvnni.h"

#define X(NAME, name)                                                                                        \
    TN_GEMM_TYPE(name, avx512, tn_gemv_few_##name##_q8_avx2, 32, TN_SHAPE_##NAME, tn_q_##name)
TN_AVX2_Q32_TYPES(X)
#undef X
#define X(NAME, name)                                                                                        \
    TN_GEMM_TYPE(name, avx512, tn_gemv_few_##name##_q8_avx2, 256, TN_SHAPE_##NAME, tn_q_##name,              \
                 tn_scales_##name)
TN_AVX2_Q256_TYPES(X)
#undef X
TN_GEMM_GRID_TILES
#define X(NAME, name) TN_GEMM_GRID_TYPE(name, avx512, tn_gemv_few_##name##_q8_avx2, TN_SHAPE_##NAME)
TN_AVX2_GRID_TYPES(X)
#undef X
