/* Attention over one chunk of the KV cache, the joining of chunks, and the store into the cache.
 *
 * Query rows go in groups of four, two or one, so that a key or a value that is loaded and widened serves all
 * of them: all scores, then each row's softmax, then the outputs. A group reads the hull of its rows' ranges
 * for scores; outputs are added together where all rows see a position, and row by row before and after. */
#include "exp_neon.h"
#include "neon.h"

enum {
    GROUP = 4,                       /* rows at most */
    TILE = 8,                        /* scores: rows of the group times keys */
    SCORE_STRIDE = TN_ATTN_CHUNK + 8 /* a tile at the end of the range stores past it */
};

typedef struct group {
    const float *q[GROUP];
    float *o[GROUP];
    int lo[GROUP], hi[GROUP];
    float (*p)[SCORE_STRIDE]; /* scores, then probabilities */
} group;

_Static_assert(GROUP *SCORE_STRIDE * sizeof(float) <= TN_KERNEL_SCRATCH, "scratch");

/* Keys or values of the chunk: position j at base + j * stride. */
typedef struct positions {
    const uint8_t *base;
    size_t stride;
} positions;

static inline const uint8_t *position(const positions *kv, int j) {
    return kv->base + (size_t)j * kv->stride;
}
static inline int min_int(int a, int b) {
    return a < b ? a : b;
}
static inline int max_int(int a, int b) {
    return a > b ? a : b;
}

/* ---- Scores ---------------------------------------------------------------------------------------------
 */

/* The group against keys j, j+1, ...; keys past `last` repeat it. */
TN_INLINE void score_tile(const group *g, int n_rows, const positions *k, int j, int last,
                          const tn_attn_args *args, tn_load8_fn *load) {
    const int n_keys = TILE / n_rows;
    const uint8_t *key[TILE];
    tn_f32x8 acc[TILE];
    for (int i = 0; i < n_keys; i++) key[i] = position(k, min_int(j + i, last));
    for (int i = 0; i < TILE; i++) acc[i] = tn_splat8(0.0f);
    for (size_t d = 0; d < args->head_dim; d += 8) {
        tn_f32x8 q[GROUP];
        for (int r = 0; r < n_rows; r++) q[r] = tn_load8(g->q[r] + d);
        for (int i = 0; i < n_keys; i++) {
            const tn_f32x8 v = load(key[i], d);
            for (int r = 0; r < n_rows; r++) acc[r * n_keys + i] = tn_fma8(q[r], v, acc[r * n_keys + i]);
        }
    }
    float scores[TILE];
    vst1q_f32(scores, vmulq_n_f32(tn_join8x4(acc), args->scale));
    vst1q_f32(scores + 4, vmulq_n_f32(tn_join8x4(acc + 4), args->scale));
    for (int r = 0; r < n_rows; r++)
        memcpy(g->p[r] + j, scores + r * n_keys, (size_t)n_keys * sizeof *scores);
}

TN_INLINE void score_group(const group *g, int n_rows, const positions *k, const tn_attn_args *args,
                           tn_load8_fn *load) {
    int first = TN_ATTN_CHUNK, last = 0;
    for (int r = 0; r < n_rows; r++) {
        if (g->lo[r] >= g->hi[r]) continue;
        first = min_int(first, g->lo[r]);
        last = max_int(last, g->hi[r]);
    }
    for (int j = first; j < last; j += TILE / n_rows) score_tile(g, n_rows, k, j, last - 1, args, load);
}

/* ---- Softmax --------------------------------------------------------------------------------------------
 */

/* All ones in the lanes of positions j .. j+3 that are in [lo, hi). */
TN_INLINE uint32x4_t range_mask(int j, int lo, int hi) {
    const int32x4_t lane = {0, 1, 2, 3}, at = vaddq_s32(vdupq_n_s32(j), lane);
    return vandq_u32(vcgeq_s32(at, vdupq_n_s32(lo)), vcltq_s32(at, vdupq_n_s32(hi)));
}

/* The largest score, -infinity if none; FMAXNM passes a NaN over. */
static float largest_score(const float *p, int lo, int hi) {
    float32x4_t m = vdupq_n_f32(-INFINITY);
    for (int j = lo & ~3; j < hi; j += 4)
        m = vmaxnmq_f32(m, vbslq_f32(range_mask(j, lo, hi), vld1q_f32(p + j), m));
    return vmaxnmvq_f32(m);
}

/* Scores to probabilities in place, 0 outside [lo, hi) within their eights; returns their sum. */
static float softmax(float *p, int lo, int hi, float largest) {
    const float32x4_t m = vdupq_n_f32(largest);
    float32x4_t sum[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    for (int j = lo & ~7; j < hi; j += 8) {
        for (int i = 0; i < 2; i++) {
            const float32x4_t v = tn_exp4(vsubq_f32(vld1q_f32(p + j + 4 * i), m));
            const uint32x4_t inside = range_mask(j + 4 * i, lo, hi);
            const float32x4_t kept = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), inside));
            sum[i] = vaddq_f32(sum[i], kept);
            vst1q_f32(p + j + 4 * i, kept);
        }
    }
    float stripes[8];
    vst1q_f32(stripes, sum[0]);
    vst1q_f32(stripes + 4, sum[1]);
    return tn_join8(stripes);
}

/* ---- Outputs --------------------------------------------------------------------------------------------
 */

/* o += p * v for positions from .. to - 1, dimensions d .. d + 8 * n_vec - 1, of rows r .. r + n_rows - 1. */
TN_INLINE void output_tile(const group *g, int r, int n_rows, const positions *v, int from, int to, size_t d,
                           size_t n_vec, tn_load8_fn *load) {
    tn_f32x8 acc[GROUP][4];
    for (int i = 0; i < n_rows; i++) {
        for (size_t c = 0; c < n_vec; c++) acc[i][c] = tn_load8(g->o[r + i] + d + 8 * c);
    }
    for (int j = from; j < to; j++) {
        const uint8_t *row = position(v, j);
        for (size_t c = 0; c < n_vec; c++) {
            const tn_f32x8 value = load(row, d + 8 * c);
            for (int i = 0; i < n_rows; i++) acc[i][c] = tn_fma8(tn_splat8(g->p[r + i][j]), value, acc[i][c]);
        }
    }
    for (int i = 0; i < n_rows; i++) {
        for (size_t c = 0; c < n_vec; c++) tn_store8(g->o[r + i] + d + 8 * c, acc[i][c]);
    }
}

TN_INLINE void output_rows(const group *g, int r, int n_rows, const positions *v, int from, int to,
                           size_t dim, tn_load8_fn *load) {
    const size_t n_vec = n_rows == 4 ? 2 : 4;
    size_t d = 0;
    if (from >= to) return;
    for (; d + 8 * n_vec <= dim; d += 8 * n_vec) output_tile(g, r, n_rows, v, from, to, d, n_vec, load);
    for (; d < dim; d += 8) output_tile(g, r, n_rows, v, from, to, d, 1, load);
}

TN_INLINE void output_group(const group *g, int n_rows, const positions *v, size_t dim, tn_load8_fn *load) {
    int from = 0, to = TN_ATTN_CHUNK; /* what all rows see */
    for (int r = 0; r < n_rows; r++) {
        from = max_int(from, g->lo[r]);
        to = min_int(to, g->hi[r]);
        memset(g->o[r], 0, dim * sizeof(float));
    }
    const bool together = from < to;
    if (n_rows > 1) {
        for (int r = 0; r < n_rows; r++)
            output_rows(g, r, 1, v, g->lo[r], together ? from : g->hi[r], dim, load);
    }
    if (!together) return;
    output_rows(g, 0, n_rows, v, from, to, dim, load);
    if (n_rows > 1) {
        for (int r = 0; r < n_rows; r++) output_rows(g, r, 1, v, to, g->hi[r], dim, load);
    }
}

/* ---- The chunk ------------------------------------------------------------------------------------------
 */

TN_INLINE void attend_group(const tn_attn_args *args, size_t first, int n_rows, tn_load8_fn *load) {
    const positions k = {args->k, args->kv_stride}, v = {args->v, args->kv_stride};
    group g = {.p = args->scratch};
    for (int i = 0; i < n_rows; i++) {
        const size_t r = first + (size_t)i;
        g.q[i] = args->q + r * args->q_stride;
        g.o[i] = args->o + r * args->o_stride;
        g.lo[i] = args->lo[r];
        g.hi[i] = args->hi[r];
    }
    score_group(&g, n_rows, &k, args, load);
    for (int i = 0; i < n_rows; i++) {
        float *m = &args->m[first + (size_t)i], *seen = g.p[i] + g.lo[i];
        if (args->softcap > 0 && g.lo[i] < g.hi[i])
            tn_softcap_neon(seen, seen, args->softcap, (size_t)(g.hi[i] - g.lo[i]));
        if (args->slope)
            tn_add_slope_f32(g.p[i], g.lo[i], g.hi[i], args->slope[first + (size_t)i],
                             args->at[first + (size_t)i]);
        *m = largest_score(g.p[i], g.lo[i], g.hi[i]);
        args->l[first + (size_t)i] = softmax(g.p[i], g.lo[i], g.hi[i], *m);
    }
    output_group(&g, n_rows, &v, args->head_dim, load);
}

TN_INLINE void attend(const tn_attn_args *args, tn_load8_fn *load) {
    size_t r = 0;
    for (; r + 4 <= args->n_q; r += 4) attend_group(args, r, 4, load);
    for (; r + 2 <= args->n_q; r += 2) attend_group(args, r, 2, load);
    if (r < args->n_q) attend_group(args, r, 1, load);
}

void tn_attn_f32_neon(const tn_attn_args *args) {
    attend(args, tn_load8_f32);
}
void tn_attn_f16_neon(const tn_attn_args *args) {
    attend(args, tn_load8_f16);
}
void tn_attn_q8_0_neon(const tn_attn_args *args) {
    attend(args, tn_load8_q8_0);
}

void tn_attn_join_neon(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t n) {
    if (l2 == 0) return;
    if (*l == 0) {
        *m = m2;
        *l = l2;
        memcpy(o, o2, n * sizeof *o);
        return;
    }
    const float largest = m2 > *m ? m2 : *m;
    const float a = tn_exp_f32(*m - largest), b = tn_exp_f32(m2 - largest);
    size_t i = 0;
    *l = fmaf(*l, a, l2 * b);
    for (; i + 4 <= n; i += 4) {
        const float32x4_t later = vmulq_n_f32(vld1q_f32(o2 + i), b);
        vst1q_f32(o + i, vfmaq_n_f32(later, vld1q_f32(o + i), a));
    }
    for (; i < n; i++) o[i] = fmaf(o[i], a, o2[i] * b);
    *m = largest;
}

void tn_kv_store_f16_neon(void *dst, const float *x, size_t n) {
    uint16_t *h = dst;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1_u16(h + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++) h[i] = tn_f32_to_f16(x[i]);
}
