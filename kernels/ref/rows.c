/* What is done to single rows of floats between the products: norm, rotation, sum, scale, gated units. */
#include "ref.h"

void tn_rms_norm_ref(float *y, const float *x, const float *w, size_t n, float eps) {
    float r = 1.0f / sqrtf(tn_dot8(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
}

static inline void rotate(float *a, float *b, float c, float s) {
    float a0 = *a, b0 = *b;
    *a = fmaf(a0, c, -(b0 * s));
    *b = fmaf(a0, s, b0 * c);
}

void tn_rope_halves_ref(float *x, const float *cos, const float *sin, size_t n_pairs) {
    for (size_t i = 0; i < n_pairs; i++) rotate(&x[i], &x[i + n_pairs], cos[i], sin[i]);
}

void tn_rope_adjacent_ref(float *x, const float *cos, const float *sin, size_t n_pairs) {
    for (size_t i = 0; i < n_pairs; i++) rotate(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
}

void tn_add_ref(float *y, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void tn_scale_ref(float *y, const float *x, float s, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] * s;
}

void tn_silu_mul_ref(float *y, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float g = gate[i];
        y[i] = g / (1.0f + tn_exp_f32(-g)) * up[i];
    }
}

/* 0.5 * (1 + tanh(z)) is 1 / (1 + exp(-2z)); 1.5957691216057308 is 2 * sqrt(2 / pi). */
void tn_gelu_mul_ref(float *y, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float g = gate[i];
        float t = g * fmaf(g * g, 0.044715f, 1.0f) * 1.5957691216057308f;
        y[i] = g / (1.0f + tn_exp_f32(-t)) * up[i];
    }
}
