/* What is done to single rows of floats between the products: norm, rotation, sum, scale, gated units. */
#include "avx2.h"
#include "exp_avx2.h"

void tn_rms_norm_avx2(float *y, const float *x, const float *w, size_t n, float eps) {
    const size_t whole = n & ~(size_t)7;
    float stripes[8];
    __m256 sum = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        sum = _mm256_fmadd_ps(v, v, sum);
    }
    _mm256_storeu_ps(stripes, sum);
    tn_stripes8(stripes, x + whole, x + whole, n - whole);
    const float r = 1.0f / sqrtf(tn_join8(stripes) / (float)n + eps);
    const __m256 factor = _mm256_set1_ps(r);
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
        _mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(w + i)));
    }
    for (size_t i = whole; i < n; i++) y[i] = x[i] * r * w[i];
}

/* ---- Rotary embedding --------------------------------------------------------------------------- */

TN_INLINE void rotate8(__m256 *a, __m256 *b, __m256 c, __m256 s) {
    const __m256 a0 = *a, b0 = *b;
    *a = _mm256_fmsub_ps(a0, c, _mm256_mul_ps(b0, s));
    *b = _mm256_fmadd_ps(a0, s, _mm256_mul_ps(b0, c));
}

static inline void rotate1(float *a, float *b, float c, float s) {
    const float a0 = *a, b0 = *b;
    *a = fmaf(a0, c, -(b0 * s));
    *b = fmaf(a0, s, b0 * c);
}

void tn_rope_halves_avx2(float *x, const float *cos, const float *sin, size_t n_pairs) {
    size_t i = 0;
    for (; i + 8 <= n_pairs; i += 8) {
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + n_pairs);
        rotate8(&a, &b, _mm256_loadu_ps(cos + i), _mm256_loadu_ps(sin + i));
        _mm256_storeu_ps(x + i, a);
        _mm256_storeu_ps(x + i + n_pairs, b);
    }
    for (; i < n_pairs; i++) rotate1(&x[i], &x[i + n_pairs], cos[i], sin[i]);
}

/* The order 0 1 4 5 2 3 6 7, in which in-lane shuffles split and join pairs. */
TN_INLINE __m256 pair_order(const float *p) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_loadu_ps(p)), 0xd8));
}

void tn_rope_adjacent_avx2(float *x, const float *cos, const float *sin, size_t n_pairs) {
    size_t i = 0;
    for (; i + 8 <= n_pairs; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + 2 * i), w = _mm256_loadu_ps(x + 2 * i + 8);
        __m256 a = _mm256_shuffle_ps(v, w, 0x88), b = _mm256_shuffle_ps(v, w, 0xdd);
        rotate8(&a, &b, pair_order(cos + i), pair_order(sin + i));
        _mm256_storeu_ps(x + 2 * i, _mm256_unpacklo_ps(a, b));
        _mm256_storeu_ps(x + 2 * i + 8, _mm256_unpackhi_ps(a, b));
    }
    for (; i < n_pairs; i++) rotate1(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
}

/* ---- Element by element ------------------------------------------------------------------------- */

void tn_add_avx2(float *y, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
    }
    for (; i < n; i++) y[i] = a[i] + b[i];
}

void tn_scale_avx2(float *y, const float *x, float s, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(s)));
    for (; i < n; i++) y[i] = x[i] * s;
}

/* g / (1 + exp(-t)) * u */
TN_INLINE __m256 gate8(__m256 g, __m256 t, __m256 u) {
    const __m256 minus_t = _mm256_xor_ps(t, _mm256_set1_ps(-0.0f));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), tn_exp8_ps(minus_t))), u);
}

TN_INLINE __m256 silu8(__m256 g, __m256 u) {
    return gate8(g, g, u);
}

TN_INLINE __m256 gelu8(__m256 g, __m256 u) {
    const __m256 cubic =
        _mm256_fmadd_ps(_mm256_mul_ps(g, g), _mm256_set1_ps(0.044715f), _mm256_set1_ps(1.0f));
    return gate8(g, _mm256_mul_ps(_mm256_mul_ps(g, cubic), _mm256_set1_ps(1.5957691216057308f)), u);
}

typedef __m256 unit_fn(__m256 g, __m256 u);

TN_INLINE void glu(float *y, const float *gate, const float *up, size_t n, unit_fn *unit) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, unit(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n) {
        const __m256i mask = tn_lane_mask(n - i);
        _mm256_maskstore_ps(y + i, mask,
                            unit(_mm256_maskload_ps(gate + i, mask), _mm256_maskload_ps(up + i, mask)));
    }
}

void tn_silu_mul_avx2(float *y, const float *gate, const float *up, size_t n) {
    glu(y, gate, up, n, silu8);
}
void tn_gelu_mul_avx2(float *y, const float *gate, const float *up, size_t n) {
    glu(y, gate, up, n, gelu8);
}
