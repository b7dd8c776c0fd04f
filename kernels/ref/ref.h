/* The reference's own functions, for its table in ref.c. One line each is declared by the lists in blocks.h.
 */
#ifndef TN_KERNELS_REF_H
#define TN_KERNELS_REF_H

#include "../kernels.h"
#include "blocks.h"

#define X(NAME, name, elems, sub, has_min)                                                                   \
    tn_dequantize_fn tn_dequantize_##name##_ref;                                                             \
    tn_matmul_fn tn_matmul_##name##_q8_ref;
TN_BLOCK_TYPES(X)
#undef X
tn_dequantize_fn tn_dequantize_nvfp4_ref;
tn_matmul_fn tn_matmul_nvfp4_q8_ref;
tn_dequantize_fn tn_dequantize_f32_ref, tn_dequantize_f16_ref, tn_dequantize_bf16_ref;
tn_matmul_fn tn_matmul_f32_f32_ref, tn_matmul_f16_f32_ref, tn_matmul_bf16_f32_ref;

tn_quantize_fn tn_quantize_f32_ref, tn_quantize_q8_32_ref, tn_quantize_q8_256_ref;

tn_norm_fn tn_rms_norm_ref, tn_layer_norm_ref;
tn_rope_fn tn_rope_halves_ref, tn_rope_adjacent_ref;
tn_add_fn tn_add_ref;
tn_scale_fn tn_scale_ref;
tn_softcap_fn tn_softcap_ref;
tn_glu_fn tn_silu_mul_ref, tn_gelu_mul_ref, tn_gelu_erf_mul_ref, tn_relu_mul_ref, tn_relu2_mul_ref;

tn_attn_fn tn_attn_f32_ref, tn_attn_f16_ref, tn_attn_q8_0_ref;
tn_attn_join_fn tn_attn_join_ref;
tn_kv_store_fn tn_kv_store_f32_ref, tn_kv_store_f16_ref, tn_kv_store_q8_0_ref;

/* Quantizes n floats by the rule at tn_quantize_fn and returns their scale. */
float tn_quantize_block_ref(int8_t *q, const float *x, size_t n);

#endif
