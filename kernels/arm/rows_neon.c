/* What is done to single rows of floats between the products: norm, rotation, sum, scale, gated units. Whole
 * fours or eights in vectors, the rest with the same operations one by one. */
#include "exp_neon.h"
#include "neon.h"

void tn_rms_norm_neon(float *y, const float *x, const float *w, size_t n, float eps) {
    const size_t whole = n & ~(size_t)7;
    float stripes[8];
    tn_f32x8 sum = tn_splat8(0.0f);
    for (size_t i = 0; i < whole; i += 8) {
        const tn_f32x8 v = tn_load8(x + i);
        sum = tn_fma8(v, v, sum);
    }
    tn_store8(stripes, sum);
    tn_stripes8(stripes, x + whole, x + whole, n - whole);
    const float r = 1.0f / sqrtf(tn_join8(stripes) / (float)n + eps);
    for (size_t i = 0; i < whole; i += 4) {
        vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), r), vld1q_f32(w + i)));
    }
    for (size_t i = whole; i < n; i++) y[i] = x[i] * r * w[i];
}

/* ---- Rotary embedding -----------------------------------------------------------------------------------
 */

TN_INLINE void rotate4(float32x4_t *a, float32x4_t *b, float32x4_t c, float32x4_t s) {
    const float32x4_t a0 = *a, b0 = *b;
    *a = vfmaq_f32(vnegq_f32(vmulq_f32(b0, s)), a0, c);
    *b = vfmaq_f32(vmulq_f32(b0, c), a0, s);
}

static inline void rotate1(float *a, float *b, float c, float s) {
    const float a0 = *a, b0 = *b;
    *a = fmaf(a0, c, -(b0 * s));
    *b = fmaf(a0, s, b0 * c);
}

void tn_rope_halves_neon(float *x, const float *cos, const float *sin, size_t n_pairs) {
    size_t i = 0;
    for (; i + 4 <= n_pairs; i += 4) {
        float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + i + n_pairs);
        rotate4(&a, &b, vld1q_f32(cos + i), vld1q_f32(sin + i));
        vst1q_f32(x + i, a);
        vst1q_f32(x + i + n_pairs, b);
    }
    for (; i < n_pairs; i++) rotate1(&x[i], &x[i + n_pairs], cos[i], sin[i]);
}

void tn_rope_adjacent_neon(float *x, const float *cos, const float *sin, size_t n_pairs) {
    size_t i = 0;
    for (; i + 4 <= n_pairs; i += 4) {
        float32x4x2_t v = vld2q_f32(x + 2 * i);
        rotate4(&v.val[0], &v.val[1], vld1q_f32(cos + i), vld1q_f32(sin + i));
        vst2q_f32(x + 2 * i, v);
    }
    for (; i < n_pairs; i++) rotate1(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
}

/* ---- Element by element ---------------------------------------------------------------------------------
 */

void tn_add_neon(float *y, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vaddq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
    for (; i < n; i++) y[i] = a[i] + b[i];
}

void tn_scale_neon(float *y, const float *x, float s, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vmulq_n_f32(vld1q_f32(x + i), s));
    for (; i < n; i++) y[i] = x[i] * s;
}

/* g / (1 + exp(-t)) * u */
TN_INLINE float32x4_t gate4(float32x4_t g, float32x4_t t, float32x4_t u) {
    return vmulq_f32(vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), tn_exp4(vnegq_f32(t)))), u);
}

static inline float gate1(float g, float t, float u) {
    return g / (1.0f + tn_exp_f32(-t)) * u;
}

void tn_silu_mul_neon(float *y, const float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t g = vld1q_f32(gate + i);
        vst1q_f32(y + i, gate4(g, g, vld1q_f32(up + i)));
    }
    for (; i < n; i++) y[i] = gate1(gate[i], gate[i], up[i]);
}

#define GELU_CUBIC 0.044715f
#define GELU_SCALE 1.5957691216057308f

void tn_gelu_mul_neon(float *y, const float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t g = vld1q_f32(gate + i);
        const float32x4_t inner = vfmaq_f32(vdupq_n_f32(1.0f), vmulq_f32(g, g), vdupq_n_f32(GELU_CUBIC));
        vst1q_f32(y + i, gate4(g, vmulq_n_f32(vmulq_f32(g, inner), GELU_SCALE), vld1q_f32(up + i)));
    }
    for (; i < n; i++) {
        const float g = gate[i];
        y[i] = gate1(g, g * fmaf(g * g, GELU_CUBIC, 1.0f) * GELU_SCALE, up[i]);
    }
}
