/* One token with the 32-wide weight types, or a few: sixteen rows side by side, one block each at a
 * time, the next sixteen prefetched in file order; the block is unpacked once and met by one token after the other.
 *
 * A register holds 16 bytes of four rows: lane l of register i belongs to row 4 * l + i, so that what the
 * unpacks of four registers bring together in each lane is in the order of the rows. The first 16 bytes of
 * the blocks are loaded as registers too: factors and fifth bits come out of them by the same unpacks, not
 * one by one. */
#include "gemv_avx2.h"
#include "types_avxvnni.h"

enum { ROWS = 16 };

/* How a block's 32 elements lie: nibbles, nibbles and fifth bits, bytes; the nibbles may index a table. */
typedef enum layout { NIBBLES, FIVES, BYTES } layout;
typedef struct form {
    layout layout;
    const int8_t *table; /* NULL for none; its values are unsigned bytes */
    int offset;          /* of the unsigned elements */
} form;

static const int8_t iq4_table[16] = {1,    24,   45,   63,  79,  93,  106, 118,
                                     -127, -115, -103, -90, -75, -59, -39, -15};
static const int8_t mxfp4_table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* 16 bytes at `offset` of rows i, 4 + i, 8 + i, 12 + i. */
TN_INLINE __m512i load_rows(const uint8_t *const row[ROWS], int i, size_t offset) {
    __m512i v = _mm512_castsi128_si512(tn_load128(row[i] + offset));
    v = _mm512_inserti32x4(v, tn_load128(row[4 + i] + offset), 1);
    v = _mm512_inserti32x4(v, tn_load128(row[8 + i] + offset), 2);
    return _mm512_inserti32x4(v, tn_load128(row[12 + i] + offset), 3);
}

/* 16 to every element whose bit is set; byte i of a lane asks bit i % 8 of header byte `at` + i / 8. */
TN_INLINE __m512i add_fifth(__m512i q, __m512i header, int at) {
    const __m128i select =
        _mm_add_epi8(_mm_set1_epi8((char)at), _mm_setr_epi32(0, 0, 0x01010101, 0x01010101));
    const __m512i bits = _mm512_shuffle_epi8(header, _mm512_broadcast_i32x4(select));
    const __mmask64 set = _mm512_test_epi8_mask(bits, _mm512_set1_epi64((long long)0x8040201008040201ull));
    return _mm512_mask_add_epi8(q, set, q, _mm512_set1_epi8(16));
}

/* Elements 0-15 and 16-31 of four rows, unsigned. */
TN_INLINE void load_elements(__m512i *low, __m512i *high, const uint8_t *const row[ROWS], int i, size_t at,
                             __m512i header, tn_shape s, form f) {
    if (f.layout == BYTES) {
        const __m512i flip = _mm512_set1_epi8((char)0x80);
        *low = _mm512_xor_si512(load_rows(row, i, at + s.bytes - 32u), flip);
        *high = _mm512_xor_si512(load_rows(row, i, at + s.bytes - 16u), flip);
        return;
    }
    const __m512i both = load_rows(row, i, at + s.bytes - 16u), mask = _mm512_set1_epi8(15);
    *low = _mm512_and_si512(both, mask);
    *high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
    if (f.table) {
        const __m512i table = _mm512_broadcast_i32x4(tn_load128(f.table));
        *low = _mm512_shuffle_epi8(table, *low);
        *high = _mm512_shuffle_epi8(table, *high);
    }
    if (f.layout == FIVES) {
        *low = add_fifth(*low, header, s.bytes - 20);
        *high = add_fifth(*high, header, s.bytes - 18);
    }
}

/* Sums of each lane of four registers, in the order of the rows. */
TN_INLINE __m512i sum_lanes(const __m512i v[4]) {
    const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Half of the e8m0 scales 2^(e-127): 2^(e-128), subnormal for e < 2. */
TN_INLINE __m512 e8m0_half(__m512i e) {
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 is_small = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(2), e);
    const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_small, small));
}

/* The factors at the start of the headers. Each lane's four go to one quarter, these together to one half. */
TN_INLINE void load_factors(__m512 *d, __m512 *m, const __m512i header[4], tn_shape s) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    if (s.has_min) {
        const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        const __m512i pairs = _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(header[0], header[1]),
                                                    _mm512_unpacklo_epi32(header[2], header[3]));
        const __m512i both =
            _mm512_permutexvar_epi64(order, _mm512_shuffle_epi8(pairs, _mm512_broadcast_i32x4(split)));
        *d = _mm512_cvtph_ps(_mm512_castsi512_si256(both));
        *m = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(both, 1));
        return;
    }
    const __m512i fours = _mm512_unpacklo_epi32(_mm512_unpacklo_epi16(header[0], header[1]),
                                                _mm512_unpacklo_epi16(header[2], header[3]));
    const __m256i words = _mm512_castsi512_si256(_mm512_permutexvar_epi64(order, fours));
    *d = s.e8m0 ? e8m0_half(_mm512_and_si512(_mm512_cvtepu16_epi32(words), _mm512_set1_epi32(255)))
                : _mm512_cvtph_ps(words);
}

/* A block of sixteen rows: elements 0-15 and 16-31, factors. */
typedef struct weights {
    __m512i low[4], high[4];
    __m512 d, m;
} weights;

TN_INLINE void load_weights(weights *w, const uint8_t *next, const uint8_t *const row[ROWS], size_t at,
                            tn_shape s, form f) {
    __m512i header[4];
    for (int i = 0; i < 4; i++) {
        tn_prefetch(next + (size_t)i * (ROWS / 4) * s.bytes, ROWS / 4 * (size_t)s.bytes);
        header[i] = load_rows(row, i, at);
        load_elements(&w->low[i], &w->high[i], row, i, at, header[i], s, f);
    }
    load_factors(&w->d, &w->m, header, s);
}

/* The dots with one token's elements. */
TN_INLINE __m512i dots(const weights *w, const uint8_t *x) {
    const __m512i low = _mm512_broadcast_i32x4(tn_load128(x));
    const __m512i high = _mm512_broadcast_i32x4(tn_load128(x + 16));
    __m512i v[4];
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w->low[i], low);
        v[i] = _mm512_dpbusd_epi32(v[i], w->high[i], high);
    }
    return sum_lanes(v);
}

TN_INLINE void sixteen_rows(__m512 *acc, const uint8_t *const row[ROWS], const uint8_t *next,
                            const tn_matmul_args *args, size_t n, tn_shape s, form f) {
    const uint8_t *dx = args->x + tn_act_d_offset(args->k);
    const uint8_t *sx = args->x + tn_act_s_offset(TN_ACT_Q8_32, args->k);
    const size_t n_blocks = args->k / 32, stride = args->x_stride;
    for (size_t t = 0; t < n; t++) acc[t] = _mm512_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += s.bytes) {
        weights w;
        load_weights(&w, next + ROWS * at, row, at, s, f);
        for (size_t t = 0; t < n; t++) {
            const __m512i scale = _mm512_set1_epi32(tn_load_i32(dx + t * stride + 4 * b));
            const int32_t sum = tn_load_i32(sx + t * stride + 4 * b);
            __m512i dot = dots(&w, args->x + t * stride + 32 * b);
            if (f.offset) dot = _mm512_sub_epi32(dot, _mm512_set1_epi32(f.offset * sum));
            const __m512 d = _mm512_mul_ps(w.d, _mm512_castsi512_ps(scale));
            acc[t] = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(dot), acc[t]);
            if (s.has_min) {
                const __m512 m = _mm512_mul_ps(w.m, _mm512_castsi512_ps(scale));
                acc[t] = _mm512_fmadd_ps(m, _mm512_set1_ps((float)sum), acc[t]);
            }
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, size_t n, tn_shape s, form f) {
    for (size_t i = 0; i < args->n_rows; i += ROWS) {
        const size_t n_rows = args->n_rows - i < ROWS ? args->n_rows - i : ROWS, last = n_rows - 1;
        const uint8_t *row[ROWS]; /* a short group repeats its last row; those lanes are not stored */
        __m512 y[TN_FEW_TOKENS];
        for (size_t r = 0; r < ROWS; r++) row[r] = args->w + (i + (r < last ? r : last)) * args->w_stride;
        sixteen_rows(y, row, args->w + (i + n_rows) * args->w_stride + TN_PREFETCH_AHEAD, args, n, s, f);
        const __mmask16 stored = (__mmask16)((2u << last) - 1);
        for (size_t t = 0; t < n; t++) _mm512_mask_storeu_ps(args->y + t * args->y_stride + i, stored, y[t]);
    }
}

#define GEMV(NAME, name, ...)                                                                                \
    void tn_gemv_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                        \
        gemv(args, 1, TN_SHAPE_##NAME, (form){__VA_ARGS__});                                                 \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx512vnni(const tn_matmul_args *args) {                                    \
        gemv(args, args->n_tokens, TN_SHAPE_##NAME, (form){__VA_ARGS__});                                    \
    }
GEMV(Q4_0, q4_0, NIBBLES, NULL, 8)
GEMV(Q4_1, q4_1, NIBBLES, NULL, 0)
GEMV(Q5_0, q5_0, FIVES, NULL, 16)
GEMV(Q5_1, q5_1, FIVES, NULL, 0)
GEMV(Q8_0, q8_0, BYTES, NULL, 128)
GEMV(IQ4_NL, iq4_nl, NIBBLES, iq4_table, 128)
GEMV(MXFP4, mxfp4, NIBBLES, mxfp4_table, TN_MXFP4_BIAS)
