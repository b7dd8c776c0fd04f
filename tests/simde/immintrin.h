/* The compiler's intrinsics up to AVX2, and SIMDe's in portable C for those above, under the same names: with
 * this folder before the compiler's, an AVX2 processor executes the kernels of every x86 level
 * (docs/TESTING_ISA.md). */
#ifndef TN_TESTS_SIMDE_IMMINTRIN_H
#define TN_TESTS_SIMDE_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* AVX-VNNI is the same with another encoding. */
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#define _mm256_dpwssd_avx_epi32 simde_mm256_dpwssd_epi32

/* What SIMDe lacks. */
#define _mm512_cvtepi8_epi32(q) _mm512_cvtepi16_epi32(_mm256_cvtepi8_epi16(q))
#define _mm512_zextsi256_si512(v) simde_mm512_inserti64x4(simde_mm512_setzero_si512(), v, 0)

/* SIMDe's reads and writes all lanes, and what lies behind the end of a buffer with them. */
static inline void tn_simde_mask_storeu_ps(float *dst, unsigned mask, simde__m512 v) {
    float lanes[16];
    simde_mm512_storeu_ps(lanes, v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) dst[i] = lanes[i];
}
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps tn_simde_mask_storeu_ps

/* Emulated vectors fit no register, so the empty statements that keep values in one (tn_pin, tn_vi_pin) go; system
 * headers that follow lose only other names for their functions. */
#define __asm__(...)

#endif
