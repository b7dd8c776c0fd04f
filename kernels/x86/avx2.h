/* The AVX2 set's own functions, for its rows of the kernel table in init_avx2.c. Needs AVX2, FMA and F16C. */
#ifndef TN_KERNELS_X86_AVX2_H
#define TN_KERNELS_X86_AVX2_H

#include <stdbool.h>

#include "../kernels.h"

/* X(NAME, name): weight types met by quantized activations. */
#define TN_AVX2_Q32_TYPES(X)                                                                                 \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0) X(IQ4_NL, iq4_nl) X(MXFP4, mxfp4)
#define TN_AVX2_Q256_TYPES(X)                                                                                \
    X(Q2_K, q2_k) X(Q3_K, q3_k) X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k) X(IQ4_XS, iq4_xs)
#define TN_AVX2_GRID_TYPES(X)                                                                                \
    X(IQ2_XXS, iq2_xxs)                                                                                      \
    X(IQ2_XS, iq2_xs)                                                                                        \
    X(IQ2_S, iq2_s)                                                                                          \
    X(IQ3_XXS, iq3_xxs)                                                                                      \
    X(IQ3_S, iq3_s) X(IQ1_S, iq1_s) X(IQ1_M, iq1_m) X(TQ1_0, tq1_0) X(TQ2_0, tq2_0)
#define TN_AVX2_Q_TYPES(X) TN_AVX2_Q32_TYPES(X) TN_AVX2_Q256_TYPES(X) TN_AVX2_GRID_TYPES(X)

/* Up to this many tokens the rows of a GEMV serve all; from one more on a panel pays. */
enum { TN_FEW_TOKENS = 8 };

/* The next group of rows is prefetched this much ahead of its own start: its last row is wanted at once, when
 * hardly any of the group has been computed since that row's turn in file order. */
enum { TN_PREFETCH_AHEAD = 2048 };

/* gemv_few: 2 .. TN_FEW_TOKENS tokens. */
#define X(NAME, name)                                                                                        \
    tn_matmul_fn tn_gemm_##name##_q8_avx2, tn_gemv_##name##_q8_avx2, tn_gemv_few_##name##_q8_avx2;
TN_AVX2_Q_TYPES(X)
#undef X

tn_matmul_fn tn_matmul_nvfp4_q8_avx2;

/* Weight types met by floats. */
#define TN_AVX2_FLOAT_TYPES(X) X(F32, f32) X(F16, f16) X(BF16, bf16)

#define X(NAME, name)                                                                                        \
    tn_matmul_fn tn_gemm_##name##_f32_avx2, tn_gemv_##name##_f32_avx2, tn_gemv_few_##name##_f32_avx2;
TN_AVX2_FLOAT_TYPES(X)
#undef X

tn_quantize_fn tn_quantize_q8_32_avx2, tn_quantize_q8_256_avx2;

tn_norm_fn tn_rms_norm_avx2, tn_layer_norm_avx2;
tn_rope_fn tn_rope_halves_avx2, tn_rope_adjacent_avx2;
tn_add_fn tn_add_avx2;
tn_scale_fn tn_scale_avx2;
tn_softcap_fn tn_softcap_avx2;
tn_glu_fn tn_silu_mul_avx2, tn_gelu_mul_avx2, tn_gelu_erf_mul_avx2, tn_relu_mul_avx2, tn_relu2_mul_avx2;

tn_attn_fn tn_attn_f32_avx2, tn_attn_f16_avx2, tn_attn_q8_0_avx2;
tn_attn_join_fn tn_attn_join_avx2;
tn_kv_store_fn tn_kv_store_f16_avx2, tn_kv_store_q8_0_avx2;

#endif
