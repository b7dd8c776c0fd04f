/* Attention over one chunk of the KV cache, the joining of chunks, and the store into the cache.
 *
 * Three passes over the chunk: all scores, each row's softmax, all outputs. Rows go in pairs, so that a key
 * or a value loaded serves two queries. With more than two queries an f16 cache is first widened into
 * scratch. The hull of the rows' ranges is read; what a row may not see is computed with its pair's and not
 * used. */
#include "avx2.h"
#include "exp_avx2.h"

enum {
    KEYS = 4,                         /* keys of a pair's tile */
    SCORE_STRIDE = TN_ATTN_CHUNK + 8, /* a tile at the end of the range stores past it */
    WIDEN_FROM = 16                   /* queries from which widening once is cheaper */
};

typedef struct workspace {
    float kv[TN_ATTN_CHUNK * TN_ATTN_MAX_DIM];
    float p[TN_ATTN_MAX_Q][SCORE_STRIDE]; /* scores, then probabilities */
} workspace;

_Static_assert(sizeof(workspace) <= TN_KERNEL_SCRATCH, "scratch");

typedef __m256 load_fn(const uint8_t *row, size_t i);

TN_INLINE __m256 load_f32(const uint8_t *row, size_t i) {
    return _mm256_loadu_ps((const float *)(const void *)row + i);
}
TN_INLINE __m256 load_f16(const uint8_t *row, size_t i) {
    return _mm256_cvtph_ps(tn_load128(row + 2 * i));
}

/* Keys or values of the chunk: position j at base + j * stride. */
typedef struct positions {
    const uint8_t *base;
    size_t stride;
    int first, last; /* the hull of all rows' ranges */
} positions;

static inline const uint8_t *position(const positions *kv, int j) {
    return kv->base + (size_t)j * kv->stride;
}

/* ---- Scores ------------------------------------------------------------------------------------- */

/* Rows a and b against keys j .. j+3, or row a against j .. j+7 when b is NULL. Keys past the hull repeat its
 * last. */
TN_INLINE void score_tile(const tn_attn_args *args, const float *a, const float *b, const positions *k, int j,
                          float *out_a, float *out_b, load_fn *load) {
    const int n_keys = b ? KEYS : 2 * KEYS;
    const uint8_t *key[2 * KEYS];
    __m256 acc[8];
    for (int i = 0; i < n_keys; i++) key[i] = position(k, j + i < k->last ? j + i : k->last - 1);
    for (int i = 0; i < 8; i++) acc[i] = _mm256_setzero_ps();
    for (size_t d = 0; d < args->head_dim; d += 8) {
        const __m256 qa = _mm256_loadu_ps(a + d);
        if (b) {
            const __m256 qb = _mm256_loadu_ps(b + d);
            for (int i = 0; i < KEYS; i++) {
                const __m256 v = load(key[i], d);
                acc[i] = _mm256_fmadd_ps(qa, v, acc[i]);
                acc[KEYS + i] = _mm256_fmadd_ps(qb, v, acc[KEYS + i]);
            }
        } else {
            for (int i = 0; i < 2 * KEYS; i++) acc[i] = _mm256_fmadd_ps(qa, load(key[i], d), acc[i]);
        }
    }
    const __m256 score = _mm256_mul_ps(tn_join8x8_ps(acc), _mm256_set1_ps(args->scale));
    if (b) {
        _mm_storeu_ps(out_a + j, _mm256_castps256_ps128(score));
        _mm_storeu_ps(out_b + j, _mm256_extractf128_ps(score, 1));
    } else {
        _mm256_storeu_ps(out_a + j, score);
    }
}

static inline int min_int(int a, int b) {
    return a < b ? a : b;
}
static inline int max_int(int a, int b) {
    return a > b ? a : b;
}

TN_INLINE void score_rows(const tn_attn_args *args, const positions *k, workspace *ws, load_fn *load) {
    for (size_t r = 0; r < args->n_q; r += 2) {
        const float *a = args->q + r * args->q_stride;
        int lo = args->lo[r], hi = args->hi[r];
        if (r + 1 < args->n_q) {
            lo = max_int(min_int(lo, args->lo[r + 1]), k->first);
            hi = min_int(max_int(hi, args->hi[r + 1]), k->last);
            for (int j = lo; j < hi; j += KEYS) {
                score_tile(args, a, a + args->q_stride, k, j, ws->p[r], ws->p[r + 1], load);
            }
        } else {
            for (int j = lo; j < hi; j += 2 * KEYS) score_tile(args, a, NULL, k, j, ws->p[r], NULL, load);
        }
    }
}

/* ---- Softmax ------------------------------------------------------------------------------------ */

/* All ones in the lanes of positions j .. j+7 that are in [lo, hi). */
TN_INLINE __m256 range_mask(int j, int lo, int hi) {
    const __m256i at = _mm256_add_epi32(_mm256_set1_epi32(j), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(lo), at);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), at)));
}

/* The largest score, -infinity if none; a NaN is passed over. Of zeros of both signs the first counts, as if
 * the scores had been compared one by one. */
static float largest_score(const float *p, int lo, int hi) {
    __m256 m = _mm256_set1_ps(-INFINITY);
    for (int j = lo & ~7; j < hi; j += 8) {
        const __m256 v = _mm256_blendv_ps(m, _mm256_loadu_ps(p + j), range_mask(j, lo, hi));
        m = _mm256_max_ps(v, m); /* the second operand when the first is NaN */
    }
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    x = _mm_max_ss(x, _mm_movehdup_ps(x));
    const float largest = _mm_cvtss_f32(x);
    if (largest == 0.0f) {
        for (int j = lo; j < hi; j++) {
            if (p[j] == 0.0f) return p[j];
        }
    }
    return largest;
}

/* Scores to probabilities in place, 0 outside [lo, hi) within their eights; returns their sum. */
static float softmax(float *p, int lo, int hi, float largest) {
    __m256 sum = _mm256_setzero_ps();
    for (int j = lo & ~7; j < hi; j += 8) {
        const __m256 v = tn_exp8_ps(_mm256_sub_ps(_mm256_loadu_ps(p + j), _mm256_set1_ps(largest)));
        const __m256 inside = _mm256_and_ps(v, range_mask(j, lo, hi));
        sum = _mm256_add_ps(sum, inside);
        _mm256_storeu_ps(p + j, inside);
    }
    return tn_join8_ps(sum);
}

/* ---- Outputs ------------------------------------------------------------------------------------ */

/* o += p * v for positions from .. to - 1, dimensions d .. d + 8 * n_vec - 1, of one or two rows. */
TN_INLINE void output_tile(float *const o[2], const float *const p[2], int n_rows, const positions *v,
                           int from, int to, size_t d, int n_vec, load_fn *load) {
    __m256 acc[2][8];
    for (int r = 0; r < n_rows; r++) {
        for (int i = 0; i < n_vec; i++) acc[r][i] = _mm256_loadu_ps(o[r] + d + 8 * (size_t)i);
    }
    for (int j = from; j < to; j++) {
        const uint8_t *row = position(v, j);
        for (int i = 0; i < n_vec; i++) {
            const __m256 value = load(row, d + 8 * (size_t)i);
            for (int r = 0; r < n_rows; r++) {
                acc[r][i] = _mm256_fmadd_ps(_mm256_broadcast_ss(p[r] + j), value, acc[r][i]);
            }
        }
    }
    for (int r = 0; r < n_rows; r++) {
        for (int i = 0; i < n_vec; i++) _mm256_storeu_ps(o[r] + d + 8 * (size_t)i, acc[r][i]);
    }
}

TN_INLINE void output_rows(float *const o[2], const float *const p[2], int n_rows, const positions *v,
                           int from, int to, size_t head_dim, load_fn *load) {
    const int n_vec = n_rows == 2 ? 4 : 8;
    size_t d = 0;
    if (from >= to) return;
    for (; d + 8 * (size_t)n_vec <= head_dim; d += 8 * (size_t)n_vec) {
        output_tile(o, p, n_rows, v, from, to, d, n_vec, load);
    }
    for (; d < head_dim; d += 8) output_tile(o, p, n_rows, v, from, to, d, 1, load);
}

/* One row, or two: together where both see a position, alone before and after. */
TN_INLINE void output_pair(const tn_attn_args *args, size_t r, const positions *v, const workspace *ws,
                           load_fn *load) {
    const size_t n_rows = args->n_q - r < 2 ? 1 : 2, dim = args->head_dim;
    float *o[2] = {args->o + r * args->o_stride, args->o + (r + n_rows - 1) * args->o_stride};
    const float *p[2] = {ws->p[r], ws->p[r + n_rows - 1]};
    int from = INT32_MAX, to = INT32_MAX; /* the common range; for a single row all of it is "before" */
    if (n_rows == 2) {
        from = max_int(args->lo[r], args->lo[r + 1]);
        to = min_int(args->hi[r], args->hi[r + 1]);
        if (from >= to) from = to = INT32_MAX;
    }
    for (size_t i = 0; i < n_rows; i++) {
        memset(o[i], 0, dim * sizeof(float));
        output_rows(o + i, p + i, 1, v, args->lo[r + i], min_int(args->hi[r + i], from), dim, load);
    }
    if (from < to) {
        output_rows(o, p, 2, v, from, to, dim, load);
        for (size_t i = 0; i < n_rows; i++) output_rows(o + i, p + i, 1, v, to, args->hi[r + i], dim, load);
    }
}

/* ---- The chunk ---------------------------------------------------------------------------------- */

static void find_hull(const tn_attn_args *args, positions *kv) {
    kv->first = TN_ATTN_CHUNK;
    kv->last = 0;
    for (size_t r = 0; r < args->n_q; r++) {
        if (args->lo[r] >= args->hi[r]) continue;
        kv->first = min_int(kv->first, args->lo[r]);
        kv->last = max_int(kv->last, args->hi[r]);
    }
}

static void widen(positions *kv, float *dst, size_t dim) {
    for (int j = kv->first; j < kv->last; j++) {
        const uint8_t *row = position(kv, j);
        for (size_t d = 0; d < dim; d += 8) _mm256_store_ps(dst + (size_t)j * dim + d, load_f16(row, d));
    }
    kv->base = (const uint8_t *)dst;
    kv->stride = dim * sizeof(float);
}

TN_INLINE void attend(const tn_attn_args *args, load_fn *load, bool widened) {
    workspace *ws = args->scratch;
    positions k = {.base = args->k, .stride = args->kv_stride}, v;
    find_hull(args, &k);
    v = k;
    v.base = args->v;
    if (widened) widen(&k, ws->kv, args->head_dim);
    score_rows(args, &k, ws, load);
    for (size_t r = 0; r < args->n_q; r++) {
        args->m[r] = largest_score(ws->p[r], args->lo[r], args->hi[r]);
        args->l[r] = softmax(ws->p[r], args->lo[r], args->hi[r], args->m[r]);
    }
    if (widened) widen(&v, ws->kv, args->head_dim);
    for (size_t r = 0; r < args->n_q; r += 2) output_pair(args, r, &v, ws, load);
}

void tn_attn_f32_avx2(const tn_attn_args *args) {
    attend(args, load_f32, false);
}

void tn_attn_f16_avx2(const tn_attn_args *args) {
    if (args->n_q < WIDEN_FROM)
        attend(args, load_f16, false);
    else
        attend(args, load_f32, true);
}

void tn_attn_join_avx2(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t n) {
    if (l2 == 0) return;
    if (*l == 0) {
        *m = m2;
        *l = l2;
        memcpy(o, o2, n * sizeof *o);
        return;
    }
    const float largest = m2 > *m ? m2 : *m;
    const float a = tn_exp_f32(*m - largest), b = tn_exp_f32(m2 - largest);
    const __m256 va = _mm256_set1_ps(a), vb = _mm256_set1_ps(b);
    size_t i = 0;
    *l = fmaf(*l, a, l2 * b);
    for (; i + 8 <= n; i += 8) {
        const __m256 later = _mm256_mul_ps(_mm256_loadu_ps(o2 + i), vb);
        _mm256_storeu_ps(o + i, _mm256_fmadd_ps(_mm256_loadu_ps(o + i), va, later));
    }
    for (; i < n; i++) o[i] = fmaf(o[i], a, o2[i] * b);
    *m = largest;
}

void tn_kv_store_f16_avx2(void *dst, const float *x, size_t n) {
    uint16_t *h = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i v = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(h + i), v);
    }
    for (; i < n; i++) h[i] = tn_f32_to_f16(x[i]);
}
