/* exp of 8 floats: the operations of tn_exp_f32 (ref/math.h) in its order, so the same bits. */
#ifndef TN_KERNELS_X86_EXP_AVX2_H
#define TN_KERNELS_X86_EXP_AVX2_H

#include "simd_avx2.h"

/* Of x <= TN_EXP_MAX or NaN; above that the result is arbitrary. */
TN_INLINE __m256 tn_exp8_upto_max_ps(__m256 x) {
    const __m256 round = _mm256_set1_ps(TN_EXP_ROUND), one = _mm256_set1_ps(1.0f);
    const __m256 rounded = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(TN_EXP_LOG2E)), round);
    const __m256 n = _mm256_sub_ps(rounded, round);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(TN_EXP_LN2_HI), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(TN_EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(TN_EXP_P0);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P5));
    const __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), one);
    /* the low bits of `rounded` are n: 2^n is 1 with n added to its exponent */
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(rounded), 23);
    const __m256 power = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(one), exponent));
    /* a NaN passes the comparison by and comes out of the arithmetic */
    const __m256 below = _mm256_cmp_ps(x, _mm256_set1_ps(TN_EXP_MIN), _CMP_LT_OQ);
    return _mm256_andnot_ps(below, _mm256_mul_ps(y, power));
}

TN_INLINE __m256 tn_exp8_ps(__m256 x) {
    const __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(TN_EXP_MAX), _CMP_GT_OQ);
    return _mm256_blendv_ps(tn_exp8_upto_max_ps(x), _mm256_set1_ps(INFINITY), above);
}

#endif
