/* 256 elements in sub-blocks, y = d sc_j q with small integers sc_j of either sign: Q3_K, Q6_K and IQ4_XS.
 *
 * As in k_affine.c: sub-blocks alone, then integers near the ideal with d given and d with the rest given, in turn. */
#ifndef TN_QUANTIZE_K_SYMMETRIC_H
#define TN_QUANTIZE_K_SYMMETRIC_H

#include "fit.h"

typedef struct tn_scales {
    float d; /* as stored */
    int sc[16];
} tn_scales;

/* What distinguishes the types. */
typedef struct tn_scales_kind {
    int n_subs, least, most; /* integers from least to most, |least| = most + 1 */
    tn_codes codes;
    float reach, spread; /* of tn_fit_scale */
    int n_tries;
} tn_scales_kind;

/* The integers around s / d, and the sums for d. */
TN_INLINE void tn_choose_scale(const tn_fit *f, const tn_scales_kind *kind, float s, tn_scales *out, int j,
                               double *qq, double *qx, double *gain) {
    tn_tries t;
    int sc[8];
    const float ideal = s / out->d;
    const int middle = !(ideal > (float)kind->least) ? kind->least
                       : ideal > (float)kind->most   ? kind->most
                                                     : (int)(ideal + TN_EXP_ROUND - TN_EXP_ROUND);
    for (int i = 0; i < 8; i++) {
        const int v = middle + i - 4;
        sc[i] = v < kind->least ? kind->least : v > kind->most ? kind->most : v;
        t.s[i] = out->d * (float)sc[i];
    }
    const int best = tn_try(f, kind->codes, TN_FIT_GIVEN_SCALE, &t, 8);
    out->sc[j] = sc[best];
    *qq += (double)sc[best] * sc[best] * t.qq[best];
    *qx += (double)sc[best] * t.qx[best];
    *gain += t.gain[best];
}

TN_INLINE void tn_fit_scales(const float *x, const float *w, const tn_scales_kind *kind, tn_scales *best) {
    enum { ROUNDS = 2 };
    tn_fit f[16];
    float s[16], largest = 0;
    const int n = 256 / kind->n_subs;
    for (int j = 0; j < kind->n_subs; j++) {
        f[j] = tn_fit_new(x + n * j, w + n * j, n, false);
        s[j] = tn_fit_scale(&f[j], kind->codes, kind->reach, kind->spread, kind->n_tries, false);
        largest = fabsf(s[j]) > fabsf(largest) ? s[j] : largest;
    }
    float d = largest / (float)kind->least;
    double gain = -1;
    *best = (tn_scales){0};
    for (int round = 0; round < ROUNDS; round++) {
        tn_scales now = {.d = tn_f16_to_f32(tn_half(d))};
        double qq = 0, qx = 0, sum = 0;
        for (int j = 0; j < kind->n_subs; j++) tn_choose_scale(&f[j], kind, s[j], &now, j, &qq, &qx, &sum);
        if (!(sum > gain)) break;
        gain = sum;
        *best = now;
        if (qq > 0) d = (float)(qx / qq);
    }
}

/* Codes less the least of them, given the scales. */
TN_INLINE void tn_code_scaled(uint8_t q[256], const float *x, const tn_scales *f,
                              const tn_scales_kind *kind) {
    const int n = 256 / kind->n_subs;
    for (int j = 0; j < kind->n_subs; j++) {
        const float s = f->d * (float)f->sc[j], inverse = s != 0 ? 1 / s : 0;
        for (int i = n * j; i < n * (j + 1); i++)
            q[i] = (uint8_t)(int)(tn_snap1(x[i] * inverse, kind->codes) - kind->codes.lo);
    }
}

#endif
