/* Scalar arithmetic that every variant repeats bit for bit: small-float conversions, exp, the striped sum.
 *
 * Plain C whose every operation is exactly rounded (+ - * / fmaf sqrtf), so that any compiler for any
 * processor gives the same bits when contraction is off. */
#ifndef TN_KERNELS_REF_MATH_H
#define TN_KERNELS_REF_MATH_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "float operations must be rounded to float");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blocks are read as little-endian");

static inline float tn_f32_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t tn_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Unaligned little-endian loads. */
static inline uint16_t tn_load_u16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t tn_load_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* IEEE half to float, exact. A NaN keeps its sign and payload and becomes quiet, as processors do it. */
static inline float tn_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact */
        float magnitude = (float)mantissa * 0x1p-24f;
        return tn_f32_from_bits(sign | tn_f32_bits(magnitude));
    }
    if (exponent == 31) {
        uint32_t quiet = mantissa ? 0x400000 : 0;
        return tn_f32_from_bits(sign | 0x7f800000 | quiet | mantissa << 13);
    }
    return tn_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* Float to IEEE half, to nearest even; beyond 65504 by half a step or more gives infinity. A NaN keeps its
 * sign and the top of its payload and becomes quiet, as processors do it. */
static inline uint16_t tn_f32_to_f16(float x) {
    uint32_t bits = tn_f32_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 */
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 leaves units of 2^-24 in the low bits, rounded */
        return (uint16_t)(sign | (tn_f32_bits(tn_f32_from_bits(magnitude) + 0.5f) - 0x3f000000));
    }
    uint32_t odd = magnitude >> 13 & 1; /* carries into the exponent are right as they are */
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
}

static inline float tn_bf16_to_f32(uint16_t h) {
    return tn_f32_from_bits((uint32_t)h << 16);
}

/* 2^(e - 128): half the e8m0 scale of the OCP microscaling formats. e < 2 are the subnormals 2^-128, 2^-127.
 */
static inline float tn_e8m0_half_to_f32(uint8_t e) {
    return tn_f32_from_bits(e < 2 ? (uint32_t)0x200000 << e : (uint32_t)(e - 1) << 23);
}

/* Half of an unsigned E4M3 scale: 3 bits of mantissa, 4 of exponent with bias 7; the top bit is not looked at. Its one
 * NaN, 0x7f alone, counts as 0. Written as a float's bits the byte is off by 2^-120, exact for subnormals too. */
static inline float tn_ue4m3_half_to_f32(uint8_t e) {
    return e == 0x7f ? 0.0f : tn_f32_from_bits((uint32_t)(e & 0x7f) << 20) * 0x1p119f;
}

/* e^x (Cody & Waite's reduction, the polynomial of Cephes expf). The operations, in this order:
 *   NaN -> NaN, x > 88 -> +infinity, x < -87.3 -> +0; no result is subnormal
 *   z = x * LOG2E
 *   n = (z + 1.5*2^23) - 1.5*2^23            to nearest even, exact
 *   r = fma(n, -LN2_HI, x), r = fma(n, -LN2_LO, r)
 *   p = P0; p = fma(p, r, P1) ... fma(p, r, P5)
 *   y = fma(p, r * r, r) + 1
 *   y * 2^n, 2^n made of exponent bits: -126 <= n <= 127, exact */
#define TN_EXP_MAX    88.0f
#define TN_EXP_MIN    (-87.3f)
#define TN_EXP_LOG2E  1.44269504088896341f
#define TN_EXP_ROUND  12582912.0f
#define TN_EXP_LN2_HI 0.693359375f
#define TN_EXP_LN2_LO (-2.12194440e-4f)
#define TN_EXP_P0     1.9875691500e-4f
#define TN_EXP_P1     1.3981999507e-3f
#define TN_EXP_P2     8.3334519073e-3f
#define TN_EXP_P3     4.1665795894e-2f
#define TN_EXP_P4     1.6666665459e-1f
#define TN_EXP_P5     5.0000001201e-1f

static inline float tn_exp_f32(float x) {
    if (x != x) return x;
    if (x > TN_EXP_MAX) return INFINITY;
    if (x < TN_EXP_MIN) return 0.0f;
    float n = (x * TN_EXP_LOG2E + TN_EXP_ROUND) - TN_EXP_ROUND;
    float r = fmaf(n, -TN_EXP_LN2_HI, x);
    r = fmaf(n, -TN_EXP_LN2_LO, r);
    float p = TN_EXP_P0;
    p = fmaf(p, r, TN_EXP_P1);
    p = fmaf(p, r, TN_EXP_P2);
    p = fmaf(p, r, TN_EXP_P3);
    p = fmaf(p, r, TN_EXP_P4);
    p = fmaf(p, r, TN_EXP_P5);
    float y = fmaf(p, r * r, r) + 1.0f;
    return y * tn_f32_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

/* The distribution function of the normal distribution, 0.5 * erfc(-x / sqrt(2)). With z = |x| * sqrt(1/2), the tail
 * 0.5 * erfc(z) is t * P(t) * exp(-z^2) * 0.5, t = 1 / (1 + 0.425 z); P is a minimax fit of degree 7, within 1.5e-7 of
 * its value. The operations, in this order:
 *   z = |x| * SQRT_HALF
 *   t = 1 / fma(z, T, 1)
 *   p = P7; p = fma(p, t, P6) ... fma(p, t, P0)
 *   tail = ((t * p) * exp(-(z * z))) * 0.5
 *   x < 0: tail, else 1 - tail */
#define TN_CDF_SQRT_HALF 0.70710678118654752f
#define TN_CDF_T         0.425f
#define TN_CDF_P7        0.07147633284330368f
#define TN_CDF_P6        (-0.31314998865127563f)
#define TN_CDF_P5        0.4076075255870819f
#define TN_CDF_P4        (-0.10324311256408691f)
#define TN_CDF_P3        0.2550830841064453f
#define TN_CDF_P2        0.20070689916610718f
#define TN_CDF_P1        0.24184049665927887f
#define TN_CDF_P0        0.23967863619327545f

static inline float tn_normal_cdf_f32(float x) {
    float z = fabsf(x) * TN_CDF_SQRT_HALF, t = 1.0f / fmaf(z, TN_CDF_T, 1.0f);
    float p = TN_CDF_P7;
    p = fmaf(p, t, TN_CDF_P6);
    p = fmaf(p, t, TN_CDF_P5);
    p = fmaf(p, t, TN_CDF_P4);
    p = fmaf(p, t, TN_CDF_P3);
    p = fmaf(p, t, TN_CDF_P2);
    p = fmaf(p, t, TN_CDF_P1);
    p = fmaf(p, t, TN_CDF_P0);
    float tail = t * p * tn_exp_f32(-(z * z)) * 0.5f;
    return x < 0 ? tail : 1.0f - tail;
}

/* cap * tanh(x / cap), cap > 0: e = exp(-2 * |x / cap|), t = (1 - e) / (1 + e), cap * t with the sign of x. */
static inline float tn_softcap_f32(float x, float cap) {
    float e = tn_exp_f32(fabsf(x / cap) * -2.0f);
    return copysignf(cap * ((1.0f - e) / (1.0f + e)), x);
}

/* The sum of eight stripes, in the one order that is used everywhere. */
static inline float tn_join8(const float s[8]) {
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* Continues the stripes s with n more terms a_i * b_i; term 0 falls on stripe 0. */
static inline void tn_stripes8(float s[8], const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) s[i % 8] = fmaf(a[i], b[i], s[i % 8]);
}

static inline float tn_dot8(const float *a, const float *b, size_t n) {
    float s[8] = {0};
    tn_stripes8(s, a, b, n);
    return tn_join8(s);
}

#endif
