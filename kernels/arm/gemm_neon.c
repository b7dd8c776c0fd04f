/* Several tokens with quantized weights, neon level. */
#include "dot_neon.h"
#include "gemm.h"

#define X(NAME, name, ...)                                                                                   \
    void tn_gemm_##name##_q8_neon(const tn_matmul_args *args) {                                              \
        tn_gemm(args, (tn_shape){__VA_ARGS__}, tn_q_##name, NULL);                                           \
    }
TN_NEON_Q32_TYPES(X)
#undef X

#define X(NAME, name, ...)                                                                                   \
    void tn_gemm_##name##_q8_neon(const tn_matmul_args *args) {                                              \
        tn_gemm(args, (tn_shape){__VA_ARGS__}, tn_q_##name, tn_scales_##name);                               \
    }
TN_NEON_Q256_TYPES(X)
#undef X
