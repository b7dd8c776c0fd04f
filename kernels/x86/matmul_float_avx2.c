/* Products with float weights: F32, F16, BF16, widened exactly. Stripe i of a sum is lane i of a register.
 *
 * One token: eight rows side by side, their next eight prefetched in file order. Several tokens: twelve rows
 * are widened into a panel, a chunk of K at a time, and met by all tokens in tiles of 3 rows x 4 tokens,
 * which fill the register file; the stripes wait in scratch between the chunks. */
#include "avx2.h"
#include "simd_avx2.h"

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

/* ---- One token ---------------------------------------------------------------------------------- */

TN_INLINE __m256 dot_eight_rows(const uint8_t *const row[8], const uint8_t *next, const float *x, size_t k,
                                size_t elem_bytes, load_fn *load) {
    const size_t whole = k & ~(size_t)7;
    __m256 acc[8];
    for (int r = 0; r < 8; r++) acc[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        for (size_t line = 0; line < 64 * elem_bytes; line += 64) {
            _mm_prefetch((const char *)next + 8 * i * elem_bytes + line, _MM_HINT_T0);
        }
        for (int r = 0; r < 8; r++) acc[r] = _mm256_fmadd_ps(load(row[r], i), v, acc[r]);
    }
    if (whole < k) {
        for (int r = 0; r < 8; r++) acc[r] = add_tail(acc[r], row[r], x, whole, k - whole, elem_bytes, load);
    }
    return tn_join8x8_ps(acc);
}

TN_INLINE void gemv(const tn_matmul_args *args, size_t elem_bytes, load_fn *load) {
    const float *x = (const float *)(const void *)args->x;
    for (size_t n = 0; n < args->n_rows; n += 8) {
        const size_t n_rows = args->n_rows - n < 8 ? args->n_rows - n : 8;
        const uint8_t *row[8]; /* short groups repeat their last row; those lanes are not stored */
        for (size_t r = 0; r < 8; r++)
            row[r] = args->w + (n + (r < n_rows ? r : n_rows - 1)) * args->w_stride;
        const uint8_t *next = args->w + (n + n_rows) * args->w_stride;
        const __m256 y = dot_eight_rows(row, next, x, args->k, elem_bytes, load);
        if (n_rows == 8)
            _mm256_storeu_ps(args->y + n, y);
        else
            _mm256_maskstore_ps(args->y + n, tn_lane_mask(n_rows), y);
    }
}

/* ---- Several tokens ----------------------------------------------------------------------------- */

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
        const size_t n_chunk = whole - k < CHUNK ? whole - k : CHUNK;
        for (size_t r = 0; r < ROWS; r++) { /* a short panel repeats its last row; those sums are not used */
            const uint8_t *row = args->w + (n + (r < n_rows ? r : n_rows - 1)) * args->w_stride;
            for (size_t e = 0; e < n_chunk; e += 8) _mm256_storeu_ps(ws->w[r] + e, load(row, k + e));
        }
        meet_tokens(ws, n_rows, x + k, args->x_stride / sizeof *x, n_tokens, n_chunk, k == 0);
    }
    finish(ws, args, n, n_rows, t, n_tokens, elem_bytes, load);
}

TN_INLINE void gemm(const tn_matmul_args *args, size_t elem_bytes, load_fn *load) {
    for (size_t t = 0; t < args->n_tokens; t += MAX_TOKENS) {
        const size_t n_tokens = args->n_tokens - t < MAX_TOKENS ? args->n_tokens - t : MAX_TOKENS;
        for (size_t n = 0; n < args->n_rows; n += ROWS) {
            const size_t n_rows = args->n_rows - n < ROWS ? args->n_rows - n : ROWS;
            meet_rows(args, n, n_rows, t, n_tokens, elem_bytes, load);
        }
    }
}

#define MATMUL(name, elem_bytes)                                                                             \
    void tn_gemv_##name##_f32_avx2(const tn_matmul_args *args) {                                             \
        gemv(args, elem_bytes, load_##name);                                                                 \
    }                                                                                                        \
    void tn_gemm_##name##_f32_avx2(const tn_matmul_args *args) {                                             \
        gemm(args, elem_bytes, load_##name);                                                                 \
    }
MATMUL(f32, 4)
MATMUL(f16, 2)
MATMUL(bf16, 2)
