/* TQ1_0 TQ2_0: 256 codes of -1, 0 and 1 with one scale. */
#include "fit.h"
#include "pack.h"

/* The best scale: falling powers of the largest element are tried, then closer around the best. A block that is ternary
 * already comes out as it is. */
static float fit_ternary(const float *x, const float *w) {
    const tn_codes codes = {-1, 1, NULL};
    const tn_fit f = tn_fit_new(x, w, 256, false);
    tn_tries t;
    t.s[0] = tn_largest(x, 256);
    if (t.s[0] < TN_TINY) return 0;
    for (int i = 1; i < 32; i++) t.s[i] = t.s[i - 1] * 0.87f;
    float s = t.s[tn_try(&f, codes, TN_FIT_SCALE, &t, 32)];
    for (float near = 0.03f; near > 0.005f; near *= 0.3f) {
        for (int i = 0; i < 8; i++) t.s[i] = s * (1 + near * (float)(i - 4));
        s = t.s[tn_try(&f, codes, TN_FIT_SCALE, &t, 8)];
    }
    return s;
}

/* Codes with 1 added. */
static void code_ternary(uint8_t q[256], const float *x, float d) {
    const float inverse = d > 0 ? 1 / d : 0;
    for (int i = 0; i < 256; i++)
        q[i] = (uint8_t)(int)(tn_snap1(x[i] * inverse, (tn_codes){-1, 1, NULL}) + 1);
}

/* Bytes hold up to five codes, `stride` apart, as a fraction of 256 in base three: the first is the first digit. */
static void put_trits(uint8_t *out, const uint8_t *q, int n_bytes, int n_codes) {
    for (int i = 0; i < n_bytes; i++) {
        unsigned number = 0;
        for (int k = 0; k < 5; k++) number = 3 * number + (k < n_codes ? q[n_bytes * k + i] : 0);
        out[i] = (uint8_t)((number * 256 + 242) / 243);
    }
}

static void make_tq1_0(const float *x, const float *w, uint8_t *out) {
    uint8_t q[256];
    code_ternary(q, x, tn_put_half(out + 52, fit_ternary(x, w)));
    put_trits(out, q, 32, 5);
    put_trits(out + 32, q + 160, 16, 5);
    put_trits(out + 48, q + 240, 4, 4);
}

static void make_tq2_0(const float *x, const float *w, uint8_t *out) {
    uint8_t q[256];
    code_ternary(q, x, tn_put_half(out + 64, fit_ternary(x, w)));
    tn_pack_two_bits(out, q, 0);
}

TN_QUANTIZE_ROW(tq1_0, 256, 54, make_tq1_0)
TN_QUANTIZE_ROW(tq2_0, 256, 66, make_tq2_0)
