/* Q3_K and Q6_K. */
#include "k_symmetric.h"

#include "pack.h"

static void make_q3_k(const float *x, const float *w, uint8_t *out) {
    const tn_scales_kind kind = {16, -32, 31, {-4, 3, NULL}, 3.75f, 1.25f, 16};
    tn_scales f;
    uint8_t q[256];
    tn_fit_scales(x, w, &kind, &f);
    tn_code_scaled(q, x, &f, &kind);
    tn_pack_one_bit(out, q, 2);
    tn_pack_two_bits(out + 32, q, 0);
    tn_pack_scales_q3_k(out + 96, f.sc);
    tn_put_half(out + 108, f.d);
}

static void make_q6_k(const float *x, const float *w, uint8_t *out) {
    const tn_scales_kind kind = {16, -128, 127, {-32, 31, NULL}, 32, 1.5f, 16};
    tn_scales f;
    uint8_t q[256];
    tn_fit_scales(x, w, &kind, &f);
    tn_code_scaled(q, x, &f, &kind);
    tn_pack_four_bits(out, q, 64);
    tn_pack_two_bits(out + 128, q, 4);
    for (int j = 0; j < 16; j++) out[192 + j] = (uint8_t)(int8_t)f.sc[j];
    tn_put_half(out + 208, f.d);
}

TN_QUANTIZE_ROW(q3_k, 256, 110, make_q3_k)
TN_QUANTIZE_ROW(q6_k, 256, 210, make_q6_k)
