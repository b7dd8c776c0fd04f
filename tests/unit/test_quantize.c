/* Quantizers against exhaustive searches, formulas and themselves on other instruction sets; recipes by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "src/quantize/quantize.h"
#include "src/quantize/recipe.h"

enum { N = 1024, MAX_BYTES = 4 * N };

static tn_kernels kernels;

static int fill_kernels(void **state) {
    (void)state;
    tn_kernels_fill(&kernels, TN_ISA_REF);
    return 0;
}

/* xorshift64*; a seed gives the same numbers anywhere. */
static double uniform(uint64_t *s) {
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return (double)((*s * 0x2545f4914f6cdd1d) >> 11) * 0x1p-53;
}

static double normal(uint64_t *s) {
    return sqrt(-2 * log(1 - uniform(s))) * cos(6.283185307179586 * uniform(s));
}

/* Normal numbers, some of them large. */
static void fill_row(float *x, size_t n, uint64_t seed) {
    uint64_t s = seed * 0x9e3779b97f4a7c15 + 1;
    for (size_t i = 0; i < n; i++) x[i] = (float)(0.02 * normal(&s) * (uniform(&s) < 0.02 ? 6 : 1));
}

static void fill_weights(float *w, size_t n, uint64_t seed) {
    uint64_t s = seed * 0x9e3779b97f4a7c15 + 7;
    for (size_t i = 0; i < n; i++) w[i] = (float)exp(1.5 * normal(&s));
}

static bool searched(tn_dtype t) {
    return tn_can_quantize(t) && tn_dtypes[t].block_elems > 1;
}

static double squared_error(const float *x, const float *y, const float *w, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (w ? w[i] : 1) * ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return sum;
}

/* Makes blocks of x and takes them apart again. */
static void round_trip(tn_dtype t, const float *x, const float *w, size_t n, float *y) {
    uint8_t blocks[MAX_BYTES];
    tn_quantize_row(t, x, n, w, blocks);
    kernels.weight[t].dequantize(y, blocks, n);
}

/* ---- Every type ---- */

static void every_instruction_set_makes_the_same_bytes(void **state) {
    (void)state;
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (!tn_can_quantize((tn_dtype)t)) continue;
        for (uint64_t seed = 0; seed < 12; seed++) {
            float x[N], w[N];
            uint8_t a[MAX_BYTES] = {0}, b[MAX_BYTES] = {0};
            fill_row(x, N, seed);
            fill_weights(w, N, seed);
            if (seed % 3 == 0) memset(x, 0, 200 * sizeof *x);
            if (seed % 4 == 1) x[77] = 1e30F, x[500] = 1e-30F;
            const float *weights = seed % 2 ? w : NULL;
            tn_quantizers_for(TN_ISA_REF)->row[t](x, N, weights, a);
            tn_quantizers_for(TN_ISA_AVX2)->row[t](x, N, weights, b);
            if (memcmp(a, b, sizeof a) != 0) fail_msg("%s differs, seed %d", tn_dtypes[t].name, (int)seed);
        }
    }
}

static void extremes_stay_finite(void **state) {
    (void)state;
    static const float values[] = {0, 0x1p-149F, 1e-38F, 1e-8F, 65504, -65504, 1e30F, -3e38F};
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (!searched((tn_dtype)t) || t == TN_DTYPE_Q8_0) continue;
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            for (int pattern = 0; pattern < 4; pattern++) {
                float x[256], y[256], w[256];
                fill_row(x, 256, v);
                for (int i = 0; i < 256; i++) {
                    if (pattern == 0 || (pattern == 1 && i % 37 == 0)) x[i] = values[v];
                    if (pattern == 2) x[i] = i % 2 ? values[v] : -values[v];
                    w[i] = pattern == 3 ? 0 : i % 3 ? 1e30F : 0;
                }
                round_trip((tn_dtype)t, x, w, 256, y);
                for (int i = 0; i < 256; i++)
                    if (!isfinite(y[i]))
                        fail_msg("%s: %g became %g", tn_dtypes[t].name, (double)x[i], (double)y[i]);
            }
        }
    }
}

static void zeros_stay_zeros(void **state) {
    (void)state;
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (!tn_can_quantize((tn_dtype)t)) continue;
        float x[256] = {0}, y[256];
        round_trip((tn_dtype)t, x, NULL, 256, y);
        for (int i = 0; i < 256; i++) assert_true(y[i] == 0);
    }
}

/* What was made by a quantizer can be made again: its numbers lie on a grid that the search must find. */
static void quantizing_again_loses_almost_nothing(void **state) {
    (void)state;
    int n_failed = 0;
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (!searched((tn_dtype)t)) continue;
        double lost = 0, lost_again = 0;
        for (uint64_t seed = 100; seed < 110; seed++) {
            float x[N], y[N], z[N];
            fill_row(x, N, seed);
            round_trip((tn_dtype)t, x, NULL, N, y);
            round_trip((tn_dtype)t, y, NULL, N, z);
            lost += squared_error(x, y, NULL, N);
            lost_again += squared_error(y, z, NULL, N);
        }
        /* The search goes over scales; where these lead to other points of a grid, it may miss the ones that x was made of. */
        const bool grid = strncmp(tn_dtypes[t].name, "IQ", 2) == 0 && tn_dtypes[t].name[2] < '4';
        if (lost_again <= (grid ? 0.2 : 0.05) * lost) continue;
        print_error("%s: lost %g, again %g\n", tn_dtypes[t].name, lost, lost_again);
        n_failed++;
    }
    assert_int_equal(n_failed, 0);
}

static void importance_moves_the_error_elsewhere(void **state) {
    (void)state;
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (!searched((tn_dtype)t) || t == TN_DTYPE_Q8_0) continue;
        double with = 0, without = 0;
        for (uint64_t seed = 0; seed < 16; seed++) {
            float x[N], w[N], y[N], z[N];
            fill_row(x, N, seed);
            fill_weights(w, N, seed);
            round_trip((tn_dtype)t, x, w, N, y);
            round_trip((tn_dtype)t, x, NULL, N, z);
            with += squared_error(x, y, w, N);
            without += squared_error(x, z, w, N);
        }
        if (with > 0.99 * without)
            fail_msg("%s: %g with importance, %g without", tn_dtypes[t].name, with, without);
    }
}

/* ---- Against exhaustive search ---- */

/* The least error of codes from low to high with the best of many scales; each scale's codes are the nearest. */
static double best_scale_error(const float *x, const float *w, int n, int low, int high) {
    double largest = 0, best = INFINITY;
    for (int i = 0; i < n; i++) largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
    for (int k = -3000; k <= 3000; k++) {
        const double d = largest / low * 3 * k / 3000;
        double sum = 0;
        for (int i = 0; i < n && d != 0; i++) {
            double q = rint(x[i] / d);
            q = q < low ? low : q > high ? high : q;
            sum += w[i] * (x[i] - d * q) * (x[i] - d * q);
        }
        if (d != 0 && sum < best) best = sum;
    }
    return best;
}

/* The same with an offset: all pairs of ends on a grid. */
static double best_range_error(const float *x, const float *w, int n, int high) {
    double lo = x[0], hi = x[0], best = INFINITY;
    for (int i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    for (int a = -10; a < 50; a++) {
        for (int b = -10; b < 50; b++) {
            const double step = (hi - lo) / high / 20, o = lo + a * step, d = (hi - b * step - o) / high;
            double sum = 0;
            for (int i = 0; i < n; i++) {
                double q = rint((x[i] - o) / d);
                q = q < 0 ? 0 : q > high ? high : q;
                sum += w[i] * (x[i] - o - d * q) * (x[i] - o - d * q);
            }
            best = sum < best ? sum : best;
        }
    }
    return best;
}

typedef struct bound {
    tn_dtype type;
    int n, low, high; /* sub-block and codes; low 0: with an offset */
    double factor;    /* of the exhaustive search's error that ours may reach */
} bound;

/* The sub-blocks of K types share factors of few bits, and so cannot reach what each could alone. */
static void errors_are_near_those_of_exhaustive_search(void **state) {
    (void)state;
    static const bound bounds[] = {
        {TN_DTYPE_Q4_0, 32, -8, 7, 1.02},   {TN_DTYPE_Q5_0, 32, -16, 15, 1.03},
        {TN_DTYPE_Q4_1, 32, 0, 15, 1.06},   {TN_DTYPE_Q5_1, 32, 0, 31, 1.06},
        {TN_DTYPE_Q3_K, 16, -4, 3, 1.05},   {TN_DTYPE_Q6_K, 16, -32, 31, 1.4},
        {TN_DTYPE_Q4_K, 32, 0, 15, 1.1},    {TN_DTYPE_Q5_K, 32, 0, 31, 1.15},
        {TN_DTYPE_Q2_K, 16, 0, 3, 1.35},    {TN_DTYPE_TQ2_0, 256, -1, 1, 1.01},
        {TN_DTYPE_TQ1_0, 256, -1, 1, 1.01},
    };
    int n_failed = 0;
    for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
        const bound *b = &bounds[k];
        double ours = 0, least = 0;
        for (uint64_t seed = 0; seed < 2; seed++) {
            float x[256], y[256], w[256];
            fill_row(x, 256, 50 + seed);
            fill_weights(w, 256, seed);
            for (int i = 0; i < 256 && seed == 0; i++) w[i] = 1;
            round_trip(b->type, x, seed ? w : NULL, 256, y);
            ours += squared_error(x, y, w, 256);
            for (int i = 0; i < 256; i += b->n)
                least += b->low ? best_scale_error(x + i, w + i, b->n, b->low, b->high)
                                : best_range_error(x + i, w + i, b->n, b->high);
        }
        if (ours <= b->factor * least && ours > 0.9 * least) continue;
        print_error("%s: %g, exhaustive search %g\n", tn_dtypes[b->type].name, ours, least);
        n_failed++;
    }
    assert_int_equal(n_failed, 0);
}

static void ternary_numbers_come_back(void **state) {
    (void)state;
    float x[256], y[256];
    for (int i = 0; i < 256; i++) x[i] = 0.375F * (float)(i * 7 % 3 - 1);
    round_trip(TN_DTYPE_TQ1_0, x, NULL, 256, y);
    assert_memory_equal(x, y, sizeof x);
    round_trip(TN_DTYPE_TQ2_0, x, NULL, 256, y);
    assert_memory_equal(x, y, sizeof x);
}

/* ---- Recipes ---- */

static tn_status load_recipe(const char *text, tn_arena *arena, tn_recipe *out, tn_error *err) {
    char path[] = "/tmp/tern-recipe-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    const tn_status status = tn_recipe_load(path, arena, out, err);
    unlink(path);
    return status;
}

static void a_recipe_prints_as_it_was_read(void **state) {
    (void)state;
    static const char text[] =
        "type: Q4_K\n"
        "file_type: 15\n"
        "output: Q6_K\n"
        "embedding: Q5_K\n"
        "rules:\n"
        "  - {tensors: [\"*attn_v*\", \"a?\"], layers: \"0-3, first 1/8, every 3 after 1/8\", "
        "imatrix: true, min_gqa: 4, experts: 8, n_layers: 80, type: Q8_0}\n"
        "  - {tensors: [\"*\"], type: Q3_K}\n";
    tn_arena arena = {0};
    tn_recipe recipe;
    tn_error err = {0};
    if (load_recipe(text, &arena, &recipe, &err)) fail_msg("%s", err.message);
    char *printed = tn_recipe_text(&recipe);
    assert_string_equal(printed, text);
    free(printed);
    tn_arena_free(&arena);
}

static void a_pattern_prints_as_what_is_read_the_same(void **state) {
    (void)state;
    static const char *const patterns[] = {
        "a\"b", "\\", "caf\xC3\xA9*", "two\nlines ", "\xE2\x80\xA8\x7F\xF0\x9F\x99\x82", "#: {x}"};
    static const char text[] = "type: Q4_K\nrules: [{tensors: ['a\"b', '\\', caf\xC3\xA9*, \"two\\nlines \", "
                               "\"\\u2028\\x7F\xF0\x9F\x99\x82\", '#: {x}'], type: Q8_0}]\n";
    tn_arena arena = {0};
    tn_recipe recipe;
    tn_error err = {0};
    if (load_recipe(text, &arena, &recipe, &err)) fail_msg("%s", err.message);
    char *printed = tn_recipe_text(&recipe);
    if (load_recipe(printed, &arena, &recipe, &err)) fail_msg("%s: %s", err.message, printed);
    assert_int_equal(recipe.rules[0].n_patterns, sizeof patterns / sizeof *patterns);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        assert_string_equal(recipe.rules[0].patterns[i], patterns[i]);
    free(printed);
    tn_arena_free(&arena);
}

/* Of a model whose embedding is the output too the first of the two rules decides. */
static void an_embedding_before_the_output_of_the_base_stays_there(void **state) {
    (void)state;
    tn_arena arena = {0};
    tn_recipe recipe, again;
    tn_error err = {0};
    if (load_recipe("base: Q4_0\nembedding: F16\n", &arena, &recipe, &err)) fail_msg("%s", err.message);
    char *printed = tn_recipe_text(&recipe);
    if (load_recipe(printed, &arena, &again, &err)) fail_msg("%s", err.message);
    free(printed);
    const tn_rule *first = again.rules;
    while (first->role != TN_RULE_OUTPUT &&
           (first->role != TN_RULE_PATTERNS || strcmp(first->patterns[0], "token_embd.weight") != 0))
        first++;
    assert_int_equal(first->role, TN_RULE_PATTERNS);
    assert_int_equal(first->type, TN_DTYPE_F16);
    assert_int_equal(again.n_rules, recipe.n_rules);
    tn_arena_free(&arena);
}

static void a_base_lends_its_rules(void **state) {
    (void)state;
    tn_arena arena = {0};
    tn_recipe recipe, base;
    tn_error err = {0};
    if (load_recipe("base: Q4_K_M\nrules: [{tensors: x, type: F16}]\n", &arena, &recipe, &err))
        fail_msg("%s", err.message);
    assert_int_equal(tn_recipe_builtin("Q4_K_M", &arena, &base, &err), TN_OK);
    assert_int_equal(recipe.type, TN_DTYPE_Q4_K);
    assert_int_equal(recipe.n_rules, base.n_rules + 1);
    assert_int_equal(recipe.rules[0].type, TN_DTYPE_F16);
    tn_arena_free(&arena);
}

static void bad_recipes_are_errors_with_a_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "is empty"},
        {"type: [", "1:"},
        {"- 1", "expected a mapping"},
        {"rules: []", "field 'type'"},
        {"type: Q9_X", "not a type that can be made: 'Q9_X'"},
        {"type: I32", "not a type that can be made"},
        {"type: Q4_K\ntype: Q4_K", "given twice: 'type'"},
        {"type: Q4_K\nwhat: 1", ":2:1: unknown field 'what'"},
        {"type: Q4_K\nrules: 3", "list of rules"},
        {"type: Q4_K\nrules: [{type: Q4_0}]", "field 'tensors'"},
        {"type: Q4_K\nrules: [{tensors: x}]", "field 'type'"},
        {"type: Q4_K\nrules: [{tensors: [], type: Q4_0, layers: x}]", "not layers: 'x'"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '5-3'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'first 1/0'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'every 0'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1,,2'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, min_gqa: -1}]", "expected a number"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, imatrix: 1}]", "true or false"},
        {"ladder: [Q4_K, Q5_K]", "without target"},
        {"target_bpw: 4\ntarget_size: 1G", "one too many"},
        {"target_bpw: 40", "bits a weight"},
        {"target_bpw: -1", "bits a weight"},
        {"target_size: 4X", "such as 90M"},
        {"target_size: 4M\nladder: [Q4_K]", "2 to 16 types"},
        {"base: Q4_K_X", "expected one of"},
        {"base: []", "name of a built-in"},
        {"type: Q4_K\n[x]: 1", ":2:1: unknown field"},
        {"type: \"Q4_K\\0\"", "expected the name of a type"},
        {"target_bpw: 4\nladder: 3", "2 to 16 types"},
        {"target_bpw: 4\nladder: [Q4_K, x]", "not a type that can be made: 'x'"},
        {"target_bpw: ''", "bits a weight"},
        {"target_bpw: []", "bits a weight"},
        {"target_bpw: 0", "bits a weight"},
        {"target_size: 4MM", "such as 90M"},
        {"target_size: 1000000000000G", "such as 90M"},
        {"type: Q4_K\nfile_type: 1234567890", "expected a number"},
        {"type: Q4_K\nfile_type: ''", "expected a number"},
        {"type: Q4_K\nfile_type: []", "expected a number"},
        {"type: Q4_K\noutput: []", "field 'type'"},
        {"type: Q4_K\nrules: [{tensors: [[]], type: Q4_0}]", "field 'tensors'"},
        {"type: Q4_K\nrules: [{tensors: [''], type: Q4_0}]", "field 'tensors'"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, imatrix: []}]", "true or false"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: []}]", "expected layers such as"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'last x'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'first 9/8'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'first 1'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'first 1/x'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'every x'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: 'every 2 after x'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1/x-1/2'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1/0-1/2'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1/2'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1-x'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1234567'}]", "not layers"},
        {"type: Q4_K\nrules: [{tensors: x, type: Q4_0, layers: '1 2'}]", "not layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_arena arena = {0};
        tn_recipe recipe;
        tn_error err = {0};
        assert_int_not_equal(load_recipe(cases[i].text, &arena, &recipe, &err), TN_OK);
        if (!strstr(err.message, cases[i].why)) fail_msg("'%s' is not in: %s", cases[i].why, err.message);
        tn_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_makes_the_same_bytes),
        cmocka_unit_test(extremes_stay_finite),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(quantizing_again_loses_almost_nothing),
        cmocka_unit_test(importance_moves_the_error_elsewhere),
        cmocka_unit_test(errors_are_near_those_of_exhaustive_search),
        cmocka_unit_test(ternary_numbers_come_back),
        cmocka_unit_test(a_recipe_prints_as_it_was_read),
        cmocka_unit_test(a_pattern_prints_as_what_is_read_the_same),
        cmocka_unit_test(an_embedding_before_the_output_of_the_base_stays_there),
        cmocka_unit_test(a_base_lends_its_rules),
        cmocka_unit_test(bad_recipes_are_errors_with_a_place),
    };
    return cmocka_run_group_tests(tests, fill_kernels, NULL);
}
