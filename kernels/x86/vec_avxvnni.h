/* The vectors of the panel products (gemm_avxvnni.h), 256 bits. */
#ifndef TN_KERNELS_X86_VEC_AVXVNNI_H
#define TN_KERNELS_X86_VEC_AVXVNNI_H

#include "simd_avx2.h"

typedef __m256i tn_vi;
typedef __m256 tn_vf;

enum { TN_LANES = 8, TN_GEMM_TOKENS = 4 };

TN_INLINE tn_vi tn_vi_zero(void) {
    return _mm256_setzero_si256();
}
TN_INLINE tn_vi tn_vi_load(const void *p) {
    return tn_load256(p);
}
TN_INLINE tn_vi tn_vi_broadcast(const void *p) {
    return _mm256_set1_epi32(tn_load_i32(p));
}
TN_INLINE tn_vi tn_vi_add(tn_vi a, tn_vi b) {
    return _mm256_add_epi32(a, b);
}
TN_INLINE tn_vi tn_vi_mul(tn_vi a, tn_vi b) {
    return _mm256_mullo_epi32(a, b);
}
TN_INLINE tn_vf tn_vi_to_float(tn_vi v) {
    return _mm256_cvtepi32_ps(v);
}
TN_INLINE tn_vf tn_vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
TN_INLINE void tn_vf_store(float *p, tn_vf v) {
    _mm256_storeu_ps(p, v);
}
TN_INLINE tn_vf tn_vf_set1(float v) {
    return _mm256_set1_ps(v);
}
TN_INLINE tn_vf tn_vf_mul(tn_vf a, tn_vf b) {
    return _mm256_mul_ps(a, b);
}
/* a * b + c and c - a * b, rounded once. */
TN_INLINE tn_vf tn_vf_fma(tn_vf a, tn_vf b, tn_vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
TN_INLINE tn_vf tn_vf_fnma(tn_vf a, tn_vf b, tn_vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}

#endif
