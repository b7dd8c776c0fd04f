/* What the products of one token, or a few, share: groups of eight rows. */
#ifndef TN_KERNELS_X86_GEMV_AVX2_H
#define TN_KERNELS_X86_GEMV_AVX2_H

#include "avx2.h"
#include "simd_avx2.h"

/* Rows i .. i + n_rows - 1; a short group repeats its last row, and those lanes are not stored. Returns what
 * to prefetch meanwhile. */
TN_INLINE const uint8_t *tn_eight_rows(const uint8_t *row[8], const tn_matmul_args *args, size_t i,
                                       size_t n_rows) {
    for (size_t r = 0; r < 8; r++) row[r] = args->w + (i + (r < n_rows ? r : n_rows - 1)) * args->w_stride;
    return args->w + (i + n_rows) * args->w_stride + TN_PREFETCH_AHEAD;
}

TN_INLINE void tn_store_rows(float *y, __m256 v, size_t n_rows) {
    if (n_rows == 8)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, tn_lane_mask(n_rows), v);
}

/* The first 16 bytes of 8 rows' blocks: row i in the low lane of register i, row 4 + i in the high one. */
TN_INLINE void tn_load_headers(__m256i header[4], const uint8_t *const row[8], size_t at) {
    for (int i = 0; i < 4; i++) header[i] = tn_load_pair(row[i] + at, row[i + 4] + at);
}

/* The first 16 bits of each header, in the order of the rows. */
TN_INLINE __m128i tn_header_words(const __m256i header[4]) {
    const __m256i a = _mm256_unpacklo_epi16(header[0], header[1]);
    const __m256i b = _mm256_unpacklo_epi16(header[2], header[3]);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_unpacklo_epi32(a, b), 0x08));
}

/* An f16 at the start of each header, and one behind it. */
TN_INLINE void tn_header_f16x2(const __m256i header[4], __m256 *d, __m256 *m) {
    const __m256i split =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i a = _mm256_unpacklo_epi32(header[0], header[1]);
    const __m256i b = _mm256_unpacklo_epi32(header[2], header[3]);
    const __m256i pairs = _mm256_shuffle_epi8(_mm256_unpacklo_epi64(a, b), split);
    const __m256i all = _mm256_permute4x64_epi64(pairs, 0xd8);
    *d = _mm256_cvtph_ps(_mm256_castsi256_si128(all));
    *m = _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1));
}

#endif
