/* What is done to single rows of floats between the products: norms, rotation, sum, scale, softcap, gated units. Whole
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

void tn_layer_norm_neon(float *y, const float *x, const float *w, size_t n, float eps) {
    const size_t whole = n & ~(size_t)7;
    float stripes[8];
    float32x4_t low = vdupq_n_f32(0.0f), high = low;
    for (size_t i = 0; i < whole; i += 8) {
        low = vaddq_f32(low, vld1q_f32(x + i));
        high = vaddq_f32(high, vld1q_f32(x + i + 4));
    }
    vst1q_f32(stripes, low);
    vst1q_f32(stripes + 4, high);
    for (size_t i = whole; i < n; i++) stripes[i - whole] += x[i];
    const float mean = tn_join8(stripes) / (float)n;
    const float32x4_t middle = vdupq_n_f32(mean);
    low = high = vdupq_n_f32(0.0f);
    for (size_t i = 0; i < whole; i += 8) {
        const float32x4_t a = vsubq_f32(vld1q_f32(x + i), middle),
                          b = vsubq_f32(vld1q_f32(x + i + 4), middle);
        low = vfmaq_f32(low, a, a);
        high = vfmaq_f32(high, b, b);
    }
    vst1q_f32(stripes, low);
    vst1q_f32(stripes + 4, high);
    for (size_t i = whole; i < n; i++)
        stripes[i - whole] = fmaf(x[i] - mean, x[i] - mean, stripes[i - whole]);
    const float r = 1.0f / sqrtf(tn_join8(stripes) / (float)n + eps);
    for (size_t i = 0; i < whole; i += 4) {
        const float32x4_t d = vmulq_n_f32(vsubq_f32(vld1q_f32(x + i), middle), r);
        vst1q_f32(y + i, vmulq_f32(d, vld1q_f32(w + i)));
    }
    for (size_t i = whole; i < n; i++) y[i] = (x[i] - mean) * r * w[i];
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

void tn_softcap_neon(float *y, const float *x, float cap, size_t n) {
    const float32x4_t one = vdupq_n_f32(1.0f), caps = vdupq_n_f32(cap);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t v = vld1q_f32(x + i);
        const float32x4_t e = tn_exp4(vmulq_n_f32(vabsq_f32(vdivq_f32(v, caps)), -2.0f));
        const float32x4_t t = vmulq_f32(caps, vdivq_f32(vsubq_f32(one, e), vaddq_f32(one, e)));
        vst1q_f32(y + i, vbslq_f32(vdupq_n_u32(0x80000000), v, t)); /* the sign of v */
    }
    for (; i < n; i++) y[i] = tn_softcap_f32(x[i], cap);
}

/* ---- Gated units ----------------------------------------------------------------------------------------
 */

/* g / (1 + exp(-t)) */
TN_INLINE float32x4_t gate4(float32x4_t g, float32x4_t t) {
    return vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), tn_exp4(vnegq_f32(t))));
}

TN_INLINE float32x4_t silu4(float32x4_t g) {
    return gate4(g, g);
}

TN_INLINE float32x4_t gelu4(float32x4_t g) {
    const float32x4_t cubic = vfmaq_f32(vdupq_n_f32(1.0f), vmulq_f32(g, g), vdupq_n_f32(0.044715f));
    return gate4(g, vmulq_n_f32(vmulq_f32(g, cubic), 1.5957691216057308f));
}

/* g times tn_normal_cdf_f32(g) */
TN_INLINE float32x4_t gelu_erf4(float32x4_t g) {
    const float32x4_t one = vdupq_n_f32(1.0f), z = vmulq_n_f32(vabsq_f32(g), TN_CDF_SQRT_HALF);
    const float32x4_t t = vdivq_f32(one, vfmaq_f32(one, z, vdupq_n_f32(TN_CDF_T)));
    float32x4_t p = vdupq_n_f32(TN_CDF_P7);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P6), p, t);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P5), p, t);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P4), p, t);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P3), p, t);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P2), p, t);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P1), p, t);
    p = vfmaq_f32(vdupq_n_f32(TN_CDF_P0), p, t);
    const float32x4_t e = tn_exp4(vnegq_f32(vmulq_f32(z, z)));
    const float32x4_t tail = vmulq_n_f32(vmulq_f32(vmulq_f32(t, p), e), 0.5f);
    return vmulq_f32(g, vbslq_f32(vcltzq_f32(g), tail, vsubq_f32(one, tail)));
}

TN_INLINE float32x4_t relu4(float32x4_t g) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(g), vcltzq_f32(g)));
}

TN_INLINE float32x4_t relu2_4(float32x4_t g) {
    return vmulq_f32(relu4(g), relu4(g));
}

typedef float32x4_t activation_fn(float32x4_t g);

TN_INLINE float32x4_t unit4(const float *gate, const float *up, activation_fn *act) {
    const float32x4_t a = act(vld1q_f32(gate));
    return up ? vmulq_f32(a, vld1q_f32(up)) : a;
}

/* The last, fewer than four, as a vector of their own: the same operations. */
TN_INLINE void glu(float *y, const float *gate, const float *up, size_t n, activation_fn *act) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, unit4(gate + i, up ? up + i : NULL, act));
    if (i == n) return;
    float g[4] = {0}, u[4] = {0}, out[4];
    memcpy(g, gate + i, (n - i) * sizeof *g);
    if (up) memcpy(u, up + i, (n - i) * sizeof *u);
    vst1q_f32(out, unit4(g, up ? u : NULL, act));
    memcpy(y + i, out, (n - i) * sizeof *out);
}

#define X(name, act)                                                                                         \
    void tn_##name##_mul_neon(float *y, const float *gate, const float *up, size_t n) {                      \
        glu(y, gate, up, n, act);                                                                            \
    }
X(silu, silu4)
X(gelu, gelu4)
X(gelu_erf, gelu_erf4)
X(relu, relu4)
X(relu2, relu2_4)
#undef X
