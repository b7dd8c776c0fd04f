/* The vectors of the panel products (gemm_avxvnni.h), 512 bits. */
#ifndef TN_KERNELS_X86_VEC_AVX512_H
#define TN_KERNELS_X86_VEC_AVX512_H

#include "simd_avx2.h"

typedef __m512i tn_vi;
typedef __m512 tn_vf;

enum { TN_LANES = 16, TN_GEMM_TOKENS = 6 }; /* tokens of a tile: 12 dots and 12 sums in 32 registers */

TN_INLINE tn_vi tn_vi_zero(void) {
    return _mm512_setzero_si512();
}
TN_INLINE tn_vi tn_vi_load(const void *p) {
    return _mm512_loadu_si512(p);
}
TN_INLINE tn_vi tn_vi_broadcast(const void *p) {
    return _mm512_set1_epi32(tn_load_i32(p));
}
TN_INLINE tn_vi tn_vi_add(tn_vi a, tn_vi b) {
    return _mm512_add_epi32(a, b);
}
TN_INLINE tn_vi tn_vi_mul(tn_vi a, tn_vi b) {
    return _mm512_mullo_epi32(a, b);
}
TN_INLINE tn_vf tn_vi_to_float(tn_vi v) {
    return _mm512_cvtepi32_ps(v);
}
TN_INLINE tn_vf tn_vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
TN_INLINE void tn_vf_store(float *p, tn_vf v) {
    _mm512_storeu_ps(p, v);
}
TN_INLINE tn_vf tn_vf_set1(float v) {
    return _mm512_set1_ps(v);
}
TN_INLINE tn_vf tn_vf_mul(tn_vf a, tn_vf b) {
    return _mm512_mul_ps(a, b);
}
/* a * b + c and c - a * b, rounded once. */
TN_INLINE tn_vf tn_vf_fma(tn_vf a, tn_vf b, tn_vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
TN_INLINE tn_vf tn_vf_fnma(tn_vf a, tn_vf b, tn_vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}

#endif
