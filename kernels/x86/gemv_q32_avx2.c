/* One token with the 32-wide weight types.
 *
 * Eight rows go side by side, one block each at a time: their eight integer dots become one vector, and the chain
 * of fused multiply-adds that each row's accumulator is becomes one vector instruction for all eight. The memory
 * still sees the rows in file order, because the next eight are prefetched in that order meanwhile. */
#include "avx2.h"
#include "unpack32_avx2.h"

/* What a pair of rows needs of one block of activations: 16 elements in both lanes. */
typedef struct activations {
    __m256i low, high;         /* elements 0-15, 16-31 */
    __m256i abs_low, abs_high; /* their magnitudes, for signed weights */
    const uint8_t *q;
} activations;

/* The 8 dots of block `at` of the rows. */
typedef __m256i dots_fn(const uint8_t *const row[8], size_t at, const activations *x);

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
    const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(low, x->low), _mm256_maddubs_epi16(high, x->high));
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

TN_INLINE __m256i dots_nibbles(const uint8_t *const row[8], size_t qs, const activations *x, decode_fn *decode,
                               pair_fn *dot) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i v[4];
    for (int i = 0; i < 4; i++) {
        const __m256i both = tn_load_pair(row[i] + qs, row[i + 4] + qs);
        const __m256i low = _mm256_and_si256(both, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
        v[i] = dot(decode(low), decode(high), x);
    }
    return tn_sum4x8_i32(v);
}

TN_INLINE __m256i dots_fives(const uint8_t *const row[8], size_t qh, const activations *x) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i v[4];
    for (int i = 0; i < 4; i++) {
        const __m256i both = tn_load_pair(row[i] + qh + 4, row[i + 4] + qh + 4);
        const __m128i a = _mm_set1_epi32(tn_load_i32(row[i] + qh)), b = _mm_set1_epi32(tn_load_i32(row[i + 4] + qh));
        const __m256i bits = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
        const __m256i low = _mm256_and_si256(both, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
        v[i] = dot_pair_unsigned(_mm256_or_si256(low, tn_fifth_bits(bits, tn_fifth_select(0, 0))),
                                 _mm256_or_si256(high, tn_fifth_bits(bits, tn_fifth_select(2, 2))), x);
    }
    return tn_sum4x8_i32(v);
}

TN_INLINE __m256i dots_q4_0(const uint8_t *const row[8], size_t at, const activations *x) {
    return dots_nibbles(row, at + 2, x, tn_plain_decode, dot_pair_unsigned);
}
TN_INLINE __m256i dots_q4_1(const uint8_t *const row[8], size_t at, const activations *x) {
    return dots_nibbles(row, at + 4, x, tn_plain_decode, dot_pair_unsigned);
}
TN_INLINE __m256i dots_iq4_nl(const uint8_t *const row[8], size_t at, const activations *x) {
    return dots_nibbles(row, at + 2, x, tn_iq4_decode, dot_pair_signed);
}
TN_INLINE __m256i dots_mxfp4(const uint8_t *const row[8], size_t at, const activations *x) {
    return dots_nibbles(row, at + 1, x, tn_mxfp4_decode, dot_pair_unsigned);
}
TN_INLINE __m256i dots_q5_0(const uint8_t *const row[8], size_t at, const activations *x) {
    return dots_fives(row, at + 2, x);
}
TN_INLINE __m256i dots_q5_1(const uint8_t *const row[8], size_t at, const activations *x) {
    return dots_fives(row, at + 4, x);
}

/* A weight may be -128 here, so it is the activation that takes the sign: x never is. */
TN_INLINE __m256i dots_q8_0(const uint8_t *const row[8], size_t at, const activations *x) {
    const __m256i xq = tn_load256(x->q);
    __m256i v[8];
    for (int i = 0; i < 8; i++) {
        const __m256i w = tn_load256(row[i] + at + 2);
        const __m256i p = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(xq, w));
        v[i] = _mm256_madd_epi16(p, _mm256_set1_epi16(1));
    }
    return tn_sum8x8_i32(v);
}

/* Where the scale is: f16, f16 and a minimum, e8m0. */
typedef enum factors { FACTOR_D, FACTOR_DM, FACTOR_E8M0 } factors;

TN_INLINE __m256 eight_rows(const uint8_t *const row[8], const uint8_t *next, const tn_matmul_args *args,
                            size_t bytes, int offset, factors kind, dots_fn *dots) {
    const float *dx = (const float *)(const void *)(args->x + tn_act_d_offset(args->k));
    const int32_t *sx = (const int32_t *)(const void *)(args->x + tn_act_s_offset(TN_ACT_Q8_32, args->k));
    const size_t n_blocks = args->k / 32;
    __m256 acc = _mm256_setzero_ps(), d, m = acc;
    for (size_t b = 0, at = 0; b < n_blocks; b++, at += bytes) {
        for (size_t line = 0; line < 8 * bytes; line += 64) _mm_prefetch((const char *)next + 8 * at + line, _MM_HINT_T0);
        const activations x = load_activations(args->x + 32 * b);
        const __m256 scale = _mm256_broadcast_ss(dx + b);
        __m256i dot = dots(row, at, &x);
        if (kind == FACTOR_DM)
            tn_gather_f16x2(row, at, &d, &m);
        else
            d = kind == FACTOR_D ? tn_gather_f16(row, at) : tn_gather_e8m0_half(row, at);
        if (offset) dot = _mm256_sub_epi32(dot, _mm256_set1_epi32(offset * sx[b]));
        acc = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(dot), acc);
        if (kind == FACTOR_DM) {
            acc = _mm256_fmadd_ps(_mm256_mul_ps(m, scale), _mm256_set1_ps((float)sx[b]), acc);
        }
    }
    return acc;
}

TN_INLINE void gemv(const tn_matmul_args *args, size_t bytes, int offset, factors kind, dots_fn *dots) {
    for (size_t n = 0; n < args->n_rows; n += 8) {
        const size_t n_rows = args->n_rows - n < 8 ? args->n_rows - n : 8;
        const uint8_t *row[8]; /* short groups repeat their last row; those lanes are not stored */
        for (size_t r = 0; r < 8; r++) row[r] = args->w + (n + (r < n_rows ? r : n_rows - 1)) * args->w_stride;
        const uint8_t *next = args->w + (n + n_rows) * args->w_stride;
        const __m256 y = eight_rows(row, next, args, bytes, offset, kind, dots);
        if (n_rows == 8)
            _mm256_storeu_ps(args->y + n, y);
        else
            _mm256_maskstore_ps(args->y + n, tn_lane_mask(n_rows), y);
    }
}

#define GEMV(name, bytes, offset, kind)                                                                              \
    void tn_gemv_##name##_q8_avx2(const tn_matmul_args *args) { gemv(args, bytes, offset, kind, dots_##name); }
GEMV(q4_0, 18, 8, FACTOR_D)
GEMV(q4_1, 20, 0, FACTOR_DM)
GEMV(q5_0, 22, 16, FACTOR_D)
GEMV(q5_1, 24, 0, FACTOR_DM)
GEMV(q8_0, 34, 0, FACTOR_D)
GEMV(iq4_nl, 18, 0, FACTOR_D)
GEMV(mxfp4, 17, TN_MXFP4_BIAS, FACTOR_E8M0)
