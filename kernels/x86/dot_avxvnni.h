/* The integer dots of the avxvnni level. */
#ifndef TN_KERNELS_X86_DOT_AVXVNNI_H
#define TN_KERNELS_X86_DOT_AVXVNNI_H

#include "vec_avxvnni.h"

/* acc + w * x over the 4 bytes of each lane, w unsigned, x signed. */
TN_INLINE tn_vi tn_vi_dot4(tn_vi acc, tn_vi w, tn_vi x) {
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}

/* acc + a * b over the 2 int16 of each lane. */
TN_INLINE tn_vi tn_vi_dot2(tn_vi acc, tn_vi a, tn_vi b) {
    return _mm256_dpwssd_avx_epi32(acc, a, b);
}

#include "dots_vnni.inc"

#endif
