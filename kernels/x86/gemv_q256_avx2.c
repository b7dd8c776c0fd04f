/* One token with the 256-wide weight types, or a few. As gemv_q32_avx2.c: eight rows side by side, one block
 * each at a time, the next eight rows prefetched in file order. The number of tokens is a constant, so that
 * each 32 elements are unpacked once and the sums of all tokens stay in registers. */
#include "gemv_avx2.h"
#include "unpack256_avx2.h"
#include "unpack_grid_avx2.h"

/* How a type is computed. */
typedef struct shape {
    size_t bytes, d_at;      /* of a block; where d, or d and m, are in it */
    int offset;              /* of q, 0 for none */
    bool has_min, is_signed; /* signed: IQ4_XS */
} shape;

/* What 8 rows' blocks give with one token: 8 partial sums a row of scale * (q - offset) * x, and of
 * minimum * sum of x: 8 a row, or 4 a row with rows i and 4 + i in one register. */
typedef struct partial_sums {
    __m256i q[8], min[8];
} partial_sums;

/* ---- Scales ------------------------------------------------------------------------------------- */

/* 16 scales to even ones in the low lane, odd ones in the high lane: lane h of 32 elements needs scale 2*j +
 * h. */
TN_INLINE __m256i split_scales(__m256i scales) {
    const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i in_lane = _mm256_shuffle_epi8(scales, _mm256_broadcastsi128_si256(split));
    return _mm256_permute4x64_epi64(in_lane, 0xd8);
}

/* ---- Blocks ------------------------------------------------------------------------------------- */

/* A token's activations at one block: elements, and their sums per 16; or per 32, in both lanes. */
typedef struct activations {
    const uint8_t *q;
    __m256i sums;
} activations;

/* 32 nibbles are two sub-blocks: their first halves in the two lanes are vector j, their second ones j + 1. */
TN_INLINE __m256i load_iq4_xs(const uint8_t *block, int j) {
    const __m256i both = tn_load256(block + 8 + j / 2 * 32);
    return tn_iq4_decode(_mm256_and_si256(j % 2 ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(15)));
}

/* The activations in that order. */
TN_INLINE void pair_halves(uint8_t to[256], const uint8_t *x) {
    for (int i = 0; i < 256; i += 64) {
        const __m256i a = tn_load256(x + i), b = tn_load256(x + i + 32);
        tn_store256(to + i, _mm256_permute2x128_si256(a, b, 0x20));
        tn_store256(to + i + 32, _mm256_permute2x128_si256(a, b, 0x31));
    }
}

/* One row's block with n tokens: sums of scale * q * x. The scale of vector j of q is pairs[j / 4][j % 4], twice,
 * to be broadcast by a load, which has a port of its own; or `split` has one for each lane. */
TN_INLINE void dot_row(__m256i *total, const uint8_t *block, const activations *x, int n, bool is_signed,
                       tn_q256_fn *load, const int32_t (*pairs)[8], const __m256i *split) {
    for (int t = 0; t < n; t++) total[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const __m256i q = load(block, j), magnitude = _mm256_abs_epi8(q);
        const __m256i pick = _mm256_set1_epi16((short)(0x0100 + 0x0202 * (is_signed ? j / 2 : j)));
        const __m256i by = split ? _mm256_shuffle_epi8(*split, pick) : _mm256_set1_epi32(pairs[j / 4][j % 4]);
        for (int t = 0; t < n; t++) {
            const __m256i xq = tn_load256(x[t].q + 32 * j);
            const __m256i p = is_signed ? _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(xq, q))
                                        : _mm256_maddubs_epi16(q, xq);
            total[t] = tn_pin(_mm256_add_epi32(total[t], _mm256_madd_epi16(p, by)));
        }
    }
}

/* Row r's block with n tokens. */
TN_INLINE void one_row(partial_sums *sums, size_t r, const uint8_t *block, const activations *x, int n,
                       shape s, tn_q256_fn *load, tn_scales256_fn *scales) {
    __m256i scale, min, total[TN_FEW_TOKENS];
    scales(block, &scale, &min);
    const __m256i off = _mm256_mullo_epi16(scale, _mm256_set1_epi16((short)s.offset)); /* at most 128 * 32 */
    if (s.is_signed) /* a scale stands twice: scale 2*j + h to lane h */
        scale = _mm256_shuffle_epi8(
            split_scales(scale), _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 2,
                                                  3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1));
    else
        scale = split_scales(scale);
    dot_row(total, block, x, n, s.is_signed, load, NULL, &scale);
    for (int t = 0; t < n; t++) {
        if (s.offset) total[t] = _mm256_sub_epi32(total[t], _mm256_madd_epi16(off, x[t].sums));
        sums[t].q[r] = total[t];
        if (s.has_min) sums[t].min[r] = _mm256_madd_epi16(min, x[t].sums);
    }
}

/* Blocks of Q4_K or Q5_K of rows i and 4 + i, whose scales and minimums are decoded side by side. */
TN_INLINE void two_rows(partial_sums *sums, size_t i, const uint8_t *low, const uint8_t *high,
                        const activations *x, int n, tn_q256_fn *load) {
    _Alignas(32) int32_t pairs[2][8];
    __m256i scale, min, total[TN_FEW_TOKENS];
    tn_scales_k4_two(tn_load_pair(low, high), &scale, &min);
    _mm256_store_si256((__m256i *)pairs[0], _mm256_unpacklo_epi16(scale, scale));
    _mm256_store_si256((__m256i *)pairs[1], _mm256_unpackhi_epi16(scale, scale));
    dot_row(total, low, x, n, false, load, (const int32_t(*)[8])pairs, NULL);
    for (int t = 0; t < n; t++) {
        sums[t].q[i] = total[t];
        sums[t].min[i] = _mm256_madd_epi16(min, x[t].sums);
    }
    dot_row(total, high, x, n, false, load, (const int32_t(*)[8])(pairs[0] + 4), NULL);
    for (int t = 0; t < n; t++) sums[t].q[4 + i] = total[t];
}

/* The activations of n tokens at block b. */
TN_INLINE void load_activations(activations *x, uint8_t (*paired)[256], const tn_matmul_args *args, size_t b,
                                int n, bool pair, bool k4) {
    for (int t = 0; t < n; t++) {
        const uint8_t *row = args->x + (size_t)t * args->x_stride;
        const __m256i sums = tn_load256(row + tn_act_s_offset(TN_ACT_Q8_256, args->k) + 32 * b);
        x[t].q = pair ? paired[t] : row + 256 * b;
        if (pair) pair_halves(paired[t], row + 256 * b);
        x[t].sums = k4 ? tn_sums_of_32(sums) : sums;
    }
}

/* The accumulators of 8 rows and n tokens. With `unpack` the blocks are unpacked first, and read by the others. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, int n, shape s, tn_q256_fn *load,
                          tn_scales256_fn *scales, tn_unpack256_fn *unpack) {
    const size_t d_offset = tn_act_d_offset(args->k), n_blocks = args->k / 256;
    const bool k4 = !scales;
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += s.bytes) {
        partial_sums sums[TN_FEW_TOKENS];
        activations x[TN_FEW_TOKENS];
        _Alignas(32) uint8_t paired[TN_FEW_TOKENS][256];
        tn_unpacked_rows unpacked;
        __m256 d, m = _mm256_setzero_ps();
        if (unpack) tn_unpack_rows(&unpacked, row, at, unpack);
        load_activations(x, paired, args, b, n, s.is_signed, k4);
        for (size_t r = 0; r < 8; r++) {
            tn_prefetch(next + 8 * at + r * s.bytes, s.bytes);
            if (!k4)
                one_row(sums, r, unpack ? unpacked.block[r].q : row[r] + at, x, n, s, load, scales);
            else if (r % 2)
                two_rows(sums, r / 2, row[r / 2] + at, row[4 + r / 2] + at, x, n, load);
        }
        if (unpack)
            d = _mm256_load_ps(unpacked.d);
        else if (s.has_min)
            tn_gather_f16x2(row, at + s.d_at, &d, &m);
        else
            d = tn_gather_f16(row, at + s.d_at);
        for (int t = 0; t < n; t++) {
            const uint8_t *dx = args->x + (size_t)t * args->x_stride + d_offset + 4 * b;
            const __m256 scale = _mm256_castsi256_ps(tn_broadcast_i32(dx));
            const __m256 dot = _mm256_cvtepi32_ps(tn_sum8x8_i32(sums[t].q));
            acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), dot, acc[t]);
            if (s.has_min) {
                const __m256i minimum = k4 ? tn_sum4x8_i32(sums[t].min) : tn_sum8x8_i32(sums[t].min);
                acc[t] = _mm256_fnmadd_ps(_mm256_mul_ps(m, scale), _mm256_cvtepi32_ps(minimum), acc[t]);
            }
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, int n, shape s, tn_q256_fn *load, tn_scales256_fn *scales,
                    tn_unpack256_fn *unpack) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        __m256 y[TN_FEW_TOKENS];
        eight_rows(y, row, next, args, n, s, load, scales, unpack);
        for (int t = 0; t < n; t++) tn_store_rows(args->y + (size_t)t * args->y_stride + i, y[t], n_rows);
    }
}

/* The number of tokens, 2 to TN_FEW_TOKENS, as a constant. */
#define GEMV_FEW(...)                                                                                        \
    switch (args->n_tokens) {                                                                                \
    case 2: gemv(args, 2, __VA_ARGS__); break;                                                               \
    case 3: gemv(args, 3, __VA_ARGS__); break;                                                               \
    case 4: gemv(args, 4, __VA_ARGS__); break;                                                               \
    case 5: gemv(args, 5, __VA_ARGS__); break;                                                               \
    case 6: gemv(args, 6, __VA_ARGS__); break;                                                               \
    case 7: gemv(args, 7, __VA_ARGS__); break;                                                               \
    default: gemv(args, 8, __VA_ARGS__); break;                                                              \
    }

#define GEMV(name, load, scales, ...)                                                                        \
    void tn_gemv_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        gemv(args, 1, (shape){__VA_ARGS__}, load, scales, NULL);                                             \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx2(const tn_matmul_args *args) {                                          \
        GEMV_FEW((shape){__VA_ARGS__}, load, scales, NULL)                                                   \
    }
/* Without a function for scales these are the ones of tn_scales_k4_two.
                                              bytes d_at offset has_min is_signed */
GEMV(q2_k, tn_q_q2_k, tn_scales_q2_k, 84, 80, 0, true, false)
GEMV(q3_k, tn_q_q3_k, tn_scales_q3_k, 110, 108, 4, false, false)
GEMV(q4_k, tn_q_q4_k, NULL, 144, 0, 0, true, false)
GEMV(q5_k, tn_q_q5_k, NULL, 176, 0, 0, true, false)
GEMV(q6_k, tn_q_q6_k, tn_scales_q6_k, 210, 208, 32, false, false)
GEMV(iq4_xs, load_iq4_xs, tn_scales_iq4_xs, 136, 0, 0, false, true)

/* The grid types, whose unpacked blocks are all the same. */
static void gemv_grid(const tn_matmul_args *args, size_t bytes, int offset, tn_unpack256_fn *unpack) {
    const shape s = {.bytes = bytes, .offset = offset};
    if (args->n_tokens == 1)
        gemv(args, 1, s, tn_q_unpacked, tn_scales_unpacked, unpack);
    else
        GEMV_FEW(s, tn_q_unpacked, tn_scales_unpacked, unpack)
}

#define GRID(name, bytes, offset)                                                                            \
    void tn_gemv_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        gemv_grid(args, bytes, offset, tn_unpack_##name##_avx2);                                             \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx2(const tn_matmul_args *args) {                                          \
        gemv_grid(args, bytes, offset, tn_unpack_##name##_avx2);                                             \
    }
GRID(iq2_xxs, 66, TN_GRID7_OFFSET)
GRID(iq2_xs, 74, TN_GRID7_OFFSET)
GRID(iq2_s, 82, TN_GRID7_OFFSET)
GRID(iq3_xxs, 98, TN_GRID6_OFFSET)
GRID(iq3_s, 110, TN_GRID5_OFFSET)
GRID(iq1_s, 50, TN_GRID5_OFFSET)
GRID(iq1_m, 56, TN_GRID5_OFFSET)
GRID(tq1_0, 54, TN_GRID5_OFFSET)
GRID(tq2_0, 66, TN_GRID5_OFFSET)
