/* What the products of several tokens share: sixteen rows are unpacked into a panel, a chunk of K at a time,
 * and every token is met with it in tiles of up to four.
 *
 *   unsigned panel   uint8 [k/4][16 rows][4]; its file draws the rest
 *     32 bytes are 8 rows x 4 k; 4 activations are broadcast, maddubs adds products in int16 lanes that
 *     cannot saturate within so many additions (8 for 4 bits, 4 for 5, 2 for 6), one madd widens the sums.
 *   signed panel     int16 [k/2][16 rows][2]
 *     the same with madd, whose int32 sums have no hazard. Of each 4 k the even ones make one pair and the
 * odd ones another, because shifts separate these; of each 32 k the even pairs come first. The activations
 * are widened in the same order, a tile at a time. */
#ifndef TN_KERNELS_X86_PANEL_AVX2_H
#define TN_KERNELS_X86_PANEL_AVX2_H

#include "avx2.h"
#include "simd_avx2.h"

enum {
    TN_PANEL_ROWS = 16,
    TN_PANEL_TOKENS = 4, /* of a tile */
    TN_PANEL_K = 1024,   /* elements of a chunk: 16 KiB of panel, which stays in L1 */
    TN_PANEL_K_I16 = 512
};

/* One chunk's activations: token t at x + t * stride; its scales and sums, for the first block of the chunk,
 * at the same distance from d and s. */
typedef struct tn_panel_chunk {
    const uint8_t *x, *d, *s;
    size_t stride, n_blocks;
} tn_panel_chunk;

typedef struct tn_panel_i16 {
    int16_t q[TN_PANEL_K_I16 / 2][TN_PANEL_ROWS][2];
    float d[TN_PANEL_K_I16 / 16][TN_PANEL_ROWS];     /* for each block; NVFP4: for each half of 32 elements */
    int16_t x[TN_PANEL_TOKENS][TN_PANEL_K_I16 + 32]; /* padded, so that tokens do not share cache sets */
} tn_panel_i16;

/* Unpacks n_blocks blocks of 16 rows, and meanwhile prefetches as many bytes from `next` on. */
typedef void tn_panel_fill_fn(void *panel, const uint8_t *const row[TN_PANEL_ROWS], size_t n_blocks,
                              const uint8_t *next);
/* Adds the chunk to the accumulators of a tile. */
typedef void tn_panel_tile_fn(float (*acc)[TN_PANEL_ROWS], const void *panel, const tn_panel_chunk *chunk);

typedef struct tn_panel_kernel {
    tn_panel_fill_fn *fill;
    tn_panel_tile_fn *const *tiles; /* [n] for n tokens */
    size_t block_elems, block_bytes;
    tn_act act;
    bool widen; /* the panel is a tn_panel_i16 */
} tn_panel_kernel;

/* The whole product. */
void tn_panel_matmul_avx2(const tn_matmul_args *args, const tn_panel_kernel *kernel);

/* A table of tile functions, one for each number of tokens; `call` is a macro of that number. */
#define TN_PANEL_TILES(name, call)                                                                           \
    static void name##_x1(float(*acc)[TN_PANEL_ROWS], const void *panel, const tn_panel_chunk *chunk) {      \
        call(1);                                                                                             \
    }                                                                                                        \
    static void name##_x2(float(*acc)[TN_PANEL_ROWS], const void *panel, const tn_panel_chunk *chunk) {      \
        call(2);                                                                                             \
    }                                                                                                        \
    static void name##_x3(float(*acc)[TN_PANEL_ROWS], const void *panel, const tn_panel_chunk *chunk) {      \
        call(3);                                                                                             \
    }                                                                                                        \
    static void name##_x4(float(*acc)[TN_PANEL_ROWS], const void *panel, const tn_panel_chunk *chunk) {      \
        call(4);                                                                                             \
    }                                                                                                        \
    static tn_panel_tile_fn *const name[TN_PANEL_TOKENS + 1] = {NULL, name##_x1, name##_x2, name##_x3,       \
                                                                name##_x4};

/* Scale of token t for block b of the chunk. */
TN_INLINE __m256 tn_panel_scale(const tn_panel_chunk *chunk, size_t b, int t) {
    float d;
    memcpy(&d, chunk->d + 4 * b + (size_t)t * chunk->stride, sizeof d);
    return _mm256_set1_ps(d);
}

/* acc = fma(d * dx, v, acc), or with the product negated. */
TN_INLINE void tn_panel_accumulate(float *acc, const __m256i v[2], const float *dw, __m256 dx, bool negated) {
    for (int h = 0; h < 2; h++) {
        const __m256 d = _mm256_mul_ps(_mm256_load_ps(dw + 8 * h), dx), f = _mm256_cvtepi32_ps(v[h]);
        const __m256 old = _mm256_load_ps(acc + 8 * h);
        _mm256_store_ps(acc + 8 * h, negated ? _mm256_fnmadd_ps(d, f, old) : _mm256_fmadd_ps(d, f, old));
    }
}

/* The even and the odd ones of signed bytes, as int16. */
TN_INLINE void tn_panel_widen(__m256i bytes, __m256i *even, __m256i *odd) {
    *even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    *odd = _mm256_srai_epi16(bytes, 8);
}

/* Eight groups of 4 k x 8 rows of signed bytes into a signed panel, from element k and row `half`, multiplied
 * by the rows' scales (pairs of int16) unless that is NULL. */
TN_INLINE void tn_panel_put_i16(tn_panel_i16 *panel, size_t k, int half, const __m256i v[8],
                                const __m256i *scale) {
    for (size_t g = 0; g < 8; g++) {
        __m256i even, odd;
        tn_panel_widen(v[g], &even, &odd);
        if (scale) {
            even = _mm256_mullo_epi16(even, *scale);
            odd = _mm256_mullo_epi16(odd, *scale);
        }
        tn_store256(panel->q[k / 2 + g][half], even);
        tn_store256(panel->q[k / 2 + 8 + g][half], odd);
    }
}

/* The tile of a signed panel with blocks of `elems`. */
TN_INLINE void tn_panel_tile_i16(float (*acc)[TN_PANEL_ROWS], const tn_panel_i16 *panel,
                                 const tn_panel_chunk *chunk, int n, size_t elems) {
    const size_t n_blocks = chunk->n_blocks;
    for (size_t b = 0; b < n_blocks; b++) {
        __m256i dot[TN_PANEL_TOKENS][2];
        for (int t = 0; t < n; t++) dot[t][0] = dot[t][1] = _mm256_setzero_si256();
        for (size_t k = b * elems; k < (b + 1) * elems; k += 32) {
            const int16_t(*q)[TN_PANEL_ROWS][2] = panel->q + k / 2;
#pragma GCC unroll 16
            for (int g = 0; g < 16; g++) {
                const __m256i w0 = tn_load256(q[g][0]), w1 = tn_load256(q[g][8]);
                for (int t = 0; t < n; t++) {
                    const __m256i x = tn_broadcast_i32(panel->x[t] + k + 2 * g);
                    dot[t][0] = tn_pin(_mm256_add_epi32(dot[t][0], _mm256_madd_epi16(w0, x)));
                    dot[t][1] = tn_pin(_mm256_add_epi32(dot[t][1], _mm256_madd_epi16(w1, x)));
                }
            }
        }
        for (int t = 0; t < n; t++) {
            tn_panel_accumulate(acc[t], dot[t], panel->d[b], tn_panel_scale(chunk, b, t), false);
        }
    }
}

#endif
