/* The reference kernels against independent formulas in double precision, hand-worked cases and libm. What
 * SIMD variants add is compared with the reference in test_kernels.c. */
#include "kernel_fixture.h"

#include "kernels/ref/math.h"

uint64_t test_seed, rng_state;
static tn_kernels ref;

static void check_near(const char *what, size_t i, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: at %zu: got %.9g, expected %.9g within %.3g (TERN_TEST_SEED=%llu)", what, i, got, want,
                 tolerance, (unsigned long long)test_seed);
}

/* ---- Arithmetic -------------------------------------------------------------------------------------------
 */

/* The distance from the exact value in units of the last place of a float of its size. */
static double ulps(float got, double exact) {
    return fabs((double)got - exact) / ldexp(1.0, ilogb(exact) - 23);
}

static void test_exp_is_within_two_ulps_of_libm(void **state) {
    (void)state;
    double worst = 0;
    size_t n = 0;
    for (uint64_t bits = rng_below(401); bits <= 0xffffffff; bits += 401) {
        float x = float_of((uint32_t)bits);
        if (!(x >= -87.3f && x <= 88.0f)) continue;
        double error = ulps(tn_exp_f32(x), exp((double)x));
        if (error > worst) worst = error;
        n++;
    }
    printf("exp: worst of %zu arguments %.3f ulp\n", n, worst);
    assert_true(worst <= 2.0);
}

static void test_exp_at_its_edges(void **state) {
    (void)state;
    assert_true(isnan(tn_exp_f32(NAN)) && isnan(tn_exp_f32(-NAN)));
    assert_true(tn_exp_f32(INFINITY) == INFINITY && tn_exp_f32(nextafterf(88.0f, 99.0f)) == INFINITY);
    assert_true(isfinite(tn_exp_f32(88.0f)) && tn_exp_f32(-87.3f) >= 0x1p-126f);
    assert_int_equal(bits_of(tn_exp_f32(-INFINITY)), 0);
    assert_int_equal(bits_of(tn_exp_f32(nextafterf(-87.3f, -99.0f))), 0);
    assert_true(tn_exp_f32(0.0f) == 1.0f && tn_exp_f32(-0.0f) == 1.0f && tn_exp_f32(1e-45f) == 1.0f);
}

/* The value of a finite half, from the definition of the format. */
static double half_value(unsigned h) {
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void test_halves_widen_exactly(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float x = tn_f16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(x) >> 31, h >> 15);
        if ((h & 0x7c00) == 0x7c00)
            assert_true(h & 0x3ff ? isnan(x) : isinf(x));
        else if ((double)x != half_value(h))
            fail_msg("half %04x: got %a", h, (double)x);
    }
}

/* Between each half and the next: below the middle goes down, above it up, the middle to the even one. */
static void test_floats_round_to_the_nearest_half(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        float low = (float)half_value(h), high = h == 0x7bff ? 65536.0f : (float)half_value(h + 1);
        float middle = low + (high - low) / 2;
        const struct {
            float x;
            unsigned want;
        } cases[] = {{low, h},
                     {nextafterf(low, 1e9f), h},
                     {nextafterf(middle, 0.0f), h},
                     {middle, h + (h & 1)},
                     {nextafterf(middle, 1e9f), h + 1},
                     {nextafterf(high, 0.0f), h + 1}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (tn_f32_to_f16(cases[i].x) != cases[i].want ||
                tn_f32_to_f16(-cases[i].x) != (cases[i].want | 0x8000))
                fail_msg("%a: got half %04x, expected %04x", (double)cases[i].x, tn_f32_to_f16(cases[i].x),
                         cases[i].want);
        }
    }
    assert_int_equal(tn_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(tn_f32_to_f16(-3.4e38f), 0xfc00);
    for (int i = 0; i < 100; i++) {
        uint16_t h = tn_f32_to_f16(float_of(0x7f800001 | ((uint32_t)rng() & 0x807fffff)));
        assert_true((h & 0x7c00) == 0x7c00 && (h & 0x200));
    }
}

static void test_small_formats_by_hand(void **state) {
    (void)state;
    assert_true(tn_bf16_to_f32(0x3f80) == 1.0f && tn_bf16_to_f32(0xc049) == -3.140625f);
    for (int e = 0; e < 256; e++) assert_true((double)tn_e8m0_half_to_f32((uint8_t)e) == ldexp(1.0, e - 128));
    for (int e = 0; e < 256; e++) { /* E4M3: subnormals are eighths of 2^-6; one NaN is taken as 0 */
        int exponent = e >> 3 & 15, mantissa = e & 7;
        double want = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
        assert_true((double)tn_ue4m3_half_to_f32((uint8_t)e) == (e == 0x7f ? 0 : want / 2));
    }
}

/* ---- Types ------------------------------------------------------------------------------------------------
 */

static void test_types_are_found_by_their_number(void **state) {
    (void)state;
    tn_dtype t;
    assert_true(tn_dtype_from_ggml(12, &t) && t == TN_DTYPE_Q4_K);
    assert_true(tn_dtype_from_ggml(39, &t) && t == TN_DTYPE_MXFP4);
    const uint32_t none[] = {4, 5, 9, 15, 31, 32, 33, 36, 37, 38, 42, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_false(tn_dtype_from_ggml(none[i], &t));
    assert_int_equal(tn_dtype_row_bytes(TN_DTYPE_Q6_K, 512), 420);
}

static void test_activation_rows_do_not_overlap(void **state) {
    (void)state;
    for (size_t k = 256; k <= 8192; k += 256) {
        assert_true(tn_act_d_offset(k) >= k);
        for (int act = TN_ACT_Q8_32; act <= TN_ACT_Q8_256; act++) {
            size_t blocks = k / (act == TN_ACT_Q8_32 ? 32 : 256), s = tn_act_s_offset((tn_act)act, k);
            size_t sums = act == TN_ACT_Q8_32 ? blocks * 4 : k / 16 * 2,
                   bytes = tn_act_row_bytes((tn_act)act, k);
            assert_true(s >= tn_act_d_offset(k) + blocks * 4 && bytes >= s + sums && bytes % 64 == 0);
        }
        assert_int_equal(tn_act_row_bytes(TN_ACT_F32, k + 1), k * 4 + 64);
    }
    assert_int_equal(tn_act_row_bytes(TN_ACT_NONE, 256), 0);
}

/* ---- Quantization of activations --------------------------------------------------------------------------
 */

static void check_quantized_block(const float *x, const int8_t *q, float d, size_t n) {
    float largest = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        finite = finite && isfinite(x[i]);
        largest = fmaxf(largest, fabsf(x[i]));
    }
    bool zero = !finite || largest < 0x1p-100f;
    if (finite)
        assert_true(zero ? bits_of(d) == 0 : d == largest / 127.0f);
    else
        assert_true(isnan(d));
    for (size_t i = 0; i < n; i++) {
        assert_true(q[i] >= -127 && q[i] <= 127);
        if (zero)
            assert_int_equal(q[i], 0);
        else
            check_near("quantized", i, q[i], (double)x[i] / ((double)largest / 127.0), 0.5 + 1e-4);
        if (!zero && fabsf(x[i]) == largest) assert_int_equal(q[i], x[i] > 0 ? 127 : -127);
    }
}

static void check_quantized_row(tn_act act, const float *x, size_t k) {
    static _Alignas(64) uint8_t row[32768];
    const int8_t *q = (const int8_t *)row;
    const float *d = (const float *)(const void *)(row + tn_act_d_offset(k));
    const void *s = row + tn_act_s_offset(act, k);
    size_t block = act == TN_ACT_Q8_32 ? 32 : 256, per_sum = act == TN_ACT_Q8_32 ? 32 : 16;
    ref.quantize[act](row, x, k);
    for (size_t b = 0; b < k / block; b++) check_quantized_block(x + b * block, q + b * block, d[b], block);
    for (size_t j = 0; j < k / per_sum; j++) {
        int sum = 0;
        for (size_t i = 0; i < per_sum; i++) sum += q[j * per_sum + i];
        assert_int_equal(act == TN_ACT_Q8_32 ? ((const int32_t *)s)[j] : ((const int16_t *)s)[j], sum);
    }
}

static void test_quantized_activations_keep_their_promises(void **state) {
    (void)state;
    static float x[4096];
    for (unsigned turn = 0; turn < 2000; turn++) {
        size_t k = 256 * (1 + rng_below(12));
        fill_floats(x, k, (regime)(turn % N_REGIMES));
        check_quantized_row(TN_ACT_Q8_32, x, k);
        check_quantized_row(TN_ACT_Q8_256, x, k);
    }
}

/* m = 127 makes r = 1: halves go to the even neighbour. */
static void test_quantization_rounds_ties_to_even(void **state) {
    (void)state;
    float x[32] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 125.5f, 126.5f, 0.49999997f};
    const int8_t want[10] = {127, 0, 2, 2, 0, -2, -2, 126, 126, 0};
    _Alignas(64) uint8_t row[256];
    ref.quantize[TN_ACT_Q8_32](row, x, 32);
    assert_memory_equal(row, want, sizeof want);
}

/* ---- Matrix products --------------------------------------------------------------------------------------
 */

typedef struct product {
    double sum, magnitude; /* the second bounds what rounding can be measured against */
} product;

static double act_value(tn_act act, const uint8_t *row, size_t k, size_t i) {
    if (act == TN_ACT_F32) return ((const float *)(const void *)row)[i];
    const float *d = (const float *)(const void *)(row + tn_act_d_offset(k));
    return (double)d[i / (act == TN_ACT_Q8_32 ? 32 : 256)] * ((const int8_t *)row)[i];
}

/* In doubles, over dequantized weights and activations. Within a block a weight may be the small difference
 * of scale and minimum, so the block's largest weight stands for all of them. */
static product exact_product(const float *w, tn_act act, const uint8_t *x, size_t k, size_t block) {
    product p = {0, 0};
    for (size_t b = 0; b < k; b += block) {
        double largest = 0, magnitude = 0;
        for (size_t i = b; i < b + block && i < k; i++) {
            double value = act_value(act, x, k, i);
            p.sum += (double)w[i] * value;
            magnitude += fabs(value);
            largest = fmax(largest, fabs((double)w[i]));
        }
        p.magnitude += 4 * largest * magnitude;
    }
    return p;
}

static void check_product(tn_dtype type, size_t k, size_t n_rows, size_t n_tokens) {
    static _Alignas(64) uint8_t w[1 << 20], x_rows[1 << 18];
    static float x[4096], widened[4096], y[64 * 64];
    const tn_dtype_info *info = &tn_dtypes[type];
    size_t row_bytes = tn_dtype_row_bytes(type, k), x_stride = tn_act_row_bytes(info->act, k);
    for (size_t n = 0; n < n_rows; n++) fill_weights(w + n * row_bytes, type, k, ORDINARY);
    for (size_t t = 0; t < n_tokens; t++) {
        fill_floats(x, k, ORDINARY);
        ref.quantize[info->act](x_rows + t * x_stride, x, k);
    }
    tn_matmul_args args = {.w = w,
                           .w_stride = row_bytes,
                           .x = x_rows,
                           .x_stride = x_stride,
                           .y = y,
                           .y_stride = n_rows,
                           .k = k,
                           .n_rows = n_rows,
                           .n_tokens = n_tokens};
    (n_tokens == 1 ? ref.weight[type].gemv : ref.weight[type].gemm)(&args);
    for (size_t n = 0; n < n_rows; n++) {
        ref.weight[type].dequantize(widened, w + n * row_bytes, k);
        for (size_t t = 0; t < n_tokens; t++) {
            size_t block = info->block_elems > 1 ? info->block_elems : 8;
            product p = exact_product(widened, info->act, x_rows + t * x_stride, k, block);
            double steps = (double)k / (double)block + 16;
            check_near(info->name, n, y[t * n_rows + n], p.sum, p.magnitude * steps * 0x1p-24);
        }
    }
}

static void test_products_equal_those_of_dequantized_values(void **state) {
    (void)state;
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (tn_dtypes[t].act == TN_ACT_NONE) continue;
        for (size_t turn = 0; turn < 20; turn++)
            check_product((tn_dtype)t, 256 * (1 + rng_below(8)), 1 + rng_below(9), 1 + turn % 4);
    }
}

/* Stripes and their joining, written out from the header for twelve elements; the sizes make every order
 * differ. */
static void test_float_products_join_their_stripes_as_written(void **state) {
    (void)state;
    for (int turn = 0; turn < 200; turn++) {
        _Alignas(64) float x[16];
        float w[12], s[8], y;
        for (int i = 0; i < 12; i++) {
            w[i] = ldexpf(rng_float(), (int)rng_below(12));
            x[i] = rng_float();
        }
        for (int i = 0; i < 8; i++) s[i] = fmaf(w[i], x[i], 0.0f);
        for (int i = 0; i < 4; i++) s[i] = fmaf(w[i + 8], x[i + 8], s[i]);
        float x0 = s[0] + s[4], x1 = s[1] + s[5], x2 = s[2] + s[6], x3 = s[3] + s[7];
        tn_matmul_args args = {.w = (const uint8_t *)w,
                               .w_stride = sizeof w,
                               .x = (const uint8_t *)x,
                               .x_stride = 64,
                               .y = &y,
                               .y_stride = 1,
                               .k = 12,
                               .n_rows = 1,
                               .n_tokens = 1};
        ref.weight[TN_DTYPE_F32].gemv(&args);
        assert_int_equal(bits_of(y), bits_of((x0 + x1) + (x2 + x3)));
    }
}

/* ---- Rows -------------------------------------------------------------------------------------------------
 */

enum { N = 1000 };
static float in_a[N], in_b[N], out[N];

static void test_rms_norm_by_its_formula(void **state) {
    (void)state;
    for (size_t n = 1; n <= N; n = n * 2 + 1) {
        double squares = 0;
        fill_floats(in_a, n, ORDINARY);
        fill_floats(in_b, n, ORDINARY);
        for (size_t i = 0; i < n; i++) squares += (double)in_a[i] * (double)in_a[i];
        ref.rms_norm(out, in_a, in_b, n, 1e-5f);
        for (size_t i = 0; i < n; i++) {
            double want = (double)in_a[i] / sqrt(squares / (double)n + (double)1e-5f) * (double)in_b[i];
            check_near("rms_norm", i, out[i], want, 2e-6 * fabs(want) + 1e-30);
        }
    }
}

static void test_layer_norm_by_its_formula(void **state) {
    (void)state;
    for (size_t n = 2; n <= N; n += n < 40 ? 1 : 331) {
        double sum = 0, squares = 0;
        fill_floats(in_a, n, ORDINARY);
        fill_floats(in_b, n, ORDINARY);
        for (size_t i = 0; i < n; i++) sum += (double)in_a[i];
        for (size_t i = 0; i < n; i++) squares += pow((double)in_a[i] - sum / (double)n, 2);
        const double deviation = sqrt(squares / (double)n + (double)1e-5f);
        ref.layer_norm(out, in_a, in_b, n, 1e-5f);
        for (size_t i = 0; i < n;
             i++) { /* the mean is subtracted: its error counts, not that of the result */
            double want = ((double)in_a[i] - sum / (double)n) / deviation * (double)in_b[i];
            double slack = 3e-6 * (fabs(want) + fabs(sum / (double)n) / deviation * fabs((double)in_b[i]));
            check_near("layer_norm", i, out[i], want, slack + 1e-6 * fabs((double)in_b[i]));
        }
    }
}

static void check_rope(bool adjacent, size_t n_pairs) {
    float c[64], s[64];
    fill_floats(in_a, 2 * n_pairs, ORDINARY);
    memcpy(out, in_a, sizeof out);
    double angles[64];
    for (size_t i = 0; i < n_pairs; i++) {
        angles[i] = (double)rng_float() * 3.14159;
        c[i] = (float)cos(angles[i]);
        s[i] = (float)sin(angles[i]);
    }
    (adjacent ? ref.rope_adjacent : ref.rope_halves)(out, c, s, n_pairs);
    for (size_t i = 0; i < n_pairs; i++) {
        size_t ia = adjacent ? 2 * i : i, ib = adjacent ? 2 * i + 1 : i + n_pairs;
        double a = in_a[ia], b = in_a[ib], slack = 1e-6 * (fabs(a) + fabs(b));
        check_near("rope a", i, out[ia], a * cos(angles[i]) - b * sin(angles[i]), slack);
        check_near("rope b", i, out[ib], a * sin(angles[i]) + b * cos(angles[i]), slack);
    }
    assert_memory_equal(out + 2 * n_pairs, in_a + 2 * n_pairs, (N - 2 * n_pairs) * sizeof *out);
}

static void test_rope_rotates_each_pair(void **state) {
    (void)state;
    for (size_t n_pairs = 1; n_pairs <= 64; n_pairs++) {
        check_rope(false, n_pairs);
        check_rope(true, n_pairs);
    }
}

static void test_gated_units_by_their_formulas(void **state) {
    (void)state;
    for (size_t i = 0; i < N; i++) in_a[i] = rng_float() * 30.0f, in_b[i] = rng_float();
    ref.glu[TN_ACTIVATION_SILU](out, in_a, in_b, N);
    for (size_t i = 0; i < N; i++) {
        double g = in_a[i], want = g / (1 + exp(-g)) * (double)in_b[i];
        check_near("silu", i, out[i], want, 1e-6 * fabs(want));
    }
    ref.glu[TN_ACTIVATION_GELU](out, in_a, in_b, N);
    for (size_t i = 0; i < N; i++) { /* the published form; its 1 + tanh loses digits that ours keeps */
        double g = in_a[i], z = 0.7978845608028654 * (g + 0.044715 * g * g * g);
        double want = 0.5 * g * (1 + tanh(z)) * (double)in_b[i];
        check_near("gelu", i, out[i], want, 1e-5 * fabs(want) + 1e-14);
    }
    ref.glu[TN_ACTIVATION_GELU_ERF](out, in_a, in_b, N);
    for (size_t i = 0; i < N; i++) { /* the error of z * z in exp grows with it; below 1e-37 exp is 0 */
        double g = in_a[i], want = 0.5 * g * erfc(-g / sqrt(2)) * (double)in_b[i];
        check_near("gelu_erf", i, out[i], want, (6e-7 + 2e-7 * g * g) * fabs(want) + 1e-36);
    }
    ref.glu[TN_ACTIVATION_RELU2](out, in_a, NULL, N);
    for (size_t i = 0; i < N; i++) assert_true(out[i] == (in_a[i] > 0 ? in_a[i] * in_a[i] : 0));
    ref.glu[TN_ACTIVATION_RELU](out, in_a, in_b, N);
    for (size_t i = 0; i < N; i++) assert_true(out[i] == (in_a[i] > 0 ? in_a[i] * in_b[i] : 0));
}

static void test_softcap_is_a_scaled_tanh(void **state) {
    (void)state;
    for (size_t i = 0; i < N; i++) in_a[i] = rng_float() * 300.0f;
    ref.softcap(out, in_a, 30.0f, N);
    for (size_t i = 0; i < N; i++)
        check_near("softcap", i, out[i], 30 * tanh((double)in_a[i] / 30), 30 * 3e-7);
}

static void test_add_and_scale(void **state) {
    (void)state;
    fill_floats(in_a, N, ORDINARY);
    fill_floats(in_b, N, ORDINARY);
    ref.add(out, in_a, in_b, N);
    for (size_t i = 0; i < N; i++) assert_true(out[i] == in_a[i] + in_b[i]);
    ref.scale(out, in_a, 0.3f, N);
    for (size_t i = 0; i < N; i++) assert_true(out[i] == in_a[i] * 0.3f);
}

/* ---- Attention --------------------------------------------------------------------------------------------
 */

enum { DIM = 64, POSITIONS = 3 * TN_ATTN_CHUNK };
static float cache_k[POSITIONS * DIM], cache_v[POSITIONS * DIM];
static uint8_t stored_k[POSITIONS * DIM * sizeof(float)], stored_v[POSITIONS * DIM * sizeof(float)];

/* The textbook softmax over positions from..to-1. */
static void naive_attention(double *o, const float *q, size_t from, size_t to, double scale) {
    double scores[POSITIONS], largest = -INFINITY, sum = 0;
    for (size_t j = from; j < to; j++) {
        scores[j] = 0;
        for (size_t i = 0; i < DIM; i++) scores[j] += (double)q[i] * (double)cache_k[j * DIM + i];
        scores[j] *= scale;
        largest = fmax(largest, scores[j]);
    }
    for (size_t i = 0; i < DIM; i++) o[i] = 0;
    for (size_t j = from; j < to; j++) {
        double p = exp(scores[j] - largest);
        sum += p;
        for (size_t i = 0; i < DIM; i++) o[i] += p * (double)cache_v[j * DIM + i];
    }
    for (size_t i = 0; i < DIM; i++) o[i] /= sum;
}

/* All chunks, joined in order, for one query row that sees from..to-1. */
static void chunked_attention(tn_kv_type kv, float *o, const float *q, size_t from, size_t to, float scale) {
    const size_t stride = tn_dtype_row_bytes(tn_kv_dtype(kv), DIM);
    float m = -INFINITY, l = 0, m2, l2, o2[DIM];
    memset(o, 0, DIM * sizeof *o);
    for (size_t start = 0; start < POSITIONS; start += TN_ATTN_CHUNK) {
        size_t end = start + TN_ATTN_CHUNK;
        int32_t lo = (int32_t)((from < start ? start : from > end ? end : from) - start);
        int32_t hi = (int32_t)((to < start ? start : to > end ? end : to) - start);
        if (hi < lo) hi = lo;
        tn_attn_args args = {.q = q,
                             .q_stride = DIM,
                             .n_q = 1,
                             .lo = &lo,
                             .hi = &hi,
                             .head_dim = DIM,
                             .k = stored_k + start * stride,
                             .v = stored_v + start * stride,
                             .kv_stride = stride,
                             .scale = scale,
                             .m = &m2,
                             .l = &l2,
                             .o = o2,
                             .o_stride = DIM};
        ref.attn[kv](&args);
        if (hi == lo) assert_true(m2 == -INFINITY && l2 == 0);
        ref.attn_join(&m, &l, o, m2, l2, o2, DIM);
    }
    for (size_t i = 0; i < DIM; i++) o[i] /= l;
}

/* Fills a cache, and x with the floats that it holds: each off by half of what its type resolves at most. */
static void make_cache(tn_kv_type kv, float *x, uint8_t *stored) {
    const tn_dtype type = tn_kv_dtype(kv);
    float row[DIM];
    for (size_t j = 0; j < POSITIONS; j++, x += DIM, stored += tn_dtype_row_bytes(type, DIM)) {
        fill_floats(row, DIM, ORDINARY);
        ref.kv_store[kv](stored, row, DIM);
        ref.weight[type].dequantize(x, stored, DIM);
        for (size_t i = 0; i < DIM; i++) {
            double largest = 0;
            for (size_t b = i / 32 * 32; b < i / 32 * 32 + 32; b++)
                if (fabs((double)row[b]) > largest) largest = fabs((double)row[b]);
            const double step =
                kv == TN_KV_Q8_0  ? largest / 127 * 1.13 /* the scale is rounded too: 127 times 2^-11 of it */
                : kv == TN_KV_F16 ? fabs((double)row[i]) * 0x1p-10 + 0x1p-24
                                  : 0;
            check_near("cache", i, x[i], row[i], step / 2);
        }
    }
}

static void test_chunked_attention_equals_the_textbook_softmax(void **state) {
    (void)state;
    float q[DIM], o[DIM];
    double want[DIM];
    for (int turn = 0; turn < 300 * TN_KV_COUNT; turn++) {
        const tn_kv_type kv = (tn_kv_type)(turn % TN_KV_COUNT);
        make_cache(kv, cache_k, stored_k);
        make_cache(kv, cache_v, stored_v);
        fill_floats(q, DIM, ORDINARY);
        size_t to = 1 + rng_below(POSITIONS), from = turn % 2 ? rng_below(to) : 0;
        double largest = 0, scale = 0.125;
        for (size_t i = 0; i < POSITIONS * DIM;
             i++) { /* not fmax: gcc 12 for aarch64 fails on its reduction */
            double magnitude = fabs((double)cache_v[i]);
            if (magnitude > largest) largest = magnitude;
        }
        naive_attention(want, q, from, to, scale);
        chunked_attention(kv, o, q, from, to, (float)scale);
        for (size_t i = 0; i < DIM; i++) check_near("attention", i, o[i], want[i], 1e-4 * largest);
    }
}

static void test_join_with_nothing(void **state) {
    (void)state;
    float o[3] = {1, 2, 3}, o2[3] = {4, 5, 6}, m = 0.5f, l = 2.0f;
    ref.attn_join(&m, &l, o, -INFINITY, 0, o2, 3);
    assert_true(m == 0.5f && l == 2.0f && o[0] == 1 && o[2] == 3);
    m = -INFINITY, l = 0;
    ref.attn_join(&m, &l, o, 0.25f, 7.0f, o2, 3);
    assert_true(m == 0.25f && l == 7.0f && o[0] == 4 && o[2] == 6);
    ref.attn_join(&m, &l, o, -INFINITY, NAN, o2, 3); /* a chunk whose scores are all NaN */
    assert_true(isnan(l));
}

static int open_reference(void **state) {
    (void)state;
    seed_from_environment();
    tn_kernels_fill(&ref, TN_ISA_REF);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_within_two_ulps_of_libm),
        cmocka_unit_test(test_exp_at_its_edges),
        cmocka_unit_test(test_halves_widen_exactly),
        cmocka_unit_test(test_floats_round_to_the_nearest_half),
        cmocka_unit_test(test_small_formats_by_hand),
        cmocka_unit_test(test_types_are_found_by_their_number),
        cmocka_unit_test(test_activation_rows_do_not_overlap),
        cmocka_unit_test(test_quantized_activations_keep_their_promises),
        cmocka_unit_test(test_quantization_rounds_ties_to_even),
        cmocka_unit_test(test_products_equal_those_of_dequantized_values),
        cmocka_unit_test(test_float_products_join_their_stripes_as_written),
        cmocka_unit_test(test_rms_norm_by_its_formula),
        cmocka_unit_test(test_layer_norm_by_its_formula),
        cmocka_unit_test(test_rope_rotates_each_pair),
        cmocka_unit_test(test_gated_units_by_their_formulas),
        cmocka_unit_test(test_softcap_is_a_scaled_tanh),
        cmocka_unit_test(test_add_and_scale),
        cmocka_unit_test(test_chunked_attention_equals_the_textbook_softmax),
        cmocka_unit_test(test_join_with_nothing),
    };
    return cmocka_run_group_tests(tests, open_reference, NULL);
}
