/* exp of 16 floats: the operations of tn_exp_f32 (ref/math.h) in its order, so the same bits. */
#ifndef TN_KERNELS_X86_EXP_AVX512_H
#define TN_KERNELS_X86_EXP_AVX512_H

#include "simd_avx2.h"

TN_INLINE __m512 tn_exp16_ps(__m512 x) {
    const __m512 round = _mm512_set1_ps(TN_EXP_ROUND);
    const __m512 n =
        _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(TN_EXP_LOG2E)), round), round);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(TN_EXP_LN2_HI), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(TN_EXP_LN2_LO), r);
    __m512 p = _mm512_set1_ps(TN_EXP_P0);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(TN_EXP_P1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(TN_EXP_P2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(TN_EXP_P3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(TN_EXP_P4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(TN_EXP_P5));
    const __m512 y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    const __m512 power = _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
    /* A NaN passes both comparisons by and comes out of the arithmetic. */
    const __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(TN_EXP_MAX), _CMP_GT_OQ);
    const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(TN_EXP_MIN), _CMP_NLT_UQ);
    return _mm512_mask_mov_ps(_mm512_maskz_mul_ps(kept, y, power), above, _mm512_set1_ps(INFINITY));
}

#endif
