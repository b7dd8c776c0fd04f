/* exp of 16 floats: the operations of tn_exp_f32 (ref/math.h) in its order, so the same bits. */
#ifndef TN_KERNELS_X86_EXP_AVX512_H
#define TN_KERNELS_X86_EXP_AVX512_H

#include "simd_avx2.h"

/* Of x <= TN_EXP_MAX or NaN; above that the result is arbitrary. */
TN_INLINE __m512 tn_exp16_upto_max_ps(__m512 x) {
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
    /* a NaN passes the comparison by and comes out of the arithmetic */
    const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(TN_EXP_MIN), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(kept, y, n);
}

#endif
