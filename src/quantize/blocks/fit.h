/* The search for a scale s and an offset o, so that sum w_i (x_i - s q_i - o)^2 is small, q_i being the code nearest to
 * (x_i - o) / s. Many pairs are tried at once, one a lane, over the elements of a sub-block.
 *
 * With codes given the sum is a quadratic in (s, o) whose coefficients are five sums over the elements; so a try says not only
 * how good its pair is, but also which pair is best for its codes (least squares). What a pair explains, sum w x^2 less the
 * error, is its gain: 2 s qx + 2 o wx - s^2 qq - 2 s o q - o^2 w. */
#ifndef TN_QUANTIZE_FIT_H
#define TN_QUANTIZE_FIT_H

#include "level.h"

typedef float tn_vf __attribute__((vector_size(4 * TN_LANES)));
typedef int32_t tn_vi __attribute__((vector_size(4 * TN_LANES)));

TN_INLINE tn_vf tn_vselect(tn_vi mask, tn_vf a, tn_vf b) {
    return (tn_vf)((mask & (tn_vi)a) | (~mask & (tn_vi)b));
}

#if defined(__AVX2__)
TN_INLINE tn_vf tn_vmin(tn_vf a, tn_vf b) {
    return __builtin_ia32_minps256(a, b);
}
TN_INLINE tn_vf tn_vmax(tn_vf a, tn_vf b) {
    return __builtin_ia32_maxps256(a, b);
}
TN_INLINE int tn_vany(tn_vi mask) {
    return __builtin_ia32_movmskps256((tn_vf)mask);
}
#elif defined(__SSE2__)
TN_INLINE tn_vf tn_vmin(tn_vf a, tn_vf b) {
    return __builtin_ia32_minps(a, b);
}
TN_INLINE tn_vf tn_vmax(tn_vf a, tn_vf b) {
    return __builtin_ia32_maxps(a, b);
}
TN_INLINE int tn_vany(tn_vi mask) {
    return __builtin_ia32_movmskps((tn_vf)mask);
}
#else
TN_INLINE tn_vf tn_vmin(tn_vf a, tn_vf b) {
    return tn_vselect(a < b, a, b);
}
TN_INLINE tn_vf tn_vmax(tn_vf a, tn_vf b) {
    return tn_vselect(a > b, a, b);
}
TN_INLINE int tn_vany(tn_vi mask) {
    int any = 0;
    for (int i = 0; i < TN_LANES; i++) any |= mask[i];
    return any;
}
#endif

/* ---- Codes ---------------------------------------------------------------------------------------------------
 *
 * Codes are the integers from lo to hi, or with a table those of its integers: table[2 (t - lo)] is the one nearest to t, for
 * half steps of t. */
typedef struct tn_codes {
    float lo, hi;
    const float *table; /* NULL: every integer */
} tn_codes;

TN_INLINE tn_vf tn_snap(tn_vf t, tn_codes codes) {
    const tn_vf zero = {0};
    t = tn_vmin(tn_vmax(t, zero + codes.lo), zero + codes.hi);
    if (!codes.table) return (t + TN_EXP_ROUND) - TN_EXP_ROUND; /* to nearest even */
    const tn_vi at = __builtin_convertvector((t - codes.lo) * 2, tn_vi);
    for (int l = 0; l < TN_LANES; l++) t[l] = codes.table[at[l]];
    return t;
}

/* The same for one. */
TN_INLINE float tn_snap1(float t, tn_codes codes) {
    t = t < codes.lo ? codes.lo : t;
    t = t > codes.hi ? codes.hi : t;
    return codes.table ? codes.table[(int)((t - codes.lo) * 2)] : (t + TN_EXP_ROUND) - TN_EXP_ROUND;
}

/* ---- Tries --------------------------------------------------------------------------------------------------- */

enum { TN_MAX_TRIES = 32 };

typedef struct tn_tries {
    _Alignas(32) float s[TN_MAX_TRIES], o[TN_MAX_TRIES];
    _Alignas(32) float gain[TN_MAX_TRIES];
    _Alignas(32) float q[TN_MAX_TRIES], qq[TN_MAX_TRIES], qx[TN_MAX_TRIES]; /* weighted sums of codes */
} tn_tries;

/* How a try is judged. */
typedef enum tn_fit_mode {
    TN_FIT_GIVEN_SCALE, /* its s as it is, o = 0 */
    TN_FIT_GIVEN,       /* its s and o as they are */
    TN_FIT_SCALE,       /* o = 0; s becomes the best for the codes */
    TN_FIT_BOTH,        /* s and o become the best for the codes */
    TN_FIT_BOTH_BELOW_0 /* the best with o <= 0 */
} tn_fit_mode;

/* A sub-block of n elements and the sums that do not depend on codes. */
typedef struct tn_fit {
    const float *x, *w;
    int n;
    float sum_w, sum_wx;
} tn_fit;

TN_INLINE tn_vf tn_vload(const float *p) {
    tn_vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The sum of a_i b_i in eight stripes, as kernels.h has it but without fused operations; b NULL: of a_i. */
TN_INLINE float tn_stripes(const float *a, const float *b, int n) {
    tn_vf sum[8 / TN_LANES] = {0};
    float s[8];
    for (int i = 0; i < n; i += 8) {
        for (int v = 0; v < 8 / TN_LANES; v++) {
            const int at = i + v * TN_LANES;
            sum[v] += b ? tn_vload(a + at) * tn_vload(b + at) : tn_vload(a + at);
        }
    }
    memcpy(s, sum, sizeof s);
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* For fits of a scale alone the sums are not needed. */
TN_INLINE tn_fit tn_fit_new(const float *x, const float *w, int n, bool sums) {
    return (tn_fit){x, w, n, sums ? tn_stripes(w, NULL, n) : 0, sums ? tn_stripes(w, x, n) : 0};
}

/* What a vector of tries makes of its sums. */
TN_INLINE void tn_judge(const tn_fit *f, tn_fit_mode mode, tn_tries *t, int at, tn_vf s, tn_vf o, tn_vf q,
                        tn_vf qq, tn_vf qx) {
    const tn_vf zero = {0};
    tn_vf gain;
    if (mode == TN_FIT_SCALE) {
        s = tn_vselect(qq > 0, qx / qq, zero);
        gain = s * qx;
    } else if (mode == TN_FIT_GIVEN_SCALE) {
        gain = s * (2 * qx - s * qq);
    } else if (mode == TN_FIT_GIVEN) {
        gain = 2 * (s * qx + o * f->sum_wx) - s * (s * qq + 2 * o * q) - o * o * f->sum_w;
    } else {
        const tn_vf det = qq * f->sum_w - q * q, alone = tn_vselect(qq > 0, qx / qq, zero);
        s = tn_vselect(det > 1e-6f * (qq * f->sum_w), (qx * f->sum_w - q * f->sum_wx) / det, zero);
        o = (f->sum_wx - s * q) / f->sum_w;
        if (mode == TN_FIT_BOTH_BELOW_0) {
            s = tn_vselect(o > 0, alone, s);
            o = tn_vmin(o, zero);
        }
        gain = s * qx + o * f->sum_wx;
    }
    memcpy(t->s + at, &s, sizeof s);
    memcpy(t->o + at, &o, sizeof o);
    memcpy(t->gain + at, &gain, sizeof gain);
    memcpy(t->q + at, &q, sizeof q);
    memcpy(t->qq + at, &qq, sizeof qq);
    memcpy(t->qx + at, &qx, sizeof qx);
}

/* Judges n vectors of tries, one or two so that their sums do not wait for each other. A given s may be 0: then, whatever the
 * codes, only o counts. */
TN_INLINE void tn_try_vectors(const tn_fit *f, tn_codes codes, tn_fit_mode mode, tn_tries *t, int at, int n) {
    const tn_vf zero = {0};
    const bool offset = mode != TN_FIT_SCALE && mode != TN_FIT_GIVEN_SCALE;
    tn_vf s[2], o[2], inverse[2], shift[2], q[2], qq[2], qx[2];
    for (int v = 0; v < n; v++) {
        s[v] = tn_vload(t->s + at + v * TN_LANES);
        o[v] = offset ? tn_vload(t->o + at + v * TN_LANES) : zero;
        inverse[v] = 1 / s[v];
        shift[v] = -o[v] * inverse[v];
        q[v] = qq[v] = qx[v] = zero;
    }
    for (int i = 0; i < f->n; i++) {
        for (int v = 0; v < n; v++) {
            const tn_vf c = tn_snap(offset ? f->x[i] * inverse[v] + shift[v] : f->x[i] * inverse[v], codes);
            const tn_vf wc = c * f->w[i];
            if (offset) q[v] += wc;
            qq[v] += wc * c;
            qx[v] += wc * f->x[i];
        }
    }
    for (int v = 0; v < n; v++) tn_judge(f, mode, t, at + v * TN_LANES, s[v], o[v], q[v], qq[v], qx[v]);
}

/* Judges n_tries, a multiple of 8, and returns the first of the best. */
TN_INLINE int tn_try(const tn_fit *f, tn_codes codes, tn_fit_mode mode, tn_tries *t, int n_tries) {
    const int n_vectors = n_tries % (2 * TN_LANES) == 0 ? 2 : 1;
    for (int at = 0; at < n_tries; at += n_vectors * TN_LANES)
        tn_try_vectors(f, codes, mode, t, at, n_vectors);
    int best = 0;
    for (int i = 1; i < n_tries; i++) best = t->gain[i] > t->gain[best] ? i : best;
    return best;
}

/* ---- One sub-block alone -------------------------------------------------------------------------------------- */

/* Numbers this small are zero: their inverse must be finite, and no half could be their scale. */
#define TN_TINY 0x1p-60f

/* Floats that are numbers are in the order of these integers, which compilers compare in vectors. */
TN_INLINE int32_t tn_order(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (bits >> 31 & 0x7fffffff);
}

TN_INLINE float tn_from_order(int32_t order) {
    return tn_f32_from_bits((uint32_t)(order ^ (order >> 31 & 0x7fffffff)));
}

TN_INLINE float tn_largest(const float *x, int n) {
    int32_t largest = 0;
    for (int i = 0; i < n; i++) {
        const int32_t magnitude = (int32_t)(tn_f32_bits(x[i]) & 0x7fffffff);
        largest = magnitude > largest ? magnitude : largest;
    }
    return tn_f32_from_bits((uint32_t)largest);
}

/* The best s with o = 0: the largest element is tried at codes around `reach`, of either sign, from -spread to +spread; then, if
 * asked, closer around the best. */
TN_INLINE float tn_fit_scale(const tn_fit *f, tn_codes codes, float reach, float spread, int n_tries,
                             bool closer) {
    tn_tries t;
    const float largest = tn_largest(f->x, f->n);
    if (largest < TN_TINY) return 0;
    const int half = n_tries / 2;
    const float step = 2 * spread / (float)(half - 1);
    for (int i = 0; i < half; i++) {
        t.s[i] = largest / (reach - spread + step * (float)i);
        t.s[i + half] = -t.s[i];
    }
    const float first = t.s[tn_try(f, codes, TN_FIT_SCALE, &t, n_tries)];
    if (fabsf(first) < TN_TINY) return 0;
    if (!closer) return first;
    for (int i = 0; i < 8; i++) t.s[i] = first * (1 + step / reach * ((float)i - 3.5f) * 0.25f);
    return t.s[tn_try(f, codes, TN_FIT_SCALE, &t, 8)];
}

/* The best s and o. Tried are ends of the codes somewhat inside the range of x, as fits most blocks, and ranges of x that span
 * fewer codes, as is so where x was quantized before; then what lies closer around the best. */
TN_INLINE void tn_fit_both(const tn_fit *f, tn_codes codes, tn_fit_mode mode, float *s, float *o) {
    static const float ends[3] = {0, 0.5f, 1};
    static const float around[8][2] = {{0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}};
    tn_tries t;
    int32_t least = tn_order(f->x[0]), most = least;
    for (int i = 1; i < f->n; i++) {
        const int32_t order = tn_order(f->x[i]);
        least = order < least ? order : least;
        most = order > most ? order : most;
    }
    float lo = tn_from_order(least), hi = tn_from_order(most);
    const bool below_0 = mode == TN_FIT_BOTH_BELOW_0;
    lo = below_0 && lo > 0 ? 0 : lo;
    *s = 0, *o = f->sum_wx / f->sum_w;
    *o = below_0 && *o > 0 ? 0 : *o;
    if (hi - lo < TN_TINY) return;
    const float step = (hi - lo) / codes.hi;
    for (int i = 0; i < 16; i++) {
        const float low = i < 9 ? step * ends[i / 3] : 0, high = i < 9 ? step * ends[i % 3] : 0;
        const float span = codes.hi - (float)(i < 9 ? 0 : i - 8);
        t.o[i] = lo + low;
        t.s[i] = (hi - lo - low - high) / (span >= 1 ? span : 1);
        t.o[i] = below_0 && t.o[i] > 0 ? 0 : t.o[i];
    }
    int best = tn_try(f, codes, mode, &t, 16);
    for (int round = 0; round < 2 && fabsf(t.s[best]) >= TN_TINY; round++) {
        const float s0 = t.s[best], o0 = t.o[best], gain = t.gain[best], near = round ? 0.04f : 0.12f;
        for (int i = 0; i < 8; i++) {
            t.s[i] = s0 * (1 + near * 2 / codes.hi * around[i][0]);
            t.o[i] = o0 + s0 * near * around[i][1];
        }
        best = tn_try(f, codes, mode, &t, 8);
        if (t.gain[best] >= gain) continue;
        t.s[best] = s0, t.o[best] = o0;
        break;
    }
    *s = t.s[best], *o = t.o[best];
}

#endif
