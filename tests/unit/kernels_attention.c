/* Attention over one chunk of the KV cache, the join of chunks and the cache's stores, against the reference. */
#include "kernels_harness.h"

/* ---- Attention --------------------------------------------------------------------------------------------
 */

typedef struct attn_result {
    float m[TN_ATTN_MAX_Q], l[TN_ATTN_MAX_Q], o[TN_ATTN_MAX_Q * TN_ATTN_MAX_DIM];
} attn_result;

/* m is compared as a number (zeros of either sign are one), and only where l is one. */
static void check_attn(const tn_attn_args *args, const attn_result *want) {
    for (size_t r = 0; r < args->n_q; r++) {
        if (!same_float(args->l[r], want->l[r])) fail_at(r, args->l[r], want->l[r]);
        if (!isnan(want->l[r]) && args->m[r] != want->m[r]) fail_at(r, args->m[r], want->m[r]);
        check_floats(args->o + r * args->o_stride, want->o + r * args->head_dim, args->head_dim);
        if (r + 1 < args->n_q)
            check_canary(args->o + r * args->o_stride + args->head_dim,
                         (args->o_stride - args->head_dim) * sizeof(float),
                         "wrote between rows of the result");
    }
    check_front(args->m);
    check_front(args->l);
    check_front(args->o);
}

static void run_attn(tn_attn_fn *attn, tn_attn_args *args, const attn_result *want) {
    args->m = guarded_take(&buf_m, args->n_q * sizeof(float), 0);
    args->l = guarded_take(&buf_x, args->n_q * sizeof(float), 0);
    args->o_stride = args->head_dim + rng_below(3) * 8;
    args->o = guarded_take(&buf_y, ((args->n_q - 1) * args->o_stride + args->head_dim) * sizeof(float), 0);
    attn(args);
    check_attn(args, want);
}

/* Rows see all, a prefix, a window, one position or none; *n becomes the positions that exist. */
static void make_bounds(int32_t *lo, int32_t *hi, size_t n_q, size_t *n) {
    size_t kind = rng_below(5), last = 1 + rng_below(TN_ATTN_CHUNK);
    *n = 1;
    for (size_t r = 0; r < n_q; r++) {
        size_t h = kind == 0 ? TN_ATTN_CHUNK : kind == 1 ? last : rng_below(TN_ATTN_CHUNK + 1);
        size_t l = kind < 3 ? 0 : rng_below(h + 1);
        lo[r] = (int32_t)l;
        hi[r] = (int32_t)h;
        if (h > *n) *n = h;
    }
}

/* Cached rows behind the last position lie in the unreadable page; those before every lo are NaN. */
static void make_cache(tn_attn_args *args, tn_kv_type kv, size_t n, regime kind) {
    static float row[TN_ATTN_MAX_DIM];
    size_t row_bytes = tn_dtype_row_bytes(tn_kv_dtype(kv), args->head_dim), first = TN_ATTN_CHUNK;
    for (size_t r = 0; r < args->n_q; r++)
        if (args->lo[r] < args->hi[r] && (size_t)args->lo[r] < first) first = (size_t)args->lo[r];
    args->kv_stride = row_bytes * (1 + rng_below(3));
    uint8_t *rows[2] = {guarded_take(&buf_w, (n - 1) * args->kv_stride + row_bytes, 0),
                        guarded_take(&buf_b, (n - 1) * args->kv_stride + row_bytes, 0)};
    for (size_t j = 0; j < n; j++) {
        for (int side = 0; side < 2; side++) {
            fill_floats(row, args->head_dim, kind == ANY_BITS && rng_below(64) ? ORDINARY : kind);
            if (j < first) row[0] = NAN;
            ref.kv_store[kv](rows[side] + j * args->kv_stride, row, args->head_dim);
        }
    }
    args->k = rows[0];
    args->v = rows[1];
}

static void check_attention(tn_kv_type kv, size_t head_dim, size_t n_q, regime kind) {
    static attn_result want;
    int32_t lo[TN_ATTN_MAX_Q], hi[TN_ATTN_MAX_Q], at[TN_ATTN_MAX_Q];
    float slope[TN_ATTN_MAX_Q];
    size_t n;
    make_bounds(lo, hi, n_q, &n);
    for (size_t r = 0; r < n_q; r++) {
        at[r] = (int32_t)rng_below(4000) - 1000;
        slope[r] = rng_float() * 0.5f + 0.5f;
    }
    tn_attn_args args = {.q_stride = head_dim + rng_below(3) * 8,
                         .n_q = n_q,
                         .lo = lo,
                         .hi = hi,
                         .head_dim = head_dim,
                         .scale = 1.0f / sqrtf((float)head_dim),
                         .softcap = rng_below(3) ? 0.0f : 0.5f + rng_float() * 0.4f,
                         .slope = rng_below(3) ? NULL : slope,
                         .at = at,
                         .m = want.m,
                         .l = want.l,
                         .o = want.o,
                         .o_stride = head_dim,
                         .scratch = scratch};
    make_cache(&args, kv, n, kind);
    float *q = guarded_take(&buf_a, ((n_q - 1) * args.q_stride + head_dim) * sizeof *q, 0);
    for (size_t r = 0; r < n_q; r++) fill_floats(q + r * args.q_stride, head_dim, kind);
    args.q = q;
    ref.attn[kv](&args);
    FOR_EACH_VARIANT(isa) {
        CASE("%s attn %s head_dim=%zu n_q=%zu regime=%d", tn_isa_name((tn_isa)isa), kv_names[kv], head_dim,
             n_q, (int)kind);
        run_attn(variant[isa].attn[kv], &args, &want);
    }
}

void test_attention_equals_the_reference(void **state) {
    (void)state;
    static const size_t dims[] = {8, 16, 24, 40, 64, 72, 80, 96, 128, 256, 512, 576};
    static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 64};
    unsigned turn = 0;
    for (int kv = 0; kv < TN_KV_COUNT; kv++)
        for (size_t d = 0; d < N_OF(dims); d++) {
            if (dims[d] % tn_dtypes[tn_kv_dtype((tn_kv_type)kv)].block_elems) continue;
            for (size_t c = 0; c < N_OF(counts); c++)
                for (int again = 0; again < (thin || counts[c] * dims[d] > 4096 ? 1 : 4); again++)
                    check_attention((tn_kv_type)kv, dims[d], counts[c], (regime)(turn++ % N_REGIMES));
        }
}

/* Position 0 scores 0, position j scores x_j <= 0 and has a value of one in its own element: o is exp(x_j)
 * itself. */
void test_attention_exp_equals_the_reference(void **state) {
    (void)state;
    float want[64], m, l;
    int32_t lo = 0, hi = TN_ATTN_CHUNK;
    float *k = guarded_take(&buf_w, TN_ATTN_CHUNK * 64 * sizeof *k, 0);
    float *v = guarded_take(&buf_b, TN_ATTN_CHUNK * 64 * sizeof *v, 0);
    memset(k, 0, TN_ATTN_CHUNK * 64 * sizeof *k);
    memset(v, 0, TN_ATTN_CHUNK * 64 * sizeof *v);
    for (size_t j = 0; j < 64; j++) v[j * 64 + j] = 1.0f;
    tn_attn_args args = {.q = (float[64]){1.0f},
                         .q_stride = 64,
                         .n_q = 1,
                         .lo = &lo,
                         .hi = &hi,
                         .k = k,
                         .v = v,
                         .kv_stride = 64 * sizeof *k,
                         .head_dim = 64,
                         .scale = 1.0f,
                         .m = &m,
                         .l = &l,
                         .o_stride = 64,
                         .scratch = scratch};
    for (int turn = 0; turn < (int)repeats(8000); turn++) {
        float width = turn % 3 == 0 ? 90.0f : turn % 3 == 1 ? 1.0f : 0x1p-20f;
        for (size_t j = 1; j < 64; j++) k[j * 64] = (rng_float() - 1.0f) * 0.5f * width;
        args.o = want;
        ref.attn[TN_KV_F32](&args);
        float want_l = l;
        FOR_EACH_VARIANT(isa) {
            CASE("%s attn exp, width %g", tn_isa_name((tn_isa)isa), (double)width);
            args.o = guarded_take(&buf_y, sizeof want, 0);
            variant[isa].attn[TN_KV_F32](&args);
            check_floats(args.o, want, 64);
            check_floats(&l, &want_l, 1);
        }
    }
}

static float join_m(void) {
    size_t kind = rng_below(5);
    return kind == 0 ? -INFINITY : kind == 1 ? rng_float() * 200.0f : rng_float() * 8.0f;
}

void test_attention_join_equals_the_reference(void **state) {
    (void)state;
    static float start[TN_ATTN_MAX_DIM], want[TN_ATTN_MAX_DIM];
    for (unsigned turn = 0; turn < repeats(6000); turn++) {
        size_t n = turn % 2 ? 1 + rng_below(TN_ATTN_MAX_DIM) : 8 * (1 + rng_below(TN_ATTN_MAX_DIM / 8));
        float m1 = join_m(), m2 = turn % 7 ? join_m() : m1;
        float l1 = m1 == -INFINITY ? 0 : 1 + rng_float(), l2 = m2 == -INFINITY ? 0 : 1 + rng_float();
        if (turn % 11 == 0) l2 = NAN; /* all scores of a chunk NaN: it must not get lost */
        float *o2 = guarded_take(&buf_a, n * sizeof *o2, 0);
        fill_floats(start, n, (regime)(turn % N_REGIMES));
        fill_floats(o2, n, (regime)(turn % N_REGIMES));
        memcpy(want, start, n * sizeof *want);
        float want_m = m1, want_l = l1;
        ref.attn_join(&want_m, &want_l, want, m2, l2, o2, n);
        FOR_EACH_VARIANT(isa) {
            CASE("%s attn_join n=%zu m=%g m2=%g", tn_isa_name((tn_isa)isa), n, (double)m1, (double)m2);
            float m = m1, l = l1, *o = guarded_take(&buf_y, n * sizeof *o, 0);
            memcpy(o, start, n * sizeof *o);
            variant[isa].attn_join(&m, &l, o, m2, l2, o2, n);
            check_floats(o, want, n);
            check_floats(&l, &want_l, 1);
            check_floats(&m, &want_m, 1);
            check_front(o);
        }
    }
}

/* Every half and both its neighbours as floats, then hostile floats. */
static void make_cached(float *x, size_t n, unsigned turn) {
    if (turn % 2) {
        fill_floats(x, n, (regime)(turn / 2 % N_REGIMES));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)rng();
        x[i] = rng() & 1 ? float_of((bits & 0x8fffffff) | 0x30000000) : float_of(bits & ~(uint32_t)0xfff);
    }
}

void test_cache_stores_equal_the_reference(void **state) {
    (void)state;
    static uint8_t want[4096];
    for (unsigned turn = 0; turn < repeats(20000); turn++) {
        size_t n = turn % 4 ? 1 + rng_below(turn % 16 ? 70 : 700) : 32 * (1 + rng_below(16));
        float *x = guarded_take(&buf_a, n * sizeof *x, 0);
        make_cached(x, n, turn);
        for (int kv = 0; kv < TN_KV_COUNT; kv++) {
            const tn_dtype type = tn_kv_dtype((tn_kv_type)kv);
            if (n % tn_dtypes[type].block_elems) continue;
            const size_t row_bytes = tn_dtype_row_bytes(type, n);
            ref.kv_store[kv](want, x, n);
            FOR_EACH_VARIANT(isa) {
                CASE("%s kv_store %s n=%zu", tn_isa_name((tn_isa)isa), kv_names[kv], n);
                uint8_t *dst = guarded_take(&buf_y, row_bytes, 0);
                variant[isa].kv_store[kv](dst, x, n);
                check_front(dst);
                if (memcmp(dst, want, row_bytes) != 0) fail_case("bytes differ");
            }
        }
    }
}
