/* One token with the 256-wide weight types, or two or three. As gemv_q32_avx2.c: eight rows side by side, one
 * block each at a time, the next eight rows prefetched in file order. */
#include "gemv_avx2.h"
#include "unpack256_avx2.h"

/* How a type is computed. */
typedef struct shape {
    size_t bytes, d_at; /* of a block; where d, or d and m, are in it */
    int sub, offset;    /* elements a sub-block; offset of q, 0 for none */
    bool has_min, is_signed;
} shape;

/* 16 scales to even ones in the low lane, odd ones in the high lane: lane h of 32 elements needs scale 2*j +
 * h. */
TN_INLINE __m256i split_scales(__m256i scales) {
    const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i in_lane = _mm256_shuffle_epi8(scales, _mm256_broadcastsi128_si256(split));
    return _mm256_permute4x64_epi64(in_lane, 0xd8);
}

/* The activations of one token at one block. */
typedef struct activations {
    const uint8_t *q, *s;
} activations;

/* One block of one row with n tokens: for each, 8 partial sums of scale * q * x, the offset taken off, and of
 * minimum * sum of x. */
TN_INLINE void dot_block(__m256i (*sum)[8], __m256i (*mins)[8], size_t r, const uint8_t *block,
                         const activations *x, int n, shape sh, tn_q256_fn *load, tn_scales256_fn *scales) {
    _Alignas(32) int32_t pairs[8];
    __m256i scale, min, total[TN_FEW_TOKENS];
    scales(block, &scale, &min);
    if (sh.sub == 16)
        scale = split_scales(scale);
    else
        tn_store256(pairs, scale); /* to be broadcast by loads, which have ports of their own */
    for (int t = 0; t < n; t++) total[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const __m256i q = load(block, j);
        const __m256i pick = _mm256_set1_epi16((short)(0x0100 + 0x0202 * j));
        const __m256i by = sh.sub == 16 ? _mm256_shuffle_epi8(scale, pick) : _mm256_set1_epi32(pairs[j]);
        for (int t = 0; t < n; t++) {
            const __m256i xq = tn_load256(x[t].q + 32 * j);
            const __m256i p = sh.is_signed
                                  ? _mm256_maddubs_epi16(_mm256_abs_epi8(xq), _mm256_sign_epi8(q, xq))
                                  : _mm256_maddubs_epi16(q, xq);
            total[t] = tn_pin(_mm256_add_epi32(total[t], _mm256_madd_epi16(p, by)));
        }
    }
    for (int t = 0; t < n; t++) {
        if (sh.has_min || sh.offset) mins[t][r] = _mm256_madd_epi16(min, tn_load256(x[t].s));
        if (sh.offset) {
            const __m256i o = _mm256_mullo_epi32(mins[t][r], _mm256_set1_epi32(sh.offset));
            total[t] = _mm256_sub_epi32(total[t], o);
        }
        sum[t][r] = total[t];
    }
}

/* The accumulators of 8 rows and n tokens. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, int n, shape sh, tn_q256_fn *load,
                          tn_scales256_fn *scales) {
    const size_t d_offset = tn_act_d_offset(args->k), s_offset = tn_act_s_offset(TN_ACT_Q8_256, args->k);
    const size_t n_blocks = args->k / 256;
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += sh.bytes) {
        __m256i sum[TN_FEW_TOKENS][8], mins[TN_FEW_TOKENS][8];
        activations x[TN_FEW_TOKENS];
        __m256 d, m = _mm256_setzero_ps();
        for (int t = 0; t < n; t++) {
            const uint8_t *base = args->x + (size_t)t * args->x_stride;
            x[t] = (activations){base + 256 * b, base + s_offset + 32 * b};
        }
        for (size_t r = 0; r < 8; r++) {
            const char *ahead = (const char *)next + 8 * at + r * sh.bytes;
            for (size_t line = 0; line < sh.bytes; line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
            dot_block(sum, mins, r, row[r] + at, x, n, sh, load, scales);
        }
        if (sh.has_min)
            tn_gather_f16x2(row, at + sh.d_at, &d, &m);
        else
            d = tn_gather_f16(row, at + sh.d_at);
        for (int t = 0; t < n; t++) {
            const uint8_t *dx = args->x + (size_t)t * args->x_stride + d_offset + 4 * b;
            const __m256 scale = _mm256_castsi256_ps(tn_broadcast_i32(dx));
            acc[t] =
                _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(tn_sum8x8_i32(sum[t])), acc[t]);
            if (sh.has_min) {
                const __m256 minimum = _mm256_cvtepi32_ps(tn_sum8x8_i32(mins[t]));
                acc[t] = _mm256_fnmadd_ps(_mm256_mul_ps(m, scale), minimum, acc[t]);
            }
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, int n, shape sh, tn_q256_fn *load, tn_scales256_fn *scales) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        __m256 y[TN_FEW_TOKENS];
        eight_rows(y, row, next, args, n, sh, load, scales);
        for (int t = 0; t < n; t++) tn_store_rows(args->y + (size_t)t * args->y_stride + i, y[t], n_rows);
    }
}

#define GEMV(name, scales, ...)                                                                              \
    void tn_gemv_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        gemv(args, 1, (shape){__VA_ARGS__}, tn_q_##name, scales);                                            \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx2(const tn_matmul_args *args) {                                          \
        if (args->n_tokens == 2)                                                                             \
            gemv(args, 2, (shape){__VA_ARGS__}, tn_q_##name, scales);                                        \
        else                                                                                                 \
            gemv(args, 3, (shape){__VA_ARGS__}, tn_q_##name, scales);                                        \
    }
/*                          bytes  d_at  sub  offset  has_min  is_signed */
GEMV(q2_k, tn_scales_q2_k, 84, 80, 16, 0, true, false)
GEMV(q3_k, tn_scales_q3_k, 110, 108, 16, 4, false, false)
GEMV(q4_k, tn_scales_k4, 144, 0, 32, 0, true, false)
GEMV(q5_k, tn_scales_k4, 176, 0, 32, 0, true, false)
GEMV(q6_k, tn_scales_q6_k, 210, 208, 16, 32, false, false)
GEMV(iq4_xs, tn_scales_iq4_xs, 136, 0, 32, 0, false, true)
