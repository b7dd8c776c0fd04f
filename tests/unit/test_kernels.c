/* Every row of the kernel table, for every instruction set that this processor supports, equals the reference
 * bit for bit: ordinary and hostile data, odd lengths, unaligned starts, buffers that end at an unreadable
 * page, and nothing written outside the result. With --bench the same rows are timed. */
#include "kernels_harness.h"

#include <fnmatch.h>

uint64_t test_seed, rng_state;
tn_kernels ref, variant[TN_ISA_COUNT];
bool supported[TN_ISA_COUNT];
bool thin;
guarded buf_w, buf_x, buf_y, buf_a, buf_b, buf_m;
void *scratch;
char context[256];

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
        assert_true(t->add && t->scale && t->softcap && t->clamp && t->softmax && t->sigmoid && t->attn_join);
        for (int act = 0; act < TN_ACTIVATION_COUNT; act++) assert_true(t->glu[act]);
        for (int kv = 0; kv < TN_KV_COUNT; kv++) assert_true(t->attn[kv] && t->kv_store[kv]);
    }
}

/* ---- What is covered --------------------------------------------------------------------------------------
 */

static void print_left_weights(const tn_kernels *t) {
    for (int type = 0; type < TN_DTYPE_COUNT; type++) {
        const tn_weight_kernels *own = &t->weight[type], *plain = &ref.weight[type];
        if (!plain->gemv) continue;
        if (own->dequantize == plain->dequantize) printf(" dequantize.%s", tn_dtypes[type].name);
        if (own->gemv == plain->gemv) printf(" gemv.%s", tn_dtypes[type].name);
        if (own->gemm == plain->gemm) printf(" gemm.%s", tn_dtypes[type].name);
    }
}

/* Names what an instruction set leaves to the reference: there, nothing is compared. */
static void print_left(const tn_kernels *t) {
    print_left_weights(t);
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
    PRINT_LEFT(clamp)
    PRINT_LEFT(softmax)
    PRINT_LEFT(sigmoid)
    PRINT_LEFT(glu[TN_ACTIVATION_SILU])
    PRINT_LEFT(glu[TN_ACTIVATION_GELU])
    PRINT_LEFT(glu[TN_ACTIVATION_GELU_ERF])
    PRINT_LEFT(glu[TN_ACTIVATION_RELU])
    PRINT_LEFT(glu[TN_ACTIVATION_RELU2])
    PRINT_LEFT(glu[TN_ACTIVATION_CLAMPED])
    PRINT_LEFT(attn_join)
#undef PRINT_LEFT
    for (int kv = 0; kv < TN_KV_COUNT; kv++) {
        if (t->attn[kv] == ref.attn[kv]) printf(" attn.%s", kv_names[kv]);
        if (t->kv_store[kv] == ref.kv_store[kv]) printf(" kv_store.%s", kv_names[kv]);
    }
}

/* Levels of this processor's architecture: those of others are no gap in what is tested here. */
static bool is_native(int isa) {
#ifdef __aarch64__
    return isa >= TN_ISA_NEON;
#else
    return isa < TN_ISA_NEON;
#endif
}

static void print_coverage(void) {
    FOR_EACH_VARIANT(isa) {
        printf("%s: covered; rows left to the reference:", tn_isa_name((tn_isa)isa));
        print_left(&variant[isa]);
        printf("\n");
    }
    for (int isa = TN_ISA_REF + 1; isa < TN_ISA_COUNT; isa++)
        if (!supported[isa] && is_native(isa))
            printf("SKIP %s: this processor lacks it\n", tn_isa_name((tn_isa)isa));
}

/* ---- The program ------------------------------------------------------------------------------------------
 */

static void open_tables(void) {
    tn_kernels_fill(&ref, TN_ISA_REF);
    for (int isa = 0; isa < TN_ISA_COUNT; isa++) {
        supported[isa] = tn_isa_supported((tn_isa)isa);
        if (supported[isa]) tn_kernels_fill(&variant[isa], (tn_isa)isa);
    }
}

static void open_buffers(void) {
    guarded *buffers[] = {&buf_w, &buf_x, &buf_y, &buf_a, &buf_b, &buf_m};
    for (size_t i = 0; i < N_OF(buffers); i++) *buffers[i] = guarded_open((size_t)2 << 20);
    guarded buf_scratch = guarded_open(TN_KERNEL_SCRATCH);
    scratch = guarded_take(&buf_scratch, TN_KERNEL_SCRATCH, 0);
}

/* A test that dies by a signal leaves its case named. */
static int print_context(void **state) {
    (void)state;
    printf("last case: %s\n", context[0] ? context : "none");
    context[0] = 0;
    return 0;
}

static const struct CMUnitTest row_tests[] = {
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
};

/* The products are a test for each weight type. Returns how many tests have a name that matches. */
static size_t choose_tests(struct CMUnitTest *tests, const char *pattern) {
    static char names[TN_DTYPE_COUNT][64];
    static tn_dtype types[TN_DTYPE_COUNT];
    size_t n = 0;
    for (size_t i = 0; i < N_OF(row_tests); i++)
        if (fnmatch(pattern, row_tests[i].name, 0) == 0) tests[n++] = row_tests[i];
    for (int type = 0; type < TN_DTYPE_COUNT; type++) {
        if (tn_dtypes[type].act == TN_ACT_NONE) continue;
        snprintf(names[type], sizeof names[type], "test_products_of_%s_equal_the_reference",
                 tn_dtypes[type].name);
        types[type] = (tn_dtype)type;
        if (fnmatch(pattern, names[type], 0) == 0)
            tests[n++] = (struct CMUnitTest){names[type], test_matrix_products_equal_the_reference, NULL,
                                             print_context, &types[type]};
    }
    return n;
}

static int run_kernel_tests(const char *pattern) {
    /* cmocka passes over the entries that stay empty. */
    struct CMUnitTest tests[N_OF(row_tests) + TN_DTYPE_COUNT] = {{0}};
    if (!choose_tests(tests, pattern)) {
        fprintf(stderr, "test_kernels: error: %s: no test has such a name\n", pattern);
        return 2;
    }
    print_coverage();
    return cmocka_run_group_tests_name("test_kernels", tests, NULL, NULL);
}

static const char usage[] =
    "usage: test_kernels [--thin] [PATTERN]    the tests whose name matches PATTERN, with * for anything\n"
    "       test_kernels --bench [FILTER]      times the rows of the table; FILTER: part of \"isa row "
    "shape\",\n"
    "                                          as \"avx2 gemm.Q4_K\", \"gemv\" or \"avx512vnni attn.f16 "
    "decode\"\n"
    "  --thin  fewer repetitions, for emulators; still every kernel with every remainder of rows and tokens\n"
    "TERN_TEST_SEED=N repeats the data of a run, which printed its seed.\n";

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int i = 1;
    bool bench = i < argc && strcmp(argv[i], "--bench") == 0;
    thin = i < argc && strcmp(argv[i], "--thin") == 0;
    i += bench || thin;
    if (i < argc && strcmp(argv[i], "--help") == 0) return fputs(usage, stdout) < 0;
    if (argc - i > 1 || (i < argc && argv[i][0] == '-')) return fputs(usage, stderr), 2;
    seed_from_environment();
    open_tables();
    open_buffers();
    if (bench) return bench_kernels(i < argc ? argv[i] : "");
    return run_kernel_tests(i < argc ? argv[i] : "*");
}
