/* What the IQ1, IQ2 and IQ3 types look up: points of published grids, several weights in one index, and signs.
 *
 *   tn_grid_iq2_*    8 magnitudes 8, 25 or 43, one a byte
 *   tn_grid_iq1      8 bytes 0, 8 or 16: 8 * (value + 1), values -1, 0, 1
 *   tn_grid_iq3_*    4 magnitudes: IQ3_XXS 2, 6 .. 26, 31 (half of the published ones), IQ3_S 1, 3 .. 15 */
#ifndef TN_KERNELS_REF_GRIDS_H
#define TN_KERNELS_REF_GRIDS_H

#include "math.h"

extern const uint64_t tn_grid_iq2_xxs[256], tn_grid_iq2_xs[512], tn_grid_iq2_s[1024], tn_grid_iq1[2048];
extern const uint32_t tn_grid_iq3_xxs[256], tn_grid_iq3_s[512];

/* Eight signs from seven bits: an even number of them is negative. */
static inline unsigned tn_signs_of_seven(unsigned seven) {
    return seven | (unsigned)__builtin_parity(seven) << 7;
}

/* The f16 factor of an IQ1_M block lies in the high nibbles of its four words of scales. */
static inline uint16_t tn_iq1_m_factor(const uint8_t *block) {
    const uint8_t *high = block + 49;
    return (uint16_t)(high[0] >> 4 | high[2] >> 4 << 4 | high[4] >> 4 << 8 | high[6] >> 4 << 12);
}

#endif
