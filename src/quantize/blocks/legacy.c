/* Q4_0 Q5_0 Q4_1 Q5_1: 32 elements with a scale, or a scale and a minimum, of their own. */
#include "fit.h"

/* The codes of a block given its factors as they are stored. */
static void code_block(uint8_t *q, const float *x, float d, float m, tn_codes codes) {
    const float inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(int)(tn_snap1((x[i] - m) * inverse, codes) - codes.lo);
}

/* Bytes with elements i (low) and i + 16 (high): their low four bits. */
static void put_nibbles(uint8_t *out, const uint8_t *q) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)((q[i] & 15) | q[i + 16] << 4);
}

static void put_fifth_bits(uint8_t *out, const uint8_t *q) {
    uint32_t high = 0;
    for (int i = 0; i < 32; i++) high |= (uint32_t)(q[i] >> 4) << i;
    memcpy(out, &high, sizeof high);
}

static void make_q4_0(const float *x, const float *w, uint8_t *out) {
    static const tn_codes codes = {-8, 7, NULL};
    uint8_t q[32];
    const tn_fit f = tn_fit_new(x, w, 32, false);
    const float d = tn_put_half(out, tn_fit_scale(&f, (tn_codes){-8, 7, NULL}, 8, 1.5f, 16, true));
    code_block(q, x, d, 0, codes);
    put_nibbles(out + 2, q);
}

static void make_q5_0(const float *x, const float *w, uint8_t *out) {
    static const tn_codes codes = {-16, 15, NULL};
    uint8_t q[32];
    const tn_fit f = tn_fit_new(x, w, 32, false);
    const float d = tn_put_half(out, tn_fit_scale(&f, (tn_codes){-16, 15, NULL}, 16, 1.5f, 16, true));
    code_block(q, x, d, 0, codes);
    put_fifth_bits(out + 2, q);
    put_nibbles(out + 6, q);
}

static void make_q4_1(const float *x, const float *w, uint8_t *out) {
    uint8_t q[32];
    float d, m;
    const tn_fit f = tn_fit_new(x, w, 32, true);
    tn_fit_both(&f, (tn_codes){0, 15, NULL}, TN_FIT_BOTH, &d, &m);
    d = tn_put_half(out, d);
    m = tn_put_half(out + 2, m);
    code_block(q, x, d, m, (tn_codes){0, 15, NULL});
    put_nibbles(out + 4, q);
}

static void make_q5_1(const float *x, const float *w, uint8_t *out) {
    uint8_t q[32];
    float d, m;
    const tn_fit f = tn_fit_new(x, w, 32, true);
    tn_fit_both(&f, (tn_codes){0, 31, NULL}, TN_FIT_BOTH, &d, &m);
    d = tn_put_half(out, d);
    m = tn_put_half(out + 2, m);
    code_block(q, x, d, m, (tn_codes){0, 31, NULL});
    put_fifth_bits(out + 4, q);
    put_nibbles(out + 8, q);
}

TN_QUANTIZE_ROW(q4_0, 32, 18, make_q4_0)
TN_QUANTIZE_ROW(q5_0, 32, 22, make_q5_0)
TN_QUANTIZE_ROW(q4_1, 32, 20, make_q4_1)
TN_QUANTIZE_ROW(q5_1, 32, 24, make_q5_1)
