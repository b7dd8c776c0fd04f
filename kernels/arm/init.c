/* The Advanced SIMD sets' rows of the kernel table, one function a level. */
#include "neon.h"

void tn_kernels_fill_neon(tn_kernels *table) {
    table->quantize[TN_ACT_Q8_32] = tn_quantize_q8_32_neon;
    table->quantize[TN_ACT_Q8_256] = tn_quantize_q8_256_neon;
    table->rms_norm = tn_rms_norm_neon;
    table->layer_norm = tn_layer_norm_neon;
    table->rope_halves = tn_rope_halves_neon;
    table->rope_adjacent = tn_rope_adjacent_neon;
    table->add = tn_add_neon;
    table->scale = tn_scale_neon;
    table->softcap = tn_softcap_neon;
    table->glu[TN_ACTIVATION_SILU] = tn_silu_mul_neon;
    table->glu[TN_ACTIVATION_GELU] = tn_gelu_mul_neon;
    table->glu[TN_ACTIVATION_GELU_ERF] = tn_gelu_erf_mul_neon;
    table->glu[TN_ACTIVATION_RELU] = tn_relu_mul_neon;
    table->glu[TN_ACTIVATION_RELU2] = tn_relu2_mul_neon;
    table->attn[TN_KV_F32] = tn_attn_f32_neon;
    table->attn[TN_KV_F16] = tn_attn_f16_neon;
    table->attn[TN_KV_Q8_0] = tn_attn_q8_0_neon;
    table->attn_join = tn_attn_join_neon;
    table->kv_store[TN_KV_F16] = tn_kv_store_f16_neon;
#define X(NAME, name, bytes)                                                                                 \
    table->weight[TN_DTYPE_##NAME].gemv = table->weight[TN_DTYPE_##NAME].gemm = tn_matmul_##name##_f32_neon;
    TN_NEON_FLOAT_TYPES(X)
#undef X
#define X(NAME, name, ...)                                                                                   \
    table->weight[TN_DTYPE_##NAME].gemv = tn_gemv_##name##_q8_neon;                                          \
    table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_neon;
    TN_NEON_Q32_TYPES(X)
    TN_NEON_Q256_TYPES(X)
    TN_NEON_GRID_TYPES(X)
#undef X
}

void tn_kernels_fill_dotprod(tn_kernels *table) {
#define X(NAME, name, ...)                                                                                   \
    table->weight[TN_DTYPE_##NAME].gemv = tn_gemv_##name##_q8_dotprod;                                       \
    table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_dotprod;
    TN_NEON_Q32_TYPES(X)
    TN_NEON_Q256_TYPES(X)
    TN_NEON_GRID_TYPES(X)
#undef X
}

void tn_kernels_fill_i8mm(tn_kernels *table) {
#define X(NAME, name, ...) table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_i8mm;
    TN_NEON_Q32_TYPES(X)
    TN_NEON_Q256_TYPES(X)
    TN_NEON_GRID_TYPES(X)
#undef X
}
