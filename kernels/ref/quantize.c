/* Activations to int8 with one scale a block, and the sums that weight offsets and minimums need. */
#include "ref.h"

/* The largest magnitude as bits: the order of magnitudes is the order of these integers, NaN above infinity.
 */
static uint32_t largest_bits(const float *x, size_t n) {
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = tn_f32_bits(x[i]) & 0x7fffffff;
        if (magnitude > largest) largest = magnitude;
    }
    return largest;
}

float tn_quantize_block_ref(int8_t *q, const float *x, size_t n) {
    uint32_t bits = largest_bits(x, n);
    float largest = tn_f32_from_bits(bits);
    if (bits >= 0x7f800000 || largest < 0x1p-100f) { /* not finite; or so small that 127 / m could overflow */
        memset(q, 0, n);
        return bits >= 0x7f800000 ? NAN : 0.0f;
    }
    float r = 127.0f / largest;
    for (size_t i = 0; i < n; i++) q[i] = (int8_t)lrintf(x[i] * r);
    return largest / 127.0f;
}

static int sum_int8(const int8_t *q, size_t n) {
    int sum = 0;
    for (size_t i = 0; i < n; i++) sum += q[i];
    return sum;
}

void tn_quantize_f32_ref(uint8_t *row, const float *x, size_t k) {
    memcpy(row, x, k * sizeof *x);
}

void tn_quantize_q8_32_ref(uint8_t *row, const float *x, size_t k) {
    int8_t *q = (int8_t *)row;
    float *d = (float *)(void *)(row + tn_act_d_offset(k));
    int32_t *s = (int32_t *)(void *)(row + tn_act_s_offset(TN_ACT_Q8_32, k));
    for (size_t b = 0; b < k / 32; b++) {
        d[b] = tn_quantize_block_ref(q + 32 * b, x + 32 * b, 32);
        s[b] = sum_int8(q + 32 * b, 32);
    }
}

void tn_quantize_q8_256_ref(uint8_t *row, const float *x, size_t k) {
    int8_t *q = (int8_t *)row;
    float *d = (float *)(void *)(row + tn_act_d_offset(k));
    int16_t *s = (int16_t *)(void *)(row + tn_act_s_offset(TN_ACT_Q8_256, k));
    for (size_t b = 0; b < k / 256; b++) d[b] = tn_quantize_block_ref(q + 256 * b, x + 256 * b, 256);
    for (size_t j = 0; j < k / 16; j++) s[j] = (int16_t)sum_int8(q + 16 * j, 16);
}
