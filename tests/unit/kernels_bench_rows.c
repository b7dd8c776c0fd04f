/* Timing of the operations on rows and of attention, all within the first or second cache. */
#include "kernels_bench.h"

enum { N = 2048, HEAD_DIM = 64, N_KV_HEADS = 8, N_CHUNKS = 16 };

typedef struct row_data {
    float a[N], b[N], y[N];
    float cosines[HEAD_DIM / 2], sines[HEAD_DIM / 2]; /* a rotation: repeated in place, y keeps its size */
    _Alignas(64) uint8_t bytes[4 * N];
} row_data;

/* ---- Rows -------------------------------------------------------------------------------------------------
 */

#define ROW_CALL(name, ...)                                                                                  \
    static void call_##name(const tn_kernels *t, const void *args) {                                         \
        row_data *d = (row_data *)(uintptr_t)args;                                                           \
        __VA_ARGS__;                                                                                         \
    }
ROW_CALL(quantize_q8_32, t->quantize[TN_ACT_Q8_32](d->bytes, d->a, N))
ROW_CALL(quantize_q8_256, t->quantize[TN_ACT_Q8_256](d->bytes, d->a, N))
ROW_CALL(rms_norm, t->rms_norm(d->y, d->a, d->b, N, 1e-5f))
ROW_CALL(rope_halves, t->rope_halves(d->y, d->cosines, d->sines, HEAD_DIM / 2))
ROW_CALL(rope_adjacent, t->rope_adjacent(d->y, d->cosines, d->sines, HEAD_DIM / 2))
ROW_CALL(add, t->add(d->y, d->a, d->b, N))
ROW_CALL(scale, t->scale(d->y, d->a, 0.5f, N))
ROW_CALL(silu, t->glu[TN_ACTIVATION_SILU](d->y, d->a, d->b, N))
ROW_CALL(gelu, t->glu[TN_ACTIVATION_GELU](d->y, d->a, d->b, N))
ROW_CALL(gelu_erf, t->glu[TN_ACTIVATION_GELU_ERF](d->y, d->a, d->b, N))
ROW_CALL(relu, t->glu[TN_ACTIVATION_RELU](d->y, d->a, d->b, N))
ROW_CALL(relu2, t->glu[TN_ACTIVATION_RELU2](d->y, d->a, d->b, N))
ROW_CALL(layer_norm, t->layer_norm(d->y, d->a, d->b, N, 1e-5f))
ROW_CALL(softcap, t->softcap(d->y, d->a, 30.0f, N))
#undef ROW_CALL

static void run_case(bench_case c) {
    if (!bench_wants(c.row, c.shape)) return;
    c.ref_rate = bench_reference(&c);
    bench_run(&c);
}

void bench_rows(void) {
    static row_data d;
    fill_floats(d.a, N, ORDINARY);
    fill_floats(d.b, N, ORDINARY);
    for (size_t i = 0; i < HEAD_DIM / 2; i++) d.cosines[i] = 0.6f, d.sines[i] = 0.8f;
    struct {
        const char *row, *shape;
        double elems;
        void (*call)(const tn_kernels *, const void *);
    } rows[] = {
        {"quantize.Q8_32", "2048", N, call_quantize_q8_32},
        {"quantize.Q8_256", "2048", N, call_quantize_q8_256},
        {"rms_norm", "2048", N, call_rms_norm},
        {"rope_halves", "64", HEAD_DIM, call_rope_halves},
        {"rope_adjacent", "64", HEAD_DIM, call_rope_adjacent},
        {"add", "2048", N, call_add},
        {"scale", "2048", N, call_scale},
        {"silu", "2048", N, call_silu},
        {"gelu", "2048", N, call_gelu},
        {"gelu_erf", "2048", N, call_gelu_erf},
        {"relu", "2048", N, call_relu},
        {"relu2", "2048", N, call_relu2},
        {"layer_norm", "2048", N, call_layer_norm},
        {"softcap", "2048", N, call_softcap},
    };
    for (size_t i = 0; i < N_OF(rows); i++)
        run_case((bench_case){.row = rows[i].row,
                              .shape = rows[i].shape,
                              .unit = "Gelem/s",
                              .work = rows[i].elems,
                              .call = rows[i].call,
                              .args = &d});
}

/* ---- Attention --------------------------------------------------------------------------------------------
 */

typedef struct attn_data {
    tn_kv_type kv;
    tn_attn_args args; /* of the first chunk */
} attn_data;

/* One KV head's chunks, ascending, as a thread walks them. */
static void call_attn(const tn_kernels *t, const void *data) {
    const attn_data *d = data;
    tn_attn_args args = d->args;
    for (size_t chunk = 0; chunk < N_CHUNKS; chunk++) {
        size_t offset = chunk * TN_ATTN_CHUNK * args.kv_stride;
        args.k = (const uint8_t *)d->args.k + offset;
        args.v = (const uint8_t *)d->args.v + offset;
        t->attn[d->kv](&args);
    }
}

static uint8_t *make_cache(tn_kv_type kv, size_t stride) {
    float row[HEAD_DIM];
    uint8_t *cache = malloc(N_CHUNKS * TN_ATTN_CHUNK * stride);
    if (!cache) fail_msg("out of memory");
    for (size_t j = 0; j < N_CHUNKS * TN_ATTN_CHUNK; j++) {
        fill_floats(row, N_OF(row), ORDINARY);
        ref.kv_store[kv](cache + j * stride, row, N_OF(row));
    }
    return cache;
}

static void bench_attn(tn_kv_type kv, const char *row, const char *shape, size_t n_q) {
    static float q[TN_ATTN_MAX_Q * HEAD_DIM], m[TN_ATTN_MAX_Q], l[TN_ATTN_MAX_Q], o[TN_ATTN_MAX_Q * HEAD_DIM];
    int32_t lo[TN_ATTN_MAX_Q] = {0}, hi[TN_ATTN_MAX_Q];
    if (!bench_wants(row, shape)) return;
    for (size_t r = 0; r < n_q; r++) hi[r] = TN_ATTN_CHUNK;
    fill_floats(q, N_OF(q), ORDINARY);
    size_t row_bytes = tn_dtype_row_bytes(tn_kv_dtype(kv), HEAD_DIM);
    uint8_t *k = make_cache(kv, row_bytes), *v = make_cache(kv, row_bytes);
    attn_data d = {kv,
                   {.q = q,
                    .q_stride = HEAD_DIM,
                    .n_q = n_q,
                    .lo = lo,
                    .hi = hi,
                    .k = k,
                    .v = v,
                    .kv_stride = row_bytes,
                    .head_dim = HEAD_DIM,
                    .scale = 0.125f,
                    .m = m,
                    .l = l,
                    .o = o,
                    .o_stride = HEAD_DIM,
                    .scratch = scratch}};
    run_case((bench_case){.row = row,
                          .shape = shape,
                          .unit = "GMAC/s",
                          .work = (double)(2 * n_q * N_CHUNKS * TN_ATTN_CHUNK * HEAD_DIM),
                          .bytes = (double)(2 * N_CHUNKS * TN_ATTN_CHUNK * row_bytes),
                          .call = call_attn,
                          .args = &d});
    free(k);
    free(v);
}

typedef struct store_data {
    tn_kv_type kv;
    float x[N_KV_HEADS * HEAD_DIM];
    uint8_t *cached;
} store_data;

static void call_kv_store(const tn_kernels *t, const void *data) {
    const store_data *d = data;
    t->kv_store[d->kv](d->cached, d->x, N_OF(d->x));
}

static void call_attn_join(const tn_kernels *t, const void *args) {
    row_data *d = (row_data *)(uintptr_t)args;
    float m = 1.0f, l = 2.0f;
    t->attn_join(&m, &l, d->y, 0.5f, 1.5f, d->a, HEAD_DIM);
}

void bench_attention(void) {
    static store_data store;
    static row_data join;
    uint8_t cached[N_OF(store.x) * sizeof(float)];
    char row[32];
    fill_floats(store.x, N_OF(store.x), ORDINARY);
    fill_floats(join.a, N, ORDINARY);
    for (int kv = 0; kv < TN_KV_COUNT; kv++) {
        snprintf(row, sizeof row, "attn.%s", kv_names[kv]);
        bench_attn((tn_kv_type)kv, row, "decode", 4);
        bench_attn((tn_kv_type)kv, row, "prefill", TN_ATTN_MAX_Q);
        snprintf(row, sizeof row, "kv_store.%s", kv_names[kv]);
        store.kv = (tn_kv_type)kv;
        store.cached = cached;
        run_case((bench_case){.row = row,
                              .shape = "512",
                              .unit = "Gelem/s",
                              .work = N_OF(store.x),
                              .call = call_kv_store,
                              .args = &store});
    }
    run_case((bench_case){.row = "attn_join",
                          .shape = "64",
                          .unit = "Gelem/s",
                          .work = HEAD_DIM,
                          .call = call_attn_join,
                          .args = &join});
}
