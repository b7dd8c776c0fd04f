#include "floats.h"

#include <math.h>
#include <string.h>

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Scaling by 2^112 moves the exponent from the bias of F16 to that of F32, subnormals with it. */
static float from_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    const float magnitude = from_bits(rest) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    bits = (h & 0x7c00) == 0x7c00 ? rest | 0x7f800000 : bits;
    return from_bits(bits | sign);
}

/* E4M3 in the form without infinities (Micikevicius et al. 2022): 7f and ff are NaN. */
static float from_e4m3(uint8_t b) {
    const int exponent = b >> 3 & 15, mantissa = b & 7;
    float magnitude = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if ((b & 0x7f) == 0x7f) magnitude = NAN;
    return b & 0x80 ? -magnitude : magnitude;
}

/* E5M2 is the upper half of F16; E8M0 is a power of two, ff is NaN. */
static float from_byte(tn_st_type type, uint8_t b) {
    if (type == TN_ST_F8_E4M3) return from_e4m3(b);
    if (type == TN_ST_F8_E5M2) return from_f16((uint16_t)(b << 8));
    return b == 0xff ? NAN : ldexpf(1, b - 127);
}

static void read_bytes(tn_st_type type, const uint8_t *src, size_t n, float *dst) {
    float table[256];
    for (unsigned b = 0; b < 256; b++) table[b] = from_byte(type, (uint8_t)b);
    for (size_t i = 0; i < n; i++) dst[i] = table[src[i]];
}

static void read_halves(tn_st_type type, const uint8_t *src, size_t n, float *dst) {
    const bool brain = type == TN_ST_BF16;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof h);
        dst[i] = brain ? from_bits((uint32_t)h << 16) : from_f16(h);
    }
}

static void read_doubles(const uint8_t *src, size_t n, float *dst) {
    for (size_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, src + 8 * i, sizeof d);
        dst[i] = (float)d;
    }
}

bool tn_floats_known(tn_st_type type) {
    return type <= TN_ST_F8_E8M0;
}

void tn_floats_read(tn_st_type type, const uint8_t *src, size_t n, float *dst) {
    if (type == TN_ST_F32)
        memcpy(dst, src, n * sizeof *dst);
    else if (type == TN_ST_F64)
        read_doubles(src, n, dst);
    else if (type == TN_ST_F16 || type == TN_ST_BF16)
        read_halves(type, src, n, dst);
    else
        read_bytes(type, src, n, dst);
}

tn_dtype tn_floats_same(tn_st_type type) {
    return type == TN_ST_F32    ? TN_DTYPE_F32
           : type == TN_ST_F16  ? TN_DTYPE_F16
           : type == TN_ST_BF16 ? TN_DTYPE_BF16
                                : TN_DTYPE_COUNT;
}
