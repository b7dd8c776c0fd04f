#include "quantize.h"

#include <string.h>

#include "../../kernels/ref/math.h"

/* ---- Types without a search ---- */

static void quantize_f32(const float *x, size_t n, const float *weights, void *out) {
    (void)weights;
    memcpy(out, x, n * sizeof *x);
}

static void quantize_f16(const float *x, size_t n, const float *weights, void *out) {
    (void)weights;
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = tn_f32_to_f16(x[i]);
        memcpy((uint8_t *)out + 2 * i, &half, sizeof half);
    }
}

/* To nearest even; the numbers are finite. */
static void quantize_bf16(const float *x, size_t n, const float *weights, void *out) {
    (void)weights;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = tn_f32_bits(x[i]);
        const uint16_t half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy((uint8_t *)out + 2 * i, &half, sizeof half);
    }
}

/* Codes are rounded half away from zero, as the package does. */
static void quantize_q8_0(const float *x, size_t n, const float *weights, void *out) {
    (void)weights;
    uint8_t *block = out;
    for (size_t b = 0; b < n; b += 32, block += 34) {
        uint32_t most = 0; /* of magnitudes, which as integers are in the same order */
        for (size_t i = 0; i < 32; i++) {
            const uint32_t magnitude = tn_f32_bits(x[b + i]) & 0x7fffffff;
            most = magnitude > most ? magnitude : most;
        }
        const float largest = tn_f32_from_bits(most);
        const float d = largest / 127, inverse = d >= 0x1p-126f ? 1 / d : 0;
        const uint16_t half = tn_f32_to_f16(d);
        memcpy(block, &half, sizeof half);
        for (size_t i = 0; i < 32; i++) {
            const float t = x[b + i] * inverse, magnitude = fabsf(t);
            const int whole = (int)magnitude, rounded = whole + (magnitude - (float)whole >= 0.5f);
            block[2 + i] = (uint8_t)(t < 0 ? -rounded : rounded);
        }
    }
}

/* ---- The tables: blocks/ is compiled once for each level ---- */

#define X(NAME, name) tn_quantize_row_fn tn_quantize_##name##_ref;
#include "quantizers.def"
#undef X

#define FLOATS                                                                                               \
    [TN_DTYPE_F32] = quantize_f32, [TN_DTYPE_F16] = quantize_f16, [TN_DTYPE_BF16] = quantize_bf16,           \
    [TN_DTYPE_Q8_0] = quantize_q8_0

static const tn_quantizers quantizers_ref = {{
    FLOATS,
#define X(NAME, name) [TN_DTYPE_##NAME] = tn_quantize_##name##_ref,
#include "quantizers.def"
#undef X
}};

#if defined(__x86_64__)
#define X(NAME, name) tn_quantize_row_fn tn_quantize_##name##_avx2;
#include "quantizers.def"
#undef X

static const tn_quantizers quantizers_avx2 = {{
    FLOATS,
#define X(NAME, name) [TN_DTYPE_##NAME] = tn_quantize_##name##_avx2,
#include "quantizers.def"
#undef X
}};
#endif

const tn_quantizers *tn_quantizers_for(tn_isa isa) {
#if defined(__x86_64__)
    if (isa != TN_ISA_REF && tn_isa_supported(TN_ISA_AVX2)) return &quantizers_avx2;
#endif
    (void)isa;
    return &quantizers_ref;
}

bool tn_can_quantize(tn_dtype dtype) {
    return quantizers_ref.row[dtype] != NULL;
}

void tn_quantize_row(tn_dtype dtype, const float *x, size_t n, const float *weights, void *out) {
    quantizers_ref.row[dtype](x, n, weights, out);
}
