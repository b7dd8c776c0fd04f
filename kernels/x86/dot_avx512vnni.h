/* The integer dots of the avx512vnni level. */
#ifndef TN_KERNELS_X86_DOT_AVX512VNNI_H
#define TN_KERNELS_X86_DOT_AVX512VNNI_H

#include "vec_avx512.h"

/* acc + w * x over the 4 bytes of each lane, w unsigned, x signed. */
TN_INLINE tn_vi tn_vi_dot4(tn_vi acc, tn_vi w, tn_vi x) {
    return _mm512_dpbusd_epi32(acc, w, x);
}

/* acc + a * b over the 2 int16 of each lane. */
TN_INLINE tn_vi tn_vi_dot2(tn_vi acc, tn_vi a, tn_vi b) {
    return _mm512_dpwssd_epi32(acc, a, b);
}

#include "dots_vnni.inc"

#endif
