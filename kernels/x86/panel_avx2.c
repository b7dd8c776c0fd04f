/* The walk of a product of several tokens: panels of rows, chunks of K, tiles of tokens. y holds the
 * accumulators between the chunks. */
#include "panel_avx2.h"

enum { ROWS = TN_PANEL_ROWS, TOKENS = TN_PANEL_TOKENS };

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Where in rows and K the walk is. */
typedef struct place {
    size_t row, n_rows, block, n_blocks;
} place;

static void widen_tile(tn_panel_i16 *panel, const tn_panel_chunk *chunk, size_t k, size_t n) {
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < k; i += 32) {
            __m256i even, odd;
            tn_panel_widen(tn_load256(chunk->x + t * chunk->stride + i), &even, &odd);
            tn_store256(panel->x[t] + i, even);
            tn_store256(panel->x[t] + i + 16, odd);
        }
    }
}

static void load_tile(float (*acc)[ROWS], const float *y, size_t y_stride, size_t n_rows, size_t n) {
    for (size_t t = 0; t < n; t++, y += y_stride) {
        if (n_rows < ROWS) {
            memcpy(acc[t], y, n_rows * sizeof *y);
        } else {
            _mm256_store_ps(acc[t], _mm256_loadu_ps(y));
            _mm256_store_ps(acc[t] + 8, _mm256_loadu_ps(y + 8));
        }
    }
}

static void store_tile(float *y, size_t y_stride, const float (*acc)[ROWS], size_t n_rows, size_t n) {
    for (size_t t = 0; t < n; t++, y += y_stride) {
        if (n_rows < ROWS) {
            memcpy(y, acc[t], n_rows * sizeof *y);
        } else {
            _mm256_storeu_ps(y, _mm256_load_ps(acc[t]));
            _mm256_storeu_ps(y + 8, _mm256_load_ps(acc[t] + 8));
        }
    }
}

/* All tokens against the filled panel. */
static void meet_tokens(const tn_matmul_args *args, const tn_panel_kernel *kernel, const place *at) {
    const size_t sums = kernel->act == TN_ACT_Q8_32 ? 4 : 32; /* bytes of sums a block */
    const size_t d_offset = tn_act_d_offset(args->k) + 4 * at->block;
    const size_t s_offset = tn_act_s_offset(kernel->act, args->k) + sums * at->block;
    for (size_t t = 0; t < args->n_tokens; t += TOKENS) {
        const size_t n = min_size(args->n_tokens - t, TOKENS);
        const uint8_t *x = args->x + t * args->x_stride;
        const tn_panel_chunk chunk = {x + at->block * kernel->block_elems, x + d_offset, x + s_offset,
                                      args->x_stride, at->n_blocks};
        float *y = args->y + t * args->y_stride + at->row;
        _Alignas(32) float acc[TOKENS][ROWS] = {{0}};
        if (at->block > 0) load_tile(acc, y, args->y_stride, at->n_rows, n);
        if (kernel->widen) widen_tile(args->scratch, &chunk, at->n_blocks * kernel->block_elems, n);
        kernel->tiles[n](acc, args->scratch, &chunk);
        store_tile(y, args->y_stride, (const float(*)[ROWS])acc, at->n_rows, n);
    }
}

void tn_panel_matmul_avx2(const tn_matmul_args *args, const tn_panel_kernel *kernel) {
    const size_t chunk_k = kernel->widen ? TN_PANEL_K_I16 : TN_PANEL_K;
    const size_t n_blocks = args->k / kernel->block_elems, chunk_blocks = chunk_k / kernel->block_elems;
    for (size_t n = 0; n < args->n_rows; n += ROWS) {
        place at = {.row = n, .n_rows = min_size(args->n_rows - n, ROWS)};
        const uint8_t *next = args->w + (n + at.n_rows) * args->w_stride + TN_PREFETCH_AHEAD;
        for (; at.block < n_blocks; at.block += chunk_blocks) {
            const uint8_t *row[ROWS]; /* a short panel repeats its last row; those lanes are not stored */
            at.n_blocks = min_size(n_blocks - at.block, chunk_blocks);
            for (size_t r = 0; r < ROWS; r++) {
                const size_t i = n + min_size(r, at.n_rows - 1);
                row[r] = args->w + i * args->w_stride + at.block * kernel->block_bytes;
            }
            kernel->fill(args->scratch, row, at.n_blocks, next + ROWS * at.block * kernel->block_bytes);
            meet_tokens(args, kernel, &at);
        }
    }
}
