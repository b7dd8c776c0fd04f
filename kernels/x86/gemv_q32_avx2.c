/* One token with the 32-wide weight types, or a few.
 *
 * Eight rows go side by side, one block each at a time: their eight integer dots become one vector, and the
 * chain of fused multiply-adds that each row's accumulator is becomes one vector instruction for all eight.
 * The memory still sees the rows in file order, because the next eight are prefetched in that order
 * meanwhile. The blocks are unpacked once, into registers, and met by one token after the other. */
#include "gemv_avx2.h"
#include "unpack32_avx2.h"

/* A block of eight rows: register i holds row i in the low lane, row 4 + i in the high lane. */
typedef struct weights {
    __m256i low[4], high[4]; /* elements 0-15, 16-31 */
} weights;

/* Elements 0-15 and 16-31 of a block of activations, in both lanes. */
typedef struct activations {
    __m256i low, high;
} activations;

typedef void load_fn(weights *w, const __m256i header[4], const uint8_t *const row[8], size_t at);
/* The dots of the eight rows, in order. */
typedef __m256i dots_fn(const weights *w, activations x);
typedef __m256i decode_fn(__m256i nibbles);

/* ---- Dots --------------------------------------------------------------------------------------- */

/* Eight products of row i in each int16: within 7620 for 4 bits, 15748 for 5. */
TN_INLINE void sums_of_four(__m256i sum[4], const weights *w, activations x) {
    for (int i = 0; i < 4; i++) {
        sum[i] = _mm256_add_epi16(_mm256_maddubs_epi16(w->low[i], x.low),
                                  _mm256_maddubs_epi16(w->high[i], x.high));
    }
}

/* Unsigned weights of 4 bits: all but the last addition of a row's sums fit int16. */
TN_INLINE __m256i dots_4_bits(const weights *w, activations x) {
    __m256i s[4];
    sums_of_four(s, w, x);
    const __m256i sum = _mm256_hadd_epi16(_mm256_hadd_epi16(s[0], s[1]), _mm256_hadd_epi16(s[2], s[3]));
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* Of 5 bits: all but the last two. */
TN_INLINE __m256i dots_5_bits(const weights *w, activations x) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i s[4];
    sums_of_four(s, w, x);
    const __m256i a = _mm256_madd_epi16(_mm256_hadd_epi16(s[0], s[1]), ones);
    const __m256i b = _mm256_madd_epi16(_mm256_hadd_epi16(s[2], s[3]), ones);
    return _mm256_hadd_epi32(a, b);
}

/* Signed weights above -128: |x| times the weight with the sign of x. */
TN_INLINE __m256i dots_signed(const weights *w, activations x) {
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_abs_epi8(x.low), high = _mm256_abs_epi8(x.high);
    __m256i s[4];
    for (int i = 0; i < 4; i++) {
        const __m256i a = _mm256_maddubs_epi16(low, _mm256_sign_epi8(w->low[i], x.low));
        const __m256i b = _mm256_maddubs_epi16(high, _mm256_sign_epi8(w->high[i], x.high));
        s[i] = _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    }
    return tn_sum4x8_i32(s);
}

/* A weight may be -128, so it is the activation that takes the sign: x never is. */
TN_INLINE __m256i dots_8_bits(const weights *w, activations x) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i s[4];
    for (int i = 0; i < 4; i++) {
        const __m256i low = w->low[i], high = w->high[i];
        const __m256i a = _mm256_maddubs_epi16(_mm256_abs_epi8(low), _mm256_sign_epi8(x.low, low));
        const __m256i b = _mm256_maddubs_epi16(_mm256_abs_epi8(high), _mm256_sign_epi8(x.high, high));
        s[i] = _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    }
    return tn_sum4x8_i32(s);
}

/* ---- Weights ------------------------------------------------------------------------------------ */

TN_INLINE void load_nibbles(weights *w, const uint8_t *const row[8], size_t qs, decode_fn *decode) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        const __m256i both = tn_load_pair(row[i] + qs, row[i + 4] + qs);
        w->low[i] = decode(_mm256_and_si256(both, mask));
        w->high[i] = decode(_mm256_and_si256(_mm256_srli_epi16(both, 4), mask));
    }
}

/* The fifth bits are in the header, from byte `qh` on. */
TN_INLINE void load_fives(weights *w, const __m256i header[4], const uint8_t *const row[8], size_t at,
                          char qh) {
    const __m256i from = _mm256_set1_epi8(qh);
    const __m256i low = _mm256_add_epi8(tn_fifth_select(0, 0), from);
    const __m256i high = _mm256_add_epi8(tn_fifth_select(2, 2), from);
    load_nibbles(w, row, at + (size_t)qh + 4, tn_plain_decode);
    for (int i = 0; i < 4; i++) {
        w->low[i] = _mm256_or_si256(w->low[i], tn_fifth_bits(header[i], low));
        w->high[i] = _mm256_or_si256(w->high[i], tn_fifth_bits(header[i], high));
    }
}

#define LOAD(name)                                                                                           \
    TN_INLINE void load_##name(weights *w, const __m256i header[4], const uint8_t *const row[8], size_t at)
LOAD(q4_0) {
    (void)header;
    load_nibbles(w, row, at + 2, tn_plain_decode);
}
LOAD(q4_1) {
    (void)header;
    load_nibbles(w, row, at + 4, tn_plain_decode);
}
LOAD(iq4_nl) {
    (void)header;
    load_nibbles(w, row, at + 2, tn_iq4_decode);
}
LOAD(mxfp4) {
    (void)header;
    load_nibbles(w, row, at + 1, tn_mxfp4_decode);
}
LOAD(q5_0) {
    load_fives(w, header, row, at, 2);
}
LOAD(q5_1) {
    load_fives(w, header, row, at, 4);
}
LOAD(q8_0) {
    (void)header;
    for (int i = 0; i < 4; i++) {
        w->low[i] = tn_load_pair(row[i] + at + 2, row[i + 4] + at + 2);
        w->high[i] = tn_load_pair(row[i] + at + 18, row[i + 4] + at + 18);
    }
}
#undef LOAD

/* ---- Rows --------------------------------------------------------------------------------------- */

/* How a type is computed: bytes of a block, offset of the unsigned q, and where the scale is: an f16 (out of the
 * headers where something else needs these), an f16 and a minimum, e8m0. */
typedef struct shape {
    size_t bytes;
    int offset;
    enum { GATHER_D, HEADER_D, HEADER_DM, E8M0 } factors;
} shape;

/* The accumulators of 8 rows and n tokens. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, size_t n, shape s, load_fn *load, dots_fn *dots) {
    const uint8_t *dx = args->x + tn_act_d_offset(args->k);
    const uint8_t *sx = args->x + tn_act_s_offset(TN_ACT_Q8_32, args->k);
    const size_t n_blocks = args->k / 32, stride = args->x_stride;
    for (size_t t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += s.bytes) {
        weights w;
        __m256i header[4];
        __m256 d, m = _mm256_setzero_ps();
        tn_prefetch(next + 8 * at, 8 * s.bytes);
        tn_load_headers(header, row, at);
        switch (s.factors) {
        case GATHER_D: d = tn_gather_f16(row, at); break;
        case HEADER_D: d = _mm256_cvtph_ps(tn_header_words(header)); break;
        case HEADER_DM: tn_header_f16x2(header, &d, &m); break;
        case E8M0: d = tn_gather_e8m0_half(row, at); break;
        }
        load(&w, header, row, at);
        for (size_t t = 0; t < n; t++) {
            const uint8_t *q = args->x + t * stride + 32 * b;
            const activations x = {_mm256_broadcastsi128_si256(tn_load128(q)),
                                   _mm256_broadcastsi128_si256(tn_load128(q + 16))};
            const __m256 scale = _mm256_castsi256_ps(tn_broadcast_i32(dx + t * stride + 4 * b));
            const int32_t sum = tn_load_i32(sx + t * stride + 4 * b);
            __m256i dot = dots(&w, x);
            if (s.offset) dot = _mm256_sub_epi32(dot, _mm256_set1_epi32(s.offset * sum));
            acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(dot), acc[t]);
            if (s.factors == HEADER_DM)
                acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(m, scale), _mm256_set1_ps((float)sum), acc[t]);
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, size_t n, shape s, load_fn *load, dots_fn *dots) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        __m256 y[TN_FEW_TOKENS];
        eight_rows(y, row, next, args, n, s, load, dots);
        for (size_t t = 0; t < n; t++) tn_store_rows(args->y + t * args->y_stride + i, y[t], n_rows);
    }
}

#define GEMV(name, dots, ...)                                                                                \
    void tn_gemv_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        gemv(args, 1, (shape){__VA_ARGS__}, load_##name, dots);                                              \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx2(const tn_matmul_args *args) {                                          \
        gemv(args, args->n_tokens, (shape){__VA_ARGS__}, load_##name, dots);                                 \
    }
GEMV(q4_0, dots_4_bits, 18, 8, GATHER_D)
GEMV(q4_1, dots_4_bits, 20, 0, HEADER_DM)
GEMV(q5_0, dots_5_bits, 22, 16, HEADER_D)
GEMV(q5_1, dots_5_bits, 24, 0, HEADER_DM)
GEMV(q8_0, dots_8_bits, 34, 0, GATHER_D)
GEMV(iq4_nl, dots_signed, 18, 0, GATHER_D)
GEMV(mxfp4, dots_5_bits, 17, TN_MXFP4_BIAS, E8M0)
