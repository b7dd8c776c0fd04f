/* Timing of matrix products: one token with weights in the second cache and with weights streamed from memory,
 * several tokens with weights in the cache. */
#include "kernels_bench.h"

enum { K = 2048, GEMM_ROWS = 128, REF_ROWS = 8, REF_TOKENS = 8, MAX_TOKENS = 512 };
/* Half of a small second cache; more than a last one holds. */
static const size_t cached_bytes = (size_t)256 << 10, streamed_bytes = (size_t)416 << 20;

/* One call takes one of n_slices parts of the weights, in turn: when a part's turn comes again, the others have
 * displaced it. */
typedef struct operands {
    tn_dtype type;
    tn_matmul_args args; /* of the first slice */
    size_t n_slices, *next_slice;
} operands;

static void call_matmul(const tn_kernels *table, const void *operands_) {
    const operands *o = operands_;
    const tn_weight_kernels *kernels = &table->weight[o->type];
    tn_matmul_args args = o->args;
    args.w += *o->next_slice * args.n_rows * args.w_stride;
    *o->next_slice = (*o->next_slice + 1) % o->n_slices;
    (args.n_tokens == 1 ? kernels->gemv : kernels->gemm)(&args);
}

/* 4 KiB pages, as a mapped file has. */
static void *map_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

/* As many rows as fill `bytes`, the first hundred of them repeated. */
static void fill_rows(uint8_t *w, tn_dtype type, size_t n_rows) {
    size_t row_bytes = tn_dtype_row_bytes(type, K);
    for (size_t n = 0; n < n_rows; n++) {
        if (n < 100)
            fill_weights(w + n * row_bytes, type, K, ORDINARY);
        else
            memcpy(w + n * row_bytes, w + n % 100 * row_bytes, row_bytes);
    }
}

static double reference_rate(const operands *all) {
    operands small = *all;
    if (small.args.n_rows > REF_ROWS) small.args.n_rows = REF_ROWS;
    if (small.args.n_tokens > REF_TOKENS) small.args.n_tokens = REF_TOKENS;
    bench_case c = {
        .work = (double)(K * small.args.n_rows * small.args.n_tokens), .call = call_matmul, .args = &small};
    return bench_reference(&c);
}

static void run_product(const char *row, const char *shape, operands *o) {
    tn_matmul_args *args = &o->args;
    args->y_stride = args->n_rows;
    args->y = malloc(args->n_rows * args->n_tokens * sizeof(float));
    if (!args->y) fail_msg("out of memory");
    double bytes = (double)(args->n_rows * args->w_stride);
    bench_case c = {row,   shape,       "GMAC/s", (double)(K * args->n_rows * args->n_tokens),
                    bytes, call_matmul, o,        reference_rate(o)};
    bench_run(&c);
    free(args->y);
}

static void bench_gemv(operands o, const char *shape, size_t bytes, size_t n_slices) {
    char row[32];
    snprintf(row, sizeof row, "gemv.%s", tn_dtypes[o.type].name);
    if (!bench_wants(row, shape)) return;
    uint8_t *w = map_pages(bytes);
    if (!w) {
        printf("%s %s: no memory for %zu MiB of weights\n", row, shape, bytes >> 20);
        return;
    }
    o.n_slices = n_slices;
    *o.next_slice = 0;
    o.args.n_rows = bytes / n_slices / o.args.w_stride / 16 * 16;
    o.args.n_tokens = 1;
    o.args.w = w;
    fill_rows(w, o.type, n_slices * o.args.n_rows);
    run_product(row, shape, &o);
    munmap(w, bytes);
}

static void bench_gemm(operands o, size_t n_tokens) {
    char row[32], shape[32];
    snprintf(row, sizeof row, "gemm.%s", tn_dtypes[o.type].name);
    snprintf(shape, sizeof shape, "%zu tokens", n_tokens);
    if (!bench_wants(row, shape)) return;
    uint8_t *w = map_pages(GEMM_ROWS * o.args.w_stride);
    if (!w) fail_msg("out of memory");
    o.args.n_rows = GEMM_ROWS;
    o.args.n_tokens = n_tokens;
    o.args.w = w;
    fill_rows(w, o.type, GEMM_ROWS);
    run_product(row, shape, &o);
    munmap(w, GEMM_ROWS * o.args.w_stride);
}

static void bench_type(tn_dtype type, uint8_t *x) {
    static const size_t tokens[] = {2, 3, 4, 5, 6, 8, 16, 64, MAX_TOKENS};
    static float row[K];
    tn_act act = tn_dtypes[type].act;
    size_t next_slice = 0;
    operands o = {.type = type,
                  .n_slices = 1,
                  .next_slice = &next_slice,
                  .args = {.k = K,
                           .w_stride = tn_dtype_row_bytes(type, K),
                           .x = x,
                           .x_stride = tn_act_row_bytes(act, K),
                           .scratch = scratch}};
    for (size_t t = 0; t < MAX_TOKENS; t++) {
        fill_floats(row, K, ORDINARY);
        ref.quantize[act](x + t * o.args.x_stride, row, K);
    }
    bench_gemv(o, "cached", cached_bytes, 1);
    bench_gemv(o, "streamed", streamed_bytes, 16);
    for (size_t t = 0; t < N_OF(tokens); t++) bench_gemm(o, tokens[t]);
}

void bench_products(void) {
    uint8_t *x = map_pages(MAX_TOKENS * tn_act_row_bytes(TN_ACT_F32, K));
    if (!x) fail_msg("out of memory");
    for (int type = 0; type < TN_DTYPE_COUNT; type++)
        if (tn_dtypes[type].act != TN_ACT_NONE) bench_type((tn_dtype)type, x);
}
