/* Dots of a panel with a tile of tokens at the avx512 level (Skylake-X), which multiplies bytes into int16
 * only. Weights of up to 6 bits stay unsigned and so many products are added in int16 as cannot saturate;
 * 8-bit ones are signed and widened on the way, even and odd k apart, to meet activations widened in the same
 * order. */
#ifndef TN_KERNELS_X86_DOT_AVX512_H
#define TN_KERNELS_X86_DOT_AVX512_H

#include "vec_avx512.h"

enum { TN_SIGNED_OFFSET = 0, TN_WIDEN = 1 };

/* Keeps the order of integer additions (tn_pin says why). */
TN_INLINE tn_vi tn_vi_pin(tn_vi v) {
    __asm__("" : "+v"(v));
    return v;
}

TN_INLINE tn_vi tn_vi_dot2(tn_vi acc, tn_vi a, tn_vi b) {
    return tn_vi_pin(_mm512_add_epi32(acc, _mm512_madd_epi16(a, b)));
}

/* x: for 4 elements 8 bytes, the even two and the odd two. */
TN_INLINE void tn_dots_signed(tn_vi dot[TN_GEMM_TOKENS][2], const uint8_t (*q)[2 * TN_LANES][4],
                              const uint8_t *x, size_t stride, int n, int groups) {
#pragma GCC unroll 8
    for (int g = 0; g < groups; g++) {
        for (int h = 0; h < 2; h++) {
            const tn_vi w = tn_vi_load(q[g][h * TN_LANES]);
            const tn_vi even = _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), odd = _mm512_srai_epi16(w, 8);
            for (int t = 0; t < n; t++) {
                const uint8_t *xt = x + (size_t)t * stride + 8 * g;
                dot[t][h] = tn_vi_dot2(dot[t][h], even, tn_vi_broadcast(xt));
                dot[t][h] = tn_vi_dot2(dot[t][h], odd, tn_vi_broadcast(xt + 4));
            }
        }
    }
}

TN_INLINE void tn_dots_unsigned(tn_vi dot[TN_GEMM_TOKENS][2], const uint8_t (*q)[2 * TN_LANES][4],
                                const uint8_t *x, size_t stride, int n, int groups, int adds) {
    const tn_vi ones = _mm512_set1_epi16(1);
    for (int start = 0; start < groups; start += adds) {
        tn_vi sum[TN_GEMM_TOKENS][2];
#pragma GCC unroll 8
        for (int g = start; g < start + adds; g++) {
            const tn_vi w0 = tn_vi_load(q[g][0]), w1 = tn_vi_load(q[g][TN_LANES]);
            for (int t = 0; t < n; t++) {
                const tn_vi b = tn_vi_broadcast(x + (size_t)t * stride + 4 * g);
                const tn_vi p0 = _mm512_maddubs_epi16(w0, b), p1 = _mm512_maddubs_epi16(w1, b);
                sum[t][0] = g == start ? p0 : tn_vi_pin(_mm512_add_epi16(sum[t][0], p0));
                sum[t][1] = g == start ? p1 : tn_vi_pin(_mm512_add_epi16(sum[t][1], p1));
            }
        }
        for (int t = 0; t < n; t++) {
            for (int h = 0; h < 2; h++) dot[t][h] = tn_vi_dot2(dot[t][h], sum[t][h], ones);
        }
    }
}

/* dot[t] += panel * token t over 4 * `groups` elements. */
TN_INLINE void tn_dots(tn_vi dot[TN_GEMM_TOKENS][2], const uint8_t (*q)[2 * TN_LANES][4], const uint8_t *x,
                       size_t stride, int n, int groups, int bits) {
    /* additions that 127 * 2 * (2^bits - 1) leaves room for */
    const int most = bits <= 4 ? 8 : 128 >> bits;
    if (bits == 8)
        tn_dots_signed(dot, q, x, stride, n, groups);
    else
        tn_dots_unsigned(dot, q, x, stride, n, groups, most < groups ? most : groups);
}

#endif
