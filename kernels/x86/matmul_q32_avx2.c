/* Products of several tokens with the 32-wide weight types.
 *
 * Sixteen rows are unpacked into a panel, a chunk of K at a time, and every token is met with it:
 *
 *   unsigned panel (Q4_0 Q4_1 Q5_0 Q5_1 MXFP4):  uint8 [k/4][16 rows][4]
 *     32 bytes are 8 rows x 4 k; 4 activations are broadcast, maddubs adds products in int16 lanes that cannot
 *     saturate within `adds` additions, one madd by 1 gives the block's int32 dot of each row.
 *   signed panel (Q8_0 IQ4_NL):                  int16 [k/2][16 rows][2]
 *     the same with madd, whose int32 sums have no hazard; the activations are widened once a panel.
 *
 * y holds the accumulators between the chunks. */
#include "avx2.h"
#include "unpack32_avx2.h"

enum {
    ROWS = 16,
    U8_BLOCKS = 32,   /* blocks of a chunk: 16 KiB of panel, which stays in L1 */
    I16_BLOCKS = 16,
    TILE = 4          /* tokens of a tile */
};

typedef struct u8_panel {
    uint8_t q[U8_BLOCKS][8][ROWS][4];
    float d[U8_BLOCKS][ROWS], m[U8_BLOCKS][ROWS];
} u8_panel;

typedef struct i16_panel {
    int16_t q[I16_BLOCKS][16][ROWS][2];
    float d[I16_BLOCKS][ROWS];
    int16_t x[TILE][I16_BLOCKS * 32];
} i16_panel;

_Static_assert(sizeof(u8_panel) <= TN_KERNEL_SCRATCH && sizeof(i16_panel) <= TN_KERNEL_SCRATCH, "scratch");

/* One chunk's activations: token t at x + t * stride, its scales and sums for the first block of the chunk. */
typedef struct chunk {
    const uint8_t *x;
    const float *d;
    const int32_t *s;
    size_t stride, n_blocks;
} chunk;

/* One block's integer sums into the tile's accumulators of token t. */
TN_INLINE void accumulate(float *acc, __m256i dot0, __m256i dot1, const float *dw, const float *dx) {
    const __m256 d = _mm256_broadcast_ss(dx);
    const __m256 d0 = _mm256_mul_ps(_mm256_load_ps(dw), d), d1 = _mm256_mul_ps(_mm256_load_ps(dw + 8), d);
    _mm256_store_ps(acc, _mm256_fmadd_ps(d0, _mm256_cvtepi32_ps(dot0), _mm256_load_ps(acc)));
    _mm256_store_ps(acc + 8, _mm256_fmadd_ps(d1, _mm256_cvtepi32_ps(dot1), _mm256_load_ps(acc + 8)));
}

/* The int32 dots of one block of the unsigned panel with n tokens. */
TN_INLINE void dots_u8(__m256i dot[TILE][2], const uint8_t (*q)[ROWS][4], const uint8_t *x, size_t stride, int n,
                       int adds) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int start = 0; start < 8; start += adds) {
        __m256i sum[TILE][2];
        for (int g = start; g < start + adds; g++) {
            const __m256i w0 = tn_load256(q[g][0]), w1 = tn_load256(q[g][8]);
            for (int t = 0; t < n; t++) {
                const __m256i b = tn_broadcast_i32(x + (size_t)t * stride + 4 * g);
                const __m256i p0 = _mm256_maddubs_epi16(w0, b), p1 = _mm256_maddubs_epi16(w1, b);
                sum[t][0] = g == start ? p0 : _mm256_add_epi16(sum[t][0], p0);
                sum[t][1] = g == start ? p1 : _mm256_add_epi16(sum[t][1], p1);
            }
        }
        for (int t = 0; t < n; t++) {
            for (int h = 0; h < 2; h++) {
                const __m256i v = _mm256_madd_epi16(sum[t][h], ones);
                dot[t][h] = start == 0 ? v : _mm256_add_epi32(dot[t][h], v);
            }
        }
    }
}

TN_INLINE void tile_u8(float (*acc)[ROWS], const u8_panel *panel, const chunk *c, int n, int adds, int offset,
                       bool has_min) {
    for (size_t b = 0; b < c->n_blocks; b++) {
        __m256i dot[TILE][2];
        dots_u8(dot, panel->q[b], c->x + 32 * b, c->stride, n, adds);
        for (int t = 0; t < n; t++) {
            const size_t at = (size_t)t * c->stride;
            const float *dx = (const float *)(const void *)((const uint8_t *)(c->d + b) + at);
            const int32_t s = *(const int32_t *)(const void *)((const uint8_t *)(c->s + b) + at);
            if (offset) {
                const __m256i o = _mm256_set1_epi32(s * offset);
                dot[t][0] = _mm256_sub_epi32(dot[t][0], o);
                dot[t][1] = _mm256_sub_epi32(dot[t][1], o);
            }
            accumulate(acc[t], dot[t][0], dot[t][1], panel->d[b], dx);
            if (has_min) {
                const __m256i sums = _mm256_set1_epi32(s);
                accumulate(acc[t], sums, sums, panel->m[b], dx);
            }
        }
    }
}

TN_INLINE void tile_i16(float (*acc)[ROWS], const i16_panel *panel, const chunk *c, int n) {
    for (size_t b = 0; b < c->n_blocks; b++) {
        __m256i dot[TILE][2];
        for (int g = 0; g < 16; g++) {
            const __m256i w0 = tn_load256(panel->q[b][g][0]), w1 = tn_load256(panel->q[b][g][8]);
            for (int t = 0; t < n; t++) {
                const __m256i x = tn_broadcast_i32(panel->x[t] + 32 * b + 2 * g);
                const __m256i p0 = _mm256_madd_epi16(w0, x), p1 = _mm256_madd_epi16(w1, x);
                dot[t][0] = g == 0 ? p0 : _mm256_add_epi32(dot[t][0], p0);
                dot[t][1] = g == 0 ? p1 : _mm256_add_epi32(dot[t][1], p1);
            }
        }
        for (int t = 0; t < n; t++) {
            const uint8_t *dx = (const uint8_t *)(c->d + b) + (size_t)t * c->stride;
            accumulate(acc[t], dot[t][0], dot[t][1], panel->d[b], (const float *)(const void *)dx);
        }
    }
}

/* ---- Tiles, one function for each number of tokens ------------------------------------------------------ */

typedef void tile_fn(float (*acc)[ROWS], const void *panel, const chunk *c);

#define TILES(name, call)                                                                                            \
    static void name##_x1(float (*acc)[ROWS], const void *panel, const chunk *c) { call(1); }                        \
    static void name##_x2(float (*acc)[ROWS], const void *panel, const chunk *c) { call(2); }                        \
    static void name##_x3(float (*acc)[ROWS], const void *panel, const chunk *c) { call(3); }                        \
    static void name##_x4(float (*acc)[ROWS], const void *panel, const chunk *c) { call(4); }                        \
    static tile_fn *const name[TILE + 1] = {NULL, name##_x1, name##_x2, name##_x3, name##_x4};

#define CALL(n) tile_u8(acc, panel, c, n, 8, 8, false)
TILES(tiles_q4_0, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, c, n, 8, 0, true)
TILES(tiles_q4_1, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, c, n, 4, 16, false)
TILES(tiles_q5_0, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, c, n, 4, 0, true)
TILES(tiles_q5_1, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, c, n, 4, TN_MXFP4_BIAS, false)
TILES(tiles_mxfp4, CALL)
#undef CALL
#define CALL(n) tile_i16(acc, panel, c, n)
TILES(tiles_i16, CALL)
#undef CALL

/* ---- Panels --------------------------------------------------------------------------------------------- */

/* Block b of rows 0..7 of `row` into 8 groups of 4 k, `q` being the half panel's first bytes. */
typedef __m256i load_fn(const uint8_t *block);

TN_INLINE void fill_u8(u8_panel *panel, const uint8_t *const row[ROWS], size_t n_blocks, size_t bytes, load_fn *load,
                       bool e8m0, bool has_min) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (int half = 0; half < ROWS; half += 8) {
            __m256i v[8];
            __m256 d, m;
            for (int r = 0; r < 8; r++) v[r] = load(row[half + r] + b * bytes);
            tn_transpose8(v);
            for (int g = 0; g < 8; g++) tn_store256(panel->q[b][g][half], v[g]);
            if (has_min) {
                tn_gather_f16x2(row + half, b * bytes, &d, &m);
                _mm256_store_ps(panel->m[b] + half, m);
            } else {
                d = e8m0 ? tn_gather_e8m0_half(row + half, b * bytes) : tn_gather_f16(row + half, b * bytes);
            }
            _mm256_store_ps(panel->d[b] + half, d);
        }
    }
}

TN_INLINE void fill_i16(i16_panel *panel, const uint8_t *const row[ROWS], size_t n_blocks, size_t bytes,
                        load_fn *load) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (int half = 0; half < ROWS; half += 8) {
            __m256i q[8], v[8];
            for (int r = 0; r < 8; r++) q[r] = load(row[half + r] + b * bytes);
            for (int part = 0; part < 2; part++) {
                for (int r = 0; r < 8; r++) {
                    v[r] = _mm256_cvtepi8_epi16(part ? _mm256_extracti128_si256(q[r], 1) : _mm256_castsi256_si128(q[r]));
                }
                tn_transpose8(v);
                for (int g = 0; g < 8; g++) tn_store256(panel->q[b][8 * part + g][half], v[g]);
            }
            _mm256_store_ps(panel->d[b] + half, tn_gather_f16(row + half, b * bytes));
        }
    }
}

TN_INLINE __m256i load_q4_0(const uint8_t *block) { return tn_nibbles(block + 2); }
TN_INLINE __m256i load_q4_1(const uint8_t *block) { return tn_nibbles(block + 4); }
TN_INLINE __m256i load_q5_0(const uint8_t *block) { return tn_nibbles_fifth(block + 6, block + 2); }
TN_INLINE __m256i load_q5_1(const uint8_t *block) { return tn_nibbles_fifth(block + 8, block + 4); }
TN_INLINE __m256i load_q8_0(const uint8_t *block) { return tn_load256(block + 2); }
TN_INLINE __m256i load_iq4_nl(const uint8_t *block) { return tn_iq4_decode(tn_nibbles(block + 2)); }
TN_INLINE __m256i load_mxfp4(const uint8_t *block) { return tn_mxfp4_decode(tn_nibbles(block + 1)); }

typedef void fill_fn(void *panel, const uint8_t *const row[ROWS], size_t n_blocks);

static void fill_q4_0(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_u8(panel, row, n, 18, load_q4_0, false, false);
}
static void fill_q4_1(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_u8(panel, row, n, 20, load_q4_1, false, true);
}
static void fill_q5_0(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_u8(panel, row, n, 22, load_q5_0, false, false);
}
static void fill_q5_1(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_u8(panel, row, n, 24, load_q5_1, false, true);
}
static void fill_mxfp4(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_u8(panel, row, n, 17, load_mxfp4, true, false);
}
static void fill_q8_0(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_i16(panel, row, n, 34, load_q8_0);
}
static void fill_iq4_nl(void *panel, const uint8_t *const row[ROWS], size_t n) {
    fill_i16(panel, row, n, 18, load_iq4_nl);
}

/* ---- The walk: panels, chunks of K, tiles of tokens ----------------------------------------------------- */

typedef struct kernel {
    fill_fn *fill;
    tile_fn *const *tiles;
    size_t block_bytes, chunk_blocks;
    bool widen; /* the panel is signed: activations are widened into it */
} kernel;

static void widen_tile(i16_panel *panel, const chunk *c, int n) {
    for (int t = 0; t < n; t++) {
        for (size_t i = 0; i < c->n_blocks * 32; i += 16) {
            const __m128i q = tn_load128(c->x + (size_t)t * c->stride + i);
            tn_store256(panel->x[t] + i, _mm256_cvtepi8_epi16(q));
        }
    }
}

/* All tokens against the panel of rows n .. n + n_rows - 1, blocks b .. b + n_blocks - 1. */
static void meet_tokens(const tn_matmul_args *args, const kernel *kern, size_t n, size_t n_rows, size_t b,
                        size_t n_blocks) {
    for (size_t t = 0; t < args->n_tokens; t += TILE) {
        const int n_tile = (int)(args->n_tokens - t < TILE ? args->n_tokens - t : TILE);
        const uint8_t *x = args->x + t * args->x_stride;
        const chunk c = {x + 32 * b, (const float *)(const void *)(x + tn_act_d_offset(args->k)) + b,
                         (const int32_t *)(const void *)(x + tn_act_s_offset(TN_ACT_Q8_32, args->k)) + b,
                         args->x_stride, n_blocks};
        _Alignas(32) float acc[TILE][ROWS] = {{0}};
        float *y = args->y + t * args->y_stride + n;
        if (b > 0) {
            for (int i = 0; i < n_tile; i++) memcpy(acc[i], y + (size_t)i * args->y_stride, n_rows * sizeof(float));
        }
        if (kern->widen) widen_tile(args->scratch, &c, n_tile);
        kern->tiles[n_tile](acc, args->scratch, &c);
        for (int i = 0; i < n_tile; i++) memcpy(y + (size_t)i * args->y_stride, acc[i], n_rows * sizeof(float));
    }
}

static void matmul(const tn_matmul_args *args, const kernel *kern) {
    const size_t n_blocks = args->k / 32;
    for (size_t n = 0; n < args->n_rows; n += ROWS) {
        const size_t n_rows = args->n_rows - n < ROWS ? args->n_rows - n : ROWS;
        for (size_t b = 0; b < n_blocks; b += kern->chunk_blocks) {
            const size_t n_chunk = n_blocks - b < kern->chunk_blocks ? n_blocks - b : kern->chunk_blocks;
            const uint8_t *row[ROWS]; /* a short panel repeats its last row; those lanes are not stored */
            for (size_t r = 0; r < ROWS; r++) {
                row[r] = args->w + (n + (r < n_rows ? r : n_rows - 1)) * args->w_stride + b * kern->block_bytes;
            }
            kern->fill(args->scratch, row, n_chunk);
            meet_tokens(args, kern, n, n_rows, b, n_chunk);
        }
    }
}

#define GEMM(name, tile_set, bytes, chunk_blocks, widen)                                                             \
    void tn_gemm_##name##_q8_avx2(const tn_matmul_args *args) {                                                      \
        matmul(args, &(kernel){fill_##name, tile_set, bytes, chunk_blocks, widen});                                  \
    }
GEMM(q4_0, tiles_q4_0, 18, U8_BLOCKS, false)
GEMM(q4_1, tiles_q4_1, 20, U8_BLOCKS, false)
GEMM(q5_0, tiles_q5_0, 22, U8_BLOCKS, false)
GEMM(q5_1, tiles_q5_1, 24, U8_BLOCKS, false)
GEMM(q8_0, tiles_i16, 34, I16_BLOCKS, true)
GEMM(iq4_nl, tiles_i16, 18, I16_BLOCKS, true)
GEMM(mxfp4, tiles_mxfp4, 17, U8_BLOCKS, false)
