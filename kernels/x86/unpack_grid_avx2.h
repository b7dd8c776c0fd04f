/* The 256-wide types that look their weights up in grids, and the ternary ones (ref/blocks_grid.h): what comes out of a
 * block is always the same, bytes and a scale for each 16, which the loops for 256-wide types take from there. */
#ifndef TN_KERNELS_X86_UNPACK_GRID_AVX2_H
#define TN_KERNELS_X86_UNPACK_GRID_AVX2_H

#include "simd_avx2.h"

/* An unpacked block: elements plus the type's offset, which makes them unsigned; their scales, none negative. */
typedef struct tn_unpacked {
    _Alignas(32) uint8_t q[256];
    int16_t scale[16];
} tn_unpacked;

/* Returns d, as ref/block.h means it. */
typedef float tn_unpack256_fn(tn_unpacked *out, const uint8_t *block);

tn_unpack256_fn tn_unpack_iq2_xxs_avx2, tn_unpack_iq2_xs_avx2, tn_unpack_iq2_s_avx2;
tn_unpack256_fn tn_unpack_iq3_xxs_avx2, tn_unpack_iq3_s_avx2, tn_unpack_iq1_s_avx2, tn_unpack_iq1_m_avx2;
tn_unpack256_fn tn_unpack_tq1_0_avx2, tn_unpack_tq2_0_avx2;

/* Offsets: the elements are within -43..43, -31..31 and -15..15, so with them of 7, 6 and 5 bits. */
enum { TN_GRID7_OFFSET = 64, TN_GRID6_OFFSET = 32, TN_GRID5_OFFSET = 16 };

/* Blocks of 8 rows, and their factors. */
typedef struct tn_unpacked_rows {
    tn_unpacked block[8];
    _Alignas(32) float d[8];
} tn_unpacked_rows;

/* The blocks at byte `at` of 8 rows. */
TN_INLINE void tn_unpack_rows(tn_unpacked_rows *out, const uint8_t *const row[8], size_t at,
                              tn_unpack256_fn *unpack) {
    for (int r = 0; r < 8; r++) out->d[r] = unpack(&out->block[r], row[r] + at);
}

/* An unpacked block read as others are (unpack256_avx2.h). */
TN_INLINE __m256i tn_q_unpacked(const uint8_t *block, int j) {
    return tn_load256(block + 32 * j);
}

TN_INLINE void tn_scales_unpacked(const uint8_t *block, __m256i *scales, __m256i *mins) {
    *scales = tn_load256(block + offsetof(tn_unpacked, scale));
    *mins = *scales;
}

#endif
