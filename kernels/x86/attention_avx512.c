/* Attention in 16 lanes. */
#include "exp_avx512.h"
#include "levels_avx512.h"

enum {
    TN_LANES = 16,
    TILE_ROWS = 4, /* 16 sums, 4 vectors and a factor in 32 registers */
    TILE_VECS = 4,
    SCORE_VECS = 2, /* of a tile of scores; TILE_VECS: of outputs */
    FEW_VECS_1 = 4, /* of a tile of 1 .. 4 rows */
    FEW_VECS_2 = 4,
    FEW_VECS_3 = 4,
    FEW_VECS_4 = 4,
    MANY_ROWS = 9 /* queries from which widening once is cheaper */
};

typedef __m512 tn_vf;

TN_INLINE tn_vf tn_vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
/* 8 floats, in both halves. */
TN_INLINE tn_vf tn_vf_octet(const float *p) {
    return _mm512_broadcast_f32x8(_mm256_loadu_ps(p));
}
TN_INLINE void tn_vf_store(float *p, tn_vf v) {
    _mm512_storeu_ps(p, v);
}
TN_INLINE void tn_vf_store_octet(float *p, tn_vf v) {
    _mm256_storeu_ps(p, _mm512_castps512_ps256(v));
}
TN_INLINE tn_vf tn_vf_set1(float x) {
    return _mm512_set1_ps(x);
}
TN_INLINE tn_vf tn_vf_add(tn_vf a, tn_vf b) {
    return _mm512_add_ps(a, b);
}
TN_INLINE tn_vf tn_vf_sub(tn_vf a, tn_vf b) {
    return _mm512_sub_ps(a, b);
}
TN_INLINE tn_vf tn_vf_mul(tn_vf a, tn_vf b) {
    return _mm512_mul_ps(a, b);
}
TN_INLINE tn_vf tn_vf_fma(tn_vf a, tn_vf b, tn_vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
TN_INLINE tn_vf tn_vf_max(tn_vf a, tn_vf b) {
    return _mm512_max_ps(a, b);
}
TN_INLINE tn_vf tn_vf_exp(tn_vf x) {
    return tn_exp16_upto_max_ps(x);
}
TN_INLINE __m256 tn_vf_max_octets(tn_vf v) {
    return _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}
TN_INLINE __m256 tn_vf_add_octets(__m256 sum, tn_vf v) {
    return _mm256_add_ps(_mm256_add_ps(sum, _mm512_castps512_ps256(v)), _mm512_extractf32x8_ps(v, 1));
}
/* a in the lanes of positions j .. that are in [lo, hi), b in the others. */
TN_INLINE tn_vf tn_vf_within(tn_vf a, tn_vf b, int j, int lo, int hi) {
    const __m512i at = _mm512_add_epi32(
        _mm512_set1_epi32(j), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __mmask16 from = _mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(lo));
    const __mmask16 to = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(hi), at);
    return _mm512_mask_mov_ps(b, (__mmask16)(from & to), a);
}

/* Lanes 128 bits wide: 0 and 2 of a, then of b; and 1 and 3. */
TN_INLINE __m512 even_lanes(__m512 a, __m512 b) {
    return _mm512_shuffle_f32x4(a, b, 0x88);
}
TN_INLINE __m512 odd_lanes(__m512 a, __m512 b) {
    return _mm512_shuffle_f32x4(a, b, 0xdd);
}
/* The joins of adjacent pairs within the lanes, those of a, then of b. */
TN_INLINE __m512 add_pairs(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* The fixed join of stripes (kernels.h) of 8 vectors of two octets: lanes 2i and 2i+1 are those of v[i]. */
TN_INLINE tn_vf tn_vf_join8(const tn_vf v[8]) {
    __m512 x[4];
    for (int i = 0; i < 4; i++) x[i] = _mm512_add_ps(even_lanes(v[i], v[i + 4]), odd_lanes(v[i], v[i + 4]));
    const __m512 sums = add_pairs(add_pairs(x[0], x[1]), add_pairs(x[2], x[3]));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15),
                                 sums);
}

/* 8 vectors of two octets; vector i of the result has element i of v[0..3]'s first octets, their second ones, then
 * the same of v[4..7]. */
TN_INLINE void tn_vf_transpose(tn_vf v[8]) {
    __m512i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_epi32(_mm512_castps_si512(v[i]), _mm512_castps_si512(v[i + 1]));
        a[i + 1] = _mm512_unpackhi_epi32(_mm512_castps_si512(v[i]), _mm512_castps_si512(v[i + 1]));
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = even_lanes(_mm512_castsi512_ps(b[i]), _mm512_castsi512_ps(b[i + 4]));
        v[i + 4] = odd_lanes(_mm512_castsi512_ps(b[i]), _mm512_castsi512_ps(b[i + 4]));
    }
}

TN_INLINE tn_vf vector_f32(const uint8_t *row, size_t d, size_t i, bool half) {
    const float *p = (const float *)(const void *)row + d + i;
    return half ? _mm512_castps256_ps512(_mm256_loadu_ps(p)) : _mm512_loadu_ps(p);
}
TN_INLINE tn_vf octets_f32(const uint8_t *a, const uint8_t *b, size_t d, size_t i) {
    const __m512 low = _mm512_castps256_ps512(_mm256_castsi256_ps(tn_load256(a + 4 * (d + i))));
    return _mm512_insertf32x8(low, _mm256_castsi256_ps(tn_load256(b + 4 * (d + i))), 1);
}

TN_INLINE tn_vf vector_f16(const uint8_t *row, size_t d, size_t i, bool half) {
    const uint8_t *p = row + 2 * (d + i);
    return _mm512_cvtph_ps(half ? _mm256_castsi128_si256(tn_load128(p)) : tn_load256(p));
}
TN_INLINE tn_vf octets_f16(const uint8_t *a, const uint8_t *b, size_t d, size_t i) {
    return _mm512_cvtph_ps(tn_load_pair(a + 2 * (d + i), b + 2 * (d + i)));
}

/* The scale of a block of Q8_0 in all lanes. */
TN_INLINE __m512 block_scale(const uint8_t *block) {
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(tn_load_u16(block))));
}
TN_INLINE __m512 widen_int8(__m128i q) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
}
/* A row is whole blocks, so there is no half. */
TN_INLINE tn_vf vector_q8_0(const uint8_t *row, size_t d, size_t i, bool half) {
    (void)half;
    const uint8_t *block = row + (d / 32 + i / 32) * 34;
    return _mm512_mul_ps(widen_int8(tn_load128(block + 2 + d % 32 + i % 32)), block_scale(block));
}
TN_INLINE tn_vf octets_q8_0(const uint8_t *a, const uint8_t *b, size_t d, size_t i) {
    const size_t block = (d / 32 + i / 32) * 34, at = block + 2 + d % 32 + i % 32;
    const __m512 scale = _mm512_mask_mov_ps(block_scale(a + block), 0xff00, block_scale(b + block));
    const __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)(a + at));
    const __m128i q = _mm_unpacklo_epi64(low, _mm_loadl_epi64((const __m128i *)(const void *)(b + at)));
    return _mm512_mul_ps(widen_int8(q), scale);
}

#include "attention_chunk.inc"

void tn_attn_f32_avx512(const tn_attn_args *args) {
    attend(args, octets_f32, vector_f32);
}

void tn_attn_f16_avx512(const tn_attn_args *args) {
    attend(args, octets_f16, vector_f16);
}

void tn_attn_q8_0_avx512(const tn_attn_args *args) {
    attend(args, octets_q8_0, vector_q8_0);
}
