/* Quantizers of activations, and the operations on rows of floats, against the reference. */
#include "kernels_harness.h"

/* ---- Activations ------------------------------------------------------------------------------------------
 */

static void check_quantized(tn_act act, const uint8_t *got, const uint8_t *want, size_t k) {
    size_t n_blocks = k / (act == TN_ACT_Q8_32 ? 32 : 256), d = tn_act_d_offset(k),
           s = tn_act_s_offset(act, k);
    size_t s_bytes = act == TN_ACT_Q8_32 ? n_blocks * 4 : n_blocks * 32;
    check_floats((const float *)(const void *)(got + d), (const float *)(const void *)(want + d), n_blocks);
    for (size_t i = 0; i < k; i++)
        if (got[i] != want[i]) fail_at(i, (int8_t)got[i], (int8_t)want[i]);
    if (memcmp(got + s, want + s, s_bytes) != 0) fail_case("sums differ");
}

void test_quantizers_equal_the_reference(void **state) {
    (void)state;
    static _Alignas(64) uint8_t want[16384];
    for (unsigned turn = 0; turn < repeats(3000); turn++) {
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
static void run_clamp(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    (void)b;
    t->clamp(y, a, n % 2 ? 0.5f : 8.0f, n);
}
static void run_softmax(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    (void)b;
    t->softmax(y, a, n);
}
static void run_sigmoid(const tn_kernels *t, float *y, const float *a, const float *b, size_t n) {
    (void)b;
    t->sigmoid(y, a, n);
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
X(CLAMPED)
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
    {"clamp", run_clamp, false},
    {"softmax", run_softmax, false},
    {"sigmoid", run_sigmoid, false},
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
    {"clamped", run_CLAMPED, true},
    {"clamped alone", run_CLAMPED_alone, false},
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

void test_row_operations_equal_the_reference(void **state) {
    (void)state;
    static const size_t more[] = {64, 65, 96, 127, 576, 640, 1023, 2048, 2880};
    for (size_t op = 0; op < N_OF(row_ops); op++) {
        for (unsigned turn = 0; turn < (thin ? 1 : 4) * N_REGIMES; turn++) {
            for (size_t n = 1; n <= 40; n++) check_row_op(&row_ops[op], n, (regime)(turn % N_REGIMES));
            for (size_t i = 0; i < N_OF(more); i++)
                check_row_op(&row_ops[op], more[i], (regime)(turn % N_REGIMES));
        }
    }
}

/* Gates over the whole range of floats, so that every branch of exp is met. */
void test_gated_units_equal_the_reference_over_all_floats(void **state) {
    (void)state;
    enum { N = 1024 };
    static float want[N];
    uint64_t step = thin ? 65521 : 4093, bits = rng_below(step);
    while (bits < (uint64_t)1 << 32) {
        float *gate = guarded_take(&buf_a, N * sizeof *gate, 0),
              *up = guarded_take(&buf_b, N * sizeof *up, 0);
        for (size_t i = 0; i < N; i++, bits += step) gate[i] = float_of((uint32_t)bits), up[i] = 1.0f;
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
            CASE("%s sigmoid, values below %a", tn_isa_name((tn_isa)isa), (double)gate[N - 1]);
            ref.sigmoid(want, gate, N);
            variant[isa].sigmoid(y, gate, N);
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

void test_rope_equals_the_reference(void **state) {
    (void)state;
    for (unsigned turn = 0; turn < (thin ? 1 : 2) * 2 * N_REGIMES; turn++)
        for (size_t n_pairs = 1; n_pairs <= 256; n_pairs += n_pairs < 40 ? 1 : 24)
            check_rope(turn & 1, n_pairs, (regime)(turn / 2 % N_REGIMES));
}
