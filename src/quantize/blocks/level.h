/* The files of this folder are compiled once for each level: with TN_LEVEL the ending of the names that they define, and TN_LANES
 * the floats of a vector. Lanes hold tries that do not meet, so their number changes nothing but the speed. */
#ifndef TN_QUANTIZE_LEVEL_H
#define TN_QUANTIZE_LEVEL_H

#include "../../../kernels/ref/math.h"
#include "../quantize.h"

#ifndef TN_LEVEL
#define TN_LEVEL ref
#define TN_LANES 4
#endif

#define TN_PASTE2(a, b)   a##b
#define TN_PASTE(a, b)    TN_PASTE2(a, b)
#define TN_AT_LEVEL(name) TN_PASTE(name, TN_LEVEL)

/* An inner loop that must be compiled for what it is called with. */
#define TN_INLINE static inline __attribute__((always_inline))

/* A finite half: beyond its range the largest, and of NaN the least. */
static inline uint16_t tn_half(float x) {
    return tn_f32_to_f16(x > 65504 ? 65504 : x >= -65504 ? x : -65504);
}

static inline float tn_put_half(uint8_t *p, float x) {
    const uint16_t half = tn_half(x);
    memcpy(p, &half, sizeof half);
    return tn_f16_to_f32(half);
}

/* The importances of n <= 256 columns, the largest 1, and none so small that a part of a block has no say in its own scale. */
static inline void tn_relative_weights(float *w, const float *weights, size_t n) {
    float largest = 0;
    for (size_t i = 0; weights && i < n; i++) largest = weights[i] > largest ? weights[i] : largest;
    const float factor = largest >= 0x1p-100f ? 1 / largest : 0;
    for (size_t i = 0; i < n; i++) w[i] = factor > 0 ? weights[i] * factor + 1e-6f : 1;
}

/* tn_quantize_NAME_LEVEL: a row by blocks of `elems` floats, each made by make(x, w, out). */
#define TN_QUANTIZE_ROW(name, elems, bytes, make)                                                            \
    tn_quantize_row_fn TN_AT_LEVEL(tn_quantize_##name##_);                                                   \
    void TN_AT_LEVEL(tn_quantize_##name##_)(const float *x, size_t n, const float *weights, void *out) {     \
        for (size_t i = 0; i < n; i += (elems)) {                                                            \
            float w[elems];                                                                                  \
            tn_relative_weights(w, weights ? weights + i : NULL, elems);                                     \
            make(x + i, w, (uint8_t *)out + i / (elems) * (bytes));                                          \
        }                                                                                                    \
    }

#endif
