/* One token with the 256-wide weight types, or two or three, 64 elements at a time. As gemv_q256_avx2.c:
 * eight rows side by side, one block each at a time, the next eight rows prefetched in file order. */
#include "gemv_avx2.h"
#include "types_avxvnni.h"
#include "unpack256_avx512.h"

/* The activations of one token at one block: vectors in the type's order, sums per 16. */
typedef struct activations {
    __m512i q[4];
    __m256i s;
} activations;

TN_INLINE __m256i fold(__m512i v) {
    return _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
}

/* The dot of weights and activations with scales, of at most 6 bits: pairs of products fit int16 (2 * 63 *
 * 127). */
TN_INLINE void dot_pairs(__m512i *total, const uint8_t *block, __m256i scales, const activations *x, int n,
                         tn_order order, tn_q64_fn *load) {
    const __m512i twice = _mm512_castsi256_si512(scales);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512i q = load(block, i), by = _mm512_permutexvar_epi16(tn_order_sub_blocks(order, i), twice);
        for (int t = 0; t < n; t++) {
            total[t] = _mm512_dpwssd_epi32(total[t], _mm512_maddubs_epi16(q, x[t].q[i]), by);
        }
    }
}

/* The same of IQ4_XS, whose products need int32; a quarter of a vector is one sub-block of 32, by halves. */
TN_INLINE void dot_lanes(__m512i *total, const uint8_t *block, __m256i scales, const activations *x, int n,
                         tn_q64_fn *load) {
    const __m512i wide = _mm512_cvtepi16_epi32(scales); /* a scale twice */
    const __m512i twos = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __m512i a = load(block, 2 * h), b = load(block, 2 * h + 1);
        const __m512i by = _mm512_permutexvar_epi32(_mm512_add_epi32(twos, _mm512_set1_epi32(8 * h)), wide);
        for (int t = 0; t < n; t++) {
            __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), a, x[t].q[2 * h]);
            dot = _mm512_dpbusd_epi32(dot, b, x[t].q[2 * h + 1]);
            total[t] = _mm512_add_epi32(total[t], _mm512_mullo_epi32(dot, by));
        }
    }
}

/* One block of row r with n tokens: 8 partial sums of scale * (q - offset) * x, and of minimum * sum of x. */
TN_INLINE void dot_block(__m256i (*sum)[8], __m256i (*mins)[8], size_t r, const uint8_t *block,
                         const activations *x, int n, tn_shape s, tn_order order, tn_q64_fn *load,
                         tn_scales256_fn *scales) {
    const int offset = s.bits == 8 ? 128 : s.offset;
    __m256i scale, min;
    __m512i total[TN_FEW_TOKENS];
    scales(block, &scale, &min);
    for (int t = 0; t < n; t++) total[t] = _mm512_setzero_si512();
    if (order == TN_BY_LANE)
        dot_lanes(total, block, scale, x, n, load);
    else
        dot_pairs(total, block, scale, x, n, order, load);
    const __m256i off = _mm256_mullo_epi16(scale, _mm256_set1_epi16((short)-offset)); /* at most 32 * 128 */
    for (int t = 0; t < n; t++) {
        sum[t][r] = fold(total[t]);
        if (offset) sum[t][r] = _mm256_dpwssd_epi32(sum[t][r], off, x[t].s);
        if (s.has_min) mins[t][r] = _mm256_madd_epi16(min, x[t].s);
    }
}

TN_INLINE void load_activations(activations *x, const tn_matmul_args *args, size_t b, int n, tn_order order) {
    for (int t = 0; t < n; t++) {
        const uint8_t *row = args->x + (size_t)t * args->x_stride;
        for (int i = 0; i < 4; i++) x[t].q[i] = tn_order_load(row + 256 * b, order, i);
        x[t].s = tn_load256(row + tn_act_s_offset(TN_ACT_Q8_256, args->k) + 32 * b);
    }
}

/* The accumulators of 8 rows and n tokens. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, int n, tn_shape s, tn_order order, tn_q64_fn *load,
                          tn_scales256_fn *scales) {
    const size_t d_offset = tn_act_d_offset(args->k), n_blocks = args->k / 256;
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += s.bytes) {
        __m256i sum[TN_FEW_TOKENS][8], mins[TN_FEW_TOKENS][8];
        activations x[TN_FEW_TOKENS];
        __m256 d, m = _mm256_setzero_ps();
        load_activations(x, args, b, n, order);
        for (size_t r = 0; r < 8; r++) {
            const char *ahead = (const char *)next + 8 * at + r * s.bytes;
            for (size_t line = 0; line < s.bytes; line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
            dot_block(sum, mins, r, row[r] + at, x, n, s, order, load, scales);
        }
        if (s.has_min)
            tn_gather_f16x2(row, at + s.d_at, &d, &m);
        else
            d = tn_gather_f16(row, at + s.d_at);
        for (int t = 0; t < n; t++) {
            const uint8_t *dx = args->x + (size_t)t * args->x_stride + d_offset + 4 * b;
            const __m256 scale = _mm256_castsi256_ps(tn_broadcast_i32(dx));
            acc[t] =
                _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(tn_sum8x8_i32(sum[t])), acc[t]);
            if (s.has_min) {
                const __m256 minimum = _mm256_cvtepi32_ps(tn_sum8x8_i32(mins[t]));
                acc[t] = _mm256_fnmadd_ps(_mm256_mul_ps(m, scale), minimum, acc[t]);
            }
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, int n, tn_shape s, tn_order order, tn_q64_fn *load,
                    tn_scales256_fn *scales) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        __m256 y[TN_FEW_TOKENS];
        eight_rows(y, row, next, args, n, s, order, load, scales);
        for (int t = 0; t < n; t++) tn_store_rows(args->y + (size_t)t * args->y_stride + i, y[t], n_rows);
    }
}

#define GEMV(NAME, name, order)                                                                              \
    void tn_gemv_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                        \
        gemv(args, 1, TN_SHAPE_##NAME, order, tn_q64_##name, tn_scales_##name);                              \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                    \
        TN_GEMV_FEW(gemv, TN_SHAPE_##NAME, order, tn_q64_##name, tn_scales_##name)                           \
    }
GEMV(Q2_K, q2_k, TN_BY_TWO)
GEMV(Q3_K, q3_k, TN_BY_TWO)
GEMV(Q4_K, q4_k, TN_BY_FOUR)
GEMV(Q5_K, q5_k, TN_BY_FOUR)
GEMV(Q6_K, q6_k, TN_BY_ORDER)
GEMV(IQ4_XS, iq4_xs, TN_BY_LANE)
