/* What is done to single rows of floats between the products: norms, rotation, sum, scale, softcap, clamp, scores, gated
 * units. */
#include "ref.h"

void tn_rms_norm_ref(float *y, const float *x, const float *w, size_t n, float eps) {
    float r = 1.0f / sqrtf(tn_dot8(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
}

void tn_layer_norm_ref(float *y, const float *x, const float *w, size_t n, float eps) {
    float s[8] = {0};
    for (size_t i = 0; i < n; i++) s[i % 8] += x[i];
    const float mean = tn_join8(s) / (float)n;
    float squares[8] = {0};
    for (size_t i = 0; i < n; i++) {
        const float d = x[i] - mean;
        squares[i % 8] = fmaf(d, d, squares[i % 8]);
    }
    const float r = 1.0f / sqrtf(tn_join8(squares) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r * w[i];
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

void tn_softcap_ref(float *y, const float *x, float cap, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = tn_softcap_f32(x[i], cap);
}

void tn_clamp_ref(float *y, const float *x, float limit, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] < -limit ? -limit : x[i] > limit ? limit : x[i];
}

void tn_softmax_ref(float *y, const float *x, size_t n) {
    float m = -INFINITY, s[8] = {0};
    for (size_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    for (size_t i = 0; i < n; i++) s[i % 8] += y[i] = tn_exp_f32(x[i] - m);
    const float sum = tn_join8(s);
    for (size_t i = 0; i < n; i++) y[i] = y[i] / sum;
}

void tn_sigmoid_ref(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = 1.0f / (1.0f + tn_exp_f32(-x[i]));
}

/* ---- Gated units ------------------------------------------------------------------------------------------ */

static float silu(float g) {
    return g / (1.0f + tn_exp_f32(-g));
}

/* 0.5 * (1 + tanh(z)) is 1 / (1 + exp(-2z)); 1.5957691216057308 is 2 * sqrt(2 / pi). */
static float gelu(float g) {
    float t = g * fmaf(g * g, 0.044715f, 1.0f) * 1.5957691216057308f;
    return g / (1.0f + tn_exp_f32(-t));
}

static float gelu_erf(float g) {
    return g * tn_normal_cdf_f32(g);
}

static float relu(float g) {
    return g < 0 ? 0 : g;
}

static float relu2(float g) {
    return relu(g) * relu(g);
}

#define X(act)                                                                                               \
    void tn_##act##_mul_ref(float *y, const float *gate, const float *up, size_t n) {                        \
        for (size_t i = 0; i < n; i++) y[i] = up ? act(gate[i]) * up[i] : act(gate[i]);                      \
    }
X(silu)
X(gelu)
X(gelu_erf)
X(relu)
X(relu2)
#undef X

static float clamped(float g) {
    g = g > TN_CLAMP ? TN_CLAMP : g;
    return g / (1.0f + tn_exp_f32(-(g * TN_CLAMP_SLOPE)));
}

void tn_clamped_mul_ref(float *y, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float u = !up ? 0.0f : up[i] > TN_CLAMP ? TN_CLAMP : up[i] < -TN_CLAMP ? -TN_CLAMP : up[i];
        y[i] = clamped(gate[i]) * (u + 1.0f);
    }
}
