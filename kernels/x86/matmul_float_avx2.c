/* Products with float weights: F32, F16, BF16, widened exactly. Stripe i of a sum is lane i of a register.
 *
 * One token, or a few: as many rows side by side as there are registers for their stripes, the rows behind them
 * prefetched in file order. Many tokens: twelve rows are widened into a panel, a chunk of K at a time, and met
 * by all tokens in tiles of 3 rows x 4 tokens, which fill the register file; the stripes wait in scratch
 * between the chunks. */
#include "gemv_avx2.h"

enum {
    ROWS = 12,
    TILE_ROWS = 3,
    TILE_TOKENS = 4,
    CHUNK = 512,     /* elements of K: 24 KiB of panel, which stays in L1 */
    MAX_TOKENS = 512 /* tokens met before the next rows */
};

typedef struct workspace {
    float w[ROWS][CHUNK + 16]; /* padded, so that rows do not share cache sets */
    float stripes[ROWS][MAX_TOKENS][8];
} workspace;

_Static_assert(sizeof(workspace) <= TN_KERNEL_SCRATCH, "scratch");

/* 8 elements of a row, from element i. */
typedef __m256 load_fn(const uint8_t *row, size_t i);

TN_INLINE __m256 load_f32(const uint8_t *row, size_t i) {
    return _mm256_castsi256_ps(tn_load256(row + 4 * i));
}
TN_INLINE __m256 load_f16(const uint8_t *row, size_t i) {
    return _mm256_cvtph_ps(tn_load128(row + 2 * i));
}
TN_INLINE __m256 load_bf16(const uint8_t *row, size_t i) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(tn_load128(row + 2 * i)), 16));
}

/* The stripes after the last n < 8 elements of a row, from element i; the other lanes keep even a negative
 * zero. */
TN_INLINE __m256 add_tail(__m256 stripes, const uint8_t *row, const float *x, size_t i, size_t n,
                          size_t elem_bytes, load_fn *load) {
    uint8_t last[32] = {0};
    const __m256i mask = tn_lane_mask(n);
    memcpy(last, row + i * elem_bytes, n * elem_bytes);
    const __m256 sum = _mm256_fmadd_ps(load(last, 0), _mm256_maskload_ps(x + i, mask), stripes);
    return _mm256_blendv_ps(stripes, sum, _mm256_castsi256_ps(mask));
}

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- One token, or a few ------------------------------------------------------------------------ */

/* n_rows rows with n tokens, x the first one's; prefetches from `next` on, n_ahead bytes for each 8
 * elements. */
TN_INLINE void dot_rows(__m256 (*acc)[4], const uint8_t *const row[8], int n_rows, const float *x,
                        size_t x_stride, int n, size_t k, const uint8_t *next, size_t n_ahead,
                        size_t elem_bytes, load_fn *load) {
    const size_t whole = k & ~(size_t)7;
    for (int r = 0; r < n_rows; r++)
        for (int t = 0; t < n; t++) acc[r][t] = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        __m256 v[4];
        tn_prefetch(next + i / 8 * n_ahead, n_ahead);
        for (int t = 0; t < n; t++) v[t] = _mm256_loadu_ps(x + (size_t)t * x_stride + i);
        for (int r = 0; r < n_rows; r++) {
            const __m256 w = load(row[r], i);
            for (int t = 0; t < n; t++) acc[r][t] = _mm256_fmadd_ps(w, v[t], acc[r][t]);
        }
    }
    for (int r = 0; whole < k && r < n_rows; r++) {
        for (int t = 0; t < n; t++) {
            const float *xt = x + (size_t)t * x_stride;
            acc[r][t] = add_tail(acc[r][t], row[r], xt, whole, k - whole, elem_bytes, load);
        }
    }
}

/* Tokens t .. t + n - 1 with n_rows rows from row `at` on; a short group repeats its last row. Of the rows behind them
 * part `part` of n_parts is prefetched. */
TN_INLINE void meet_few(const tn_matmul_args *args, size_t at, int n_rows, size_t t, int n, size_t part,
                        size_t n_parts, size_t elem_bytes, load_fn *load) {
    const size_t left = args->n_rows - at, x_stride = args->x_stride / sizeof(float);
    const size_t n_ahead = 8 * (size_t)n_rows * elem_bytes / n_parts;
    const float *x = (const float *)(const void *)args->x + t * x_stride;
    const uint8_t *row[8], *first = args->w + at * args->w_stride;
    const uint8_t *next =
        first + (size_t)n_rows * args->w_stride + TN_PREFETCH_AHEAD + part * (args->k / 8 * n_ahead);
    __m256 acc[8][4];
    for (size_t r = 0; r < (size_t)n_rows; r++) row[r] = first + min_size(r, left - 1) * args->w_stride;
    dot_rows(acc, row, n_rows, x, x_stride, n, args->k, next, n_ahead, elem_bytes, load);
    for (int i = 0; i < n; i++) {
        float *y = args->y + (t + (size_t)i) * args->y_stride + at;
        for (size_t r = 0; r < min_size((size_t)n_rows, left); r++) y[r] = tn_join8_ps(acc[r][i]);
    }
}

/* n + more tokens; from five on the rows are walked twice, the second time in the cache. */
TN_INLINE void few(const tn_matmul_args *args, int n_rows, int n, int more, size_t elem_bytes,
                   load_fn *load) {
    const size_t n_parts = more ? 2 : 1;
    for (size_t at = 0; at < args->n_rows; at += (size_t)n_rows) {
        meet_few(args, at, n_rows, 0, n, 0, n_parts, elem_bytes, load);
        if (more) meet_few(args, at, n_rows, (size_t)n, more, 1, n_parts, elem_bytes, load);
    }
}

TN_INLINE void gemv_few(const tn_matmul_args *args, size_t elem_bytes, load_fn *load) {
    switch (args->n_tokens) {
    case 2: few(args, 6, 2, 0, elem_bytes, load); break;
    case 3: few(args, 4, 3, 0, elem_bytes, load); break;
    case 4: few(args, 3, 4, 0, elem_bytes, load); break;
    case 5: few(args, 4, 3, 2, elem_bytes, load); break;
    case 6: few(args, 4, 3, 3, elem_bytes, load); break;
    case 7: few(args, 3, 4, 3, elem_bytes, load); break;
    default: few(args, 3, 4, 4, elem_bytes, load); break;
    }
}

/* ---- Many tokens -------------------------------------------------------------------------------- */

/* A tile over one chunk: rows r .. r+2 of the panel, `n` tokens from t on, `k` elements at x. */
TN_INLINE void tile(workspace *ws, size_t r, size_t t, const float *x, size_t x_stride, size_t k, int n,
                    bool first) {
    __m256 acc[TILE_ROWS][TILE_TOKENS];
    for (int i = 0; i < TILE_ROWS; i++) {
        for (int j = 0; j < n; j++) {
            acc[i][j] =
                first ? _mm256_setzero_ps() : _mm256_loadu_ps(ws->stripes[r + (size_t)i][t + (size_t)j]);
        }
    }
    for (size_t e = 0; e < k; e += 8) {
        __m256 w[TILE_ROWS];
        for (int i = 0; i < TILE_ROWS; i++) w[i] = _mm256_loadu_ps(ws->w[r + (size_t)i] + e);
        for (int j = 0; j < n; j++) {
            const __m256 v = _mm256_loadu_ps(x + (size_t)j * x_stride + e);
            for (int i = 0; i < TILE_ROWS; i++) acc[i][j] = _mm256_fmadd_ps(w[i], v, acc[i][j]);
        }
    }
    for (int i = 0; i < TILE_ROWS; i++) {
        for (int j = 0; j < n; j++) _mm256_storeu_ps(ws->stripes[r + (size_t)i][t + (size_t)j], acc[i][j]);
    }
}

/* The panel's chunk with n_tokens tokens; x is the first one's first element of the chunk. */
static void meet_tokens(workspace *ws, size_t n_rows, const float *x, size_t x_stride, size_t n_tokens,
                        size_t k, bool first) {
    for (size_t t = 0; t < n_tokens; t += TILE_TOKENS) {
        const float *xt = x + t * x_stride;
        for (size_t r = 0; r < n_rows; r += TILE_ROWS) {
            switch (n_tokens - t) {
            case 1: tile(ws, r, t, xt, x_stride, k, 1, first); break;
            case 2: tile(ws, r, t, xt, x_stride, k, 2, first); break;
            case 3: tile(ws, r, t, xt, x_stride, k, 3, first); break;
            default: tile(ws, r, t, xt, x_stride, k, 4, first); break;
            }
        }
    }
}

/* The rest of a row that does not fill a register, the join, the store. */
TN_INLINE void finish(const workspace *ws, const tn_matmul_args *args, size_t n, size_t n_rows, size_t t,
                      size_t n_tokens, size_t elem_bytes, load_fn *load) {
    const size_t whole = args->k & ~(size_t)7, rest = args->k - whole;
    for (size_t j = 0; j < n_tokens; j++) {
        const float *x = (const float *)(const void *)(args->x + (t + j) * args->x_stride);
        for (size_t i = 0; i < n_rows; i++) {
            __m256 stripes = _mm256_loadu_ps(ws->stripes[i][j]);
            if (rest) {
                const uint8_t *row = args->w + (n + i) * args->w_stride;
                stripes = add_tail(stripes, row, x, whole, rest, elem_bytes, load);
            }
            args->y[(t + j) * args->y_stride + n + i] = tn_join8_ps(stripes);
        }
    }
}

/* Rows n .. n + n_rows - 1 with tokens t .. t + n_tokens - 1. */
TN_INLINE void meet_rows(const tn_matmul_args *args, size_t n, size_t n_rows, size_t t, size_t n_tokens,
                         size_t elem_bytes, load_fn *load) {
    workspace *ws = args->scratch;
    const float *x = (const float *)(const void *)(args->x + t * args->x_stride);
    const size_t whole = args->k & ~(size_t)7;
    if (whole == 0) memset(ws->stripes, 0, sizeof ws->stripes);
    for (size_t k = 0; k < whole; k += CHUNK) {
        const size_t n_chunk = min_size(whole - k, CHUNK);
        for (size_t r = 0; r < ROWS; r++) { /* a short panel repeats its last row; those sums are not used */
            const uint8_t *row = args->w + (n + min_size(r, n_rows - 1)) * args->w_stride;
            tn_prefetch(row + ROWS * args->w_stride + k * elem_bytes, n_chunk * elem_bytes);
            for (size_t e = 0; e < n_chunk; e += 8) _mm256_storeu_ps(ws->w[r] + e, load(row, k + e));
        }
        meet_tokens(ws, n_rows, x + k, args->x_stride / sizeof *x, n_tokens, n_chunk, k == 0);
    }
    finish(ws, args, n, n_rows, t, n_tokens, elem_bytes, load);
}

TN_INLINE void gemm(const tn_matmul_args *args, size_t elem_bytes, load_fn *load) {
    for (size_t t = 0; t < args->n_tokens; t += MAX_TOKENS) {
        const size_t n_tokens = min_size(args->n_tokens - t, MAX_TOKENS);
        for (size_t n = 0; n < args->n_rows; n += ROWS) {
            meet_rows(args, n, min_size(args->n_rows - n, ROWS), t, n_tokens, elem_bytes, load);
        }
    }
}

#define MATMUL(name, elem_bytes)                                                                             \
    void tn_gemv_##name##_f32_avx2(const tn_matmul_args *args) {                                             \
        few(args, 8, 1, 0, elem_bytes, load_##name);                                                         \
    }                                                                                                        \
    void tn_gemv_few_##name##_f32_avx2(const tn_matmul_args *args) {                                         \
        gemv_few(args, elem_bytes, load_##name);                                                             \
    }                                                                                                        \
    void tn_gemm_##name##_f32_avx2(const tn_matmul_args *args) {                                             \
        if (args->n_tokens <= TN_FEW_TOKENS)                                                                 \
            tn_gemv_few_##name##_f32_avx2(args);                                                             \
        else                                                                                                 \
            gemm(args, elem_bytes, load_##name);                                                             \
    }
MATMUL(f32, 4)
MATMUL(f16, 2)
MATMUL(bf16, 2)
