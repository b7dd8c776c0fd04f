/* Q2_K Q4_K Q5_K: 256 elements in sub-blocks, y = d sc_j q - m mn_j with small integers sc_j and mn_j.
 *
 * Each sub-block is fitted alone; the largest scale and minimum give d and m. Then, in turn, the integers near the ideal ones are
 * tried in all pairs with d and m given, and d and m are solved with integers and codes given, while that helps. */
#include "fit.h"
#include "pack.h"

enum { MAX_SUBS = 16, ROUNDS = 3 };

typedef struct factors {
    float d, m; /* as stored */
    int sc[MAX_SUBS], mn[MAX_SUBS];
} factors;

/* The sums of least squares for d and m, over sub-blocks. */
typedef struct normal {
    double aa, ab, bb, ax, bx, gain;
} normal;

/* An integer from 0 to most; 0 if v is no number. */
TN_INLINE int bounded_floor(float v, int most) {
    return !(v >= 0) ? 0 : v >= (float)most ? most : (int)v;
}

static int clamp_int(int v, int most) {
    return v < 0 ? 0 : v > most ? most : v;
}

/* Finds the integers of sub-block j, whose ideal scale and offset are s and o. */
TN_INLINE void choose(const tn_fit *f, tn_codes codes, int most, float s, float o, factors *out, int j,
                      normal *sums) {
    tn_tries t;
    int sc[16], mn[16];
    const int sc0 = bounded_floor(s / out->d, most) - 1, mn0 = bounded_floor(-o / out->m, most) - 1;
    for (int i = 0; i < 16; i++) {
        sc[i] = clamp_int(sc0 + i % 4, most);
        mn[i] = clamp_int(mn0 + i / 4, most);
        t.s[i] = out->d * (float)sc[i];
        t.o[i] = -out->m * (float)mn[i];
    }
    const int best = tn_try(f, codes, TN_FIT_GIVEN, &t, 16);
    const double a = sc[best], b = -mn[best];
    out->sc[j] = sc[best];
    out->mn[j] = mn[best];
    sums->aa += a * a * t.qq[best];
    sums->ab += a * b * t.q[best];
    sums->bb += b * b * f->sum_w;
    sums->ax += a * t.qx[best];
    sums->bx += b * f->sum_wx;
    sums->gain += t.gain[best];
}

static void solve(const normal *n, float *d, float *m) {
    const double det = n->aa * n->bb - n->ab * n->ab;
    if (det > 1e-6 * n->aa * n->bb) {
        *d = (float)((n->ax * n->bb - n->bx * n->ab) / det);
        *m = (float)((n->bx * n->aa - n->ax * n->ab) / det);
    } else if (n->aa > 0) {
        *d = (float)(n->ax / n->aa);
    }
    *d = *d > 0 ? *d : 0;
    *m = *m > 0 ? *m : 0;
}

TN_INLINE void fit_factors(const float *x, const float *w, int n_subs, tn_codes codes, int most,
                           factors *best) {
    tn_fit f[MAX_SUBS];
    float s[MAX_SUBS], o[MAX_SUBS], d = 0, m = 0;
    const int n = 256 / n_subs;
    for (int j = 0; j < n_subs; j++) {
        f[j] = tn_fit_new(x + n * j, w + n * j, n, true);
        tn_fit_both(&f[j], codes, TN_FIT_BOTH_BELOW_0, &s[j], &o[j]);
        d = s[j] > d ? s[j] : d;
        m = -o[j] > m ? -o[j] : m;
    }
    d /= (float)most;
    m /= (float)most;
    double gain = -1;
    *best = (factors){0};
    for (int round = 0; round < ROUNDS; round++) {
        factors now = {.d = tn_f16_to_f32(tn_half(d)), .m = tn_f16_to_f32(tn_half(m))};
        normal sums = {0};
        for (int j = 0; j < n_subs; j++) choose(&f[j], codes, most, s[j], o[j], &now, j, &sums);
        if (!(sums.gain > gain)) break;
        gain = sums.gain;
        *best = now;
        solve(&sums, &d, &m);
    }
}

/* Codes of all elements, given the factors. */
TN_INLINE void code_all(uint8_t q[256], const float *x, const factors *f, int n_subs, tn_codes codes) {
    const int n = 256 / n_subs;
    for (int j = 0; j < n_subs; j++) {
        const float s = f->d * (float)f->sc[j], m = f->m * (float)f->mn[j], inverse = s > 0 ? 1 / s : 0;
        for (int i = n * j; i < n * (j + 1); i++) q[i] = (uint8_t)(int)tn_snap1((x[i] + m) * inverse, codes);
    }
}

static void make_q2_k(const float *x, const float *w, uint8_t *out) {
    factors f;
    uint8_t q[256];
    fit_factors(x, w, 16, (tn_codes){0, 3, NULL}, 15, &f);
    code_all(q, x, &f, 16, (tn_codes){0, 3, NULL});
    for (int j = 0; j < 16; j++) out[j] = (uint8_t)(f.sc[j] | f.mn[j] << 4);
    tn_pack_two_bits(out + 16, q, 0);
    tn_put_half(out + 80, f.d);
    tn_put_half(out + 82, f.m);
}

static void make_q4_k(const float *x, const float *w, uint8_t *out) {
    factors f;
    uint8_t q[256];
    fit_factors(x, w, 8, (tn_codes){0, 15, NULL}, 63, &f);
    code_all(q, x, &f, 8, (tn_codes){0, 15, NULL});
    tn_put_half(out, f.d);
    tn_put_half(out + 2, f.m);
    tn_pack_scales_k(out + 4, f.sc, f.mn);
    tn_pack_four_bits(out + 16, q, 32);
}

static void make_q5_k(const float *x, const float *w, uint8_t *out) {
    factors f;
    uint8_t q[256];
    fit_factors(x, w, 8, (tn_codes){0, 31, NULL}, 63, &f);
    code_all(q, x, &f, 8, (tn_codes){0, 31, NULL});
    tn_put_half(out, f.d);
    tn_put_half(out + 2, f.m);
    tn_pack_scales_k(out + 4, f.sc, f.mn);
    tn_pack_one_bit(out + 16, q, 4);
    tn_pack_four_bits(out + 48, q, 32);
}

TN_QUANTIZE_ROW(q2_k, 256, 84, make_q2_k)
TN_QUANTIZE_ROW(q4_k, 256, 144, make_q4_k)
TN_QUANTIZE_ROW(q5_k, 256, 176, make_q5_k)
