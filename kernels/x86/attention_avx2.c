/* Attention in 8 lanes, the joining of chunks, and the store into the cache. */
#include "avx2.h"
#include "exp_avx2.h"

enum {
    TN_LANES = 8,
    TILE_ROWS = 6, /* 12 sums, 2 vectors and a factor in 16 registers */
    TILE_VECS = 2,
    SCORE_VECS = 2, /* of a tile of scores; TILE_VECS: of outputs */
    FEW_VECS_1 = 8, /* of a tile of 1 .. 4 rows */
    FEW_VECS_2 = 4,
    FEW_VECS_3 = 4,
    FEW_VECS_4 = 2,
    MANY_ROWS = 9 /* queries from which widening once is cheaper */
};

typedef __m256 tn_vf;

TN_INLINE tn_vf tn_vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
TN_INLINE tn_vf tn_vf_octet(const float *p) {
    return _mm256_loadu_ps(p);
}
TN_INLINE void tn_vf_store(float *p, tn_vf v) {
    _mm256_storeu_ps(p, v);
}
TN_INLINE void tn_vf_store_octet(float *p, tn_vf v) {
    _mm256_storeu_ps(p, v);
}
TN_INLINE tn_vf tn_vf_set1(float x) {
    return _mm256_set1_ps(x);
}
TN_INLINE tn_vf tn_vf_add(tn_vf a, tn_vf b) {
    return _mm256_add_ps(a, b);
}
TN_INLINE tn_vf tn_vf_sub(tn_vf a, tn_vf b) {
    return _mm256_sub_ps(a, b);
}
TN_INLINE tn_vf tn_vf_mul(tn_vf a, tn_vf b) {
    return _mm256_mul_ps(a, b);
}
TN_INLINE tn_vf tn_vf_fma(tn_vf a, tn_vf b, tn_vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
TN_INLINE tn_vf tn_vf_max(tn_vf a, tn_vf b) {
    return _mm256_max_ps(a, b);
}
TN_INLINE tn_vf tn_vf_exp(tn_vf x) {
    return tn_exp8_upto_max_ps(x);
}
TN_INLINE __m256 tn_vf_max_octets(tn_vf v) {
    return v;
}
TN_INLINE __m256 tn_vf_add_octets(__m256 sum, tn_vf v) {
    return _mm256_add_ps(sum, v);
}
/* a in the lanes of positions j .. that are in [lo, hi), b in the others. */
TN_INLINE tn_vf tn_vf_within(tn_vf a, tn_vf b, int j, int lo, int hi) {
    const __m256i at = _mm256_add_epi32(_mm256_set1_epi32(j), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(lo), at);
    const __m256i inside = _mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), at));
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(inside));
}
TN_INLINE tn_vf tn_vf_join8(const tn_vf v[8]) {
    return tn_join8x8_ps(v);
}
TN_INLINE void tn_vf_transpose(tn_vf v[8]) {
    __m256i w[8];
    for (int i = 0; i < 8; i++) w[i] = _mm256_castps_si256(v[i]);
    tn_transpose8(w);
    for (int i = 0; i < 8; i++) v[i] = _mm256_castsi256_ps(w[i]);
}

TN_INLINE tn_vf vector_f32(const uint8_t *row, size_t d, size_t i, bool half) {
    (void)half;
    return _mm256_loadu_ps((const float *)(const void *)row + d + i);
}
TN_INLINE tn_vf vector_f16(const uint8_t *row, size_t d, size_t i, bool half) {
    (void)half;
    return _mm256_cvtph_ps(tn_load128(row + 2 * (d + i)));
}
/* The scale of a block of Q8_0 in all lanes. */
TN_INLINE __m256 block_scale(const uint8_t *block) {
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(tn_load_u16(block))));
}
TN_INLINE tn_vf vector_q8_0(const uint8_t *row, size_t d, size_t i, bool half) {
    (void)half;
    const uint8_t *block = row + (d / 32 + i / 32) * 34;
    const __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)(block + 2 + d % 32 + i % 32));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), block_scale(block));
}

#define OCTETS_FN(name)                                                                                      \
    TN_INLINE tn_vf octets_##name(const uint8_t *a, const uint8_t *b, size_t d, size_t i) {                  \
        (void)b;                                                                                             \
        return vector_##name(a, d, i, false);                                                                \
    }
OCTETS_FN(f32)
OCTETS_FN(f16)
OCTETS_FN(q8_0)

#include "attention_chunk.inc"

void tn_attn_f32_avx2(const tn_attn_args *args) {
    attend(args, octets_f32, vector_f32);
}

void tn_attn_f16_avx2(const tn_attn_args *args) {
    attend(args, octets_f16, vector_f16);
}

void tn_attn_q8_0_avx2(const tn_attn_args *args) {
    attend(args, octets_q8_0, vector_q8_0);
}

/* exp(x); the larger maximum's factor is exp(0), which is 1. */
static inline float join_factor(float x) {
    return x == 0.0f ? 1.0f : tn_exp_f32(x);
}

void tn_attn_join_avx2(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t n) {
    if (l2 == 0) return;
    if (*l == 0) {
        *m = m2;
        *l = l2;
        memcpy(o, o2, n * sizeof *o);
        return;
    }
    const float largest = m2 > *m ? m2 : *m;
    const float a = join_factor(*m - largest), b = join_factor(m2 - largest);
    const __m256 va = _mm256_set1_ps(a), vb = _mm256_set1_ps(b);
    size_t i = 0;
    *l = fmaf(*l, a, l2 * b);
    for (; i + 8 <= n; i += 8) {
        const __m256 later = _mm256_mul_ps(_mm256_loadu_ps(o2 + i), vb);
        _mm256_storeu_ps(o + i, _mm256_fmadd_ps(_mm256_loadu_ps(o + i), va, later));
    }
    for (; i < n; i++) o[i] = fmaf(o[i], a, o2[i] * b);
    *m = largest;
}

void tn_kv_store_f16_avx2(void *dst, const float *x, size_t n) {
    uint16_t *h = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i v = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(h + i), v);
    }
    for (; i < n; i++) h[i] = tn_f32_to_f16(x[i]);
}
