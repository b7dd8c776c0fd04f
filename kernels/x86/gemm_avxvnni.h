/* Products of several tokens at the levels above AVX2, written once for vectors of 256 and 512 bits.
 *
 * As in panel_avx2.h, rows of weights are unpacked into a panel, a chunk of K at a time, and every token is
 * met with it in tiles; here a panel is two vectors wide and all types have one form:
 *
 *   q      uint8 [k/4][rows][4]     the element plus an offset that makes it unsigned
 *   scale  int32 [step][rows]       of each 16 or 32 elements of a 256-wide block
 *   min    int16 [k/32][rows][2]    minimums of two times 16 elements
 *   d, m   float [block][rows]
 *
 * The offset comes off at the start: a dot begins with -offset * S, S being the activations' sum over the
 * same elements. An including file gives the vectors (vec_*.h) and tn_dots (dot*.h). */
#ifndef TN_KERNELS_X86_GEMM_AVXVNNI_H
#define TN_KERNELS_X86_GEMM_AVXVNNI_H

#include "types_avxvnni.h"

enum {
    TN_GEMM_ROWS = 2 * TN_LANES,
    TN_GEMM_K = 1024 /* of a chunk */
};

typedef struct tn_gemm_panel {
    uint8_t q[TN_GEMM_K / 4][TN_GEMM_ROWS][4];
    int32_t scale[TN_GEMM_K / 16][TN_GEMM_ROWS];
    int16_t min[TN_GEMM_K / 32][TN_GEMM_ROWS][2];
    float d[TN_GEMM_K / 32][TN_GEMM_ROWS], m[TN_GEMM_K / 32][TN_GEMM_ROWS];
    /* of the tile of tokens; padded, so that tokens do not share cache sets */
    int32_t start[TN_GEMM_TOKENS][TN_GEMM_K / 16 + 16];
    int16_t wide[TN_GEMM_TOKENS][TN_GEMM_K + 32];
} tn_gemm_panel;

_Static_assert(sizeof(tn_gemm_panel) <= TN_KERNEL_SCRATCH, "scratch");

/* One chunk's activations: token t at x + t * stride, or widened in the panel; its scales and sums, for the
 * first block of the chunk, at the same distance from d and s. */
typedef struct tn_gemm_chunk {
    const uint8_t *x, *d, *s;
    size_t stride, n_blocks;
} tn_gemm_chunk;

TN_INLINE int tn_shape_offset(tn_shape s) {
    return s.bits == 8 ? TN_SIGNED_OFFSET : s.offset;
}

/* ---- Tiles -------------------------------------------------------------------------------------- */

/* acc[t] = fma(d * dx, v[t], acc[t]), or with the product negated. */
TN_INLINE void tn_gemm_accumulate(float *acc, const tn_vf v[2], const float *d, tn_vf dx, bool negated) {
    for (int h = 0; h < 2; h++) {
        const tn_vf by = tn_vf_mul(tn_vf_load(d + h * TN_LANES), dx), old = tn_vf_load(acc + h * TN_LANES);
        tn_vf_store(acc + h * TN_LANES, negated ? tn_vf_fnma(by, v[h], old) : tn_vf_fma(by, v[h], old));
    }
}

/* The dots of `elems` elements from element k of the chunk on, for n tokens. */
TN_INLINE void tn_gemm_dots(tn_vi dot[TN_GEMM_TOKENS][2], const tn_gemm_panel *p, const tn_gemm_chunk *c,
                            size_t k, size_t step, int elems, int n, tn_shape s) {
    const bool wide = TN_WIDEN && s.bits == 8;
    const uint8_t *x = wide ? (const uint8_t *)(p->wide[0] + k) : c->x + k;
    for (int t = 0; t < n; t++) {
        dot[t][0] = dot[t][1] = tn_shape_offset(s) ? tn_vi_broadcast(&p->start[t][step]) : tn_vi_zero();
    }
    tn_dots(dot, p->q + k / 4, x, wide ? sizeof p->wide[0] : c->stride, n, elems / 4, s.bits);
}

TN_INLINE tn_vf tn_gemm_float(const uint8_t *p) {
    float v;
    memcpy(&v, p, sizeof v);
    return tn_vf_set1(v);
}

TN_INLINE void tn_gemm_tile32(float (*acc)[TN_GEMM_ROWS], const tn_gemm_panel *p, const tn_gemm_chunk *chunk,
                              int n, tn_shape s) {
    const tn_gemm_chunk c = *chunk;
    for (size_t b = 0; b < c.n_blocks; b++) {
        tn_vi dot[TN_GEMM_TOKENS][2];
        tn_gemm_dots(dot, p, &c, 32 * b, b, 32, n, s);
        for (int t = 0; t < n; t++) {
            const tn_vf dx = tn_gemm_float(c.d + 4 * b + (size_t)t * c.stride);
            const tn_vf v[2] = {tn_vi_to_float(dot[t][0]), tn_vi_to_float(dot[t][1])};
            tn_gemm_accumulate(acc[t], v, p->d[b], dx, false);
            if (s.has_min) {
                const tn_vf sum = tn_vi_to_float(tn_vi_broadcast(c.s + 4 * b + (size_t)t * c.stride));
                tn_gemm_accumulate(acc[t], (const tn_vf[2]){sum, sum}, p->m[b], dx, false);
            }
        }
    }
}

/* sum[t] += scale * dot over one block. */
TN_INLINE void tn_gemm_block(tn_vi sum[TN_GEMM_TOKENS][2], const tn_gemm_panel *p, const tn_gemm_chunk *c,
                             size_t b, int n, tn_shape s) {
    for (int t = 0; t < n; t++) sum[t][0] = sum[t][1] = tn_vi_zero();
    for (size_t j = 0; j < (size_t)(256 / s.step); j++) {
        const int32_t *scale = p->scale[16 * b + j];
        tn_vi dot[TN_GEMM_TOKENS][2];
        tn_gemm_dots(dot, p, c, 256 * b + j * (size_t)s.step, 16 * b + j, s.step, n, s);
        for (int h = 0; h < 2; h++) {
            const tn_vi by = tn_vi_load(scale + h * TN_LANES);
            for (int t = 0; t < n; t++) {
                sum[t][h] = s.fits16 ? tn_vi_dot2(sum[t][h], dot[t][h], by)
                                     : tn_vi_add(sum[t][h], tn_vi_mul(dot[t][h], by));
            }
        }
    }
}

TN_INLINE void tn_gemm_tile256(float (*acc)[TN_GEMM_ROWS], const tn_gemm_panel *p, const tn_gemm_chunk *chunk,
                               int n, tn_shape s) {
    const tn_gemm_chunk c = *chunk;
    for (size_t b = 0; b < c.n_blocks; b++) {
        tn_vi sum[TN_GEMM_TOKENS][2];
        tn_gemm_block(sum, p, &c, b, n, s);
        for (int t = 0; t < n; t++) {
            const tn_vf dx = tn_gemm_float(c.d + 4 * b + (size_t)t * c.stride);
            const tn_vf v[2] = {tn_vi_to_float(sum[t][0]), tn_vi_to_float(sum[t][1])};
            tn_gemm_accumulate(acc[t], v, p->d[b], dx, false);
            if (s.has_min) {
                tn_vi mins[2] = {tn_vi_zero(), tn_vi_zero()};
                for (size_t g = 0; g < 8; g++) {
                    const tn_vi pair = tn_vi_broadcast(c.s + 32 * b + 4 * g + (size_t)t * c.stride);
                    for (int h = 0; h < 2; h++)
                        mins[h] = tn_vi_dot2(mins[h], tn_vi_load(p->min[8 * b + g][h * TN_LANES]), pair);
                }
                const tn_vf u[2] = {tn_vi_to_float(mins[0]), tn_vi_to_float(mins[1])};
                tn_gemm_accumulate(acc[t], u, p->m[b], dx, true);
            }
        }
    }
}

/* ---- Panels ------------------------------------------------------------------------------------- */

/* 32 elements of each of 8 rows, from row `at` and element k on. */
TN_INLINE void tn_gemm_put(tn_gemm_panel *p, size_t k, size_t at, __m256i v[8], tn_shape s) {
    if (s.bits == 8) {
        for (int r = 0; r < 8; r++) v[r] = _mm256_xor_si256(v[r], _mm256_set1_epi8((char)TN_SIGNED_OFFSET));
    }
    tn_transpose8(v);
    for (size_t g = 0; g < 8; g++) tn_store256(p->q[k / 4 + g][at], v[g]);
}

TN_INLINE void tn_gemm_put_factors(tn_gemm_panel *p, size_t b, size_t at, const uint8_t *const row[8],
                                   size_t block, tn_shape s) {
    __m256 d, m;
    if (s.has_min) {
        tn_gather_f16x2(row, block + s.d_at, &d, &m);
        _mm256_store_ps(p->m[b] + at, m);
    } else {
        d = s.e8m0 ? tn_gather_e8m0_half(row, block) : tn_gather_f16(row, block + s.d_at);
    }
    _mm256_store_ps(p->d[b] + at, d);
}

TN_INLINE void tn_gemm_fill32(tn_gemm_panel *p, const uint8_t *const row[TN_GEMM_ROWS], size_t n_blocks,
                              const uint8_t *next, tn_shape s, tn_q32_fn *load) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t at = 0; at < TN_GEMM_ROWS; at += 8) {
            __m256i v[8];
            tn_prefetch(next, 8u * s.bytes);
            next += 8u * s.bytes;
            for (int r = 0; r < 8; r++) v[r] = load(row[at + (size_t)r] + b * s.bytes);
            tn_gemm_put(p, 32 * b, at, v, s);
            tn_gemm_put_factors(p, b, at, row + at, b * s.bytes, s);
        }
    }
}

/* 8 vectors of rows' int32 to 8 rows of the table. */
TN_INLINE void tn_gemm_put_transposed(void *dst, size_t dst_stride, __m256i v[8]) {
    tn_transpose8(v);
    for (size_t j = 0; j < 8; j++) tn_store256((uint8_t *)dst + j * dst_stride, v[j]);
}

TN_INLINE void tn_gemm_put_scales(tn_gemm_panel *p, size_t b, size_t at, const uint8_t *const row[8],
                                  size_t block, tn_shape s, tn_scales256_fn *scales) {
    __m256i a[8], more[8], mins[8];
    for (int r = 0; r < 8; r++) {
        scales(row[r] + block, &a[r], &mins[r]);
        more[r] = _mm256_setzero_si256();
        if (s.step == 16) {
            more[r] = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(a[r], 1));
            a[r] = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(a[r]));
        } else {
            a[r] = _mm256_srai_epi32(a[r], 16); /* a scale of 32 elements stands twice */
        }
        if (s.fits16) { /* the upper half of the dot is its sign, which must not count */
            a[r] = _mm256_and_si256(a[r], _mm256_set1_epi32(0xffff));
            more[r] = _mm256_and_si256(more[r], _mm256_set1_epi32(0xffff));
        }
    }
    tn_gemm_put_transposed(&p->scale[16 * b][at], sizeof p->scale[0], a);
    if (s.step == 16) tn_gemm_put_transposed(&p->scale[16 * b + 8][at], sizeof p->scale[0], more);
    if (s.has_min) tn_gemm_put_transposed(p->min[8 * b][at], sizeof p->min[0], mins);
}

TN_INLINE void tn_gemm_fill256(tn_gemm_panel *p, const uint8_t *const row[TN_GEMM_ROWS], size_t n_blocks,
                               const uint8_t *next, tn_shape s, tn_q256_fn *load, tn_scales256_fn *scales) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t at = 0; at < TN_GEMM_ROWS; at += 8) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                __m256i v[8];
                tn_prefetch(next, s.bytes);
                next += s.bytes;
                for (int r = 0; r < 8; r++) v[r] = load(row[at + (size_t)r] + b * s.bytes, j);
                tn_gemm_put(p, 256 * b + 32 * (size_t)j, at, v, s);
            }
            tn_gemm_put_scales(p, b, at, row + at, b * s.bytes, s, scales);
            tn_gemm_put_factors(p, b, at, row + at, b * s.bytes, s);
        }
    }
}

/* The grid types, whose unpacked blocks are all the same: compiled once, for any shape. */
static __attribute__((noinline)) void tn_gemm_fill_grid(tn_gemm_panel *p,
                                                        const uint8_t *const row[TN_GEMM_ROWS],
                                                        size_t n_blocks, const uint8_t *next, tn_shape s,
                                                        tn_unpack256_fn *unpack) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t at = 0; at < TN_GEMM_ROWS; at += 8, next += 8u * s.bytes) {
            const uint8_t *block[8];
            tn_unpacked_rows unpacked;
            tn_prefetch(next, 8u * s.bytes);
            tn_unpack_rows(&unpacked, row + at, b * s.bytes, unpack);
            for (int r = 0; r < 8; r++) block[r] = unpacked.block[r].q;
            for (int j = 0; j < 8; j++) {
                __m256i v[8];
                for (int r = 0; r < 8; r++) v[r] = tn_q_unpacked(block[r], j);
                tn_gemm_put(p, 256 * b + 32 * (size_t)j, at, v, s);
            }
            tn_gemm_put_scales(p, b, at, block, 0, s, tn_scales_unpacked);
            _mm256_store_ps(p->d[b] + at, _mm256_load_ps(unpacked.d));
        }
    }
}

/* ---- The walk ----------------------------------------------------------------------------------- */

typedef void tn_gemm_fill_fn(tn_gemm_panel *p, const uint8_t *const row[TN_GEMM_ROWS], size_t n_blocks,
                             const uint8_t *next);
typedef void tn_gemm_tile_fn(float (*acc)[TN_GEMM_ROWS], const tn_gemm_panel *p, const tn_gemm_chunk *chunk,
                             size_t n);

/* Where in rows and K the walk is. */
typedef struct tn_gemm_place {
    size_t row, n_rows, block, n_blocks;
} tn_gemm_place;

static inline size_t tn_min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* -offset * S for each step of the chunk. */
static inline void tn_gemm_start(tn_gemm_panel *p, const tn_gemm_chunk *c, size_t n, tn_shape s) {
    const int offset = tn_shape_offset(s);
    if (!offset) return;
    for (size_t t = 0; t < n; t++) {
        const uint8_t *sums = c->s + t * c->stride;
        const int32_t *s32 = (const int32_t *)(const void *)sums;
        const int16_t *s16 = (const int16_t *)(const void *)sums;
        int32_t *start = p->start[t];
        if (s.elems == 32) {
            for (size_t i = 0; i < c->n_blocks; i++) start[i] = -offset * s32[i];
        } else if (s.step == 16) {
            for (size_t i = 0; i < 16 * c->n_blocks; i++) start[i] = -offset * s16[i];
        } else {
            for (size_t b = 0; b < c->n_blocks; b++)
                for (size_t j = 0; j < 8; j++)
                    start[16 * b + j] = -offset * (s16[16 * b + 2 * j] + s16[16 * b + 2 * j + 1]);
        }
    }
}

/* Each 4 of the activations as int16, the even two before the odd two. */
static inline void tn_gemm_widen(tn_gemm_panel *p, const tn_gemm_chunk *c, size_t n, size_t k) {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < k; i += 16) {
            const __m256i v = _mm256_cvtepi8_epi16(tn_load128(c->x + t * c->stride + i));
            tn_store256(p->wide[t] + i, _mm256_shuffle_epi8(v, order));
        }
    }
}

/* All tokens against the filled panel; y holds the accumulators between chunks. */
TN_INLINE void tn_gemm_meet(const tn_matmul_args *args, const tn_gemm_place *at, tn_shape s,
                            tn_gemm_tile_fn *tile) {
    tn_gemm_panel *p = args->scratch;
    const tn_act act = s.elems == 32 ? TN_ACT_Q8_32 : TN_ACT_Q8_256;
    const size_t d_offset = tn_act_d_offset(args->k) + 4 * at->block;
    const size_t s_offset = tn_act_s_offset(act, args->k) + (s.elems == 32 ? 4 : 32) * at->block;
    for (size_t t = 0; t < args->n_tokens; t += TN_GEMM_TOKENS) {
        const size_t n = tn_min_size(args->n_tokens - t, TN_GEMM_TOKENS);
        const uint8_t *x = args->x + t * args->x_stride;
        const tn_gemm_chunk c = {x + at->block * s.elems, x + d_offset, x + s_offset, args->x_stride,
                                 at->n_blocks};
        float *y = args->y + t * args->y_stride + at->row;
        _Alignas(64) float acc[TN_GEMM_TOKENS][TN_GEMM_ROWS] = {{0}};
        if (at->block > 0) {
            for (size_t i = 0; i < n; i++) memcpy(acc[i], y + i * args->y_stride, at->n_rows * sizeof *y);
        }
        tn_gemm_start(p, &c, n, s);
        if (TN_WIDEN && s.bits == 8) tn_gemm_widen(p, &c, n, at->n_blocks * s.elems);
        tile(acc, p, &c, n);
        for (size_t i = 0; i < n; i++) memcpy(y + i * args->y_stride, acc[i], at->n_rows * sizeof *y);
    }
}

TN_INLINE void tn_gemm(const tn_matmul_args *args, tn_shape s, tn_gemm_fill_fn *fill, tn_gemm_tile_fn *tile) {
    const size_t n_blocks = args->k / s.elems, chunk_blocks = TN_GEMM_K / s.elems;
    for (size_t n = 0; n < args->n_rows; n += TN_GEMM_ROWS) {
        tn_gemm_place at = {.row = n, .n_rows = tn_min_size(args->n_rows - n, TN_GEMM_ROWS)};
        const uint8_t *next = args->w + (n + at.n_rows) * args->w_stride + TN_PREFETCH_AHEAD;
        for (; at.block < n_blocks; at.block += chunk_blocks) {
            const uint8_t
                *row[TN_GEMM_ROWS]; /* a short panel repeats its last row; those lanes are not stored */
            at.n_blocks = tn_min_size(n_blocks - at.block, chunk_blocks);
            for (size_t r = 0; r < TN_GEMM_ROWS; r++) {
                row[r] = args->w + (n + tn_min_size(r, at.n_rows - 1)) * args->w_stride + at.block * s.bytes;
            }
            fill(args->scratch, row, at.n_blocks, next + TN_GEMM_ROWS * at.block * s.bytes);
            tn_gemm_meet(args, &at, s, tile);
        }
    }
}

/* ---- One type ----------------------------------------------------------------------------------- */

/* The tile with its number of tokens a constant; counts that a vector width does not have fold away. */
#define TN_GEMM_TILES(tile, n, shape)                                                                        \
    switch (n) {                                                                                             \
    case 1: tile(acc, p, chunk, 1, shape); break;                                                            \
    case 2: tile(acc, p, chunk, 2, shape); break;                                                            \
    case 3: tile(acc, p, chunk, 3, shape); break;                                                            \
    case 4: tile(acc, p, chunk, 4, shape); break;                                                            \
    case 5: tile(acc, p, chunk, TN_GEMM_TOKENS > 4 ? 5 : 4, shape); break;                                   \
    default: tile(acc, p, chunk, TN_GEMM_TOKENS, shape); break;                                              \
    }

#define TN_GEMM_TILE(name, elems, shape)                                                                     \
    static void tile_##name(float(*acc)[TN_GEMM_ROWS], const tn_gemm_panel *p, const tn_gemm_chunk *chunk,   \
                            size_t n) {                                                                      \
        TN_GEMM_TILES(tn_gemm_tile##elems, n, shape)                                                         \
    }

#define TN_GEMM_PRODUCT(name, isa, few, shape, tile, fill, ...)                                              \
    static void fill_##name(tn_gemm_panel *p, const uint8_t *const row[TN_GEMM_ROWS], size_t n,              \
                            const uint8_t *next) {                                                           \
        fill(p, row, n, next, shape, __VA_ARGS__);                                                           \
    }                                                                                                        \
    void tn_gemm_##name##_q8_##isa(const tn_matmul_args *args) {                                             \
        if (args->n_tokens <= TN_FEW_TOKENS)                                                                 \
            few(args);                                                                                       \
        else                                                                                                 \
            tn_gemm(args, shape, fill_##name, tile);                                                         \
    }

#define TN_GEMM_TYPE(name, isa, few, elems, shape, ...)                                                      \
    TN_GEMM_TILE(name, elems, shape)                                                                         \
    TN_GEMM_PRODUCT(name, isa, few, shape, tile_##name, tn_gemm_fill##elems, __VA_ARGS__)

/* The tiles of the grid types: how a scale is applied is all that is left of the type. Those of 5 bits are computed as
 * Q3_K is. */
#define TN_GEMM_GRID_TILES                                                                                   \
    TN_GEMM_TILE(by_16, 256, TN_SHAPE_IQ2_XS)                                                                \
    TN_GEMM_TILE(by_32, 256, TN_SHAPE_IQ2_XXS)

#define TN_GEMM_GRID_TYPE(name, isa, few, shape)                                                             \
    TN_GEMM_PRODUCT(name, isa, few, shape,                                                                   \
                    (shape).fits16       ? tile_q3_k                                                         \
                    : (shape).step == 16 ? tile_by_16                                                        \
                                         : tile_by_32,                                                       \
                    tn_gemm_fill_grid, tn_unpack_##name##_avx2)

#endif
