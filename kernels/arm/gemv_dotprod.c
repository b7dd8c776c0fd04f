/* One token with quantized weights, dotprod level. */
#include "dot_dotprod.h"
#include "gemv.h"

#define X(NAME, name, ...)                                                                                   \
    void tn_gemv_##name##_q8_dotprod(const tn_matmul_args *args) {                                           \
        tn_gemv(args, (tn_shape){__VA_ARGS__, false}, tn_q_##name, NULL, NULL);                              \
    }
TN_NEON_Q32_TYPES(X)
#undef X

#define X(NAME, name, ...)                                                                                   \
    void tn_gemv_##name##_q8_dotprod(const tn_matmul_args *args) {                                           \
        tn_gemv(args, (tn_shape){__VA_ARGS__, false}, tn_q_##name, tn_scales_##name, NULL);                  \
    }
TN_NEON_Q256_TYPES(X)
#undef X

#define X(NAME, name, bytes, sub)                                                                            \
    void tn_gemv_##name##_q8_dotprod(const tn_matmul_args *args) {                                           \
        tn_gemv_unpacked(args, bytes, sub, tn_unpack_##name);                                                \
    }
TN_NEON_GRID_TYPES(X)
#undef X
