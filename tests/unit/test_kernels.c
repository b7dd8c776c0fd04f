/* Every row of the kernel table, for every instruction set that this processor supports, equals the reference
 * bit for bit: ordinary and hostile data, odd lengths, unaligned starts, buffers that end at an unreadable
 * page, and nothing written outside the result. */
#include "kernel_fixture.h"

static tn_kernels ref, variant[TN_ISA_COUNT];
static bool supported[TN_ISA_COUNT];
static guarded buf_w, buf_x, buf_y, buf_a, buf_b, buf_m, buf_scratch;
static void *scratch;
static char context[256]; /* the case under test, printed when a test dies by a signal */

#define FOR_EACH_VARIANT(isa)                                                                                \
    for (int isa = TN_ISA_REF + 1; isa < TN_ISA_COUNT; isa++)                                                \
        if (supported[isa])

#define CASE(...) snprintf(context, sizeof context, __VA_ARGS__)

static void fail_at(size_t i, float got, float want) {
    fail_msg("%s: at %zu: got %a, reference %a (TERN_TEST_SEED=%llu)", context, i, (double)got, (double)want,
             (unsigned long long)test_seed);
}

static void check_floats(const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!same_float(got[i], want[i])) fail_at(i, got[i], want[i]);
}

static void check_canary(const void *p, size_t n, const char *where) {
    if (!is_canary(p, n))
        fail_msg("%s: wrote %s the result (TERN_TEST_SEED=%llu)", context, where,
                 (unsigned long long)test_seed);
}

static void check_front(const void *data) {
    check_canary((const uint8_t *)data - FRONT_BYTES, FRONT_BYTES, "before");
}

/* ---- Matrix products --------------------------------------------------------------------------------------
 */

enum { MAX_ROWS = 40, MAX_TOKENS = 33 };

static tn_matmul_fn *matmul_of(const tn_kernels *table, tn_dtype type, size_t n_tokens) {
    return n_tokens == 1 ? table->weight[type].gemv : table->weight[type].gemm;
}

/* Activations quantized by the reference from hostile floats. */
static void make_activations(tn_matmul_args *args, tn_act act, regime kind) {
    static float x[16384];
    size_t row_bytes = tn_act_row_bytes(act, args->k);
    args->x_stride = row_bytes + rng_below(2) * 64;
    uint8_t *rows = guarded_take(&buf_x, (args->n_tokens - 1) * args->x_stride + row_bytes, 0);
    for (size_t t = 0; t < args->n_tokens; t++) {
        fill_floats(x, args->k, kind);
        ref.quantize[act](rows + t * args->x_stride, x, args->k);
    }
    args->x = rows;
}

static void make_weights(tn_matmul_args *args, tn_dtype type, regime kind) {
    size_t row_bytes = tn_dtype_row_bytes(type, args->k);
    args->w_stride = row_bytes + (rng() & 1 ? 0 : rng_below(8));
    size_t slack = rng() & 1 ? 0 : rng_below(64);
    uint8_t *rows = guarded_take(&buf_w, (args->n_rows - 1) * args->w_stride + row_bytes, slack);
    for (size_t n = 0; n < args->n_rows; n++) fill_weights(rows + n * args->w_stride, type, args->k, kind);
    args->w = rows;
}

static void run_matmul(tn_matmul_fn *matmul, tn_matmul_args *args, const float *want) {
    args->y_stride = args->n_rows + rng_below(3) * 3;
    args->y = guarded_take(&buf_y, ((args->n_tokens - 1) * args->y_stride + args->n_rows) * sizeof(float), 0);
    matmul(args);
    check_front(args->y);
    for (size_t t = 0; t < args->n_tokens; t++) {
        check_floats(args->y + t * args->y_stride, want + t * args->n_rows, args->n_rows);
        if (t + 1 < args->n_tokens)
            check_canary(args->y + t * args->y_stride + args->n_rows,
                         (args->y_stride - args->n_rows) * sizeof(float), "between rows of");
    }
}

static void check_matmul(tn_dtype type, size_t k, size_t n_rows, size_t n_tokens, regime kind) {
    float want[MAX_ROWS * MAX_TOKENS];
    tn_matmul_args args = {.k = k, .n_rows = n_rows, .n_tokens = n_tokens, .scratch = scratch};
    CASE("%s k=%zu rows=%zu tokens=%zu regime=%d", tn_dtypes[type].name, k, n_rows, n_tokens, (int)kind);
    make_activations(&args, tn_dtypes[type].act, kind);
    make_weights(&args, type, kind);
    args.y = want;
    args.y_stride = n_rows;
    matmul_of(&ref, type, n_tokens)(&args);
    FOR_EACH_VARIANT(isa) {
        tn_matmul_fn *matmul = matmul_of(&variant[isa], type, n_tokens);
        if (matmul == matmul_of(&ref, type, n_tokens)) continue;
        CASE("%s matmul %s k=%zu rows=%zu tokens=%zu regime=%d", tn_isa_name((tn_isa)isa),
             tn_dtypes[type].name, k, n_rows, n_tokens, (int)kind);
        run_matmul(matmul, &args, want);
    }
}

/* Row lengths in elements, ending with 0. */
static const size_t *lengths_of(tn_dtype type) {
    static const size_t any[] = {1, 7, 13, 32, 64, 96, 576, 640, 2048, 2880, 0};
    static const size_t by32[] = {32, 64, 96, 160, 576, 640, 2048, 2880, 0};
    static const size_t by256[] = {256, 512, 768, 1280, 2048, 2816, 0};
    size_t elems = tn_dtypes[type].block_elems;
    return elems == 1 ? any : elems == 32 ? by32 : by256;
}

static void check_matmul_type(tn_dtype type) {
    static const size_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 32, 33};
    static const size_t rows[] = {1,  3,  5,  7,  8,  9,  11, 13, 15, 16, 17, 19, 21,
                                  23, 24, 25, 27, 29, 31, 32, 33, 35, 37, 39, 40};
    unsigned turn = (unsigned)rng_below(N_REGIMES);
    for (const size_t *k = lengths_of(type); *k; k++)
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens;
             t++) /* long rows: a third of the counts, in turn */
            for (size_t r = *k > 1024 ? t % 3 : 0; r<sizeof rows / sizeof *rows; r += *k> 1024 ? 3 : 1)
                check_matmul(type, *k, rows[r], tokens[t], (regime)(turn++ % N_REGIMES));
    /* Rows longer than any panel that a variant may keep in its first cache. */
    check_matmul(type, 8448, 17, 5, ORDINARY);
    check_matmul(type, 14336, 5, 1, ORDINARY);
}

static void test_matrix_products_equal_the_reference(void **state) {
    (void)state;
    for (int t = 0; t < TN_DTYPE_COUNT; t++)
        if (tn_dtypes[t].act != TN_ACT_NONE) check_matmul_type((tn_dtype)t);
}

static void test_dequantizers_equal_the_reference(void **state) {
    (void)state;
    static float want[4096];
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (tn_dtypes[t].act == TN_ACT_NONE) continue;
        for (unsigned turn = 0; turn < 60; turn++) {
            size_t k = (1 + rng_below(tn_dtypes[t].block_elems == 256 ? 12 : 100)) * tn_dtypes[t].block_elems;
            size_t bytes = tn_dtype_row_bytes((tn_dtype)t, k);
            uint8_t *row = guarded_take(&buf_w, bytes, rng() & 1 ? 0 : rng_below(64));
            fill_weights(row, (tn_dtype)t, k, (regime)(turn % N_REGIMES));
            ref.weight[t].dequantize(want, row, k);
            FOR_EACH_VARIANT(isa) {
                CASE("%s dequantize %s k=%zu", tn_isa_name((tn_isa)isa), tn_dtypes[t].name, k);
                float *y = guarded_take(&buf_y, k * sizeof *y, 0);
                variant[isa].weight[t].dequantize(y, row, k);
                check_floats(y, want, k);
                check_front(y);
            }
        }
    }
}

/* ---- Activations ------------------------------------------------------------------------------------------
 */

static void check_quantized(tn_act act, const uint8_t *got, const uint8_t *want, size_t k) {
    size_t n_blocks = k / (act == TN_ACT_Q8_32 ? 32 : 256), d = tn_act_d_offset(k),
           s = tn_act_s_offset(act, k);
    size_t s_bytes = act == TN_ACT_Q8_32 ? n_blocks * 4 : n_blocks * 32;
    check_floats((const float *)(const void *)(got + d), (const float *)(const void *)(want + d), n_blocks);
    for (size_t i = 0; i < k; i++)
        if (got[i] != want[i]) fail_at(i, (int8_t)got[i], (int8_t)want[i]);
    if (memcmp(got + s, want + s, s_bytes) != 0) fail_msg("%s: sums differ", context);
}

static void test_quantizers_equal_the_reference(void **state) {
    (void)state;
    static _Alignas(64) uint8_t want[16384];
    for (unsigned turn = 0; turn < 3000; turn++) {
        tn_act act = turn % 2 ? TN_ACT_Q8_32 : TN_ACT_Q8_256;
        size_t k = act == TN_ACT_Q8_32 ? 32 * (1 + rng_below(100)) : 256 * (1 + rng_below(12));
        float *x = guarded_take(&buf_a, k * sizeof *x, rng_below(4) * 4);
        fill_floats(x, k, (regime)(turn / 2 % N_REGIMES));
        ref.quantize[act](want, x, k);
        FOR_EACH_VARIANT(isa) {
            CASE("%s quantize %s k=%zu", tn_isa_name((tn_isa)isa), act == TN_ACT_Q8_32 ? "Q8_32" : "Q8_256",
                 k);
            uint8_t *row = guarded_take(&buf_x, tn_act_row_bytes(act, k), 0);
            variant[isa].quantize[act](row, x, k);
            check_quantized(act, row, want, k);
            check_front(row);
        }
    }
}

/* ---- Rows -------------------------------------------------------------------------------------------------
 */

static const float epsilons[] = {1e-5f, 1e-6f, 0.0f};

static void run_rms_norm(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    t->rms_norm(y, a, b, n, epsilons[n % 3]);
}
static void run_layer_norm(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    t->layer_norm(y, a, b, n, epsilons[n % 3]);
}
static void run_softcap(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    (void)b;
    t->softcap(y, a, n % 2 ? 30.0f : 50.0f, n);
}
static void run_add(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    t->add(y, a, b, n);
}
static void run_scale(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    t->scale(y, a, b[0], n);
}
#define X(ACT)                                                                                               \
    static void run_##ACT(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {         \
        t->glu[TN_ACTIVATION_##ACT](y, a, b, n);                                                             \
    }                                                                                                        \
    static void run_##ACT##_alone(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) { \
        (void)b;                                                                                             \
        t->glu[TN_ACTIVATION_##ACT](y, a, NULL, n);                                                          \
    }
X(SILU)
X(GELU)
X(GELU_ERF)
X(RELU)
X(RELU2)
#undef X

typedef struct row_op {
    const char *name;
    void (*run)(const tn_kernels *, float *y, const float *a, const float *b, size_t n);
    bool in_place_b; /* y may be b as well as a */
} row_op;

static const row_op row_ops[] = {
    {"rms_norm", run_rms_norm, false},
    {"layer_norm", run_layer_norm, false},
    {"add", run_add, true},
    {"scale", run_scale, false},
    {"softcap", run_softcap, false},
    {"silu", run_SILU, true},
    {"silu alone", run_SILU_alone, false},
    {"gelu", run_GELU, true},
    {"gelu alone", run_GELU_alone, false},
    {"gelu_erf", run_GELU_ERF, true},
    {"gelu_erf alone", run_GELU_ERF_alone, false},
    {"relu", run_RELU, true},
    {"relu alone", run_RELU_alone, false},
    {"relu2", run_RELU2, true},
    {"relu2 alone", run_RELU2_alone, false},
};

static void check_row_op(const row_op *op, size_t n, regime kind) {
    static float want[4096];
    float *a = guarded_take(&buf_a, n * sizeof *a, rng_below(8) * 4);
    float *b = guarded_take(&buf_b, n * sizeof *b, rng_below(8) * 4);
    fill_floats(a, n, kind);
    fill_floats(b, n, kind);
    op->run(&ref, want, a, b, n);
    FOR_EACH_VARIANT(isa) {
        for (int place = 0; place < (op->in_place_b ? 3 : 2); place++) {
            CASE("%s %s n=%zu regime=%d y is %s", tn_isa_name((tn_isa)isa), op->name, n, (int)kind,
                 place == 0   ? "apart"
                 : place == 1 ? "a"
                              : "b");
            float *y = guarded_take(&buf_y, n * sizeof *y, 0);
            if (place) memcpy(y, place == 1 ? a : b, n * sizeof *y);
            op->run(&variant[isa], y, place == 1 ? y : a, place == 2 ? y : b, n);
            check_floats(y, want, n);
            check_front(y);
        }
    }
}

static void test_row_operations_equal_the_reference(void **state) {
    (void)state;
    static const size_t more[] = {64, 65, 96, 127, 576, 640, 1023, 2048, 2880};
    for (size_t op = 0; op < sizeof row_ops / sizeof *row_ops; op++) {
        for (unsigned turn = 0; turn < 4 * N_REGIMES; turn++) {
            for (size_t n = 1; n <= 40; n++) check_row_op(&row_ops[op], n, (regime)(turn % N_REGIMES));
            for (size_t i = 0; i < sizeof more / sizeof *more; i++)
                check_row_op(&row_ops[op], more[i], (regime)(turn % N_REGIMES));
        }
    }
}

/* Gates over the whole range of floats, so that every branch of exp is met. */
static void test_gated_units_equal_the_reference_over_all_floats(void **state) {
    (void)state;
    enum { N = 1024 };
    static float want[N];
    uint64_t bits = rng_below(4093);
    while (bits < (uint64_t)1 << 32) {
        float *gate = guarded_take(&buf_a, N * sizeof *gate, 0),
              *up = guarded_take(&buf_b, N * sizeof *up, 0);
        for (size_t i = 0; i < N; i++, bits += 4093) gate[i] = float_of((uint32_t)bits), up[i] = 1.0f;
        FOR_EACH_VARIANT(isa) {
            float *y = guarded_take(&buf_y, N * sizeof *y, 0);
            for (int act = 0; act < TN_ACTIVATION_COUNT; act++) {
                CASE("%s activation %d, gates below %a", tn_isa_name((tn_isa)isa), act, (double)gate[N - 1]);
                ref.glu[act](want, gate, up, N);
                variant[isa].glu[act](y, gate, up, N);
                check_floats(y, want, N);
            }
            CASE("%s softcap, values below %a", tn_isa_name((tn_isa)isa), (double)gate[N - 1]);
            ref.softcap(want, gate, 30.0f, N);
            variant[isa].softcap(y, gate, 30.0f, N);
            check_floats(y, want, N);
        }
    }
}

static void check_rope(bool adjacent, size_t n_pairs, regime kind) {
    static float x[1024], want[1024];
    float *cosines = guarded_take(&buf_a, n_pairs * sizeof(float), rng_below(8) * 4);
    float *sines = guarded_take(&buf_b, n_pairs * sizeof(float), rng_below(8) * 4);
    fill_floats(x, 2 * n_pairs, kind);
    fill_floats(cosines, n_pairs, ORDINARY);
    fill_floats(sines, n_pairs, ORDINARY);
    memcpy(want, x, sizeof want);
    (adjacent ? ref.rope_adjacent : ref.rope_halves)(want, cosines, sines, n_pairs);
    FOR_EACH_VARIANT(isa) {
        CASE("%s rope_%s n_pairs=%zu", tn_isa_name((tn_isa)isa), adjacent ? "adjacent" : "halves", n_pairs);
        float *y = guarded_take(&buf_y, 2 * n_pairs * sizeof *y, 0);
        memcpy(y, x, 2 * n_pairs * sizeof *y);
        (adjacent ? variant[isa].rope_adjacent : variant[isa].rope_halves)(y, cosines, sines, n_pairs);
        check_floats(y, want, 2 * n_pairs);
        check_front(y);
    }
}

static void test_rope_equals_the_reference(void **state) {
    (void)state;
    for (unsigned turn = 0; turn < 2 * 2 * N_REGIMES; turn++)
        for (size_t n_pairs = 1; n_pairs <= 256; n_pairs += n_pairs < 40 ? 1 : 24)
            check_rope(turn & 1, n_pairs, (regime)(turn / 2 % N_REGIMES));
}

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
                         (args->o_stride - args->head_dim) * sizeof(float), "between rows of");
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
    int32_t lo[TN_ATTN_MAX_Q], hi[TN_ATTN_MAX_Q];
    size_t n;
    make_bounds(lo, hi, n_q, &n);
    tn_attn_args args = {.q_stride = head_dim + rng_below(3) * 8,
                         .n_q = n_q,
                         .lo = lo,
                         .hi = hi,
                         .head_dim = head_dim,
                         .scale = 1.0f / sqrtf((float)head_dim),
                         .softcap = rng_below(3) ? 0.0f : 0.5f + rng_float() * 0.4f,
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
        CASE("%s attn %s head_dim=%zu n_q=%zu regime=%d", tn_isa_name((tn_isa)isa),
             tn_dtypes[tn_kv_dtype(kv)].name, head_dim, n_q, (int)kind);
        run_attn(variant[isa].attn[kv], &args, &want);
    }
}

static void test_attention_equals_the_reference(void **state) {
    (void)state;
    static const size_t dims[] = {8, 16, 24, 40, 64, 72, 80, 96, 128, 256, 512};
    static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 64};
    unsigned turn = 0;
    for (int kv = 0; kv < TN_KV_COUNT; kv++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            if (dims[d] % tn_dtypes[tn_kv_dtype((tn_kv_type)kv)].block_elems) continue;
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (int again = 0; again < (counts[c] * dims[d] > 4096 ? 1 : 4); again++)
                    check_attention((tn_kv_type)kv, dims[d], counts[c], (regime)(turn++ % N_REGIMES));
        }
}

/* Position 0 scores 0, position j scores x_j <= 0 and has a value of one in its own element: o is exp(x_j)
 * itself. */
static void test_attention_exp_equals_the_reference(void **state) {
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
    for (int turn = 0; turn < 8000; turn++) {
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

static void test_attention_join_equals_the_reference(void **state) {
    (void)state;
    static float start[TN_ATTN_MAX_DIM], want[TN_ATTN_MAX_DIM];
    for (unsigned turn = 0; turn < 6000; turn++) {
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

static void test_cache_stores_equal_the_reference(void **state) {
    (void)state;
    static uint8_t want[4096];
    for (unsigned turn = 0; turn < 20000; turn++) {
        size_t n = turn % 4 ? 1 + rng_below(turn % 16 ? 70 : 700) : 32 * (1 + rng_below(16));
        float *x = guarded_take(&buf_a, n * sizeof *x, 0);
        make_cached(x, n, turn);
        for (int kv = 0; kv < TN_KV_COUNT; kv++) {
            const tn_dtype type = tn_kv_dtype((tn_kv_type)kv);
            if (n % tn_dtypes[type].block_elems) continue;
            const size_t row_bytes = tn_dtype_row_bytes(type, n);
            ref.kv_store[kv](want, x, n);
            FOR_EACH_VARIANT(isa) {
                CASE("%s kv_store %s n=%zu", tn_isa_name((tn_isa)isa), tn_dtypes[type].name, n);
                uint8_t *dst = guarded_take(&buf_y, row_bytes, 0);
                variant[isa].kv_store[kv](dst, x, n);
                check_front(dst);
                if (memcmp(dst, want, row_bytes) != 0) fail_msg("%s: bytes differ", context);
            }
        }
    }
}

/* ---- The table --------------------------------------------------------------------------------------------
 */

static void test_table_is_complete(void **state) {
    (void)state;
    for (int isa = 0; isa < TN_ISA_COUNT; isa++) {
        const tn_kernels *t = &variant[isa];
        if (!supported[isa]) continue;
        assert_int_equal(t->isa, isa);
        for (int type = 0; type < TN_DTYPE_COUNT; type++) {
            bool wanted = tn_dtypes[type].act != TN_ACT_NONE;
            assert_int_equal(wanted, t->weight[type].dequantize != NULL);
            assert_int_equal(wanted, t->weight[type].gemv != NULL);
            assert_int_equal(wanted, t->weight[type].gemm != NULL);
        }
        assert_true(t->quantize[TN_ACT_F32] && t->quantize[TN_ACT_Q8_32] && t->quantize[TN_ACT_Q8_256]);
        assert_true(t->rms_norm && t->layer_norm && t->rope_halves && t->rope_adjacent);
        assert_true(t->add && t->scale && t->softcap && t->attn_join);
        for (int act = 0; act < TN_ACTIVATION_COUNT; act++) assert_true(t->glu[act]);
        for (int kv = 0; kv < TN_KV_COUNT; kv++) assert_true(t->attn[kv] && t->kv_store[kv]);
    }
}

/* Names what an instruction set leaves to the reference: there, nothing is compared. */
static void print_left(const tn_kernels *t) {
    for (int type = 0; type < TN_DTYPE_COUNT; type++) {
        const tn_weight_kernels *own = &t->weight[type], *plain = &ref.weight[type];
        if (!plain->gemv) continue;
        if (own->dequantize == plain->dequantize) printf(" dequantize.%s", tn_dtypes[type].name);
        if (own->gemv == plain->gemv) printf(" gemv.%s", tn_dtypes[type].name);
        if (own->gemm == plain->gemm) printf(" gemm.%s", tn_dtypes[type].name);
    }
#define PRINT_LEFT(row)                                                                                      \
    if (t->row == ref.row) printf(" %s", #row);
    PRINT_LEFT(quantize[TN_ACT_Q8_32])
    PRINT_LEFT(quantize[TN_ACT_Q8_256])
    PRINT_LEFT(rms_norm)
    PRINT_LEFT(layer_norm)
    PRINT_LEFT(rope_halves)
    PRINT_LEFT(rope_adjacent)
    PRINT_LEFT(add)
    PRINT_LEFT(scale)
    PRINT_LEFT(softcap)
    PRINT_LEFT(glu[TN_ACTIVATION_SILU])
    PRINT_LEFT(glu[TN_ACTIVATION_GELU])
    PRINT_LEFT(glu[TN_ACTIVATION_GELU_ERF])
    PRINT_LEFT(glu[TN_ACTIVATION_RELU])
    PRINT_LEFT(glu[TN_ACTIVATION_RELU2])
    PRINT_LEFT(attn[TN_KV_F32])
    PRINT_LEFT(attn[TN_KV_F16])
    PRINT_LEFT(attn[TN_KV_Q8_0])
    PRINT_LEFT(attn_join)
    PRINT_LEFT(kv_store[TN_KV_F32])
    PRINT_LEFT(kv_store[TN_KV_F16])
    PRINT_LEFT(kv_store[TN_KV_Q8_0])
#undef PRINT_LEFT
}

static void print_coverage(void) {
    for (int isa = TN_ISA_REF + 1; isa < TN_ISA_COUNT; isa++) {
        if (!supported[isa]) {
            printf("%s: NOT COVERED, this processor lacks it\n", tn_isa_name((tn_isa)isa));
            continue;
        }
        printf("%s: covered; rows left to the reference:", tn_isa_name((tn_isa)isa));
        print_left(&variant[isa]);
        printf("\n");
    }
}

static int open_tables(void **state) {
    (void)state;
    seed_from_environment();
    tn_kernels_fill(&ref, TN_ISA_REF);
    for (int isa = 0; isa < TN_ISA_COUNT; isa++) {
        supported[isa] = tn_isa_supported((tn_isa)isa);
        if (supported[isa]) tn_kernels_fill(&variant[isa], (tn_isa)isa);
    }
    print_coverage();
    guarded *buffers[] = {&buf_w, &buf_x, &buf_y, &buf_a, &buf_b, &buf_m};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) *buffers[i] = guarded_open((size_t)1 << 20);
    buf_scratch = guarded_open(TN_KERNEL_SCRATCH);
    scratch = guarded_take(&buf_scratch, TN_KERNEL_SCRATCH, 0);
    return 0;
}

/* A test that dies by a signal leaves its case named. */
static int print_context(void **state) {
    (void)state;
    printf("last case: %s\n", context[0] ? context : "none");
    context[0] = 0;
    return 0;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test_teardown(test_dequantizers_equal_the_reference, print_context),
        cmocka_unit_test_teardown(test_quantizers_equal_the_reference, print_context),
        cmocka_unit_test_teardown(test_row_operations_equal_the_reference, print_context),
        cmocka_unit_test_teardown(test_gated_units_equal_the_reference_over_all_floats, print_context),
        cmocka_unit_test_teardown(test_rope_equals_the_reference, print_context),
        cmocka_unit_test_teardown(test_attention_equals_the_reference, print_context),
        cmocka_unit_test_teardown(test_attention_exp_equals_the_reference, print_context),
        cmocka_unit_test_teardown(test_attention_join_equals_the_reference, print_context),
        cmocka_unit_test_teardown(test_cache_stores_equal_the_reference, print_context),
        cmocka_unit_test_teardown(test_matrix_products_equal_the_reference, print_context),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
