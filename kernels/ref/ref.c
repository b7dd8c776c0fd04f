/* The reference's rows of the kernel table: all of them. */
#include "ref.h"

static void fill_weights(tn_weight_kernels weight[TN_DTYPE_COUNT]) {
    weight[TN_DTYPE_F32] =
        (tn_weight_kernels){tn_dequantize_f32_ref, tn_matmul_f32_f32_ref, tn_matmul_f32_f32_ref};
    weight[TN_DTYPE_F16] =
        (tn_weight_kernels){tn_dequantize_f16_ref, tn_matmul_f16_f32_ref, tn_matmul_f16_f32_ref};
    weight[TN_DTYPE_BF16] =
        (tn_weight_kernels){tn_dequantize_bf16_ref, tn_matmul_bf16_f32_ref, tn_matmul_bf16_f32_ref};
#define X(NAME, name, elems, sub, has_min)                                                                   \
    weight[TN_DTYPE_##NAME] = (tn_weight_kernels){tn_dequantize_##name##_ref, tn_matmul_##name##_q8_ref,     \
                                                  tn_matmul_##name##_q8_ref};
    TN_BLOCK_TYPES(X)
#undef X
    weight[TN_DTYPE_NVFP4] =
        (tn_weight_kernels){tn_dequantize_nvfp4_ref, tn_matmul_nvfp4_q8_ref, tn_matmul_nvfp4_q8_ref};
}

void tn_kernels_fill_ref(tn_kernels *table) {
    *table = (tn_kernels){
        .isa = TN_ISA_REF,
        .quantize = {[TN_ACT_F32] = tn_quantize_f32_ref,
                     [TN_ACT_Q8_32] = tn_quantize_q8_32_ref,
                     [TN_ACT_Q8_256] = tn_quantize_q8_256_ref},
        .rms_norm = tn_rms_norm_ref,
        .layer_norm = tn_layer_norm_ref,
        .rope_halves = tn_rope_halves_ref,
        .rope_adjacent = tn_rope_adjacent_ref,
        .add = tn_add_ref,
        .scale = tn_scale_ref,
        .softcap = tn_softcap_ref,
        .glu = {[TN_ACTIVATION_SILU] = tn_silu_mul_ref,
                [TN_ACTIVATION_GELU] = tn_gelu_mul_ref,
                [TN_ACTIVATION_GELU_ERF] = tn_gelu_erf_mul_ref,
                [TN_ACTIVATION_RELU] = tn_relu_mul_ref,
                [TN_ACTIVATION_RELU2] = tn_relu2_mul_ref},
        .attn =
            {[TN_KV_F32] = tn_attn_f32_ref, [TN_KV_F16] = tn_attn_f16_ref, [TN_KV_Q8_0] = tn_attn_q8_0_ref},
        .attn_join = tn_attn_join_ref,
        .kv_store = {[TN_KV_F32] = tn_kv_store_f32_ref,
                     [TN_KV_F16] = tn_kv_store_f16_ref,
                     [TN_KV_Q8_0] = tn_kv_store_q8_0_ref},
    };
    fill_weights(table->weight);
}
