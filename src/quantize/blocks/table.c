/* IQ4_NL IQ4_XS MXFP4: codes choose among values that are not evenly spaced. */
#include "k_symmetric.h"

/* X(first, last, code, value): half steps from the least value on to which a value is the nearest. Neighbours are whole numbers
 * apart, so the middle between two ends a half step. */
/* clang-format off */
#define IQ4_RUNS(X) \
    X(0, 22, 0, -127) X(23, 66, 1, -104) X(67, 105, 2, -83) X(106, 139, 3, -65) \
    X(140, 169, 4, -49) X(170, 196, 5, -35) X(197, 221, 6, -22) X(222, 244, 7, -10) \
    X(245, 267, 8, 1) X(268, 291, 9, 13) X(292, 316, 10, 25) X(317, 344, 11, 38) \
    X(345, 375, 12, 53) X(376, 411, 13, 69) X(412, 455, 14, 89) X(456, 480, 15, 113)
/* clang-format on */

/* Of e2m1, doubled. */
/* clang-format off */
#define E2M1_RUNS(X) \
    X(0, 3, 15, -12) X(4, 9, 14, -8) X(10, 13, 13, -6) X(14, 16, 12, -4) \
    X(17, 18, 11, -3) X(19, 20, 10, -2) X(21, 22, 9, -1) X(23, 24, 0, 0) \
    X(25, 26, 1, 1) X(27, 28, 2, 2) X(29, 30, 3, 3) X(31, 33, 4, 4) \
    X(34, 37, 5, 6) X(38, 43, 6, 8) X(44, 48, 7, 12)
/* clang-format on */

#define VALUE(first, last, code, value) [(first)...(last)] = (value),
#define CODE(first, last, code, value)  [(first)...(last)] = (code),

static const float iq4_values[481] = {IQ4_RUNS(VALUE)}, e2m1_values[49] = {E2M1_RUNS(VALUE)};
static const uint8_t iq4_codes[481] = {IQ4_RUNS(CODE)}, e2m1_codes[49] = {E2M1_RUNS(CODE)};

#define IQ4  ((tn_codes){-127, 113, iq4_values})
#define E2M1 ((tn_codes){-12, 12, e2m1_values})

/* 32 codes, given the scale: byte i holds elements i (low) and i + 16 (high). */
TN_INLINE void put_codes(uint8_t *out, const float *x, float d, tn_codes codes, const uint8_t *numbers) {
    const float inverse = d != 0 ? 1 / d : 0;
    uint8_t q[32];
    for (int i = 0; i < 32; i++) {
        float t = x[i] * inverse;
        t = t < codes.lo ? codes.lo : t > codes.hi ? codes.hi : t;
        q[i] = numbers[(int)((t - codes.lo) * 2)];
    }
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

static void make_iq4_nl(const float *x, const float *w, uint8_t *out) {
    const tn_fit f = tn_fit_new(x, w, 32, false);
    const float d = tn_put_half(out, tn_fit_scale(&f, IQ4, 120, 24, 32, true));
    put_codes(out + 2, x, d, IQ4, iq4_codes);
}

static void make_iq4_xs(const float *x, const float *w, uint8_t *out) {
    const tn_scales_kind kind = {8, -32, 31, IQ4, 120, 24, 32};
    tn_scales f;
    unsigned high = 0;
    tn_fit_scales(x, w, &kind, &f);
    memset(out + 4, 0, 4);
    for (int j = 0; j < 8; j++) {
        const unsigned scale = (unsigned)(f.sc[j] + 32);
        out[4 + j / 2] = (uint8_t)(out[4 + j / 2] | (scale & 15) << (j % 2 * 4));
        high |= scale >> 4 << (2 * j);
        put_codes(out + 8 + 16 * j, x + 32 * j, f.d * (float)f.sc[j], IQ4, iq4_codes);
    }
    tn_put_half(out, f.d);
    out[2] = (uint8_t)high;
    out[3] = (uint8_t)(high >> 8);
}

/* The scale is a power of two, so eight of them are all that can be meant. */
static void make_mxfp4(const float *x, const float *w, uint8_t *out) {
    const tn_fit f = tn_fit_new(x, w, 32, false);
    tn_tries t;
    int e[8];
    const int exponent = (int)(tn_f32_bits(tn_largest(x, 32)) >> 23) - 127;
    for (int i = 0; i < 8; i++) {
        e[i] = exponent + 122 + i;
        e[i] = e[i] < 2 ? 2 : e[i] > 250 ? 250 : e[i];
        t.s[i] = tn_e8m0_half_to_f32((uint8_t)e[i]);
    }
    const int best = tn_try(&f, E2M1, TN_FIT_GIVEN_SCALE, &t, 8);
    out[0] = (uint8_t)e[best];
    put_codes(out + 1, x, t.s[best], E2M1, e2m1_codes);
}

TN_QUANTIZE_ROW(iq4_nl, 32, 18, make_iq4_nl)
TN_QUANTIZE_ROW(iq4_xs, 256, 136, make_iq4_xs)
TN_QUANTIZE_ROW(mxfp4, 32, 17, make_mxfp4)
