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

#endif
