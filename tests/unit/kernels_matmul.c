/* Matrix products and dequantizers of every weight type against the reference. */
#include "kernels_harness.h"

/* ---- Matrix products --------------------------------------------------------------------------------------
 */

enum { MAX_ROWS = 40, MAX_TOKENS = 515, MAX_K = 28672 };

static tn_matmul_fn *matmul_of(const tn_kernels *table, tn_dtype type, size_t n_tokens) {
    return n_tokens == 1 ? table->weight[type].gemv : table->weight[type].gemm;
}

/* Activations quantized by the reference from hostile floats. */
static void make_activations(tn_matmul_args *args, tn_act act, regime kind) {
    static float x[MAX_K];
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
                         (args->y_stride - args->n_rows) * sizeof(float), "wrote between rows of the result");
    }
}

static void check_matmul(tn_dtype type, size_t k, size_t n_rows, size_t n_tokens, regime kind) {
    static float want[MAX_ROWS * MAX_TOKENS];
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

/* Row lengths in elements, ending with 0: those that leave remainders, and those of models. */
static const size_t *lengths_of(tn_dtype type) {
    static const size_t any[] = {1, 7, 13, 32, 64, 96, 576, 640, 2048, 2880, 11008, 0};
    static const size_t by32[] = {32, 64, 96, 160, 576, 640, 2048, 2880, 11008, 0};
    static const size_t by64[] = {64, 128, 192, 576, 640, 2048, 2880, 11008, 0};
    static const size_t by256[] = {256, 512, 768, 1280, 2048, 2816, 11008, 0};
    static const size_t thin_any[] = {7, 96, 640, 0}, thin_by32[] = {32, 96, 1120, 0},
                        thin_by64[] = {64, 192, 1152, 0}, thin_by256[] = {256, 1280, 0};
    size_t elems = tn_dtypes[type].block_elems;
    switch (elems) {
    case 1: return thin ? thin_any : any;
    case 32: return thin ? thin_by32 : by32;
    case 64: return thin ? thin_by64 : by64;
    default: return thin ? thin_by256 : by256;
    }
}

/* Short rows meet every count of rows and tokens. Of longer ones a count of tokens meets every second, fourth or
 * tenth count of rows, each count of tokens other ones; fewer of floats, where the reference is slow, and thin. */
static size_t row_step(tn_dtype type, size_t k) {
    if (thin) return k <= 1024 ? 5 : 13;
    size_t step = k <= 256 ? 1 : k <= 1024 ? 2 : k <= 4096 ? 4 : 10;
    return k > 256 && tn_dtypes[type].block_elems == 1 ? 2 * step : step;
}

static void check_matmul_type(tn_dtype type) {
    static const size_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 32, 33};
    const size_t *lengths = lengths_of(type);
    for (size_t i = 0; lengths[i]; i++)
        for (size_t t = 0; t < N_OF(tokens); t++)
            for (size_t step = row_step(type, lengths[i]), r = 1 + (t + i) % step; r <= MAX_ROWS; r += step)
                check_matmul(type, lengths[i], r, tokens[t], (regime)rng_below(N_REGIMES));
    /* Rows longer than any panel that a variant may keep, and batches at both sides of what one keeps
     * sums of. */
    check_matmul(type, MAX_K, thin ? 3 : 17, 1, LARGEST);
    check_matmul(type, MAX_K, thin ? 3 : 17, 5, ORDINARY);
    check_matmul(type, 256, thin ? 3 : 33, MAX_TOKENS, LARGEST);
    if (!thin) check_matmul(type, 768, 5, 511, ORDINARY);
}

void test_matrix_products_equal_the_reference(void **state) {
    check_matmul_type(*(const tn_dtype *)*state);
}

void test_dequantizers_equal_the_reference(void **state) {
    (void)state;
    static float want[4096];
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (tn_dtypes[t].act == TN_ACT_NONE) continue;
        for (unsigned turn = 0; turn < repeats(60); turn++) {
            size_t elems = tn_dtypes[t].block_elems;
            size_t k = (1 + rng_below(elems == 1 ? 100 : 3200 / elems)) * elems;
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
