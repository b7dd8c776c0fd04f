/* What the files of the test_kernels program share: the tables, the buffers, and comparisons that name their case. */
#ifndef TN_TESTS_KERNELS_HARNESS_H
#define TN_TESTS_KERNELS_HARNESS_H

#include "kernel_fixture.h"

extern tn_kernels ref, variant[TN_ISA_COUNT];
extern bool supported[TN_ISA_COUNT];
/* For emulators: fewer repetitions and crossings, but still every kernel with every remainder (--thin). */
extern bool thin;
extern guarded buf_w, buf_x, buf_y, buf_a, buf_b, buf_m;
extern void *scratch;
extern char context[256]; /* the case under test, printed when a test dies by a signal */

#define N_OF(array) (sizeof(array) / sizeof *(array))

#define FOR_EACH_VARIANT(isa)                                                                                \
    for (int isa = TN_ISA_REF + 1; isa < TN_ISA_COUNT; isa++)                                                \
        if (supported[isa])

/* How often a test repeats what it does n times. */
static inline unsigned repeats(unsigned n) {
    return thin ? n / 8 : n;
}

#define CASE(...) snprintf(context, sizeof context, __VA_ARGS__)

static const char *const kv_names[TN_KV_COUNT] = {"f32", "f16", "q8_0"};

static inline void fail_at(size_t i, float got, float want) {
    fail_msg("%s: at %zu: got %a, reference %a (TERN_TEST_SEED=%llu)", context, i, (double)got, (double)want,
             (unsigned long long)test_seed);
}

static inline void check_floats(const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!same_float(got[i], want[i])) fail_at(i, got[i], want[i]);
}

static inline void fail_case(const char *what) {
    fail_msg("%s: %s (TERN_TEST_SEED=%llu)", context, what, (unsigned long long)test_seed);
}

static inline void check_canary(const void *p, size_t n, const char *message) {
    if (!is_canary(p, n)) fail_case(message);
}

static inline void check_front(const void *data) {
    check_canary((const uint8_t *)data - FRONT_BYTES, FRONT_BYTES, "wrote before the result");
}

/* The tests. A product's state is its tn_dtype. */
typedef void kernel_test(void **state);
kernel_test test_dequantizers_equal_the_reference, test_matrix_products_equal_the_reference;
kernel_test test_quantizers_equal_the_reference, test_row_operations_equal_the_reference;
kernel_test test_gated_units_equal_the_reference_over_all_floats, test_rope_equals_the_reference;
kernel_test test_attention_equals_the_reference, test_attention_exp_equals_the_reference;
kernel_test test_attention_join_equals_the_reference, test_cache_stores_equal_the_reference;

/* Times the rows whose "isa row shape" contains `filter`; the exit status. */
int bench_kernels(const char *filter);

#endif
