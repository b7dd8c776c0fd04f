/* exp of 8 floats: the operations of tn_exp_f32 (ref/math.h) in its order, so the same bits. */
#ifndef TN_KERNELS_X86_EXP_AVX2_H
#define TN_KERNELS_X86_EXP_AVX2_H

#include "simd_avx2.h"

TN_INLINE __m256 tn_exp8_ps(__m256 x) {
    const __m256 round = _mm256_set1_ps(TN_EXP_ROUND);
    const __m256 n =
        _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(TN_EXP_LOG2E)), round), round);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(TN_EXP_LN2_HI), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(TN_EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(TN_EXP_P0);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(TN_EXP_P5));
    const __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    const __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    /* A NaN passes both comparisons by and comes out of the arithmetic. */
    const __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(TN_EXP_MAX), _CMP_GT_OQ);
    const __m256 below = _mm256_cmp_ps(x, _mm256_set1_ps(TN_EXP_MIN), _CMP_LT_OQ);
    const __m256 inside = _mm256_blendv_ps(_mm256_mul_ps(y, power), _mm256_set1_ps(INFINITY), above);
    return _mm256_andnot_ps(below, inside);
}

#endif
