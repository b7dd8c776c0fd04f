/* Activations to int8 with one scale a block, and the sums that weight offsets and minimums need; keys and values to
 * the blocks of a q8_0 cache. */
#include "avx2.h"
#include "simd_avx2.h"

/* The largest magnitude of n floats, n a multiple of 32, as bits: NaN is above infinity. */
TN_INLINE uint32_t largest_bits(const float *x, size_t n) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i m[4];
    for (int i = 0; i < 4; i++) m[i] = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 32) {
        for (size_t j = 0; j < 4; j++) {
            m[j] = _mm256_max_epi32(m[j], _mm256_and_si256(tn_load256(x + i + 8 * j), magnitude));
        }
    }
    const __m256i all = _mm256_max_epi32(_mm256_max_epi32(m[0], m[1]), _mm256_max_epi32(m[2], m[3]));
    __m128i v = _mm_max_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(v);
}

/* The scale and the factor of a block; a factor of 0 where all q are 0 by rule. */
TN_INLINE float block_scale(uint32_t bits, float *factor) {
    const float largest = tn_f32_from_bits(bits);
    *factor = 0.0f;
    if (bits >= 0x7f800000) return NAN;
    if (largest < 0x1p-100f) return 0.0f;
    *factor = 127.0f / largest;
    return largest / 127.0f;
}

/* 32 quantized elements. */
TN_INLINE __m256i quantize32(const float *x, __m256 factor) {
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    const __m256i q = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

TN_INLINE __m256i pair_sums(__m256i q) {
    return _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
}

/* Quantizes a block of 32 and returns its scale. */
TN_INLINE float quantize_block32(__m256i *q, const float *x) {
    float factor;
    const float d = block_scale(largest_bits(x, 32), &factor);
    *q = factor == 0.0f ? _mm256_setzero_si256() : quantize32(x, _mm256_set1_ps(factor));
    return d;
}

void tn_quantize_q8_32_avx2(uint8_t *row, const float *x, size_t k) {
    float *d = (float *)(void *)(row + tn_act_d_offset(k));
    int32_t *s = (int32_t *)(void *)(row + tn_act_s_offset(TN_ACT_Q8_32, k));
    for (size_t b = 0; b < k / 32; b++) {
        __m256i q;
        d[b] = quantize_block32(&q, x + 32 * b);
        tn_store256(row + 32 * b, q);
        const __m256i sums = _mm256_madd_epi16(pair_sums(q), _mm256_set1_epi16(1));
        __m128i v = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        v = _mm_hadd_epi32(v, v);
        s[b] = _mm_cvtsi128_si32(v) + _mm_extract_epi32(v, 1);
    }
}

/* 8 x 32 quantized elements and their 16 sums. The tree of additions leaves the sums of the even sixteens in
 * the low lane and of the odd ones in the high lane. */
TN_INLINE void store256(uint8_t *q, int16_t *s, const float *x, __m256 factor) {
    __m256i p[8];
    for (int i = 0; i < 8; i++) {
        const __m256i v = quantize32(x + 32 * i, factor);
        tn_store256(q + 32 * i, v);
        p[i] = pair_sums(v);
    }
    for (int i = 0; i < 4; i++) p[i] = _mm256_hadd_epi16(p[2 * i], p[2 * i + 1]);
    const __m256i v = _mm256_hadd_epi16(_mm256_hadd_epi16(p[0], p[1]), _mm256_hadd_epi16(p[2], p[3]));
    const __m128i even = _mm256_castsi256_si128(v), odd = _mm256_extracti128_si256(v, 1);
    _mm_storeu_si128((__m128i *)(void *)s, _mm_unpacklo_epi16(even, odd));
    _mm_storeu_si128((__m128i *)(void *)(s + 8), _mm_unpackhi_epi16(even, odd));
}

void tn_quantize_q8_256_avx2(uint8_t *row, const float *x, size_t k) {
    float *d = (float *)(void *)(row + tn_act_d_offset(k));
    int16_t *s = (int16_t *)(void *)(row + tn_act_s_offset(TN_ACT_Q8_256, k));
    for (size_t b = 0; b < k / 256; b++) {
        float factor;
        d[b] = block_scale(largest_bits(x + 256 * b, 256), &factor);
        if (factor == 0.0f) {
            memset(row + 256 * b, 0, 256);
            memset(s + 16 * b, 0, 16 * sizeof *s);
        } else {
            store256(row + 256 * b, s + 16 * b, x + 256 * b, _mm256_set1_ps(factor));
        }
    }
}

/* The cache's rows are the same blocks with the scale in front, as f16. */
void tn_kv_store_q8_0_avx2(void *dst, const float *x, size_t n) {
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += 32, block += 34) {
        __m256i q;
        const uint16_t d = tn_f32_to_f16(quantize_block32(&q, x + i));
        memcpy(block, &d, sizeof d);
        tn_store256(block + 2, q);
    }
}
