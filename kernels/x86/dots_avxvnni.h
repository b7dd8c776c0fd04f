/* Dots of a panel with a tile of tokens where tn_vi_dot4 sums products in int32: weights of any width up to 8 bits,
 * kept unsigned (TN_SIGNED_OFFSET is added to signed ones), meet the activations as they are. */
#ifndef TN_KERNELS_X86_DOTS_AVXVNNI_H
#define TN_KERNELS_X86_DOTS_AVXVNNI_H

enum { TN_SIGNED_OFFSET = 128, TN_WIDEN = 0 };

/* dot[t] += panel * token t over 4 * `groups` elements. */
TN_INLINE void tn_dots(tn_vi dot[TN_GEMM_TOKENS][2], const uint8_t (*q)[2 * TN_LANES][4], const uint8_t *x,
                       size_t stride, int n, int groups, int bits) {
    (void)bits;
#pragma GCC unroll 8
    for (int g = 0; g < groups; g++) {
        const tn_vi w0 = tn_vi_load(q[g][0]), w1 = tn_vi_load(q[g][TN_LANES]);
        for (int t = 0; t < n; t++) {
            const tn_vi b = tn_vi_broadcast(x + (size_t)t * stride + 4 * g);
            dot[t][0] = tn_vi_dot4(dot[t][0], w0, b);
            dot[t][1] = tn_vi_dot4(dot[t][1], w1, b);
        }
    }
}

#endif
