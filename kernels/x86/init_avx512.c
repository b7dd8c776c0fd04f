/* The rows of the kernel table that the avx512 level overwrites. */
#include "levels_avx512.h"

void tn_kernels_fill_avx512(tn_kernels *table) {
#define X(NAME, name) table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_avx512;
    TN_AVX2_Q_TYPES(X)
#undef X
#define X(NAME, name) table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_f32_avx512;
    TN_AVX2_FLOAT_TYPES(X)
#undef X
    table->attn[TN_KV_F32] = tn_attn_f32_avx512;
    table->attn[TN_KV_F16] = tn_attn_f16_avx512;
    table->attn[TN_KV_Q8_0] = tn_attn_q8_0_avx512;
}
