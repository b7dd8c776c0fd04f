/* The rows of the kernel table that AVX2 overwrites. The copies (F32 activations and cache) and the
 * dequantizers, which only embedding rows go through, stay the reference's. */
#include "avx2.h"

static void fill_weights(tn_weight_kernels weight[TN_DTYPE_COUNT]) {
#define X(NAME, name)                                                                                        \
    weight[TN_DTYPE_##NAME].gemv = tn_gemv_##name##_q8_avx2;                                                 \
    weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_avx2;
    TN_AVX2_Q_TYPES(X)
#undef X
    weight[TN_DTYPE_NVFP4].gemv = weight[TN_DTYPE_NVFP4].gemm = tn_matmul_nvfp4_q8_avx2;
#define X(NAME, name)                                                                                        \
    weight[TN_DTYPE_##NAME].gemv = tn_gemv_##name##_f32_avx2;                                                \
    weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_f32_avx2;
    TN_AVX2_FLOAT_TYPES(X)
#undef X
}

void tn_kernels_fill_avx2(tn_kernels *table) {
    table->isa = TN_ISA_AVX2;
    fill_weights(table->weight);
    table->quantize[TN_ACT_Q8_32] = tn_quantize_q8_32_avx2;
    table->quantize[TN_ACT_Q8_256] = tn_quantize_q8_256_avx2;
    table->rms_norm = tn_rms_norm_avx2;
    table->layer_norm = tn_layer_norm_avx2;
    table->rope_halves = tn_rope_halves_avx2;
    table->rope_adjacent = tn_rope_adjacent_avx2;
    table->add = tn_add_avx2;
    table->scale = tn_scale_avx2;
    table->softcap = tn_softcap_avx2;
    table->glu[TN_ACTIVATION_SILU] = tn_silu_mul_avx2;
    table->glu[TN_ACTIVATION_GELU] = tn_gelu_mul_avx2;
    table->glu[TN_ACTIVATION_GELU_ERF] = tn_gelu_erf_mul_avx2;
    table->glu[TN_ACTIVATION_RELU] = tn_relu_mul_avx2;
    table->glu[TN_ACTIVATION_RELU2] = tn_relu2_mul_avx2;
    table->attn[TN_KV_F32] = tn_attn_f32_avx2;
    table->attn[TN_KV_F16] = tn_attn_f16_avx2;
    table->attn[TN_KV_Q8_0] = tn_attn_q8_0_avx2;
    table->attn_join = tn_attn_join_avx2;
    table->kv_store[TN_KV_F16] = tn_kv_store_f16_avx2;
    table->kv_store[TN_KV_Q8_0] = tn_kv_store_q8_0_avx2;
}
