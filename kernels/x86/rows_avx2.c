/* What is done to single rows of floats between the products: norms, rotation, sum, scale, softcap, gated
 * units. */
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

void tn_layer_norm_avx2(float *y, const float *x, const float *w, size_t n, float eps) {
    const size_t whole = n & ~(size_t)7;
    float stripes[8];
    __m256 sum = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) sum = _mm256_add_ps(sum, _mm256_loadu_ps(x + i));
    _mm256_storeu_ps(stripes, sum);
    for (size_t i = whole; i < n; i++) stripes[i - whole] += x[i];
    const float mean = tn_join8(stripes) / (float)n;
    const __m256 middle = _mm256_set1_ps(mean);
    sum = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + i), middle);
        sum = _mm256_fmadd_ps(d, d, sum);
    }
    _mm256_storeu_ps(stripes, sum);
    for (size_t i = whole; i < n; i++)
        stripes[i - whole] = fmaf(x[i] - mean, x[i] - mean, stripes[i - whole]);
    const float r = 1.0f / sqrtf(tn_join8(stripes) / (float)n + eps);
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 d = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), middle), _mm256_set1_ps(r));
        _mm256_storeu_ps(y + i, _mm256_mul_ps(d, _mm256_loadu_ps(w + i)));
    }
    for (size_t i = whole; i < n; i++) y[i] = (x[i] - mean) * r * w[i];
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

static const float minus_zero = -0.0f;

TN_INLINE __m256 abs8(__m256 x) {
    return _mm256_andnot_ps(_mm256_set1_ps(minus_zero), x);
}

TN_INLINE __m256 negate8(__m256 x) {
    return _mm256_xor_ps(_mm256_set1_ps(minus_zero), x);
}

TN_INLINE __m256 softcap8(__m256 x, __m256 cap) {
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 e = tn_exp8_ps(_mm256_mul_ps(abs8(_mm256_div_ps(x, cap)), _mm256_set1_ps(-2.0f)));
    const __m256 t = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(minus_zero));
    return _mm256_or_ps(abs8(_mm256_mul_ps(cap, t)), sign);
}

void tn_softcap_avx2(float *y, const float *x, float cap, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, softcap8(_mm256_loadu_ps(x + i), _mm256_set1_ps(cap)));
    for (; i < n; i++) y[i] = tn_softcap_f32(x[i], cap);
}

/* The largest of 8; of NaN and a number the number, as the reference has it. */
TN_INLINE float max_of(__m256 m) {
    float lanes[8], largest = -INFINITY;
    _mm256_storeu_ps(lanes, m);
    for (int i = 0; i < 8; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
}

void tn_softmax_avx2(float *y, const float *x, size_t n) {
    __m256 largest = _mm256_set1_ps(-INFINITY), sums = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) largest = _mm256_max_ps(_mm256_loadu_ps(x + i), largest);
    float most = max_of(largest);
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    const __m256 m = _mm256_set1_ps(most);
    for (i = 0; i + 8 <= n; i += 8) {
        const __m256 e = tn_exp8_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), m));
        _mm256_storeu_ps(y + i, e);
        sums = _mm256_add_ps(sums, e);
    }
    float s[8];
    _mm256_storeu_ps(s, sums);
    for (; i < n; i++) s[i % 8] += y[i] = tn_exp_f32(x[i] - most);
    const float sum = tn_join8(s);
    for (i = 0; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_div_ps(_mm256_loadu_ps(y + i), _mm256_set1_ps(sum)));
    for (; i < n; i++) y[i] = y[i] / sum;
}

void tn_sigmoid_avx2(float *y, const float *x, size_t n) {
    const __m256 one = _mm256_set1_ps(1.0f);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 e = tn_exp8_ps(negate8(_mm256_loadu_ps(x + i)));
        _mm256_storeu_ps(y + i, _mm256_div_ps(one, _mm256_add_ps(one, e)));
    }
    for (; i < n; i++) y[i] = 1.0f / (1.0f + tn_exp_f32(-x[i]));
}

/* ---- Gated units -------------------------------------------------------------------------------- */

/* g / (1 + exp(-t)) */
TN_INLINE __m256 gate8(__m256 g, __m256 t) {
    return _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), tn_exp8_ps(negate8(t))));
}

TN_INLINE __m256 silu8(__m256 g) {
    return gate8(g, g);
}

TN_INLINE __m256 gelu8(__m256 g) {
    const __m256 cubic =
        _mm256_fmadd_ps(_mm256_mul_ps(g, g), _mm256_set1_ps(0.044715f), _mm256_set1_ps(1.0f));
    return gate8(g, _mm256_mul_ps(_mm256_mul_ps(g, cubic), _mm256_set1_ps(1.5957691216057308f)));
}

/* g times tn_normal_cdf_f32(g) */
TN_INLINE __m256 gelu_erf8(__m256 g) {
    const __m256 one = _mm256_set1_ps(1.0f), z = _mm256_mul_ps(abs8(g), _mm256_set1_ps(TN_CDF_SQRT_HALF));
    const __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(z, _mm256_set1_ps(TN_CDF_T), one));
    __m256 p = _mm256_set1_ps(TN_CDF_P7);
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P6));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P5));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P4));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P3));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P2));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P1));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(TN_CDF_P0));
    const __m256 e = tn_exp8_ps(negate8(_mm256_mul_ps(z, z)));
    const __m256 tail = _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(t, p), e), _mm256_set1_ps(0.5f));
    const __m256 below = _mm256_cmp_ps(g, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_mul_ps(g, _mm256_blendv_ps(_mm256_sub_ps(one, tail), tail, below));
}

TN_INLINE __m256 relu8(__m256 g) {
    return _mm256_max_ps(_mm256_setzero_ps(), g); /* the second operand if either is NaN or both are zero */
}

TN_INLINE __m256 relu2_8(__m256 g) {
    return _mm256_mul_ps(relu8(g), relu8(g));
}

typedef __m256 activation_fn(__m256 g);

TN_INLINE void glu(float *y, const float *gate, const float *up, size_t n, activation_fn *act) {
    size_t i = 0;
    for (; up && i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(act(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, act(_mm256_loadu_ps(gate + i)));
    if (i < n) {
        const __m256i mask = tn_lane_mask(n - i);
        const __m256 a = act(_mm256_maskload_ps(gate + i, mask));
        _mm256_maskstore_ps(y + i, mask, up ? _mm256_mul_ps(a, _mm256_maskload_ps(up + i, mask)) : a);
    }
}

#define X(name, act)                                                                                         \
    void tn_##name##_mul_avx2(float *y, const float *gate, const float *up, size_t n) {                      \
        glu(y, gate, up, n, act);                                                                            \
    }
X(silu, silu8)
X(gelu, gelu8)
X(gelu_erf, gelu_erf8)
X(relu, relu8)
X(relu2, relu2_8)
#undef X

/* A NaN is the second operand of both comparisons, and stays. */
TN_INLINE __m256 clamped8(__m256 g, __m256 u) {
    const __m256 most = _mm256_set1_ps(TN_CLAMP), least = _mm256_set1_ps(-TN_CLAMP);
    g = _mm256_min_ps(most, g);
    u = _mm256_max_ps(least, _mm256_min_ps(most, u));
    return _mm256_mul_ps(gate8(g, _mm256_mul_ps(g, _mm256_set1_ps(TN_CLAMP_SLOPE))),
                         _mm256_add_ps(u, _mm256_set1_ps(1.0f)));
}

void tn_clamped_mul_avx2(float *y, const float *gate, const float *up, size_t n) {
    const __m256 none = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, clamped8(_mm256_loadu_ps(gate + i), up ? _mm256_loadu_ps(up + i) : none));
    if (i < n) {
        const __m256i mask = tn_lane_mask(n - i);
        const __m256 u = up ? _mm256_maskload_ps(up + i, mask) : none;
        _mm256_maskstore_ps(y + i, mask, clamped8(_mm256_maskload_ps(gate + i, mask), u));
    }
}
