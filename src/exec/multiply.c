/* Loops of nothing but the instruction that an instruction set multiplies 8-bit integers with, enough of them
 * side by side to hide its latency. An empty asm statement makes the compiler believe that an operand
 * changes, so that no round can be left out or merged; the loops over the sums are unrolled so that these
 * stay in registers. */
#include <stddef.h>

#include "measure.h"

#define N_SIDE_BY_SIDE 8

static uint32_t multiply_ref(uint64_t n) {
    int32_t sums[N_SIDE_BY_SIDE] = {0};
    int32_t a = 3, b = -5;
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+r"(a), "+r"(b));
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)((int8_t)a * (int8_t)b));
        }
    }
    uint32_t total = 0;
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total += (uint32_t)sums[i];
    return total;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* maddubs: 32 products a register, pairs summed in int16, which is added up: the inner loop of the 4-bit
 * types. */
__attribute__((target("avx2"))) static uint32_t multiply_avx2(uint64_t n) {
    __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
    __m256i sums[N_SIDE_BY_SIDE], total = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = _mm256_setzero_si256();
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+x"(a), "+x"(b));
            sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(a, b));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = _mm256_add_epi16(total, sums[i]);
    return (uint32_t)_mm256_extract_epi32(total, 0);
}

/* dpbusd: 32 products, groups of four added up in int32. */
__attribute__((target("avx2,avxvnni"))) static uint32_t multiply_avxvnni(uint64_t n) {
    __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
    __m256i sums[N_SIDE_BY_SIDE], total = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = _mm256_setzero_si256();
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+x"(a), "+x"(b));
            sums[i] = _mm256_dpbusd_avx_epi32(sums[i], a, b);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = _mm256_add_epi32(total, sums[i]);
    return (uint32_t)_mm256_extract_epi32(total, 0);
}

/* maddubs on 64 bytes. */
__attribute__((target("avx512f,avx512bw"))) static uint32_t multiply_avx512(uint64_t n) {
    __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
    __m512i sums[N_SIDE_BY_SIDE], total = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = _mm512_setzero_si512();
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+v"(a), "+v"(b));
            sums[i] = _mm512_add_epi16(sums[i], _mm512_maddubs_epi16(a, b));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = _mm512_add_epi16(total, sums[i]);
    return (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(total));
}

/* dpbusd on 64 bytes. */
__attribute__((target("avx512f,avx512vnni"))) static uint32_t multiply_avx512vnni(uint64_t n) {
    __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
    __m512i sums[N_SIDE_BY_SIDE], total = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = _mm512_setzero_si512();
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+v"(a), "+v"(b));
            sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = _mm512_add_epi32(total, sums[i]);
    return (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(total));
}
#elif defined(__aarch64__)
#include <arm_neon.h>

/* smull and sadalp: 8 products, pairs added up in int32. */
static uint32_t multiply_neon(uint64_t n) {
    int8x8_t a = vdup_n_s8(3), b = vdup_n_s8(-5);
    int32x4_t sums[N_SIDE_BY_SIDE];
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = vdupq_n_s32(0);
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+w"(a), "+w"(b));
            sums[i] = vpadalq_s16(sums[i], vmull_s8(a, b));
        }
    }
    int32x4_t total = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = vaddq_s32(total, sums[i]);
    return (uint32_t)vaddvq_s32(total);
}

__attribute__((target("arch=armv8.2-a+dotprod"))) static uint32_t multiply_dotprod(uint64_t n) {
    int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(-5);
    int32x4_t sums[N_SIDE_BY_SIDE];
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = vdupq_n_s32(0);
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+w"(a), "+w"(b));
            sums[i] = vdotq_s32(sums[i], a, b);
        }
    }
    int32x4_t total = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = vaddq_s32(total, sums[i]);
    return (uint32_t)vaddvq_s32(total);
}

__attribute__((target("arch=armv8.2-a+i8mm"))) static uint32_t multiply_i8mm(uint64_t n) {
    int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(-5);
    int32x4_t sums[N_SIDE_BY_SIDE];
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) sums[i] = vdupq_n_s32(0);
    for (uint64_t round = 0; round < n; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < N_SIDE_BY_SIDE; i++) {
            __asm__ volatile("" : "+w"(a), "+w"(b));
            sums[i] = vmmlaq_s32(sums[i], a, b);
        }
    }
    int32x4_t total = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (int i = 0; i < N_SIDE_BY_SIDE; i++) total = vaddq_s32(total, sums[i]);
    return (uint32_t)vaddvq_s32(total);
}
#endif

static const tn_multiply_loop loops[TN_ISA_COUNT] = {
    [TN_ISA_REF] = {N_SIDE_BY_SIDE, multiply_ref},
#if defined(__x86_64__)
    [TN_ISA_AVX2] = {N_SIDE_BY_SIDE * 32, multiply_avx2},
    [TN_ISA_AVXVNNI] = {N_SIDE_BY_SIDE * 32, multiply_avxvnni},
    [TN_ISA_AVX512] = {N_SIDE_BY_SIDE * 64, multiply_avx512},
    [TN_ISA_AVX512VNNI] = {N_SIDE_BY_SIDE * 64, multiply_avx512vnni},
#elif defined(__aarch64__)
    [TN_ISA_NEON] = {N_SIDE_BY_SIDE * 8, multiply_neon},
    [TN_ISA_DOTPROD] = {N_SIDE_BY_SIDE * 16, multiply_dotprod},
    [TN_ISA_I8MM] = {N_SIDE_BY_SIDE * 32, multiply_i8mm},
#endif
};

const tn_multiply_loop *tn_multiply_loop_for(tn_isa isa) {
    int level = (int)isa;
    while (level > TN_ISA_REF && !loops[level].run) level--;
    return &loops[level];
}
