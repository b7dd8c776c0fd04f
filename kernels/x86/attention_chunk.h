/* Attention over one chunk of the KV cache, written once for 8 and 16 lanes: the including file,
 * attention_avx2.c or attention_avx512.c, defines its vectors (tn_vf and its operations) first.
 *
 * Three passes over the chunk: all scores, each row's softmax, all outputs. With many rows (prefill) the keys are
 * widened and transposed once into scratch, so that lanes are positions and a dot's eight stripes are eight vectors
 * to add; the values are widened once. Both products are then the same register-tiled loop, multiply(). With few
 * rows (decode) keys and values are read once, straight from the cache; lanes are the stripes.
 *
 * The hull of the rows' ranges is read; scores of positions that a row may not see are computed with its
 * neighbours' and not used. */
#ifndef TN_KERNELS_X86_ATTENTION_CHUNK_H
#define TN_KERNELS_X86_ATTENTION_CHUNK_H

enum {
    OCTETS = TN_LANES / 8,
    SPAN = SCORE_VECS * TN_LANES,             /* positions of a tile of scores */
    FEW_ROWS = 4,                             /* rows that share a reading of the cache */
    SCORE_STRIDE = TN_ATTN_CHUNK + 8 * OCTETS /* a tile at the end of the range stores past it */
};

typedef struct workspace {
    /* keys [d % 8][d / 8][TN_ATTN_CHUNK], then values [TN_ATTN_CHUNK][head_dim in whole vectors] */
    float kv[TN_ATTN_CHUNK * TN_ATTN_MAX_DIM];
    float p[TN_ATTN_MAX_Q][SCORE_STRIDE]; /* scores, then probabilities */
} workspace;

_Static_assert(sizeof(workspace) <= TN_KERNEL_SCRATCH, "scratch");
_Static_assert(TN_ATTN_CHUNK % SPAN == 0, "a chunk is whole tiles");

/* Of a row of the cache, elements d + i and on as floats. The two parts of the index let the compiler see which of
 * them share a block of the type: d % 32 + i % 32 is below 32.
 * Vector: half means that only 8 are there and the upper lanes are arbitrary. Octets: 8 of row a, then in 16 lanes
 * those of row b. */
typedef tn_vf vector_fn(const uint8_t *row, size_t d, size_t i, bool half);
typedef tn_vf octets_fn(const uint8_t *a, const uint8_t *b, size_t d, size_t i);

/* Keys or values of the chunk: position j at base + j * stride. */
typedef struct positions {
    const uint8_t *base;
    size_t stride;
    int first, last; /* the hull of all rows' ranges */
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

/* What any of some rows sees, [first, last), and what all see, [from, to). */
typedef struct ranges {
    int first, last, from, to;
} ranges;

static ranges ranges_of(const tn_attn_args *args, size_t row, size_t n_rows) {
    ranges s = {TN_ATTN_CHUNK, 0, 0, TN_ATTN_CHUNK};
    for (size_t r = row; r < row + n_rows; r++) {
        s.from = max_int(s.from, args->lo[r]);
        s.to = min_int(s.to, args->hi[r]);
        if (args->lo[r] >= args->hi[r]) continue;
        s.first = min_int(s.first, args->lo[r]);
        s.last = max_int(s.last, args->hi[r]);
    }
    return s;
}

/* Positions j .. j+n-1 on their way into the processor's caches: rows lie one behind the other. Always inlined: else
 * the compiler takes it for a function without effect. */
TN_INLINE void prefetch(const positions *kv, int j, int n) {
    const uint8_t *end = position(kv, j + n);
    for (const uint8_t *p = position(kv, j); p < end; p += 64) _mm_prefetch((const char *)p, _MM_HINT_T0);
}

/* acc[r][v] = fma(a[r][i * a_step], b[i][d + v], acc[r][v]) for i = 0 .. n-1; row i at b + i * b_stride. */
TN_INLINE void multiply(tn_vf *acc, int n_rows, int n_vecs, const float *const *a, size_t a_step,
                        const uint8_t *b, size_t b_stride, size_t d, size_t n, bool half, vector_fn *vector) {
    for (size_t i = 0; i < n; i++) {
        tn_vf column[8];
        for (int v = 0; v < n_vecs; v++)
            column[v] = vector(b + i * b_stride, d, (size_t)(v * TN_LANES), half);
        for (int r = 0; r < n_rows; r++) {
            const tn_vf factor = tn_vf_set1(a[r][i * a_step]);
            for (int v = 0; v < n_vecs; v++)
                acc[r * n_vecs + v] = tn_vf_fma(factor, column[v], acc[r * n_vecs + v]);
        }
    }
}

/* ---- Scores of many rows ------------------------------------------------------------------------ */

/* Keys of whole spans over the hull; a position outside it repeats its nearest. */
TN_INLINE void transpose_keys(const positions *k, float *dst, size_t dim, octets_fn *octets) {
    const size_t per_stripe = dim / 8 * TN_ATTN_CHUNK;
    for (int j = k->first / SPAN * SPAN; j < (k->last + SPAN - 1) / SPAN * SPAN; j += TN_LANES) {
        const uint8_t *key[TN_LANES];
        for (int i = 0; i < TN_LANES; i++)
            key[i] = position(k, max_int(min_int(j + i, k->last - 1), k->first));
        for (size_t d = 0; d < dim; d += 8) {
            float *out = dst + d / 8 * TN_ATTN_CHUNK + (size_t)j;
            tn_vf v[8];
            for (int i = 0; i < 8; i++) {
                const int at = i < 4 ? i : i + TN_LANES / 2 - 4;
                v[i] = octets(key[at], key[at + 4 * (OCTETS - 1)], d, 0);
            }
            tn_vf_transpose(v);
            for (size_t s = 0; s < 8; s++) tn_vf_store(out + s * per_stripe, v[s]);
        }
    }
}

/* Stripe s of rows r .. r+n_rows-1 against positions j .. j+SPAN-1. */
TN_INLINE void stripe(const tn_attn_args *args, const workspace *ws, size_t r, int n_rows, int j, size_t s,
                      tn_vf *acc) {
    const size_t n = args->head_dim / 8, stride = TN_ATTN_CHUNK * sizeof(float);
    const float *q[TILE_ROWS];
    for (int i = 0; i < n_rows; i++) q[i] = args->q + (r + (size_t)i) * args->q_stride + s;
    for (int i = 0; i < n_rows * SCORE_VECS; i++) acc[i] = tn_vf_set1(0.0f);
    multiply(acc, n_rows, SCORE_VECS, q, 8, (const uint8_t *)ws->kv + s * n * stride, stride, (size_t)j, n,
             false, vector_f32);
}

/* x[i] of the join: stripe i and stripe i + 4. */
TN_INLINE void stripe_pair(const tn_attn_args *args, const workspace *ws, size_t r, int n_rows, int j,
                           size_t i, tn_vf *x) {
    tn_vf acc[TILE_ROWS * SCORE_VECS];
    stripe(args, ws, r, n_rows, j, i, x);
    stripe(args, ws, r, n_rows, j, i + 4, acc);
    for (int a = 0; a < n_rows * SCORE_VECS; a++) x[a] = tn_vf_add(x[a], acc[a]);
}

/* Rows r .. r+n_rows-1 against positions j .. j+SPAN-1. */
TN_INLINE void score_tile(const tn_attn_args *args, workspace *ws, size_t r, int n_rows, int j) {
    tn_vf x[4][TILE_ROWS * SCORE_VECS];
    const tn_vf scale = tn_vf_set1(args->scale);
    stripe_pair(args, ws, r, n_rows, j, 0, x[0]);
    stripe_pair(args, ws, r, n_rows, j, 1, x[1]);
    for (int i = 0; i < n_rows * SCORE_VECS; i++) x[0][i] = tn_vf_add(x[0][i], x[1][i]);
    stripe_pair(args, ws, r, n_rows, j, 2, x[2]);
    stripe_pair(args, ws, r, n_rows, j, 3, x[3]);
    for (int i = 0; i < n_rows * SCORE_VECS; i++) {
        const tn_vf sum = tn_vf_add(x[0][i], tn_vf_add(x[2][i], x[3][i]));
        tn_vf_store(ws->p[r + (size_t)(i / SCORE_VECS)] + j + i % SCORE_VECS * TN_LANES,
                    tn_vf_mul(sum, scale));
    }
}

/* Rows of the next tile when `left` are left. */
static inline size_t tile_rows(size_t left) {
    return left >= TILE_ROWS ? TILE_ROWS : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Meanwhile the values come nearer, and the next chunk's keys. */
static void score_many(const tn_attn_args *args, workspace *ws, const positions *k, const positions *v) {
    for (size_t r = 0, n; r < args->n_q; r += n) {
        n = tile_rows(args->n_q - r);
        const int at = (int)(r * TN_ATTN_CHUNK / args->n_q);
        const int end = (int)((r + n) * TN_ATTN_CHUNK / args->n_q);
        prefetch(v, at, end - at);
        prefetch(k, TN_ATTN_CHUNK + at, end - at);
        const ranges seen = ranges_of(args, r, n);
        for (int j = seen.first / SPAN * SPAN; j < seen.last; j += SPAN) {
            switch (n) {
            case 1: score_tile(args, ws, r, 1, j); break;
            case 2: score_tile(args, ws, r, 2, j); break;
            case 4: score_tile(args, ws, r, 4, j); break;
            default: score_tile(args, ws, r, TILE_ROWS, j); break;
            }
        }
    }
}

/* ---- Scores of few rows ------------------------------------------------------------------------- */

/* The sums of rows q against vectors of keys go on with elements d + i .. d + i + 7. */
TN_INLINE void score_octet(tn_vf acc[8], const float *const *q, const uint8_t *const *key, int n_rows,
                           size_t d, size_t i, octets_fn *octets) {
    const int n_vecs = 8 / n_rows;
    tn_vf row[FEW_ROWS];
    for (int r = 0; r < n_rows; r++) row[r] = tn_vf_octet(q[r] + d + i);
    for (int v = 0; v < n_vecs; v++) {
        const tn_vf keys = octets(key[v * OCTETS], key[v * OCTETS + OCTETS - 1], d, i);
        for (int r = 0; r < n_rows; r++) acc[r * n_vecs + v] = tn_vf_fma(row[r], keys, acc[r * n_vecs + v]);
    }
}

/* Rows r .. r+n_rows-1 (of which n exist) against 8 / n_rows vectors of keys from position j on. A row or key past
 * the last repeats it. */
TN_INLINE void score_keys(const tn_attn_args *args, workspace *ws, const positions *k, size_t r, size_t n,
                          int n_rows, int j, octets_fn *octets) {
    const int n_keys = 8 / n_rows * OCTETS;
    const float *q[FEW_ROWS];
    const uint8_t *key[8 * OCTETS];
    tn_vf acc[8];
    for (size_t i = 0; i < (size_t)n_rows; i++) q[i] = args->q + (r + (i < n ? i : n - 1)) * args->q_stride;
    for (int i = 0; i < n_keys; i++) key[i] = position(k, min_int(j + i, k->last - 1));
    for (int i = 0; i < 8; i++) acc[i] = tn_vf_set1(0.0f);
    size_t d = 0;
    for (; d + 32 <= args->head_dim; d += 32) {
        for (size_t i = 0; i < 32; i += 8) score_octet(acc, q, key, n_rows, d, i, octets);
    }
    for (; d < args->head_dim; d += 8) score_octet(acc, q, key, n_rows, d, 0, octets);
    float scores[8 * OCTETS];
    tn_vf_store(scores, tn_vf_mul(tn_vf_join8(acc), tn_vf_set1(args->scale)));
    for (size_t i = 0; i < n; i++)
        memcpy(ws->p[r + i] + j, scores + (int)i * n_keys, (size_t)n_keys * sizeof *scores);
}

/* The first rows' pass over the keys prefetches the values, and the next chunk's keys. */
TN_INLINE void score_few(const tn_attn_args *args, workspace *ws, const positions *k, const positions *v,
                         octets_fn *octets) {
    for (size_t r = 0; r < args->n_q; r += FEW_ROWS) {
        const size_t n = args->n_q - r < FEW_ROWS ? args->n_q - r : FEW_ROWS;
        const int step = (n == 1 ? 8 : n == 2 ? 4 : 2) * OCTETS;
        const ranges seen = ranges_of(args, r, n);
        for (int j = seen.first; j < seen.last; j += step) {
            if (r == 0) {
                prefetch(v, j, step);
                prefetch(k, TN_ATTN_CHUNK + j, step);
            }
            switch (n) {
            case 1: score_keys(args, ws, k, r, 1, 1, j, octets); break;
            case 2: score_keys(args, ws, k, r, 2, 2, j, octets); break;
            default: score_keys(args, ws, k, r, n, FEW_ROWS, j, octets); break;
            }
        }
    }
}

/* ---- Softmax ------------------------------------------------------------------------------------ */

/* The largest score of [lo, hi), -infinity if none; a NaN is passed over. */
TN_INLINE float largest_score(const float *p, int lo, int hi, bool whole) {
    tn_vf m = tn_vf_set1(-INFINITY);
    for (int j = lo / TN_LANES * TN_LANES; j < hi; j += TN_LANES) {
        const tn_vf v = tn_vf_load(p + j);
        m = tn_vf_max(whole ? v : tn_vf_within(v, m, j, lo, hi),
                      m); /* the second operand when the first is NaN */
    }
    const __m256 octet = tn_vf_max_octets(m);
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(octet), _mm256_extractf128_ps(octet, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    x = _mm_max_ss(x, _mm_movehdup_ps(x));
    return _mm_cvtss_f32(x);
}

/* Scores to probabilities in place; returns their sum over [lo, hi). */
TN_INLINE float probabilities(float *p, int lo, int hi, float largest, bool whole) {
    __m256 sum = _mm256_setzero_ps();
    for (int j = lo / TN_LANES * TN_LANES; j < hi; j += TN_LANES) {
        const tn_vf v = tn_vf_exp(tn_vf_sub(tn_vf_load(p + j), tn_vf_set1(largest)));
        tn_vf_store(p + j, v);
        sum = tn_vf_add_octets(sum, whole ? v : tn_vf_within(v, tn_vf_set1(0.0f), j, lo, hi));
    }
    return tn_join8_ps(sum);
}

static void softmax(const tn_attn_args *args, workspace *ws) {
    const int32_t *lo = args->lo, *hi = args->hi;
    for (size_t r = 0; args->softcap > 0 && r < args->n_q; r++) {
        if (lo[r] >= hi[r]) continue;
        float *p = ws->p[r] + lo[r];
        tn_softcap_avx2(p, p, args->softcap, (size_t)(hi[r] - lo[r]));
    }
    for (size_t r = 0; r < args->n_q; r++) {
        if (lo[r] == 0 && hi[r] == TN_ATTN_CHUNK)
            args->m[r] = largest_score(ws->p[r], 0, TN_ATTN_CHUNK, true);
        else
            args->m[r] = largest_score(ws->p[r], lo[r], hi[r], false);
    }
    for (size_t r = 0; r < args->n_q; r++) {
        if (lo[r] == 0 && hi[r] == TN_ATTN_CHUNK)
            args->l[r] = probabilities(ws->p[r], 0, TN_ATTN_CHUNK, args->m[r], true);
        else
            args->l[r] = probabilities(ws->p[r], lo[r], hi[r], args->m[r], false);
    }
}

/* ---- Outputs ------------------------------------------------------------------------------------ */

TN_INLINE void widen_values(positions *v, float *dst, size_t dim, vector_fn *vector) {
    const size_t stride = (dim + TN_LANES - 1) / TN_LANES * TN_LANES;
    for (int j = v->first; j < v->last; j++) {
        const uint8_t *row = position(v, j);
        float *out = dst + (size_t)j * stride;
        size_t d = 0;
        for (; d + TN_LANES <= dim; d += TN_LANES) tn_vf_store(out + d, vector(row, d, 0, false));
        if (d < dim) tn_vf_store(out + d, vector(row, d, 0, true));
    }
    v->base = (const uint8_t *)dst;
    v->stride = stride * sizeof(float);
}

/* Elements d .. of outputs r .. r+n_rows-1 continue over positions [from, to). */
TN_INLINE void output_tile(const tn_attn_args *args, const workspace *ws, const positions *values, size_t r,
                           int n_rows, int n_vecs, bool half, int from, int to, size_t d, vector_fn *vector) {
    tn_vf acc[TILE_ROWS * TILE_VECS];
    const float *p[TILE_ROWS];
    float *o[TILE_ROWS];
    for (int i = 0; i < n_rows; i++) {
        p[i] = ws->p[r + (size_t)i] + from;
        o[i] = args->o + (r + (size_t)i) * args->o_stride + d;
        for (int v = 0; v < n_vecs; v++) {
            const float *at = o[i] + v * TN_LANES;
            acc[i * n_vecs + v] = half ? tn_vf_octet(at) : tn_vf_load(at);
        }
    }
    multiply(acc, n_rows, n_vecs, p, 1, position(values, from), values->stride, d, (size_t)(to - from), half,
             vector);
    for (int i = 0; i < n_rows; i++) {
        for (int v = 0; v < n_vecs; v++) {
            if (half)
                tn_vf_store_octet(o[i], acc[i]);
            else
                tn_vf_store(o[i] + v * TN_LANES, acc[i * n_vecs + v]);
        }
    }
}

TN_INLINE void output_rows(const tn_attn_args *args, const workspace *ws, const positions *v, size_t r,
                           int n_rows, int n_vecs, int from, int to, vector_fn *vector) {
    const size_t dim = args->head_dim, step = (size_t)n_vecs * TN_LANES;
    size_t d = 0;
    if (from >= to) return;
    for (; d + step <= dim; d += step)
        output_tile(args, ws, v, r, n_rows, n_vecs, false, from, to, d, vector);
    for (; n_vecs > 2 && d + step / 2 <= dim; d += step / 2)
        output_tile(args, ws, v, r, n_rows, n_vecs / 2, false, from, to, d, vector);
    for (; d + TN_LANES <= dim; d += TN_LANES)
        output_tile(args, ws, v, r, n_rows, 1, false, from, to, d, vector);
    if (d < dim) output_tile(args, ws, v, r, n_rows, 1, true, from, to, d, vector);
}

/* Together where all rows see a position, each alone before and after. */
TN_INLINE void output_group(const tn_attn_args *args, const workspace *ws, const positions *v, size_t r,
                            int n_rows, int n_vecs, vector_fn *vector) {
    ranges seen = ranges_of(args, r, (size_t)n_rows);
    if (seen.from >= seen.to) seen.from = seen.to = TN_ATTN_CHUNK; /* no such position: all is "before" */
    for (size_t i = r; i < r + (size_t)n_rows; i++) {
        memset(args->o + i * args->o_stride, 0, args->head_dim * sizeof(float));
        output_rows(args, ws, v, i, 1, n_vecs, args->lo[i], min_int(args->hi[i], seen.from), vector);
    }
    output_rows(args, ws, v, r, n_rows, n_vecs, seen.from, seen.to, vector);
    for (size_t i = r; i < r + (size_t)n_rows; i++)
        output_rows(args, ws, v, i, 1, n_vecs, max_int(args->lo[i], seen.to), args->hi[i], vector);
}

static void output_many(const tn_attn_args *args, const workspace *ws, const positions *v) {
    for (size_t r = 0, n; r < args->n_q; r += n) {
        n = tile_rows(args->n_q - r);
        switch (n) {
        case 1: output_group(args, ws, v, r, 1, TILE_VECS, vector_f32); break;
        case 2: output_group(args, ws, v, r, 2, TILE_VECS, vector_f32); break;
        case 4: output_group(args, ws, v, r, 4, TILE_VECS, vector_f32); break;
        default: output_group(args, ws, v, r, TILE_ROWS, TILE_VECS, vector_f32); break;
        }
    }
}

TN_INLINE void output_few(const tn_attn_args *args, const workspace *ws, const positions *v,
                          vector_fn *vector) {
    for (size_t r = 0; r < args->n_q; r += FEW_ROWS) {
        switch (args->n_q - r) {
        case 1: output_group(args, ws, v, r, 1, FEW_VECS_1, vector); break;
        case 2: output_group(args, ws, v, r, 2, FEW_VECS_2, vector); break;
        case 3: output_group(args, ws, v, r, 3, FEW_VECS_3, vector); break;
        default: output_group(args, ws, v, r, 4, FEW_VECS_4, vector); break;
        }
    }
}

/* ---- The chunk ---------------------------------------------------------------------------------- */

TN_INLINE void attend(const tn_attn_args *args, octets_fn *octets, vector_fn *vector) {
    workspace *ws = args->scratch;
    const ranges seen = ranges_of(args, 0, args->n_q);
    const positions k = {args->k, args->kv_stride, seen.first, seen.last};
    positions v = {args->v, args->kv_stride, seen.first, seen.last};
    if (args->n_q < MANY_ROWS) {
        score_few(args, ws, &k, &v, octets);
        softmax(args, ws);
        output_few(args, ws, &v, vector);
    } else {
        transpose_keys(&k, ws->kv, args->head_dim, octets);
        score_many(args, ws, &k, &v);
        softmax(args, ws);
        widen_values(&v, ws->kv, args->head_dim, vector);
        output_many(args, ws, &v);
    }
}

#endif
