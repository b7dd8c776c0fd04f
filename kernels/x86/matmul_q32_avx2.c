/* Products of several tokens with the 32-wide weight types: Q8_0, IQ4_NL and NVFP4 through a signed panel, the
 * others through an unsigned one (panel_avx2.h), whose offsets come off through the activation sums. NVFP4 counts
 * as 32-wide here too: half a block meets a block of activations. */
#include "panel_avx2.h"
#include "unpack32_avx2.h"

enum { ROWS = TN_PANEL_ROWS, TOKENS = TN_PANEL_TOKENS, BLOCKS = TN_PANEL_K / 32 };

typedef struct u8_panel {
    uint8_t q[BLOCKS][8][ROWS][4];
    float d[BLOCKS][ROWS], m[BLOCKS][ROWS];
} u8_panel;

_Static_assert(sizeof(u8_panel) <= TN_KERNEL_SCRATCH && sizeof(tn_panel_i16) <= TN_KERNEL_SCRATCH, "scratch");

/* The int32 dots of one block of the unsigned panel with n tokens. */
TN_INLINE void dots_u8(__m256i dot[TOKENS][2], const uint8_t (*q)[ROWS][4], const uint8_t *x, size_t stride,
                       int n, int adds) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int start = 0; start < 8; start += adds) {
        __m256i sum[TOKENS][2];
#pragma GCC unroll 8
        for (int g = start; g < start + adds; g++) {
            const __m256i w0 = tn_load256(q[g][0]), w1 = tn_load256(q[g][8]);
            for (int t = 0; t < n; t++) {
                const __m256i b = tn_broadcast_i32(x + (size_t)t * stride + 4 * g);
                const __m256i p0 = _mm256_maddubs_epi16(w0, b), p1 = _mm256_maddubs_epi16(w1, b);
                sum[t][0] = g == start ? p0 : tn_pin(_mm256_add_epi16(sum[t][0], p0));
                sum[t][1] = g == start ? p1 : tn_pin(_mm256_add_epi16(sum[t][1], p1));
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

TN_INLINE void tile_u8(float (*acc)[ROWS], const u8_panel *panel, const tn_panel_chunk *chunk, int n,
                       int adds, int offset, bool has_min) {
    const tn_panel_chunk c = *chunk;
    for (size_t b = 0; b < c.n_blocks; b++) {
        __m256i dot[TOKENS][2];
        dots_u8(dot, panel->q[b], c.x + 32 * b, c.stride, n, adds);
        for (int t = 0; t < n; t++) {
            const int32_t s = tn_load_i32(c.s + 4 * b + (size_t)t * c.stride);
            const __m256 dx = tn_panel_scale(&c, b, t);
            if (offset) {
                const __m256i o = _mm256_set1_epi32(s * offset);
                dot[t][0] = _mm256_sub_epi32(dot[t][0], o);
                dot[t][1] = _mm256_sub_epi32(dot[t][1], o);
            }
            tn_panel_accumulate(acc[t], dot[t], panel->d[b], dx, false);
            if (has_min) {
                const __m256i sums[2] = {_mm256_set1_epi32(s), _mm256_set1_epi32(s)};
                tn_panel_accumulate(acc[t], sums, panel->m[b], dx, false);
            }
        }
    }
}

/* The signed panel with a factor for each 16 elements: of each 32, the even pairs of the first 16 are groups 0-3, the odd
 * ones 8-11. */
TN_INLINE void tile_i16_halves(float (*acc)[ROWS], const tn_panel_i16 *panel, const tn_panel_chunk *chunk,
                               int n) {
    for (size_t i = 0; i < 2 * chunk->n_blocks; i++) {
        const int16_t(*q)[ROWS][2] = panel->q + i / 2 * 16 + i % 2 * 4;
        __m256i dot[TOKENS][2];
        for (int t = 0; t < n; t++) dot[t][0] = dot[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            const int g = j / 4 * 8 + j % 4;
            const __m256i w0 = tn_load256(q[g][0]), w1 = tn_load256(q[g][8]);
            for (int t = 0; t < n; t++) {
                const __m256i x = tn_broadcast_i32(panel->x[t] + i / 2 * 32 + i % 2 * 8 + 2 * g);
                dot[t][0] = tn_pin(_mm256_add_epi32(dot[t][0], _mm256_madd_epi16(w0, x)));
                dot[t][1] = tn_pin(_mm256_add_epi32(dot[t][1], _mm256_madd_epi16(w1, x)));
            }
        }
        for (int t = 0; t < n; t++)
            tn_panel_accumulate(acc[t], dot[t], panel->d[i], tn_panel_scale(chunk, i / 2, t), false);
    }
}

/* ---- Tiles, one function for each number of tokens ---------------------------------------------- */

#define CALL(n) tile_u8(acc, panel, chunk, n, 8, 8, false)
TN_PANEL_TILES(tiles_q4_0, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, 8, 0, true)
TN_PANEL_TILES(tiles_q4_1, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, 4, 16, false)
TN_PANEL_TILES(tiles_q5_0, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, 4, 0, true)
TN_PANEL_TILES(tiles_q5_1, CALL)
#undef CALL
#define CALL(n) tile_u8(acc, panel, chunk, n, 4, TN_MXFP4_BIAS, false)
TN_PANEL_TILES(tiles_mxfp4, CALL)
#undef CALL
#define CALL(n) tn_panel_tile_i16(acc, panel, chunk, n, 32)
TN_PANEL_TILES(tiles_i16, CALL)
#undef CALL
#define CALL(n) tile_i16_halves(acc, panel, chunk, n)
TN_PANEL_TILES(tiles_nvfp4, CALL)
#undef CALL

/* ---- Panels ------------------------------------------------------------------------------------- */

/* Block `at` of 8 rows as 8 registers: register g holds elements 4*g .. 4*g+3 of row r in bytes 4*r .. 4*r+3.
 */
typedef void groups_fn(__m256i v[8], const uint8_t *const row[8], size_t at);
typedef __m256i decode_fn(__m256i nibbles);

TN_INLINE void fill_u8(u8_panel *panel, const uint8_t *const row[ROWS], size_t n_blocks, const uint8_t *next,
                       size_t bytes, groups_fn *groups, bool e8m0, bool has_min) {
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * bytes;
        for (int half = 0; half < ROWS; half += 8) {
            __m256i v[8];
            __m256 d, m;
            tn_prefetch(next, 8 * bytes);
            next += 8 * bytes;
            groups(v, row + half, at);
            for (int g = 0; g < 8; g++) tn_store256(panel->q[b][g][half], v[g]);
            if (has_min) {
                tn_gather_f16x2(row + half, at, &d, &m);
                _mm256_store_ps(panel->m[b] + half, m);
            } else {
                d = e8m0 ? tn_gather_e8m0_half(row + half, at) : tn_gather_f16(row + half, at);
            }
            _mm256_store_ps(panel->d[b] + half, d);
        }
    }
}

TN_INLINE void fill_i16(tn_panel_i16 *panel, const uint8_t *const row[ROWS], size_t n_blocks,
                        const uint8_t *next, size_t bytes, groups_fn *groups) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (int half = 0; half < ROWS; half += 8) {
            __m256i v[8];
            tn_prefetch(next, 8 * bytes);
            next += 8 * bytes;
            groups(v, row + half, b * bytes);
            tn_panel_put_i16(panel, 32 * b, half, v, NULL);
            _mm256_store_ps(panel->d[b] + half, tn_gather_f16(row + half, b * bytes));
        }
    }
}

/* Nibbles are transposed packed, two rows in a register, which is half the work. */
TN_INLINE void nibble_groups(__m256i v[8], const uint8_t *const row[8], size_t qs, decode_fn *decode) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i p[4], packed[4];
    for (int i = 0; i < 4; i++) p[i] = tn_load_pair(row[i] + qs, row[i + 4] + qs);
    const __m256i a = _mm256_unpacklo_epi32(p[0], p[1]), b = _mm256_unpackhi_epi32(p[0], p[1]);
    const __m256i c = _mm256_unpacklo_epi32(p[2], p[3]), d = _mm256_unpackhi_epi32(p[2], p[3]);
    packed[0] = _mm256_unpacklo_epi64(a, c);
    packed[1] = _mm256_unpackhi_epi64(a, c);
    packed[2] = _mm256_unpacklo_epi64(b, d);
    packed[3] = _mm256_unpackhi_epi64(b, d);
    for (int g = 0; g < 4; g++) {
        v[g] = decode(_mm256_and_si256(packed[g], mask));
        v[4 + g] = decode(_mm256_and_si256(_mm256_srli_epi16(packed[g], 4), mask));
    }
}

/* Each row's fifth bits are one 32-bit lane: for group g its byte g / 2 goes to all four bytes, and the
 * nibble of the group is tested there, one bit in each byte. */
TN_INLINE void fives_groups(__m256i v[8], const uint8_t *const row[8], size_t qh) {
    const __m256i bits =
        _mm256_setr_epi32(tn_load_i32(row[0] + qh), tn_load_i32(row[1] + qh), tn_load_i32(row[2] + qh),
                          tn_load_i32(row[3] + qh), tn_load_i32(row[4] + qh), tn_load_i32(row[5] + qh),
                          tn_load_i32(row[6] + qh), tn_load_i32(row[7] + qh));
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    nibble_groups(v, row, qh + 4, tn_plain_decode);
    for (int g = 0; g < 8; g++) {
        const __m256i test = _mm256_set1_epi32(g % 2 ? (int)0x80402010u : 0x08040201);
        const __m256i select = _mm256_add_epi8(first, _mm256_set1_epi8((char)(g / 2)));
        const __m256i hit =
            _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, select), test), test);
        v[g] = _mm256_or_si256(v[g], _mm256_and_si256(hit, _mm256_set1_epi8(16)));
    }
}

/* Of each 16 elements the first 8 are the low nibbles of 8 bytes. */
TN_INLINE void groups_nvfp4(__m256i v[8], const uint8_t *const row[8], size_t at) {
    __m256i u[8];
    nibble_groups(u, row, at, tn_e2m1_decode);
    for (int g = 0; g < 4; g++) {
        v[g / 2 * 4 + g % 2] = u[g];
        v[g / 2 * 4 + g % 2 + 2] = u[4 + g];
    }
}

/* n blocks of 32, of which n is even: a block of the file is two. */
static void fill_nvfp4(void *dst, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    tn_panel_i16 *panel = dst;
    for (size_t b = 0; b < n; b += 2) {
        for (int half = 0; half < ROWS; half += 8) {
            const size_t at = b / 2 * 36;
            int32_t scales[8];
            tn_prefetch(next, 8 * 36);
            next += 8 * 36;
            for (int r = 0; r < 8; r++) scales[r] = tn_load_i32(row[half + r] + at);
            for (int j = 0; j < 4; j++)
                _mm256_store_ps(panel->d[2 * b + (size_t)j] + half, tn_ue4m3_half(tn_load256(scales), j));
            for (size_t h = 0; h < 2; h++) {
                __m256i v[8];
                groups_nvfp4(v, row + half, at + 4 + 16 * h);
                tn_panel_put_i16(panel, 32 * (b + h), half, v, NULL);
            }
        }
    }
}

TN_INLINE void groups_q4_0(__m256i v[8], const uint8_t *const row[8], size_t at) {
    nibble_groups(v, row, at + 2, tn_plain_decode);
}
TN_INLINE void groups_q4_1(__m256i v[8], const uint8_t *const row[8], size_t at) {
    nibble_groups(v, row, at + 4, tn_plain_decode);
}
TN_INLINE void groups_q5_0(__m256i v[8], const uint8_t *const row[8], size_t at) {
    fives_groups(v, row, at + 2);
}
TN_INLINE void groups_q5_1(__m256i v[8], const uint8_t *const row[8], size_t at) {
    fives_groups(v, row, at + 4);
}
TN_INLINE void groups_q8_0(__m256i v[8], const uint8_t *const row[8], size_t at) {
    for (int r = 0; r < 8; r++) v[r] = tn_load256(row[r] + at + 2);
    tn_transpose8(v);
}
TN_INLINE void groups_iq4_nl(__m256i v[8], const uint8_t *const row[8], size_t at) {
    nibble_groups(v, row, at + 2, tn_iq4_decode);
}
TN_INLINE void groups_mxfp4(__m256i v[8], const uint8_t *const row[8], size_t at) {
    nibble_groups(v, row, at + 1, tn_mxfp4_decode);
}

static void fill_q4_0(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 18, groups_q4_0, false, false);
}
static void fill_q4_1(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 20, groups_q4_1, false, true);
}
static void fill_q5_0(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 22, groups_q5_0, false, false);
}
static void fill_q5_1(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 24, groups_q5_1, false, true);
}
static void fill_mxfp4(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_u8(panel, row, n, next, 17, groups_mxfp4, true, false);
}
static void fill_q8_0(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_i16(panel, row, n, next, 34, groups_q8_0);
}
static void fill_iq4_nl(void *panel, const uint8_t *const row[ROWS], size_t n, const uint8_t *next) {
    fill_i16(panel, row, n, next, 18, groups_iq4_nl);
}

#define GEMM(name, tiles, block_bytes, widen)                                                                \
    void tn_gemm_##name##_q8_avx2(const tn_matmul_args *args) {                                              \
        if (args->n_tokens <= TN_FEW_TOKENS) {                                                               \
            tn_gemv_few_##name##_q8_avx2(args);                                                              \
            return;                                                                                          \
        }                                                                                                    \
        tn_panel_matmul_avx2(args,                                                                           \
                             &(tn_panel_kernel){fill_##name, tiles, 32, block_bytes, TN_ACT_Q8_32, widen});  \
    }
GEMM(q4_0, tiles_q4_0, 18, false)
GEMM(q4_1, tiles_q4_1, 20, false)
GEMM(q5_0, tiles_q5_0, 22, false)
GEMM(q5_1, tiles_q5_1, 24, false)
GEMM(q8_0, tiles_i16, 34, true)
GEMM(iq4_nl, tiles_i16, 18, true)
GEMM(mxfp4, tiles_mxfp4, 17, false)
GEMM(nvfp4, tiles_nvfp4, 18, true)
