/* One token with the 32-wide weight types, or two or three.
 *
 * Eight rows go side by side, one block each at a time: their eight integer dots become one vector, and the
 * chain of fused multiply-adds that each row's accumulator is becomes one vector instruction for all eight.
 * The memory still sees the rows in file order, because the next eight are prefetched in that order
 * meanwhile. */
#include "gemv_avx2.h"
#include "unpack32_avx2.h"

/* What a pair of rows needs of one block of activations: 16 elements in both lanes. */
typedef struct activations {
    __m256i low, high;         /* elements 0-15, 16-31 */
    __m256i abs_low, abs_high; /* their magnitudes, for signed weights */
    const uint8_t *q;
} activations;

/* The 8 dots of block `at` of the rows with each of n tokens. */
typedef void dots_fn(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n);

TN_INLINE activations load_activations(const uint8_t *q) {
    activations x;
    x.low = _mm256_broadcastsi128_si256(tn_load128(q));
    x.high = _mm256_broadcastsi128_si256(tn_load128(q + 16));
    x.abs_low = _mm256_abs_epi8(x.low);
    x.abs_high = _mm256_abs_epi8(x.high);
    x.q = q;
    return x;
}

/* Unsigned weights of at most 5 bits, a pair of rows: four products a lane stay within int16. */
TN_INLINE __m256i dot_pair_unsigned(__m256i low, __m256i high, const activations *x) {
    const __m256i sum =
        _mm256_add_epi16(_mm256_maddubs_epi16(low, x->low), _mm256_maddubs_epi16(high, x->high));
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* Signed weights above -128: |x| times the weight with the sign of x. */
TN_INLINE __m256i dot_pair_signed(__m256i low, __m256i high, const activations *x) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i a = _mm256_maddubs_epi16(x->abs_low, _mm256_sign_epi8(low, x->low));
    const __m256i b = _mm256_maddubs_epi16(x->abs_high, _mm256_sign_epi8(high, x->high));
    return _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
}

typedef __m256i decode_fn(__m256i nibbles);
typedef __m256i pair_fn(__m256i low, __m256i high, const activations *x);

TN_INLINE void dots_nibbles(__m256i *dot, const uint8_t *const row[8], size_t qs, const activations *x, int n,
                            decode_fn *decode, pair_fn *dot_pair) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i v[TN_FEW_TOKENS][4];
    for (int i = 0; i < 4; i++) {
        const __m256i both = tn_load_pair(row[i] + qs, row[i + 4] + qs);
        const __m256i low = decode(_mm256_and_si256(both, mask));
        const __m256i high = decode(_mm256_and_si256(_mm256_srli_epi16(both, 4), mask));
        for (int t = 0; t < n; t++) v[t][i] = dot_pair(low, high, &x[t]);
    }
    for (int t = 0; t < n; t++) dot[t] = tn_sum4x8_i32(v[t]);
}

TN_INLINE void dots_fives(__m256i *dot, const uint8_t *const row[8], size_t qh, const activations *x, int n) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i v[TN_FEW_TOKENS][4];
    for (int i = 0; i < 4; i++) {
        const __m256i both = tn_load_pair(row[i] + qh + 4, row[i + 4] + qh + 4);
        const __m128i a = _mm_set1_epi32(tn_load_i32(row[i] + qh));
        const __m128i b = _mm_set1_epi32(tn_load_i32(row[i + 4] + qh));
        const __m256i bits = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
        const __m256i low4 = _mm256_and_si256(both, mask);
        const __m256i high4 = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
        const __m256i low = _mm256_or_si256(low4, tn_fifth_bits(bits, tn_fifth_select(0, 0)));
        const __m256i high = _mm256_or_si256(high4, tn_fifth_bits(bits, tn_fifth_select(2, 2)));
        for (int t = 0; t < n; t++) v[t][i] = dot_pair_unsigned(low, high, &x[t]);
    }
    for (int t = 0; t < n; t++) dot[t] = tn_sum4x8_i32(v[t]);
}

TN_INLINE void dots_q4_0(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n) {
    dots_nibbles(dot, row, at + 2, x, n, tn_plain_decode, dot_pair_unsigned);
}
TN_INLINE void dots_q4_1(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n) {
    dots_nibbles(dot, row, at + 4, x, n, tn_plain_decode, dot_pair_unsigned);
}
TN_INLINE void dots_iq4_nl(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x,
                           int n) {
    dots_nibbles(dot, row, at + 2, x, n, tn_iq4_decode, dot_pair_signed);
}
TN_INLINE void dots_mxfp4(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n) {
    dots_nibbles(dot, row, at + 1, x, n, tn_mxfp4_decode, dot_pair_unsigned);
}
TN_INLINE void dots_q5_0(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n) {
    dots_fives(dot, row, at + 2, x, n);
}
TN_INLINE void dots_q5_1(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n) {
    dots_fives(dot, row, at + 4, x, n);
}

/* A weight may be -128 here, so it is the activation that takes the sign: x never is. */
TN_INLINE void dots_q8_0(__m256i *dot, const uint8_t *const row[8], size_t at, const activations *x, int n) {
    __m256i v[TN_FEW_TOKENS][8];
    for (int i = 0; i < 8; i++) {
        const __m256i w = tn_load256(row[i] + at + 2), magnitude = _mm256_abs_epi8(w);
        for (int t = 0; t < n; t++) {
            const __m256i p = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(tn_load256(x[t].q), w));
            v[t][i] = _mm256_madd_epi16(p, _mm256_set1_epi16(1));
        }
    }
    for (int t = 0; t < n; t++) dot[t] = tn_sum8x8_i32(v[t]);
}

/* Where the scale is: f16, f16 and a minimum, e8m0. */
typedef enum factors { FACTOR_D, FACTOR_DM, FACTOR_E8M0 } factors;

/* The accumulators of 8 rows and n tokens. */
TN_INLINE void eight_rows(__m256 *acc, const uint8_t *const row[8], const uint8_t *next,
                          const tn_matmul_args *args, int n, size_t bytes, int offset, factors kind,
                          dots_fn *dots) {
    const uint8_t *dx = args->x + tn_act_d_offset(args->k);
    const uint8_t *sx = args->x + tn_act_s_offset(TN_ACT_Q8_32, args->k);
    const size_t n_blocks = args->k / 32, stride = args->x_stride;
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += bytes) {
        activations x[TN_FEW_TOKENS];
        __m256i dot[TN_FEW_TOKENS];
        __m256 d, m = _mm256_setzero_ps();
        for (size_t line = 0; line < 8 * bytes; line += 64) {
            _mm_prefetch((const char *)next + 8 * at + line, _MM_HINT_T0);
        }
        for (int t = 0; t < n; t++) x[t] = load_activations(args->x + (size_t)t * stride + 32 * b);
        dots(dot, row, at, x, n);
        if (kind == FACTOR_DM)
            tn_gather_f16x2(row, at, &d, &m);
        else
            d = kind == FACTOR_D ? tn_gather_f16(row, at) : tn_gather_e8m0_half(row, at);
        for (int t = 0; t < n; t++) {
            const __m256 scale = _mm256_castsi256_ps(tn_broadcast_i32(dx + (size_t)t * stride + 4 * b));
            const int32_t s = tn_load_i32(sx + (size_t)t * stride + 4 * b);
            if (offset) dot[t] = _mm256_sub_epi32(dot[t], _mm256_set1_epi32(offset * s));
            acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(dot[t]), acc[t]);
            if (kind == FACTOR_DM) {
                acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(m, scale), _mm256_set1_ps((float)s), acc[t]);
            }
        }
    }
}

TN_INLINE void gemv(const tn_matmul_args *args, int n, size_t bytes, int offset, factors kind,
                    dots_fn *dots) {
    for (size_t i = 0; i < args->n_rows; i += 8) {
        const size_t n_rows = args->n_rows - i < 8 ? args->n_rows - i : 8;
        const uint8_t *row[8], *next = tn_eight_rows(row, args, i, n_rows);
        __m256 y[TN_FEW_TOKENS];
        eight_rows(y, row, next, args, n, bytes, offset, kind, dots);
        for (int t = 0; t < n; t++) tn_store_rows(args->y + (size_t)t * args->y_stride + i, y[t], n_rows);
    }
}

#define GEMV(name, bytes, offset, kind)                                                                      \
    void tn_gemv_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        gemv(args, 1, bytes, offset, kind, dots_##name);                                                     \
    }                                                                                                        \
    void tn_gemv_few_##name##_q8_avx2(const tn_matmul_args *args) {                                          \
        if (args->n_tokens == 2)                                                                             \
            gemv(args, 2, bytes, offset, kind, dots_##name);                                                 \
        else                                                                                                 \
            gemv(args, 3, bytes, offset, kind, dots_##name);                                                 \
    }
GEMV(q4_0, 18, 8, FACTOR_D)
GEMV(q4_1, 20, 0, FACTOR_DM)
GEMV(q5_0, 22, 16, FACTOR_D)
GEMV(q5_1, 24, 0, FACTOR_DM)
GEMV(q8_0, 34, 0, FACTOR_D)
GEMV(iq4_nl, 18, 0, FACTOR_D)
GEMV(mxfp4, 17, TN_MXFP4_BIAS, FACTOR_E8M0)
