/* The functions of the avxvnni, avx512 and avx512vnni sets, for their rows of the kernel table. */
#ifndef TN_KERNELS_X86_LEVELS_AVX512_H
#define TN_KERNELS_X86_LEVELS_AVX512_H

#include "avx2.h"

#define X(NAME, name)                                                                                        \
    tn_matmul_fn tn_gemm_##name##_q8_avxvnni, tn_gemm_##name##_q8_avx512, tn_gemm_##name##_q8_avx512vnni;
TN_AVX2_Q_TYPES(X)
#undef X

/* gemv_few: 2 .. TN_FEW_TOKENS tokens. */
#define X(NAME, name) tn_matmul_fn tn_gemv_##name##_q8_avx512vnni, tn_gemv_few_##name##_q8_avx512vnni;
TN_AVX2_Q_TYPES(X)
#undef X

#define X(NAME, name) tn_matmul_fn tn_gemm_##name##_f32_avx512;
TN_AVX2_FLOAT_TYPES(X)
#undef X

tn_attn_fn tn_attn_f32_avx512, tn_attn_f16_avx512, tn_attn_q8_0_avx512;

#endif
