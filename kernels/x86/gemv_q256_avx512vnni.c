/* One token with the 256-wide weight types, or a few, 64 elements at a time. As gemv_q256_avx2.c:
 * eight rows side by side, one block each at a time, the next eight rows prefetched in file order. */
#include "gemv_avx2.h"
#include "types_avxvnni.h"
#include "unpack256_avx512.h"

/* The activations of one token at one block: vectors in the type's order, and sums per 16; or, where scales are
 * decoded two rows at a time, per 32 in both lanes. */
typedef struct activations {
    __m512i q[4];
    __m256i sums;
} activations;

/* What 8 rows' blocks give with one token: 16 partial sums a row of scale * (q - offset) * x, and of minimum * sum
 * of x: 8 a row, or 4 a row with rows i and 4 + i in one register. */
typedef struct partial_sums {
    __m512i q[8];
    __m256i min[8];
} partial_sums;

/* Sums of 8 vectors, in order. */
TN_INLINE __m256i sum8x16(const __m512i v[8]) {
    __m512i a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        b[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                                _mm512_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    const __m512i c =
        _mm512_add_epi32(_mm512_shuffle_i32x4(b[0], b[1], 0x88), _mm512_shuffle_i32x4(b[0], b[1], 0xdd));
    const __m512i sum = _mm512_add_epi32(_mm512_shuffle_i32x4(c, c, 0x08), _mm512_shuffle_i32x4(c, c, 0x0d));
    return _mm512_castsi512_si256(sum);
}

/* A row's block: elements in the type's order, scales for them; scales * -offset, minimums. */
typedef struct weights {
    __m512i q[4], by[4], off;
    __m256i min;
} weights;

/* The dot of weights and activations with scales. Of at most 7 bits pairs of products fit int16 (2 * 127 * 127), which
 * a product of pairs with by[i] adds up. */
TN_INLINE __m512i dot_pairs(const weights *w, const activations *x) {
    __m512i total = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++)
        total = _mm512_dpwssd_epi32(total, _mm512_maddubs_epi16(w->q[i], x->q[i]), w->by[i]);
    return total;
}

/* Where a quarter of vectors 2*h and 2*h + 1 is one sub-block of 32, by halves; by[h] has its scale as int32. Of 5
 * bits the eight products of a lane fit int16. */
TN_INLINE __m512i dot_halves(const weights *w, const activations *x, bool fits16) {
    __m512i total = _mm512_setzero_si512();
    for (int h = 0; h < 2; h++) {
        __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w->q[2 * h], x->q[2 * h]);
        dot = _mm512_dpbusd_epi32(dot, w->q[2 * h + 1], x->q[2 * h + 1]);
        total = fits16 ? _mm512_dpwssd_epi32(total, dot, w->by[h])
                       : _mm512_add_epi32(total, _mm512_mullo_epi32(dot, w->by[h]));
    }
    return total;
}

/* Row r's block with n tokens. */
TN_INLINE void one_row(partial_sums *sums, size_t r, const uint8_t *block, const activations *x, size_t n,
                       tn_shape s, tn_order order, tn_q64_fn *load, tn_scales256_fn *scales) {
    const int offset = s.bits == 8 ? 128 : s.offset;
    __m256i scale;
    weights w;
    scales(block, &scale, &w.min);
    /* at most 32 * 128 */
    w.off = _mm512_zextsi256_si512(_mm256_mullo_epi16(scale, _mm256_set1_epi16((short)-offset)));
    for (int i = 0; i < 4; i++) {
        w.q[i] = load(block, i);
        w.by[i] = _mm512_permutexvar_epi16(tn_order_sub_blocks(order, i), _mm512_castsi256_si512(scale));
    }
    if (order == TN_BY_LANE) { /* a scale stands twice */
        const __m512i twos = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
        for (int h = 0; h < 2; h++)
            w.by[h] = _mm512_permutexvar_epi32(_mm512_add_epi32(twos, _mm512_set1_epi32(8 * h)),
                                               _mm512_cvtepi16_epi32(scale));
    }
    for (size_t t = 0; t < n; t++) {
        __m512i total = order == TN_BY_LANE ? dot_halves(&w, &x[t], false) : dot_pairs(&w, &x[t]);
        if (offset) total = _mm512_dpwssd_epi32(total, w.off, _mm512_zextsi256_si512(x[t].sums));
        sums[t].q[r] = total;
        if (s.has_min) sums[t].min[r] = _mm256_madd_epi16(w.min, x[t].sums);
    }
}

/* The blocks of Q4_K or Q5_K of rows i and 4 + i, whose scales and minimums are decoded side by side. */
TN_INLINE void two_rows(partial_sums *sums, size_t i, const uint8_t *const block[2], const activations *x,
                        size_t n, tn_q64_fn *load) {
    const __m512i even = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m256i scale, min;
    tn_scales_k4_two(tn_load_pair(block[0], block[1]), &scale, &min);
    const __m512i wide = _mm512_cvtepu16_epi32(scale);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __m512i of_row = _mm512_set1_epi32(8 * h);
        weights w;
        w.by[0] = _mm512_permutexvar_epi32(_mm512_add_epi32(even, of_row), wide);
        w.by[1] = _mm512_permutexvar_epi32(_mm512_add_epi32(odd, of_row), wide);
        for (int j = 0; j < 4; j++) w.q[j] = load(block[h], j);
        for (size_t t = 0; t < n; t++) sums[t].q[4 * (size_t)h + i] = dot_halves(&w, &x[t], true);
    }
    for (size_t t = 0; t < n; t++) sums[t].min[i] = _mm256_madd_epi16(min, x[t].sums);
}

TN_INLINE void load_activations(activations *x, const tn_matmul_args *args, size_t b, size_t n,
                                tn_order order) {
    for (size_t t = 0; t < n; t++) {
        const uint8_t *row = args->x + t * args->x_stride;
        const __m256i sums = tn_load256(row + tn_act_s_offset(TN_ACT_Q8_256, args->k) + 32 * b);
        for (int i = 0; i < 4; i++) x[t].q[i] = tn_order_load(row + 256 * b, order, i);
        x[t].sums = order == TN_BY_QUARTER ? tn_sums_of_32(sums) : sums;
    }
}

/* The accumulators of 8 rows and n tokens. With `unpack` the blocks are unpacked first, and read by the others. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, size_t n, tn_shape s, tn_order order, tn_q64_fn *load,
                          tn_scales256_fn *scales, tn_unpack256_fn *unpack) {
    const size_t d_offset = tn_act_d_offset(args->k), n_blocks = args->k / 256;
    const bool k4 = order == TN_BY_QUARTER;
    for (size_t t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += s.bytes) {
        partial_sums sums[TN_FEW_TOKENS];
        activations x[TN_FEW_TOKENS];
        tn_unpacked_rows unpacked;
        __m256 d, m = _mm256_setzero_ps();
        if (unpack) tn_unpack_rows(&unpacked, row, at, unpack);
        load_activations(x, args, b, n, order);
        for (size_t r = 0; r < 8; r++) {
            tn_prefetch(next + 8 * at + r * s.bytes, s.bytes);
            if (!k4)
                one_row(sums, r, unpack ? unpacked.block[r].q : row[r] + at, x, n, s, order, load, scales);
            else if (r % 2)
                two_rows(sums, r / 2, (const uint8_t *[2]){row[r / 2] + at, row[4 + r / 2] + at}, x, n, load);
        }
        if (unpack)
            d = _mm256_load_ps(unpacked.d);
        else if (s.has_min)
            tn_gather_f16x2(row, at + s.d_at, &d, &m);
        else
            d = tn_gather_f16(row, at + s.d_at);
        for (size_t t = 0; t < n; t++) {
            const uint8_t *dx = args->x + t * args->x_stride + d_offset + 4 * b;
            const __m256 scale = _mm256_castsi256_ps(tn_broadcast_i32(dx));
            acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(sum8x16(sums[t].q)), acc[t]);
            if (s.has_min) {
                const __m256i minimum = k4 ? tn_sum4x8_i32(sums[t].min) : tn_sum8x8_i32(sums[t].min);
                acc[t] = _mm256_fnmadd_ps(_mm256_mul_ps(m, scale), _mm256_cvtepi32_ps(minimum), acc[t]);
            }
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, size_t n, tn_shape s, tn_order order, tn_q64_fn *load,
                    tn_scales256_fn *scales, tn_unpack256_fn *unpack) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        __m256 y[TN_FEW_TOKENS];
        eight_rows(y, row, next, args, n, s, order, load, scales, unpack);
        for (size_t t = 0; t < n; t++) tn_store_rows(args->y + t * args->y_stride + i, y[t], n_rows);
    }
}

#define GEMV(NAME, name, order)                                                                              \
    void tn_gemv_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                        \
        gemv(args, 1, TN_SHAPE_##NAME, order, tn_q64_##name, tn_scales_##name, NULL);                        \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                    \
        gemv(args, args->n_tokens, TN_SHAPE_##NAME, order, tn_q64_##name, tn_scales_##name, NULL);           \
    }
GEMV(Q2_K, q2_k, TN_BY_TWO)
GEMV(Q3_K, q3_k, TN_BY_TWO)
GEMV(Q4_K, q4_k, TN_BY_QUARTER)
GEMV(Q5_K, q5_k, TN_BY_QUARTER)
GEMV(Q6_K, q6_k, TN_BY_ORDER)
GEMV(IQ4_XS, iq4_xs, TN_BY_LANE)

TN_INLINE __m512i q64_unpacked(const uint8_t *block, int i) {
    return _mm512_loadu_si512(block + 64 * i);
}

/* The grid types, whose unpacked blocks are all the same. */
static void gemv_grid(const tn_matmul_args *args, tn_shape s, tn_unpack256_fn *unpack) {
    const tn_shape any = {.bytes = s.bytes, .bits = 7, .offset = s.offset};
    if (args->n_tokens == 1)
        gemv(args, 1, any, TN_BY_ORDER, q64_unpacked, tn_scales_unpacked, unpack);
    else
        gemv(args, args->n_tokens, any, TN_BY_ORDER, q64_unpacked, tn_scales_unpacked, unpack);
}

#define X(NAME, name)                                                                                        \
    void tn_gemv_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                        \
        gemv_grid(args, TN_SHAPE_##NAME, tn_unpack_##name##_avx2);                                           \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                    \
        gemv_grid(args, TN_SHAPE_##NAME, tn_unpack_##name##_avx2);                                           \
    }
TN_AVX2_GRID_TYPES(X)
#undef X
