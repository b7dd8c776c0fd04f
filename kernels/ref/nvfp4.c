/* NVFP4, the one type whose scales within a block are floats (and so has no row in blocks.h):
 *
 *   four scales E4M3, unsigned, a byte each | for each 16 weights nibbles 8, low ones weights 0..7     q = 2 * e2m1
 *
 * A row meets activations of 32, so that its length is free in steps of 64. */
#include "ref.h"

enum { SUB = 16, SUBS = 4 };

/* q of sub-block j and half of its scale, since q is doubled. */
static float unpack_sub_block(int8_t q[SUB], const uint8_t *block, size_t j) {
    const uint8_t *nibbles = block + SUBS + j * SUB / 2;
    for (int i = 0; i < SUB / 2; i++) {
        q[i] = tn_e2m1_doubled[nibbles[i] & 15];
        q[i + SUB / 2] = tn_e2m1_doubled[nibbles[i] >> 4];
    }
    return tn_ue4m3_half_to_f32(block[j]);
}

void tn_dequantize_nvfp4_ref(float *x, const uint8_t *row, size_t k) {
    int8_t q[SUB];
    for (size_t j = 0; j < k / SUB; j++) {
        float d = unpack_sub_block(q, row + j / SUBS * TN_BLOCK_BYTES_NVFP4, j % SUBS);
        for (size_t i = 0; i < SUB; i++) x[j * SUB + i] = d * (float)q[i];
    }
}

void tn_matmul_nvfp4_q8_ref(const tn_matmul_args *args) {
    int8_t q[SUB];
    for (size_t n = 0; n < args->n_rows; n++) {
        const uint8_t *row = args->w + n * args->w_stride;
        for (size_t t = 0; t < args->n_tokens; t++) args->y[t * args->y_stride + n] = 0.0f;
        for (size_t j = 0; j < args->k / SUB; j++) {
            float d = unpack_sub_block(q, row + j / SUBS * TN_BLOCK_BYTES_NVFP4, j % SUBS);
            for (size_t t = 0; t < args->n_tokens; t++) {
                const uint8_t *x = args->x + t * args->x_stride;
                const float *dx = (const float *)(const void *)(x + tn_act_d_offset(args->k));
                int32_t dot = 0;
                for (size_t i = 0; i < SUB; i++) dot += q[i] * ((const int8_t *)x)[j * SUB + i];
                float *y = &args->y[t * args->y_stride + n];
                *y = fmaf(d * dx[j / 2], (float)dot, *y);
            }
        }
    }
}
