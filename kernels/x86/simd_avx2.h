/* Small AVX2 pieces that several kernels share: gathers of block scales, transposes, reductions in the fixed
 * order. */
#ifndef TN_KERNELS_X86_SIMD_AVX2_H
#define TN_KERNELS_X86_SIMD_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../ref/math.h"

/* The kernels are written once and specialised by constant arguments, so everything on the way must be
 * inlined. */
#define TN_INLINE static inline __attribute__((always_inline))

TN_INLINE __m256i tn_load256(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
TN_INLINE __m128i tn_load128(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}
TN_INLINE void tn_store256(void *p, __m256i v) {
    _mm256_storeu_si256((__m256i *)p, v);
}

TN_INLINE int32_t tn_load_i32(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

TN_INLINE __m256i tn_broadcast_i32(const void *p) {
    return _mm256_set1_epi32(tn_load_i32(p));
}

/* Leaves a value as it is, in a register. Around the steps of a long unrolled sum this keeps the compiler
 * from reassociating the integer additions, which would keep every product alive at once and spill them all.
 */
TN_INLINE __m256i tn_pin(__m256i v) {
    __asm__("" : "+x"(v));
    return v;
}

/* Two 16-byte pieces in one register: `low` in the low lane. */
TN_INLINE __m256i tn_load_pair(const void *low, const void *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(tn_load128(low)), tn_load128(high), 1);
}

/* The f16 at byte `offset` of 8 rows, as floats. */
TN_INLINE __m256 tn_gather_f16(const uint8_t *const row[8], size_t offset) {
    __m128i h = _mm_cvtsi32_si128(tn_load_u16(row[0] + offset));
    h = _mm_insert_epi16(h, tn_load_u16(row[1] + offset), 1);
    h = _mm_insert_epi16(h, tn_load_u16(row[2] + offset), 2);
    h = _mm_insert_epi16(h, tn_load_u16(row[3] + offset), 3);
    h = _mm_insert_epi16(h, tn_load_u16(row[4] + offset), 4);
    h = _mm_insert_epi16(h, tn_load_u16(row[5] + offset), 5);
    h = _mm_insert_epi16(h, tn_load_u16(row[6] + offset), 6);
    h = _mm_insert_epi16(h, tn_load_u16(row[7] + offset), 7);
    return _mm256_cvtph_ps(h);
}

/* Two adjacent f16 (a scale and a minimum) at byte `offset` of 8 rows. */
TN_INLINE void tn_gather_f16x2(const uint8_t *const row[8], size_t offset, __m256 *d, __m256 *m) {
    const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i a = _mm_cvtsi32_si128(tn_load_i32(row[0] + offset));
    __m128i b = _mm_cvtsi32_si128(tn_load_i32(row[4] + offset));
    a = _mm_insert_epi32(a, tn_load_i32(row[1] + offset), 1);
    b = _mm_insert_epi32(b, tn_load_i32(row[5] + offset), 1);
    a = _mm_insert_epi32(a, tn_load_i32(row[2] + offset), 2);
    b = _mm_insert_epi32(b, tn_load_i32(row[6] + offset), 2);
    a = _mm_shuffle_epi8(_mm_insert_epi32(a, tn_load_i32(row[3] + offset), 3), split);
    b = _mm_shuffle_epi8(_mm_insert_epi32(b, tn_load_i32(row[7] + offset), 3), split);
    *d = _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b));
    *m = _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b));
}

/* Half of the e8m0 scale 2^(e-127) at the first byte of 8 rows: 2^(e-128), subnormal for e < 2. */
TN_INLINE __m256 tn_gather_e8m0_half(const uint8_t *const row[8], size_t offset) {
    const __m256i e = _mm256_setr_epi32(row[0][offset], row[1][offset], row[2][offset], row[3][offset],
                                        row[4][offset], row[5][offset], row[6][offset], row[7][offset]);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
}

/* Half of the unsigned E4M3 in byte j of each lane, as tn_ue4m3_half_to_f32 has it. */
TN_INLINE __m256 tn_ue4m3_half(__m256i scales, int j) {
    const __m256i nan = _mm256_set1_epi32(0x7f);
    const __m256i byte = _mm256_and_si256(_mm256_srli_epi32(scales, 8 * j), _mm256_set1_epi32(0xff));
    const __m256i number = _mm256_andnot_si256(_mm256_cmpeq_epi32(byte, nan), _mm256_and_si256(byte, nan));
    const __m256i wide = _mm256_slli_epi32(number, 7);
    const __m128i half =
        _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(128.0f));
}

/* Asks for the lines of a stretch of memory, which may end behind what is mapped. */
TN_INLINE void tn_prefetch(const uint8_t *p, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i += 64) _mm_prefetch((const char *)p + i, _MM_HINT_T0);
}

/* 8 x 8 transpose of 32-bit elements. */
TN_INLINE void tn_transpose8(__m256i v[8]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* Sums of 8 vectors of 8 int32, in order. */
TN_INLINE __m256i tn_sum8x8_i32(const __m256i v[8]) {
    const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* Vector i holds 4 int32 of row i in its low lane and of row i + 4 in its high lane: the 8 sums, in order. */
TN_INLINE __m256i tn_sum4x8_i32(const __m256i v[4]) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

/* The fixed join of stripes (kernels.h) of 8 vectors: lane i of the result is the join of v[i]. */
TN_INLINE __m256 tn_join8x8_ps(const __m256 v[8]) {
    __m256 x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_add_ps(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20),
                             _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    return _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
}

/* The same of one vector. */
TN_INLINE float tn_join8_ps(__m256 v) {
    const __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 y = _mm_hadd_ps(x, x);
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

/* All ones in the first n of 8 lanes; n <= 8. */
TN_INLINE __m256i tn_lane_mask(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#endif
