/* Weights to floats, with the operations of Python's gguf package in the same order. */
#include "ref.h"

static inline __attribute__((always_inline)) void dequantize_blocks(float *x, const uint8_t *row, size_t k,
                                                                    tn_unpack_fn *unpack, size_t elems,
                                                                    size_t bytes, size_t sub, bool has_min) {
    for (size_t b = 0; b < k / elems; b++) {
        tn_block block;
        unpack(&block, row + b * bytes);
        for (size_t i = 0; i < elems; i++) {
            float value = block.d * (float)block.scale[i / sub] * (float)block.q[i];
            if (has_min) value -= block.m * (float)block.min[i / sub];
            x[b * elems + i] = value;
        }
    }
}

#define X(NAME, name, elems, sub, has_min)                                                                   \
    void tn_dequantize_##name##_ref(float *x, const uint8_t *row, size_t k) {                                \
        dequantize_blocks(x, row, k, tn_unpack_##name, elems, TN_BLOCK_BYTES_##NAME, sub, has_min);          \
    }
TN_BLOCK_TYPES(X)
#undef X

void tn_dequantize_f32_ref(float *x, const uint8_t *row, size_t k) {
    memcpy(x, row, k * sizeof *x);
}

void tn_dequantize_f16_ref(float *x, const uint8_t *row, size_t k) {
    for (size_t i = 0; i < k; i++) x[i] = tn_f16_to_f32(tn_load_u16(row + 2 * i));
}

void tn_dequantize_bf16_ref(float *x, const uint8_t *row, size_t k) {
    for (size_t i = 0; i < k; i++) x[i] = tn_bf16_to_f32(tn_load_u16(row + 2 * i));
}
