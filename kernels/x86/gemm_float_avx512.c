/* Products of several tokens with float weights: F32, F16, BF16, widened exactly. Stripes are eight
 * (kernels.h), so a register of 16 holds two rows: the pair's weights lie side by side in the panel, the
 * activations are loaded to both halves. Sixteen rows are widened a chunk of K at a time and met by all
 * tokens in tiles of 4 pairs x 6 tokens; the stripes wait in scratch between the chunks. One token and a few stay with
 * AVX2, which already waits for memory. */
#include "gemv_avx2.h"
#include "levels_avx512.h"

enum {
    ROWS = 16,
    TILE_PAIRS = 4,
    TILE_TOKENS = 6,
    CHUNK = 256,     /* elements of K: 16 KiB of panel */
    MAX_TOKENS = 384 /* tokens met before the next rows */
};

typedef struct workspace {
    float w[ROWS / 2][CHUNK / 8][2][8];
    float stripes[MAX_TOKENS][ROWS][8];
} workspace;

_Static_assert(sizeof(workspace) <= TN_KERNEL_SCRATCH, "scratch");

/* 8 elements of a row. */
typedef __m256 load_fn(const uint8_t *p);

TN_INLINE __m256 load_f32(const uint8_t *p) {
    return _mm256_castsi256_ps(tn_load256(p));
}
TN_INLINE __m256 load_f16(const uint8_t *p) {
    return _mm256_cvtph_ps(tn_load128(p));
}
TN_INLINE __m256 load_bf16(const uint8_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(tn_load128(p)), 16));
}

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The last n < 8 of a row's elements, zeros behind them. */
TN_INLINE __m256 load_rest(const uint8_t *p, size_t n, size_t elem_bytes, load_fn *load) {
    uint8_t rest[32] = {0};
    memcpy(rest, p, n * elem_bytes);
    return load(rest);
}

/* A tile over one chunk: 4 pairs of the panel from pair `at` on, n tokens, k elements at x. What follows the
 * last 8 is masked: even a negative zero must stay in the other stripes. */
TN_INLINE void tile(const float (*w)[CHUNK / 8][2][8], float (*stripes)[ROWS][8], size_t at, const float *x,
                    size_t x_stride, size_t k, int n, bool first) {
    __m512 acc[TILE_PAIRS][TILE_TOKENS];
    for (int i = 0; i < TILE_PAIRS; i++) {
        for (int t = 0; t < n; t++) {
            const __m512 old = _mm512_loadu_ps(stripes[t][2 * (at + (size_t)i)]);
            acc[i][t] = first ? _mm512_setzero_ps() : old;
        }
    }
    for (size_t e = 0; e + 8 <= k; e += 8) {
        __m512 pair[TILE_PAIRS];
        for (int i = 0; i < TILE_PAIRS; i++) pair[i] = _mm512_load_ps(w[at + (size_t)i][e / 8]);
        for (int t = 0; t < n; t++) {
            const __m512 v = _mm512_broadcast_f32x8(_mm256_loadu_ps(x + (size_t)t * x_stride + e));
            for (int i = 0; i < TILE_PAIRS; i++) acc[i][t] = _mm512_fmadd_ps(pair[i], v, acc[i][t]);
        }
    }
    if (k % 8) {
        const __mmask16 both = (__mmask16)(((1u << k % 8) - 1) * 0x101u);
        for (int t = 0; t < n; t++) {
            const uint8_t *rest = (const uint8_t *)(x + (size_t)t * x_stride + k / 8 * 8);
            const __m512 v = _mm512_broadcast_f32x8(load_rest(rest, k % 8, sizeof(float), load_f32));
            for (int i = 0; i < TILE_PAIRS; i++) {
                const __m512 pair = _mm512_load_ps(w[at + (size_t)i][k / 8]);
                acc[i][t] = _mm512_mask_mov_ps(acc[i][t], both, _mm512_fmadd_ps(pair, v, acc[i][t]));
            }
        }
    }
    for (int i = 0; i < TILE_PAIRS; i++) {
        for (int t = 0; t < n; t++) _mm512_storeu_ps(stripes[t][2 * (at + (size_t)i)], acc[i][t]);
    }
}

/* The panel's chunk with n_tokens tokens; x is the first one's first element of the chunk. */
static void meet_tokens(workspace *ws, size_t n_rows, const float *x, size_t x_stride, size_t n_tokens,
                        size_t k, bool first) {
    const float(*w)[CHUNK / 8][2][8] = (const float(*)[CHUNK / 8][2][8]) ws->w;
    for (size_t t = 0; t < n_tokens; t += TILE_TOKENS) {
        float(*stripes)[ROWS][8] = ws->stripes + t;
        const float *xt = x + t * x_stride;
        for (size_t at = 0; 2 * at < n_rows; at += TILE_PAIRS) {
            switch (n_tokens - t) {
            case 1: tile(w, stripes, at, xt, x_stride, k, 1, first); break;
            case 2: tile(w, stripes, at, xt, x_stride, k, 2, first); break;
            case 3: tile(w, stripes, at, xt, x_stride, k, 3, first); break;
            case 4: tile(w, stripes, at, xt, x_stride, k, 4, first); break;
            case 5: tile(w, stripes, at, xt, x_stride, k, 5, first); break;
            default: tile(w, stripes, at, xt, x_stride, k, 6, first); break;
            }
        }
    }
}

/* A chunk of the rows into the panel; a short panel repeats its last row, whose sums are not used. */
TN_INLINE void fill(workspace *ws, const tn_matmul_args *args, size_t n, size_t n_rows, size_t k,
                    size_t n_elems, size_t elem_bytes, load_fn *load) {
    for (size_t r = 0; r < ROWS; r++) {
        const uint8_t *p = args->w + (n + min_size(r, n_rows - 1)) * args->w_stride + k * elem_bytes;
        tn_prefetch(p + ROWS * args->w_stride, n_elems * elem_bytes);
        for (size_t e = 0; e < n_elems; e += 8, p += 8 * elem_bytes) {
            const size_t rest = n_elems - e;
            _mm256_store_ps(ws->w[r / 2][e / 8][r % 2],
                            rest < 8 ? load_rest(p, rest, elem_bytes, load) : load(p));
        }
    }
}

static void finish(const workspace *ws, float *y, size_t y_stride, size_t n_rows, size_t n_tokens) {
    for (size_t t = 0; t < n_tokens; t++) {
        for (size_t r = 0; r < n_rows; r += 8) {
            __m256 v[8];
            for (size_t i = 0; i < 8; i++) v[i] = _mm256_loadu_ps(ws->stripes[t][r + i]);
            tn_store_rows(y + t * y_stride + r, tn_join8x8_ps(v), min_size(n_rows - r, 8));
        }
    }
}

TN_INLINE void gemm(const tn_matmul_args *args, size_t elem_bytes, load_fn *load) {
    workspace *ws = args->scratch;
    const size_t x_stride = args->x_stride / sizeof(float);
    for (size_t t = 0; t < args->n_tokens; t += MAX_TOKENS) {
        const size_t n_tokens = min_size(args->n_tokens - t, MAX_TOKENS);
        const float *x = (const float *)(const void *)args->x + t * x_stride;
        for (size_t n = 0; n < args->n_rows; n += ROWS) {
            const size_t n_rows = min_size(args->n_rows - n, ROWS);
            for (size_t k = 0; k < args->k; k += CHUNK) {
                const size_t n_elems = min_size(args->k - k, CHUNK);
                fill(ws, args, n, n_rows, k, n_elems, elem_bytes, load);
                meet_tokens(ws, n_rows, x + k, x_stride, n_tokens, n_elems, k == 0);
            }
            finish(ws, args->y + t * args->y_stride + n, args->y_stride, n_rows, n_tokens);
        }
    }
}

#define GEMM(name, elem_bytes)                                                                               \
    void tn_gemm_##name##_f32_avx512(const tn_matmul_args *args) {                                           \
        if (args->n_tokens <= TN_FEW_TOKENS)                                                                 \
            tn_gemv_few_##name##_f32_avx2(args);                                                             \
        else                                                                                                 \
            gemm(args, elem_bytes, load_##name);                                                             \
    }
GEMM(f32, 4)
GEMM(f16, 2)
GEMM(bf16, 2)
