/* Products of several tokens with the 256-wide weight types, through panels (panel_avx2.h). The int16 sums of
 * a sub-block are multiplied by its integer scale in the madd that widens them, so scales cost nothing; the
 * minimums (or the offset of q times the scales) are a second, 8 times shorter product with the activation sums.
 * In the signed panel of IQ4_XS the scales are multiplied in: at most 127 * 32. */
#include "panel_avx2.h"
#include "unpack256_avx2.h"
#include "unpack_grid_avx2.h"

enum { ROWS = TN_PANEL_ROWS, TOKENS = TN_PANEL_TOKENS, BLOCKS = TN_PANEL_K / 256 };

typedef struct u8_panel {
    uint8_t q[BLOCKS][64][ROWS][4];
    int16_t scale[BLOCKS][16][ROWS][2]; /* a scale twice, for each sub-block */
    int16_t min[BLOCKS][8][ROWS][2];    /* two minimums, of 16 elements each */
    float d[BLOCKS][ROWS], m[BLOCKS][ROWS];
} u8_panel;

_Static_assert(sizeof(u8_panel) <= TN_KERNEL_SCRATCH && sizeof(tn_panel_i16) <= TN_KERNEL_SCRATCH, "scratch");

/* How a type is computed: elements a sub-block, additions that fit int16; with minimums, or else an offset of q. */
typedef struct shape {
    int sub, adds;
    bool has_min;
} shape;

/* sum += scale * dot of one sub-block, with n tokens. */
TN_INLINE void add_sub_block(__m256i sum[TOKENS][2], const uint8_t (*q)[ROWS][4], const int16_t (*scale)[2],
                             const uint8_t *x, size_t stride, int n, shape s) {
#pragma GCC unroll 2
    for (int start = 0; start < s.sub / 4; start += s.adds) {
        __m256i part[TOKENS][2];
#pragma GCC unroll 8
        for (int g = start; g < start + s.adds; g++) {
            const __m256i w0 = tn_load256(q[g][0]), w1 = tn_load256(q[g][8]);
            for (int t = 0; t < n; t++) {
                const __m256i b = tn_broadcast_i32(x + (size_t)t * stride + 4 * g);
                const __m256i p0 = _mm256_maddubs_epi16(w0, b), p1 = _mm256_maddubs_epi16(w1, b);
                part[t][0] = g == start ? p0 : tn_pin(_mm256_add_epi16(part[t][0], p0));
                part[t][1] = g == start ? p1 : tn_pin(_mm256_add_epi16(part[t][1], p1));
            }
        }
        const __m256i s0 = tn_load256(scale[0]), s1 = tn_load256(scale[8]);
        for (int t = 0; t < n; t++) {
            sum[t][0] = _mm256_add_epi32(sum[t][0], _mm256_madd_epi16(part[t][0], s0));
            sum[t][1] = _mm256_add_epi32(sum[t][1], _mm256_madd_epi16(part[t][1], s1));
        }
    }
}

/* One token's minimums times activation sums over a block. */
TN_INLINE void dot_mins(__m256i mins[2], const int16_t (*min)[ROWS][2], const uint8_t *s) {
    for (int g = 0; g < 8; g++) {
        const __m256i b = tn_broadcast_i32(s + 4 * g);
        const __m256i p0 = _mm256_madd_epi16(tn_load256(min[g][0]), b),
                      p1 = _mm256_madd_epi16(tn_load256(min[g][8]), b);
        mins[0] = g == 0 ? p0 : _mm256_add_epi32(mins[0], p0);
        mins[1] = g == 0 ? p1 : _mm256_add_epi32(mins[1], p1);
    }
}

TN_INLINE void tile_u8(float (*acc)[ROWS], const u8_panel *panel, const tn_panel_chunk *chunk, int n,
                       shape s) {
    const tn_panel_chunk c = *chunk;
    for (size_t b = 0; b < c.n_blocks; b++) {
        __m256i sum[TOKENS][2];
        for (int t = 0; t < n; t++) sum[t][0] = sum[t][1] = _mm256_setzero_si256();
        for (int j = 0; j < 256 / s.sub; j++) {
            add_sub_block(sum, panel->q[b] + j * s.sub / 4, panel->scale[b][j], c.x + 256 * b + j * s.sub,
                          c.stride, n, s);
        }
        for (int t = 0; t < n; t++) {
            const __m256 dx = tn_panel_scale(&c, b, t);
            __m256i mins[2];
            dot_mins(mins, panel->min[b], c.s + 32 * b + (size_t)t * c.stride);
            if (!s.has_min) {
                for (int h = 0; h < 2; h++) sum[t][h] = _mm256_sub_epi32(sum[t][h], mins[h]);
            }
            tn_panel_accumulate(acc[t], sum[t], panel->d[b], dx, false);
            if (s.has_min) tn_panel_accumulate(acc[t], mins, panel->m[b], dx, true);
        }
    }
}

/* ---- Tiles, one function for each number of tokens ---------------------------------------------- */

#define CALL(n) tile_u8(acc, panel, chunk, n, (shape){16, 4, true})
TN_PANEL_TILES(tiles_q2_k, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, (shape){16, 4, false})
TN_PANEL_TILES(tiles_q3_k, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, (shape){32, 8, true})
TN_PANEL_TILES(tiles_q4_k, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, (shape){32, 4, true})
TN_PANEL_TILES(tiles_q5_k, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, (shape){16, 2, false})
TN_PANEL_TILES(tiles_q6_k, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, (shape){16, 1, false})
TN_PANEL_TILES(tiles_7_bits, CALL)
#undef CALL
#define CALL(n) tn_panel_tile_i16(acc, panel, chunk, n, 256)
TN_PANEL_TILES(tiles_iq4_xs, CALL)
#undef CALL

/* ---- Panels ------------------------------------------------------------------------------------- */

/* Scales and minimums of 8 rows' blocks into the half panel that starts at row `half`; an offset of q (0: none) makes
 * minimums of the scales, at most 128 * 32. */
TN_INLINE void fill_scales(u8_panel *panel, size_t b, int half, const uint8_t *const block[8],
                           tn_scales256_fn *scales, int sub, int offset) {
    __m256i s[8], more[8], mins[8];
    for (int r = 0; r < 8; r++) {
        scales(block[r], &s[r], &mins[r]);
        if (offset) mins[r] = _mm256_mullo_epi16(s[r], _mm256_set1_epi16((short)offset));
        if (sub == 16) tn_double_scales(s[r], &s[r], &more[r]);
    }
    tn_transpose8(s);
    for (int j = 0; j < 8; j++) tn_store256(panel->scale[b][j][half], s[j]);
    if (sub == 16) {
        tn_transpose8(more);
        for (int j = 0; j < 8; j++) tn_store256(panel->scale[b][8 + j][half], more[j]);
    }
    tn_transpose8(mins);
    for (int j = 0; j < 8; j++) tn_store256(panel->min[b][j][half], mins[j]);
}

/* Elements of 8 rows' blocks, and meanwhile `bytes` bytes of each of 8 blocks prefetched from `next` on. */
TN_INLINE void fill_elements(u8_panel *panel, size_t b, int half, const uint8_t *const block[8],
                             const uint8_t *next, size_t bytes, tn_q256_fn *load) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        __m256i v[8];
        tn_prefetch(next + (size_t)j * bytes, bytes);
        for (int r = 0; r < 8; r++) v[r] = load(block[r], j);
        tn_transpose8(v);
        for (int g = 0; g < 8; g++) tn_store256(panel->q[b][8 * j + g][half], v[g]);
    }
}

TN_INLINE void fill_u8(u8_panel *panel, const uint8_t *const row[ROWS], size_t n_blocks, const uint8_t *next,
                       size_t bytes, size_t d_at, tn_q256_fn *load, tn_scales256_fn *scales, int sub,
                       int offset) {
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * bytes;
        for (int half = 0; half < ROWS; half += 8, next += 8 * bytes) {
            const uint8_t *block[8];
            for (int r = 0; r < 8; r++) block[r] = row[half + r] + at;
            fill_elements(panel, b, half, block, next, bytes, load);
            fill_scales(panel, b, half, block, scales, sub, offset);
            __m256 d, m;
            if (!offset) {
                tn_gather_f16x2(row + half, at + d_at, &d, &m);
                _mm256_store_ps(panel->m[b] + half, m);
            } else {
                d = tn_gather_f16(row + half, at + d_at);
            }
            _mm256_store_ps(panel->d[b] + half, d);
        }
    }
}

static void fill_iq4_xs(void *dst, const uint8_t *const row[ROWS], size_t n_blocks, const uint8_t *next) {
    tn_panel_i16 *panel = dst;
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * 136;
        for (int half = 0; half < ROWS; half += 8) {
            __m256i scale[8], v[8], unused;
            for (int r = 0; r < 8; r++) tn_scales_iq4_xs(row[half + r] + at, &scale[r], &unused);
            tn_transpose8(scale);
            for (int j = 0; j < 8; j++) {
                tn_prefetch(next, 136);
                next += 136;
                for (int r = 0; r < 8; r++) v[r] = tn_q_iq4_xs(row[half + r] + at, j);
                tn_transpose8(v);
                tn_panel_put_i16(panel, 256 * b + 32 * (size_t)j, half, v, &scale[j]);
            }
            _mm256_store_ps(panel->d[b] + half, tn_gather_f16(row + half, at));
        }
    }
}

static void fill_q2_k(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 84, 80, tn_q_q2_k, tn_scales_q2_k, 16, 0);
}
static void fill_q3_k(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 110, 108, tn_q_q3_k, tn_scales_q3_k, 16, 4);
}
static void fill_q4_k(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 144, 0, tn_q_q4_k, tn_scales_k4, 32, 0);
}
static void fill_q5_k(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 176, 0, tn_q_q5_k, tn_scales_k4, 32, 0);
}
static void fill_q6_k(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 210, 208, tn_q_q6_k, tn_scales_q6_k, 16, 32);
}

/* The grid types, whose unpacked blocks are all the same. */
static void fill_grid(u8_panel *panel, const uint8_t *const row[ROWS], size_t n_blocks, const uint8_t *next,
                      size_t bytes, int offset, tn_unpack256_fn *unpack) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (int half = 0; half < ROWS; half += 8, next += 8 * bytes) {
            const uint8_t *block[8];
            tn_unpacked_rows unpacked;
            tn_unpack_rows(&unpacked, row + half, b * bytes, unpack);
            for (int r = 0; r < 8; r++) block[r] = unpacked.block[r].q;
            fill_elements(panel, b, half, block, next, bytes, tn_q_unpacked);
            fill_scales(panel, b, half, block, tn_scales_unpacked, 16, offset);
            _mm256_store_ps(panel->d[b] + half, _mm256_load_ps(unpacked.d));
        }
    }
}

#define GEMM(name, tiles, block_bytes, widen)                                                                \
    void tn_gemm_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        if (args->n_tokens <= TN_FEW_TOKENS) {                                                               \
            tn_gemv_few_##name##_q8_avx2(args);                                                              \
            return;                                                                                          \
        }                                                                                                    \
        tn_panel_matmul_avx2(                                                                                \
            args, &(tn_panel_kernel){fill_##name, tiles, 256, block_bytes, TN_ACT_Q8_256, widen});           \
    }
GEMM(q2_k, tiles_q2_k, 84, false)
GEMM(q3_k, tiles_q3_k, 110, false)
GEMM(q4_k, tiles_q4_k, 144, false)
GEMM(q5_k, tiles_q5_k, 176, false)
GEMM(q6_k, tiles_q6_k, 210, false)
GEMM(iq4_xs, tiles_iq4_xs, 136, true)

/* Bytes a block, offset, and the tile for as many bits as that leaves. */
#define GRID(name, block_bytes, offset, tiles)                                                               \
    static void fill_##name(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {    \
        fill_grid(panel, row, n, next, block_bytes, offset, tn_unpack_##name##_avx2);                        \
    }                                                                                                        \
    GEMM(name, tiles, block_bytes, false)
GRID(iq2_xxs, 66, TN_GRID7_OFFSET, tiles_7_bits)
GRID(iq2_xs, 74, TN_GRID7_OFFSET, tiles_7_bits)
GRID(iq2_s, 82, TN_GRID7_OFFSET, tiles_7_bits)
GRID(iq3_xxs, 98, TN_GRID6_OFFSET, tiles_q6_k)
GRID(iq3_s, 110, TN_GRID5_OFFSET, tiles_q3_k)
GRID(iq1_s, 50, TN_GRID5_OFFSET, tiles_q3_k)
GRID(iq1_m, 56, TN_GRID5_OFFSET, tiles_q3_k)
GRID(tq1_0, 54, TN_GRID5_OFFSET, tiles_q3_k)
GRID(tq2_0, 66, TN_GRID5_OFFSET, tiles_q3_k)
