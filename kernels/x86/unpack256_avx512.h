/* The 256-wide weight blocks (unpack256_avx2.h) as AVX-512 registers for a GEMV: 4 vectors of 64 elements in
 * whatever order the bits come apart cheapest. Vector i is elements a .. a+31 and a + gap .. a+gap+31; the
 * activations are put in the same order once for many rows.
 *
 *   TN_BY_TWO      a = 32 * i, gap 128: Q2_K, Q3_K, two-bit fields of 64 bytes
 *   TN_BY_ORDER    a = 64 * i, gap 32: Q6_K
 *   TN_BY_QUARTER  the first halves of sub-blocks h, 2 + h, 4 + h, 6 + h are vector 2*h, the second ones 2*h + 1:
 *                  Q4_K, Q5_K
 *   TN_BY_LANE     the same of sub-blocks 4*h .. 4*h + 3: IQ4_XS */
#ifndef TN_KERNELS_X86_UNPACK256_AVX512_H
#define TN_KERNELS_X86_UNPACK256_AVX512_H

#include "unpack256_avx2.h"

typedef enum tn_order { TN_BY_TWO, TN_BY_ORDER, TN_BY_QUARTER, TN_BY_LANE } tn_order;

typedef __m512i tn_q64_fn(const uint8_t *block, int i);

TN_INLINE int tn_order_start(tn_order order, int i) {
    return order == TN_BY_TWO ? 32 * i : 64 * i;
}
TN_INLINE int tn_order_gap(tn_order order) {
    return order == TN_BY_TWO ? 128 : 32;
}

/* Vector i of 256 activations. */
TN_INLINE __m512i tn_order_load(const uint8_t *x, tn_order order, int i) {
    if (order == TN_BY_QUARTER || order == TN_BY_LANE) {
        const int gap = order == TN_BY_QUARTER ? 64 : 32;
        const uint8_t *from = x + (order == TN_BY_QUARTER ? 32 : 128) * (i / 2) + 16 * (i % 2);
        __m512i v = _mm512_castsi128_si512(tn_load128(from));
        v = _mm512_inserti32x4(v, tn_load128(from + gap), 1);
        v = _mm512_inserti32x4(v, tn_load128(from + 2 * gap), 2);
        return _mm512_inserti32x4(v, tn_load128(from + 3 * gap), 3);
    }
    const uint8_t *from = x + tn_order_start(order, i);
    return _mm512_inserti64x4(_mm512_castsi256_si512(tn_load256(from)),
                              tn_load256(from + tn_order_gap(order)), 1);
}

/* For each int16 of vector i the sub-block of 16 that it belongs to. */
TN_INLINE __m512i tn_order_sub_blocks(tn_order order, int i) {
    const int a = tn_order_start(order, i) / 16, b = a + tn_order_gap(order) / 16;
    const __m256i low = _mm256_set_m128i(_mm_set1_epi16((short)(a + 1)), _mm_set1_epi16((short)a));
    const __m256i high = _mm256_set_m128i(_mm_set1_epi16((short)(b + 1)), _mm_set1_epi16((short)b));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* One byte in each half. */
TN_INLINE __m512i tn_halves_epi8(int low, int high) {
    return _mm512_inserti64x4(_mm512_set1_epi8((char)low), _mm256_set1_epi8((char)high), 1);
}

/* Bits of bytes from bit `from` down to 0. */
TN_INLINE __m512i tn_low_bits(__m512i v, int from, int mask) {
    return _mm512_and_si512(from ? _mm512_srli_epi16(v, (unsigned)from) : v, _mm512_set1_epi8((char)mask));
}

/* 32 bytes in both halves. */
TN_INLINE __m512i tn_load_twice(const uint8_t *p) {
    return _mm512_broadcast_i64x4(tn_load256(p));
}

TN_INLINE __m512i tn_q64_q2_k(const uint8_t *block, int i) {
    return tn_low_bits(_mm512_loadu_si512(block + 16), 2 * i, 3);
}

TN_INLINE __m512i tn_q64_q3_k(const uint8_t *block, int i) {
    const __m512i low = tn_low_bits(_mm512_loadu_si512(block + 32), 2 * i, 3);
    const __mmask64 third = _mm512_test_epi8_mask(tn_load_twice(block), tn_halves_epi8(1 << i, 16 << i));
    return _mm512_mask_add_epi8(low, third, low, _mm512_set1_epi8(4));
}

/* The first halves of all 32 bytes of nibbles, or the second ones. */
TN_INLINE __m512i tn_nibble_halves(const uint8_t *nibbles, int half) {
    const __m512i a = _mm512_loadu_si512(nibbles), b = _mm512_loadu_si512(nibbles + 64);
    return half ? _mm512_shuffle_i32x4(a, b, 0xdd) : _mm512_shuffle_i32x4(a, b, 0x88);
}

TN_INLINE __m512i tn_q64_q4_k(const uint8_t *block, int i) {
    return tn_low_bits(tn_nibble_halves(block + 16, i % 2), i / 2 * 4, 15);
}

TN_INLINE __m512i tn_q64_q5_k(const uint8_t *block, int i) {
    const __m512i low = tn_low_bits(tn_nibble_halves(block + 48, i % 2), i / 2 * 4, 15);
    const __m128i bits = tn_load128(block + 16 + 16 * (i % 2)); /* bit j is sub-block j's */
    const __m512i quarter = _mm512_set1_epi32(0x01010101 << i / 2);
    const __m512i asked =
        _mm512_sllv_epi32(quarter, _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6));
    const __mmask64 fifth = _mm512_test_epi8_mask(_mm512_broadcast_i32x4(bits), asked);
    return _mm512_mask_add_epi8(low, fifth, low, _mm512_set1_epi8(16));
}

/* The high two bits of the halves lie at bits 0 and 2, or 4 and 6; turned to bits 4 and 5. */
TN_INLINE __m512i tn_q64_q6_k(const uint8_t *block, int i) {
    const __m512i low = tn_low_bits(_mm512_loadu_si512(block + i / 2 * 64), i % 2 * 4, 15);
    const __m512i by =
        _mm512_inserti64x4(_mm512_set1_epi32(i % 2 ? 0 : 4), _mm256_set1_epi32(i % 2 ? 30 : 2), 1);
    const __m512i high = _mm512_rolv_epi32(tn_load_twice(block + 128 + i / 2 * 32), by);
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(0x30), 0xf8); /* low | (high & 0x30) */
}

/* Made unsigned by the sign bit turned over. */
TN_INLINE __m512i tn_q64_iq4_xs(const uint8_t *block, int i) {
    const __m128i table =
        _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
    const __m512i nibbles = tn_low_bits(_mm512_loadu_si512(block + 8 + i / 2 * 64), i % 2 * 4, 15);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}

#endif
