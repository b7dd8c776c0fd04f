/* The 32-wide weight blocks, as AVX2 registers. Element i < 16 is the low nibble of qs[i], i >= 16 the high
 * one of qs[i-16]; bit i of qh is bit 4 of element i.
 *
 *   Q4_0    d:f16 | qs[16]
 *   Q4_1    d:f16 m:f16 | qs[16]
 *   Q5_0    d:f16 | qh:u32 | qs[16]
 *   Q5_1    d:f16 m:f16 | qh:u32 | qs[16]
 *   Q8_0    d:f16 | q[32]
 *   IQ4_NL  d:f16 | qs[16]     nibbles index a table of 16 int8
 *   MXFP4   e:u8  | qs[16]     nibbles index the e2m1 values
 *   NVFP4   e4m3:u8 x 4 | qs[4][8]: of each 16 elements the first 8 are the low nibbles
 *
 * A nibble type is read in two shapes: one block in natural order (a panel needs that), and two rows' blocks
 * at once, one in each lane, as 16 low and 16 high elements (a GEMV is cheaper so). */
#ifndef TN_KERNELS_X86_UNPACK32_AVX2_H
#define TN_KERNELS_X86_UNPACK32_AVX2_H

#include "simd_avx2.h"

/* MXFP4's doubled values are -12..12; kept unsigned with this added, which the activation sums take off. */
#define TN_MXFP4_BIAS 12

TN_INLINE __m256i tn_iq4_decode(__m256i nibbles) {
    const __m128i table =
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
}

TN_INLINE __m256i tn_mxfp4_decode(__m256i nibbles) {
    const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
}

TN_INLINE __m256i tn_e2m1_decode(__m256i nibbles) {
    const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
}

TN_INLINE __m256i tn_plain_decode(__m256i nibbles) {
    return nibbles;
}

/* 0x10 in byte i of a lane where bit (8 * select[i] + i % 8) of that lane's bits is set. */
TN_INLINE __m256i tn_fifth_bits(__m256i bits, __m256i select) {
    const __m256i one = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i hit = _mm256_and_si256(_mm256_shuffle_epi8(bits, select), one);
    return _mm256_and_si256(_mm256_cmpeq_epi8(hit, one), _mm256_set1_epi8(0x10));
}

/* Bytes 0 0 .. 1 1 .. for elements 0-15, 2 2 .. 3 3 .. for 16-31. */
TN_INLINE __m256i tn_fifth_select(int low_lane, int high_lane) {
    const long long step = 0x0101010101010101ll;
    return _mm256_setr_epi64x(step * low_lane, step * (low_lane + 1), step * high_lane,
                              step * (high_lane + 1));
}

/* 16 bytes of nibbles to 32 elements in natural order. */
TN_INLINE __m256i tn_nibbles(const uint8_t *qs) {
    const __m128i v = tn_load128(qs);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

TN_INLINE __m256i tn_nibbles_fifth(const uint8_t *qs, const uint8_t *qh) {
    return _mm256_or_si256(tn_nibbles(qs), tn_fifth_bits(tn_broadcast_i32(qh), tn_fifth_select(0, 2)));
}

#endif
