/* The Advanced SIMD sets' own functions, for their rows of the kernel table in init.c. Three levels: neon
 * (ARMv8-A), dotprod (SDOT, ARMv8.2) and i8mm (SMMLA, ARMv8.6).
 *
 * Only the products with quantized activations differ by level. They are written once, in gemv.h and gemm.h,
 * over the dot primitives of dot_LEVEL.h, and compiled once a level with its own flags. */
#ifndef TN_KERNELS_ARM_NEON_H
#define TN_KERNELS_ARM_NEON_H

#include <stdbool.h>

#include "../kernels.h"

/* How a block type is computed. All fields are constants where the struct is used. */
typedef struct tn_shape {
    size_t bytes, d_at; /* of a block; where d is in it. A second factor m follows d. */
    int elems, sub;     /* elements a block and a sub-block: one integer scale each */
    bool has_min;       /* there are minimums and the factor m */
    bool is_narrow;     /* |q| <= 32, so that four products fit an int16 */
    bool is_e8m0;       /* d is one byte, else f16 */
    bool
        is_unpacked; /* a block is unpacked by the reference's function first; the fields above are of what it makes */
} tn_shape;

/* X(NAME, name, bytes, d_at, elems, sub, has_min, is_narrow, is_e8m0) */
#define TN_NEON_Q32_TYPES(X)                                                                                 \
    X(Q4_0, q4_0, 18, 0, 32, 32, false, true, false)                                                         \
    X(Q4_1, q4_1, 20, 0, 32, 32, true, true, false)                                                          \
    X(Q5_0, q5_0, 22, 0, 32, 32, false, true, false)                                                         \
    X(Q5_1, q5_1, 24, 0, 32, 32, true, true, false)                                                          \
    X(Q8_0, q8_0, 34, 0, 32, 32, false, false, false)                                                        \
    X(IQ4_NL, iq4_nl, 18, 0, 32, 32, false, false, false)                                                    \
    X(MXFP4, mxfp4, 17, 0, 32, 32, false, true, true)
#define TN_NEON_Q256_TYPES(X)                                                                                \
    X(Q2_K, q2_k, 84, 80, 256, 16, true, true, false)                                                        \
    X(Q3_K, q3_k, 110, 108, 256, 16, false, true, false)                                                     \
    X(Q4_K, q4_k, 144, 0, 256, 32, true, true, false)                                                        \
    X(Q5_K, q5_k, 176, 0, 256, 32, true, true, false)                                                        \
    X(Q6_K, q6_k, 210, 208, 256, 16, false, true, false)                                                     \
    X(IQ4_XS, iq4_xs, 136, 0, 256, 32, false, false, false)

/* X(NAME, name, bytes, sub) */
#define TN_NEON_GRID_TYPES(X)                                                                                \
    X(IQ2_XXS, iq2_xxs, 66, 32)                                                                              \
    X(IQ2_XS, iq2_xs, 74, 16)                                                                                \
    X(IQ2_S, iq2_s, 82, 16)                                                                                  \
    X(IQ3_XXS, iq3_xxs, 98, 32)                                                                              \
    X(IQ3_S, iq3_s, 110, 32)                                                                                 \
    X(IQ1_S, iq1_s, 50, 32)                                                                                  \
    X(IQ1_M, iq1_m, 56, 16)                                                                                  \
    X(TQ1_0, tq1_0, 54, 32)                                                                                  \
    X(TQ2_0, tq2_0, 66, 32)

#define X(NAME, name, ...)                                                                                   \
    tn_matmul_fn tn_gemv_##name##_q8_neon, tn_gemv_##name##_q8_dotprod;                                      \
    tn_matmul_fn tn_gemm_##name##_q8_neon, tn_gemm_##name##_q8_dotprod, tn_gemm_##name##_q8_i8mm;
TN_NEON_Q32_TYPES(X)
TN_NEON_Q256_TYPES(X)
TN_NEON_GRID_TYPES(X)
#undef X

/* Weight types met by floats. */
#define TN_NEON_FLOAT_TYPES(X) X(F32, f32, 4) X(F16, f16, 2) X(BF16, bf16, 2)

#define X(NAME, name, bytes) tn_matmul_fn tn_matmul_##name##_f32_neon;
TN_NEON_FLOAT_TYPES(X)
#undef X

tn_quantize_fn tn_quantize_q8_32_neon, tn_quantize_q8_256_neon;

tn_norm_fn tn_rms_norm_neon, tn_layer_norm_neon;
tn_rope_fn tn_rope_halves_neon, tn_rope_adjacent_neon;
tn_add_fn tn_add_neon;
tn_scale_fn tn_scale_neon;
tn_softcap_fn tn_softcap_neon;
tn_glu_fn tn_silu_mul_neon, tn_gelu_mul_neon, tn_gelu_erf_mul_neon, tn_relu_mul_neon, tn_relu2_mul_neon;

tn_attn_fn tn_attn_f32_neon, tn_attn_f16_neon, tn_attn_q8_0_neon;
tn_attn_join_fn tn_attn_join_neon;
tn_kv_store_fn tn_kv_store_f16_neon;

#endif
