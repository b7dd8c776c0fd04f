/* NVFP4 (ref/nvfp4.c) with any number of tokens. As gemv_q32_avx2.c: eight rows side by side, one block each at a time,
 * which up to four tokens meet; the next eight rows are prefetched in file order meanwhile. With more tokens the rows
 * are read again, from the cache. */
#include "gemv_avx2.h"

enum { BLOCK_BYTES = 36, TOKENS = 4, BIAS = 12 };

/* Half a block of eight rows, two sub-blocks: register i holds row i in the low lane, row 4 + i in the high lane. Elements
 * 0-7 and 16-23 are `low`, 8-15 and 24-31 `high`, BIAS added. */
typedef struct weights {
    __m256i low[4], high[4];
} weights;

/* 32 activations in the same order, in both lanes, and BIAS times the sums of what shares an int16 with them. */
typedef struct activations {
    __m256i low, high, bias;
} activations;

TN_INLINE void load_weights(weights *w, const uint8_t *const row[8], size_t at) {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i mask = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        const __m256i v = tn_load_pair(row[i] + at, row[4 + i] + at);
        w->low[i] = _mm256_shuffle_epi8(table, _mm256_and_si256(v, mask));
        w->high[i] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
    }
}

TN_INLINE activations load_activations(const uint8_t *x) {
    const __m256i bias = _mm256_set1_epi8(BIAS);
    const __m256i v = _mm256_permute4x64_epi64(tn_load256(x), 0xd8); /* 0-7, 16-23 | 8-15, 24-31 */
    const __m256i low = _mm256_permute2x128_si256(v, v, 0x00), high = _mm256_permute2x128_si256(v, v, 0x11);
    return (activations){low, high,
                         _mm256_add_epi16(_mm256_maddubs_epi16(bias, low), _mm256_maddubs_epi16(bias, high))};
}

/* The dots of the eight rows with each of the two sub-blocks, in order. Four products of at most 24 * 127 share an int16. */
TN_INLINE void dots(__m256i dot[2], const weights *w, activations x) {
    __m256i v[4];
    for (int i = 0; i < 4; i++) {
        const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(w->low[i], x.low),
                                             _mm256_maddubs_epi16(w->high[i], x.high));
        v[i] = _mm256_madd_epi16(_mm256_sub_epi16(sum, x.bias), _mm256_set1_epi16(1));
    }
    const __m256 a = _mm256_castsi256_ps(_mm256_hadd_epi32(v[0], v[1]));
    const __m256 b = _mm256_castsi256_ps(_mm256_hadd_epi32(v[2], v[3]));
    dot[0] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    dot[1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
}

/* Half of the unsigned E4M3 in byte j of each lane, as tn_ue4m3_half_to_f32 has it. */
TN_INLINE __m256 scale_of(__m256i scales, int j) {
    const __m256i nan = _mm256_set1_epi32(0x7f);
    const __m256i byte = _mm256_and_si256(_mm256_srli_epi32(scales, 8 * j), _mm256_set1_epi32(0xff));
    const __m256 bits = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_and_si256(byte, nan), 20));
    const __m256 value = _mm256_mul_ps(bits, _mm256_set1_ps(0x1p119f));
    return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(byte, nan)), value);
}

/* The accumulators of eight rows and n tokens, the first of which is at x. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, const uint8_t *x, int n) {
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < args->k / 64; b++, at += BLOCK_BYTES) {
        int32_t scales[8];
        for (int r = 0; r < 8; r++) scales[r] = tn_load_i32(row[r] + at);
        if (next) tn_prefetch(next + 8 * at, 8 * BLOCK_BYTES);
        for (size_t h = 0; h < 2; h++) {
            weights w;
            load_weights(&w, row, at + 4 + 16 * h);
            const __m256 first = scale_of(tn_load256(scales), 2 * (int)h),
                         second = scale_of(tn_load256(scales), 2 * (int)h + 1);
            for (int t = 0; t < n; t++) {
                const uint8_t *xt = x + (size_t)t * args->x_stride;
                const __m256 dx =
                    _mm256_castsi256_ps(tn_broadcast_i32(xt + tn_act_d_offset(args->k) + 4 * (2 * b + h)));
                __m256i dot[2];
                dots(dot, &w, load_activations(xt + 64 * b + 32 * h));
                acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(first, dx), _mm256_cvtepi32_ps(dot[0]), acc[t]);
                acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(second, dx), _mm256_cvtepi32_ps(dot[1]), acc[t]);
            }
        }
    }
}

void tn_matmul_nvfp4_q8_avx2(const tn_matmul_args *args) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        for (size_t t = 0; t < args->n_tokens; t += TOKENS, next = NULL) {
            const size_t n = args->n_tokens - t < TOKENS ? args->n_tokens - t : TOKENS;
            const uint8_t *x = args->x + t * args->x_stride;
            __m256 y[TOKENS];
            switch (n) {
            case 1: eight_rows(y, row, next, args, x, 1); break;
            case 2: eight_rows(y, row, next, args, x, 2); break;
            case 3: eight_rows(y, row, next, args, x, 3); break;
            default: eight_rows(y, row, next, args, x, 4); break;
            }
            for (size_t j = 0; j < n; j++)
                tn_store_rows(args->y + (t + j) * args->y_stride + i, y[j], n_rows);
        }
    }
}
