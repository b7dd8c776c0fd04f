/* The 256-wide weight blocks, as AVX2 registers. ref/blocks.h describes the same layouts field by field.
 *
 *   Q2_K    scale, min: nibbles of u8 x 16 | two-bit 64 | d:f16 m:f16
 *   Q3_K    third bits 32 | two-bit 64 | 6-bit scales 12 | d:f16
 *   Q4_K    d:f16 m:f16 | 6-bit scales and mins 12 | nibbles 128
 *   Q5_K    d:f16 m:f16 | 6-bit scales and mins 12 | fifth bits 32 | nibbles 128
 *   Q6_K    low nibbles 128 | high two bits 64 | scales i8 x 16 | d:f16
 *   IQ4_XS  d:f16 | high bits of scales u16 | low nibbles of scales 4 | nibbles 128
 *
 * tn_q_NAME reads elements 32*j .. 32*j+31 as unsigned bytes (IQ4_XS: signed); j is a constant wherever speed
 * counts. tn_scales_NAME reads the integer scales, and minimums where there are any, as 16 int16, one for
 * each 16 elements: a scale of 32 elements stands twice. */
#ifndef TN_KERNELS_X86_UNPACK256_AVX2_H
#define TN_KERNELS_X86_UNPACK256_AVX2_H

#include "unpack32_avx2.h"

typedef __m256i tn_q256_fn(const uint8_t *block, int j);
typedef void tn_scales256_fn(const uint8_t *block, __m256i *scales, __m256i *mins);

/* Bits of bytes moved from bit `from` to bit `to`; what the shift carries across bytes, the mask drops. */
TN_INLINE __m256i tn_move_bits(__m256i v, int from, int to, int mask) {
    const __m256i moved = from > to ? _mm256_srli_epi16(v, from - to) : _mm256_slli_epi16(v, to - from);
    return _mm256_and_si256(moved, _mm256_set1_epi8((char)mask));
}

TN_INLINE __m256i tn_q_q2_k(const uint8_t *block, int j) {
    return tn_move_bits(tn_load256(block + 16 + j / 4 * 32), j % 4 * 2, 0, 3);
}

TN_INLINE __m256i tn_q_q3_k(const uint8_t *block, int j) {
    const __m256i low = tn_move_bits(tn_load256(block + 32 + j / 4 * 32), j % 4 * 2, 0, 3);
    return _mm256_or_si256(low, tn_move_bits(tn_load256(block), j, 2, 4));
}

TN_INLINE __m256i tn_q_q4_k(const uint8_t *block, int j) {
    return tn_move_bits(tn_load256(block + 16 + j / 2 * 32), j % 2 * 4, 0, 15);
}

TN_INLINE __m256i tn_q_q5_k(const uint8_t *block, int j) {
    const __m256i low = tn_move_bits(tn_load256(block + 48 + j / 2 * 32), j % 2 * 4, 0, 15);
    return _mm256_or_si256(low, tn_move_bits(tn_load256(block + 16), j, 4, 16));
}

TN_INLINE __m256i tn_q_q6_k(const uint8_t *block, int j) {
    const __m256i low = tn_move_bits(tn_load256(block + j / 4 * 64 + j % 2 * 32), j % 4 / 2 * 4, 0, 15);
    return _mm256_or_si256(low, tn_move_bits(tn_load256(block + 128 + j / 4 * 32), j % 4 * 2, 4, 48));
}

TN_INLINE __m256i tn_q_iq4_xs(const uint8_t *block, int j) {
    return tn_iq4_decode(tn_nibbles(block + 8 + 16 * j));
}

TN_INLINE void tn_scales_q2_k(const uint8_t *block, __m256i *scales, __m256i *mins) {
    const __m128i v = tn_load128(block), mask = _mm_set1_epi8(15);
    *scales = _mm256_cvtepu8_epi16(_mm_and_si128(v, mask));
    *mins = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(v, 4), mask));
}

TN_INLINE void tn_scales_q3_k(const uint8_t *block, __m256i *scales, __m256i *mins) {
    const __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)(block + 96));
    const __m128i low4 = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    const __m128i high = _mm_set1_epi32(tn_load_i32(block + 104));
    const __m128i high2 = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    const __m128i six = _mm_or_si128(low4, _mm_slli_epi16(high2, 4));
    *scales = _mm256_sub_epi16(_mm256_cvtepu8_epi16(six), _mm256_set1_epi16(32));
    *mins = *scales;
}

/* Eight 6-bit scales and eight mins; a block starts with 4 bytes of factors, so 16 bytes hold all of it. */
TN_INLINE void tn_scales_k4(const uint8_t *block, __m256i *scales, __m256i *mins) {
    const __m128i v = tn_load128(block);
    /* scales 0-3 | low bits of scales 4-7 | mins 0-3; then the high bits of scales and mins 4-7; then low of
     * mins */
    const __m128i a =
        _mm_shuffle_epi8(v, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, -1, -1, -1, -1));
    const __m128i b = _mm_shuffle_epi8(
        _mm_srli_epi16(v, 2), _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m128i c = _mm_shuffle_epi8(
        _mm_srli_epi16(v, 4), _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 12, 13, 14, 15));
    const __m128i all = _mm_or_si128(
        _mm_and_si128(a, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0)),
        _mm_or_si128(_mm_and_si128(b, _mm_set1_epi8(0x30)), _mm_and_si128(c, _mm_set1_epi8(15))));
    *scales = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(all, all));
    *mins = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(all, all));
}

/* The same of two blocks, whose first 16 bytes are in the two lanes: 8 scales and 8 mins of each in its lane. */
TN_INLINE void tn_scales_k4_two(__m256i v, __m256i *scales, __m256i *mins) {
    const __m256i a = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                                 4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, -1, -1, -1, -1)));
    const __m256i b = _mm256_shuffle_epi8(
        _mm256_srli_epi16(v, 2),
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11)));
    const __m256i c = _mm256_shuffle_epi8(
        _mm256_srli_epi16(v, 4), _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                                           -1, -1, -1, 12, 13, 14, 15)));
    const __m256i low = _mm256_and_si256(
        a, _mm256_broadcastsi128_si256(_mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0)));
    const __m256i all = _mm256_or_si256(low, _mm256_or_si256(_mm256_and_si256(b, _mm256_set1_epi8(0x30)),
                                                             _mm256_and_si256(c, _mm256_set1_epi8(15))));
    *scales = _mm256_unpacklo_epi8(all, _mm256_setzero_si256());
    *mins = _mm256_unpackhi_epi8(all, _mm256_setzero_si256());
}

/* 16 sums of 16 activations to the 8 sums of 32, in both lanes, as mins of tn_scales_k4_two want them. */
TN_INLINE __m256i tn_sums_of_32(__m256i sums) {
    return _mm256_permute4x64_epi64(_mm256_hadd_epi16(sums, sums), 0x88);
}

TN_INLINE void tn_scales_q6_k(const uint8_t *block, __m256i *scales, __m256i *mins) {
    *scales = _mm256_cvtepi8_epi16(tn_load128(block + 192));
    *mins = *scales;
}

TN_INLINE void tn_scales_iq4_xs(const uint8_t *block, __m256i *scales, __m256i *mins) {
    const __m128i order = _mm_setr_epi8(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7);
    const __m128i low = _mm_cvtsi32_si128(tn_load_i32(block + 4)), mask = _mm_set1_epi8(15);
    const __m128i low4 =
        _mm_unpacklo_epi32(_mm_and_si128(low, mask), _mm_and_si128(_mm_srli_epi16(low, 4), mask));
    const __m256i low16 = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(low4, order));
    /* scale j's high bits are bits 2j, 2j+1: multiplied to the top of 16 and shifted down to bits 4, 5 */
    const __m256i high =
        _mm256_mullo_epi16(_mm256_set1_epi16((short)tn_load_u16(block + 2)),
                           _mm256_setr_epi16(1 << 14, 1 << 14, 1 << 12, 1 << 12, 1 << 10, 1 << 10, 1 << 8,
                                             1 << 8, 1 << 6, 1 << 6, 1 << 4, 1 << 4, 1 << 2, 1 << 2, 1, 1));
    const __m256i high16 = _mm256_slli_epi16(_mm256_srli_epi16(high, 14), 4);
    *scales = _mm256_sub_epi16(_mm256_or_si256(low16, high16), _mm256_set1_epi16(32));
    *mins = *scales;
}

/* The pairs (s_j, s_j) that a madd multiplies by, of 16 scales: 0-7 and 8-15. */
TN_INLINE void tn_double_scales(__m256i scales, __m256i *low, __m256i *high) {
    const __m256i a = _mm256_unpacklo_epi16(scales, scales), b = _mm256_unpackhi_epi16(scales, scales);
    *low = _mm256_permute2x128_si256(a, b, 0x20);
    *high = _mm256_permute2x128_si256(a, b, 0x31);
}

#endif
