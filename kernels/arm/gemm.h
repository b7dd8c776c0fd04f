/* Several tokens with quantized weights; included after a level's panel primitives.
 *
 * Eight rows make a panel. A chunk of K of it is unpacked once into scratch, small enough for the first
 * cache, and met by all tokens, a tile of 4 or 2 at a time: eight vectors of integer sums, and as many again
 * where sub-blocks have scales. (Tiles of 8 were tried for the 32-wide types: more instructions a product,
 * for they spill.) y holds the accumulators between chunks: a float in memory is the same float. */
#ifndef TN_KERNELS_ARM_GEMM_H
#define TN_KERNELS_ARM_GEMM_H

#include "neon.h"
#include "unpack_neon.h"

enum {
    TN_PANEL_ROWS = 8,
    TN_CHUNK = 1024, /* elements of K */
    TN_TILE = 4      /* tokens */
};

typedef struct tn_panel {
    int8_t q[TN_CHUNK * TN_PANEL_ROWS]; /* 128 bytes for each 16 elements, as tn_pack16 lays them out */
    int32_t scale[TN_CHUNK / 16][TN_PANEL_ROWS];
    int16_t min[TN_CHUNK / 16][TN_PANEL_ROWS];
    float d[TN_CHUNK / 32][TN_PANEL_ROWS], m[TN_CHUNK / 32][TN_PANEL_ROWS];
} tn_panel;

_Static_assert(sizeof(tn_panel) <= TN_KERNEL_SCRATCH, "scratch");

/* A tile's activations over one chunk. A short tile repeats its last token; those sums are not stored. */
typedef struct tn_tile_x {
    const int8_t *q[TN_TILE];
    const float *d[TN_TILE];
    const uint8_t *s[TN_TILE]; /* int32 a block of 32, int16 for each 16 elements */
    size_t n_blocks;
} tn_tile_x;

/* ---- Panels ---------------------------------------------------------------------------------------------
 */

TN_INLINE void tn_fill_factors(tn_panel *panel, size_t b, const uint8_t *const block[8], tn_shape sh) {
    uint16_t raw[2][8];
    for (int r = 0; r < 8; r++) {
        const uint8_t *p = block[r] + sh.d_at;
        raw[0][r] = sh.is_e8m0 ? *p : tn_load_u16(p);
        if (sh.has_min) raw[1][r] = tn_load_u16(p + 2);
    }
    tn_store8(panel->d[b], tn_factors8(raw[0], sh.is_e8m0));
    if (sh.has_min) tn_store8(panel->m[b], tn_factors8(raw[1], false));
}

/* Scales and minimums of block b, from rows of 16 to one row of 8 for each sub-block. */
TN_INLINE void tn_fill_scales(tn_panel *panel, size_t b, const uint8_t *const block[8], tn_shape sh,
                              tn_scales_fn *scales) {
    const size_t n_sub = (size_t)(256 / sh.sub);
    int8_t scale[8][16], min[8][16];
    for (int r = 0; r < 8; r++) {
        const tn_scales v = scales(block[r]);
        vst1q_s8(scale[r], v.scale);
        vst1q_s8(min[r], v.min);
    }
    for (size_t j = 0; j < n_sub; j++) {
        for (int r = 0; r < 8; r++) {
            panel->scale[b * n_sub + j][r] = scale[r][j];
            if (sh.has_min) panel->min[b * n_sub + j][r] = min[r][j];
        }
    }
}

/* Blocks to where they are unpacked, their factors into the panel. */
TN_INLINE void tn_unpack_rows(tn_panel *panel, size_t b, tn_block unpacked[8], const uint8_t *block[8],
                              tn_unpack_fn *unpack) {
    for (int r = 0; r < 8; r++) {
        memset(unpacked[r].scale, 0, sizeof unpacked[r].scale); /* a type may have eight of them */
        unpack(&unpacked[r], block[r]);
        panel->d[b][r] = unpacked[r].d;
        block[r] = (const uint8_t *)&unpacked[r];
    }
}

TN_INLINE void tn_fill_panel(tn_panel *panel, const uint8_t *const row[8], size_t n_blocks, tn_shape sh,
                             tn_q_fn *load, tn_scales_fn *scales, tn_unpack_fn *unpack) {
    for (size_t b = 0; b < n_blocks; b++) {
        const uint8_t *block[8];
        tn_block unpacked[8];
        for (int r = 0; r < 8; r++) block[r] = row[r] + b * sh.bytes;
        if (sh.is_unpacked) tn_unpack_rows(panel, b, unpacked, block, unpack);
#pragma GCC unroll 8
        for (int j = 0; j < sh.elems / 32; j++) {
            int8_t *dst = panel->q + (b * (size_t)sh.elems + 32 * (size_t)j) * TN_PANEL_ROWS;
            int8x16_t low[8], high[8];
            for (int r = 0; r < 8; r++) {
                const int8x16x2_t q = load(block[r], j);
                low[r] = q.val[0];
                high[r] = q.val[1];
            }
            tn_pack16(dst, low);
            tn_pack16(dst + 128, high);
        }
        if (!sh.is_unpacked) tn_fill_factors(panel, b, block, sh);
        if (scales) tn_fill_scales(panel, b, block, sh, scales);
    }
}

/* ---- Tiles ----------------------------------------------------------------------------------------------
 */

TN_INLINE void tn_tile32(float (*acc)[8], const tn_panel *panel, const tn_tile_x *x, int n, tn_shape sh) {
    for (size_t b = 0; b < x->n_blocks; b++) {
        int32x4_t dot[2 * TN_TILE];
        tn_dots(dot, panel->q + b * 32 * TN_PANEL_ROWS, 32, x->q, 32 * b, n, sh.is_narrow);
        const tn_f32x8 d = tn_load8(panel->d[b]), m = sh.has_min ? tn_load8(panel->m[b]) : d;
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            const float dx = x->d[t][b], s = (float)((const int32_t *)(const void *)x->s[t])[b];
            for (int h = 0; h < 2; h++) {
                const float32x4_t sum = vcvtq_f32_s32(tn_rows_of(dot, t, h));
                float32x4_t y = vfmaq_f32(vld1q_f32(acc[t] + 4 * h), vmulq_n_f32(d.v[h], dx), sum);
                if (sh.has_min) y = vfmaq_n_f32(y, vmulq_n_f32(m.v[h], dx), s);
                vst1q_f32(acc[t] + 4 * h, y);
            }
        }
    }
}

/* sum_j m_j * S_j of block b for 8 rows: minimums [8 or 16][8] by the lanes of s. */
TN_INLINE void tn_panel_mins(int32x4_t out[2], const int16_t (*min)[8], const int16_t *s, int sub) {
    int16x8_t sums = vld1q_s16(s);
    const int16x8_t more = vld1q_s16(s + 8);
    if (sub == 32) sums = vpaddq_s16(sums, more);
    out[0] = out[1] = vdupq_n_s32(0);
#define STEP(j, v, lane)                                                                                     \
    do {                                                                                                     \
        const int16x8_t m = vld1q_s16(min[j]);                                                               \
        out[0] = vmlal_laneq_s16(out[0], vget_low_s16(m), v, lane);                                          \
        out[1] = vmlal_high_laneq_s16(out[1], m, v, lane);                                                   \
    } while (0)
#define EIGHT(j, v)                                                                                          \
    STEP(j, v, 0);                                                                                           \
    STEP(j + 1, v, 1);                                                                                       \
    STEP(j + 2, v, 2);                                                                                       \
    STEP(j + 3, v, 3);                                                                                       \
    STEP(j + 4, v, 4);                                                                                       \
    STEP(j + 5, v, 5);                                                                                       \
    STEP(j + 6, v, 6);                                                                                       \
    STEP(j + 7, v, 7)
    EIGHT(0, sums);
    if (sub == 16) {
        EIGHT(8, more);
    }
#undef EIGHT
#undef STEP
}

TN_INLINE void tn_tile256(float (*acc)[8], const tn_panel *panel, const tn_tile_x *x, int n, tn_shape sh) {
    const size_t n_sub = (size_t)(256 / sh.sub);
    for (size_t b = 0; b < x->n_blocks; b++) {
        int32x4_t total[2 * TN_TILE], dot[2 * TN_TILE];
        for (int i = 0; i < 2 * n; i++) total[i] = vdupq_n_s32(0);
        for (size_t j = 0; j < n_sub; j++) {
            const size_t at = 256 * b + j * (size_t)sh.sub;
            tn_dots(dot, panel->q + at * TN_PANEL_ROWS, sh.sub, x->q, at, n, sh.is_narrow);
#pragma GCC unroll 8
            for (int i = 0; i < 2 * n; i++) {
                total[i] = vmlaq_s32(total[i], dot[i], tn_scale_of(panel->scale[b * n_sub + j], i));
            }
        }
        const tn_f32x8 d = tn_load8(panel->d[b]), m = sh.has_min ? tn_load8(panel->m[b]) : d;
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            const float dx = x->d[t][b];
            int32x4_t mins[2];
            if (sh.has_min) {
                tn_panel_mins(mins, panel->min + b * n_sub, (const int16_t *)(const void *)x->s[t] + 16 * b,
                              sh.sub);
            }
            for (int h = 0; h < 2; h++) {
                const float32x4_t sum = vcvtq_f32_s32(tn_rows_of(total, t, h));
                float32x4_t y = vfmaq_f32(vld1q_f32(acc[t] + 4 * h), vmulq_n_f32(d.v[h], dx), sum);
                if (sh.has_min) y = vfmsq_f32(y, vmulq_n_f32(m.v[h], dx), vcvtq_f32_s32(mins[h]));
                vst1q_f32(acc[t] + 4 * h, y);
            }
        }
    }
}

/* ---- Tiles compiled: a set for each way of computing, a function for each size
 * ----------------------------- */

typedef void tn_tile_fn(float (*acc)[8], const tn_panel *panel, const tn_tile_x *x);

/* Not inlined, so that types share them and acc stays in memory: registers are for the integer sums. */
#define TN_TILE(name, tile, n, ...)                                                                          \
    static __attribute__((noinline)) void name(float(*acc)[8], const tn_panel *panel, const tn_tile_x *x) {  \
        tile(acc, panel, x, n, (tn_shape){__VA_ARGS__});                                                     \
    }

#define TN_TILES(set, tile, ...)                                                                             \
    TN_TILE(set##_x2, tile, 2, __VA_ARGS__)                                                                  \
    TN_TILE(set##_x4, tile, 4, __VA_ARGS__)                                                                  \
    static tn_tile_fn *const set[] = {set##_x2, set##_x4};

TN_TILES(tn_tiles_32, tn_tile32, .is_narrow = true)
TN_TILES(tn_tiles_32_min, tn_tile32, .is_narrow = true, .has_min = true)
TN_TILES(tn_tiles_32_wide, tn_tile32, .is_narrow = false)
TN_TILES(tn_tiles_256_by16, tn_tile256, .sub = 16, .is_narrow = true)
TN_TILES(tn_tiles_256_by16_min, tn_tile256, .sub = 16, .is_narrow = true, .has_min = true)
TN_TILES(tn_tiles_256_by32_min, tn_tile256, .sub = 32, .is_narrow = true, .has_min = true)
TN_TILES(tn_tiles_256_by32_wide, tn_tile256, .sub = 32, .is_narrow = false)

/* The set that computes a type. */
TN_INLINE tn_tile_fn *const *tn_tiles_of(tn_shape sh) {
    if (sh.elems == 32) return sh.has_min ? tn_tiles_32_min : sh.is_narrow ? tn_tiles_32 : tn_tiles_32_wide;
    if (sh.sub == 16) return sh.has_min ? tn_tiles_256_by16_min : tn_tiles_256_by16;
    return sh.has_min ? tn_tiles_256_by32_min : tn_tiles_256_by32_wide;
}

/* ---- The walk: panels, chunks of K, tiles of tokens -----------------------------------------------------
 */

TN_INLINE tn_tile_x tn_tile_tokens(const tn_matmul_args *args, size_t t, size_t n, size_t b, size_t n_blocks,
                                   tn_shape sh) {
    const tn_act kind = sh.elems == 32 ? TN_ACT_Q8_32 : TN_ACT_Q8_256;
    tn_tile_x x = {.n_blocks = n_blocks};
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = args->x + (t + i < args->n_tokens ? t + i : args->n_tokens - 1) * args->x_stride;
        x.q[i] = (const int8_t *)row + b * (size_t)sh.elems;
        x.d[i] = (const float *)(const void *)(row + tn_act_d_offset(args->k)) + b;
        x.s[i] = row + tn_act_s_offset(kind, args->k) + b * (sh.elems == 32 ? 4 : 32);
    }
    return x;
}

/* All tokens against the panel of rows n .. n + n_rows - 1, blocks b .. b + n_blocks - 1. */
TN_INLINE void tn_meet_tokens(const tn_matmul_args *args, size_t n, size_t n_rows, size_t b, size_t n_blocks,
                              tn_shape sh) {
    size_t size;
    for (size_t t = 0; t < args->n_tokens; t += size) {
        const bool large = args->n_tokens - t >= 3;
        size = large ? 4 : 2;
        const size_t n_tile = args->n_tokens - t < size ? args->n_tokens - t : size;
        const tn_tile_x x = tn_tile_tokens(args, t, size, b, n_blocks, sh);
        float acc[TN_TILE][8] = {{0}};
        float *y = args->y + t * args->y_stride + n;
        if (b > 0) {
            for (size_t i = 0; i < n_tile; i++)
                memcpy(acc[i], y + i * args->y_stride, n_rows * sizeof(float));
        }
        tn_tiles_of(sh)[large](acc, args->scratch, &x);
        for (size_t i = 0; i < n_tile; i++) memcpy(y + i * args->y_stride, acc[i], n_rows * sizeof(float));
    }
}

/* `scales` is NULL for the 32-wide types, `unpack` unless the shape says that there is one. */
TN_INLINE void tn_gemm(const tn_matmul_args *args, tn_shape sh, tn_q_fn *load, tn_scales_fn *scales,
                       tn_unpack_fn *unpack) {
    const size_t n_blocks = args->k / (size_t)sh.elems, chunk = (size_t)(TN_CHUNK / sh.elems);
    for (size_t n = 0; n < args->n_rows; n += TN_PANEL_ROWS) {
        const size_t n_rows = args->n_rows - n < TN_PANEL_ROWS ? args->n_rows - n : TN_PANEL_ROWS;
        for (size_t b = 0; b < n_blocks; b += chunk) {
            const size_t n_chunk = n_blocks - b < chunk ? n_blocks - b : chunk;
            const uint8_t
                *row[TN_PANEL_ROWS]; /* a short panel repeats its last row; those lanes are not stored */
            for (size_t r = 0; r < TN_PANEL_ROWS; r++) {
                row[r] = args->w + (n + (r < n_rows ? r : n_rows - 1)) * args->w_stride + b * sh.bytes;
            }
            tn_fill_panel(args->scratch, row, n_chunk, sh, load, scales, unpack);
            tn_meet_tokens(args, n, n_rows, b, n_chunk, sh);
        }
    }
}

/* A type whose blocks are unpacked first, compiled once for all of them. */
static __attribute__((noinline)) void tn_gemm_unpacked(const tn_matmul_args *args, size_t bytes, int sub,
                                                       tn_unpack_fn *unpack) {
    if (sub == 16)
        tn_gemm(args, (tn_shape){.bytes = bytes, .elems = 256, .sub = 16, .is_unpacked = true}, tn_q_unpacked,
                tn_scales_unpacked, unpack);
    else
        tn_gemm(args, (tn_shape){.bytes = bytes, .elems = 256, .sub = 32, .is_unpacked = true}, tn_q_unpacked,
                tn_scales_unpacked, unpack);
}

#endif
