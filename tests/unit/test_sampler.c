/* The sampler against distributions worked by hand, and draws against their probabilities. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/text/sampler.h"

enum { N_DRAWS = 20000, MAX_VOCAB = 64 };

static const tn_sampler_params plain = {
    .seed = 7, .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .repeat_last_n = 0};

static tn_sampler *make(tn_sampler_params params, uint32_t n_vocab) {
    tn_sampler *sampler = NULL;
    tn_error err = {0};
    if (tn_sampler_new(&params, n_vocab, &sampler, &err) != TN_OK) fail_msg("%s", err.message);
    return sampler;
}

static int32_t pick(tn_sampler *sampler, const float *logits) {
    int32_t token;
    assert_int_equal(tn_sampler_pick(sampler, logits, &token, NULL), TN_OK);
    return token;
}

/* Draws and compares the counts with the probabilities (0: never drawn) by Pearson's chi-square at 1 in 10^5
 * or less. */
static void expect_distribution(tn_sampler *sampler, const float *logits, const double *p, uint32_t n) {
    uint32_t count[MAX_VOCAB] = {0};
    for (int i = 0; i < N_DRAWS; i++) count[pick(sampler, logits)]++;
    double chi2 = 0, freedom = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] == 0) {
            if (count[i]) fail_msg("token %u drawn %u times, expected never", i, count[i]);
            continue;
        }
        double expected = p[i] * N_DRAWS;
        chi2 += (count[i] - expected) * (count[i] - expected) / expected;
        freedom++;
    }
    /* Mean f, variance 2f; the tail beyond f + 5 sqrt(2f) + 15 is below 1e-5 for every f up to 63. */
    if (chi2 > freedom + 5 * sqrt(2 * freedom) + 15)
        fail_msg("chi-square %g with %g degrees of freedom", chi2, freedom);
}

static void set_logits(float *logits, const double *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) logits[i] = p[i] > 0 ? (float)(log(p[i]) + 3.25) : -INFINITY;
}

static const double five[5] = {0.1, 0.4, 0.05, 0.25, 0.2};

static void expect_filtered(tn_sampler_params params, const double *want) {
    float logits[5], before[5];
    double p[5], sum = 0;
    set_logits(logits, five, 5);
    memcpy(before, logits, sizeof logits);
    for (int i = 0; i < 5; i++) sum += want[i];
    for (int i = 0; i < 5; i++) p[i] = want[i] / sum;
    tn_sampler *sampler = make(params, 5);
    expect_distribution(sampler, logits, p, 5);
    assert_memory_equal(logits, before, sizeof logits);
    tn_sampler_free(sampler);
}

static void draws_follow_the_softmax(void **state) {
    (void)state;
    expect_filtered(plain, five);
    for (uint64_t seed = 0; seed < 5; seed++) {
        tn_sampler_params params = plain;
        params.seed = seed;
        expect_filtered(params, five);
    }
}

static void temperature_raises_probabilities_to_its_inverse(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.temperature = 0.5f;
    double squared[5], root[5];
    for (int i = 0; i < 5; i++) squared[i] = five[i] * five[i], root[i] = sqrt(five[i]);
    expect_filtered(params, squared);
    params.temperature = 2;
    expect_filtered(params, root);
    params.temperature = 1e-38f;
    expect_filtered(params, (double[]){0, 1, 0, 0, 0});
    params.temperature = 1e38f;
    expect_filtered(params, (double[]){1, 1, 1, 1, 1});
}

static void top_k_keeps_the_best_k(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.top_k = 1;
    expect_filtered(params, (double[]){0, 0.4, 0, 0, 0});
    params.top_k = 3;
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0.2});
    params.top_k = 5;
    expect_filtered(params, five);
    params.top_k = INT32_MAX;
    expect_filtered(params, five);
}

static void top_p_keeps_the_fewest_that_reach_p(void **state) {
    (void)state;
    static const struct {
        float p;
        double kept[5];
    } cases[] = {{1e-6f, {0, 0.4, 0, 0, 0}},          {0.39f, {0, 0.4, 0, 0, 0}},
                 {0.41f, {0, 0.4, 0, 0.25, 0}},       {0.64f, {0, 0.4, 0, 0.25, 0}},
                 {0.66f, {0, 0.4, 0, 0.25, 0.2}},     {0.86f, {0.1, 0.4, 0, 0.25, 0.2}},
                 {0.96f, {0.1, 0.4, 0.05, 0.25, 0.2}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_sampler_params params = plain;
        params.top_p = cases[i].p;
        expect_filtered(params, cases[i].kept);
    }
    /* After top-k the probabilities count anew: of 0.4 0.25 0.2 the first two are 0.76. */
    tn_sampler_params params = plain;
    params.top_k = 3;
    params.top_p = 0.75f;
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0});
    params.top_p = 0.77f;
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0.2});
    /* The temperature comes last and does not widen the choice. */
    params.top_k = 0;
    params.top_p = 0.41f;
    params.temperature = 1e38f;
    expect_filtered(params, (double[]){0, 1, 0, 1, 0});
}

static void min_p_is_relative_to_the_best(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.min_p = 0.49f;
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0.2});
    params.min_p = 0.51f;
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0});
    params.min_p = 1;
    expect_filtered(params, (double[]){0, 0.4, 0, 0, 0});
    params.min_p = 0.2f; /* with top_p, which drops 0.1 */
    params.top_p = 0.8f;
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0.2});
}

static void equals_are_kept_by_ascending_id(void **state) {
    (void)state;
    const float logits[6] = {1, 2, -0.0f, 2, 2, 0.0f};
    tn_sampler_params params = plain;
    params.top_k = 2;
    tn_sampler *sampler = make(params, 6);
    expect_distribution(sampler, logits, (double[]){0, 0.5, 0, 0.5, 0, 0}, 6);
    tn_sampler_free(sampler);
    params.top_k = 0;
    params.top_p = 0.5f; /* each 2 has 0.271 of the sum */
    sampler = make(params, 6);
    expect_distribution(sampler, logits, (double[]){0, 0.5, 0, 0.5, 0, 0}, 6);
    tn_sampler_free(sampler);
    const float zeros[3] = {-0.0f, 0.0f, -0.0f};
    params.top_k = 1;
    sampler = make(params, 3);
    expect_distribution(sampler, zeros, (double[]){1, 0, 0}, 3);
    tn_sampler_free(sampler);
}

static int by_descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Keeping by histogram against a full sort, on a large vocabulary of floats of every size and sign. */
static void top_k_on_a_large_vocabulary_equals_a_sort(void **state) {
    (void)state;
    enum { N = 50000 };
    static float logits[N], sorted[N];
    uint64_t r = 1;
    for (int i = 0; i < N; i++) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        double unit = (double)(r >> 11) / 9007199254740992.0 - 0.5;
        logits[i] = (float)(i % 3 == 0 ? unit * 20 : i % 3 == 1 ? unit * 1e-3 : floor(unit * 9));
    }
    memcpy(sorted, logits, sizeof logits);
    qsort(sorted, N, sizeof *sorted, by_descending);
    static const int32_t ks[] = {1, 2, 40, 1000, 16667, 33333, 49999};
    for (size_t c = 0; c < sizeof ks / sizeof *ks; c++) {
        tn_sampler_params params = plain;
        params.top_k = ks[c];
        params.temperature = 1e30f; /* all that are kept alike, so that the least of them shows */
        tn_sampler *sampler = make(params, N);
        float least = INFINITY;
        for (int i = 0; i < 2000; i++) {
            float logit = logits[pick(sampler, logits)];
            if (logit < least) least = logit;
        }
        assert_true(least >= sorted[ks[c] - 1]);
        if (ks[c] <= 40)
            assert_true(least == sorted[ks[c] - 1]);
        else
            assert_true(least <= sorted[ks[c] - ks[c] / 100]);
        tn_sampler_free(sampler);
    }
}

static void greedy_takes_the_lowest_id_among_equals(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.temperature = 0;
    params.top_k = 1;
    params.top_p = 0.1f;
    tn_sampler *sampler = make(params, 5);
    assert_int_equal(pick(sampler, (float[]){1, 3, 3, -1, 3}), 1);
    assert_int_equal(pick(sampler, (float[]){-INFINITY, -INFINITY, -5, -5, -INFINITY}), 2);
    assert_int_equal(pick(sampler, (float[]){-0.0f, 0.0f, 0, 0, 0}), 0);
    tn_sampler_free(sampler);
}

static void penalty_divides_positive_and_multiplies_negative_logits_once(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.temperature = 0;
    params.repeat_penalty = 2;
    params.repeat_last_n = 3;
    tn_sampler *sampler = make(params, 4);
    const float logits[4] = {4, 3, 1.5f, -1};
    assert_int_equal(pick(sampler, logits), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(tn_sampler_accept(sampler, 0, NULL), TN_OK);
    assert_int_equal(pick(sampler, logits), 1); /* 4/2 = 2, not 4/4 */
    assert_int_equal(tn_sampler_accept(sampler, 1, NULL), TN_OK);
    assert_int_equal(pick(sampler, logits), 0); /* 2, 1.5, 1.5 */
    assert_int_equal(tn_sampler_accept(sampler, 2, NULL), TN_OK);
    assert_int_equal(tn_sampler_accept(sampler, 2, NULL), TN_OK);
    assert_int_equal(pick(sampler, logits), 0); /* the window is 1 2 2: 0 is free again */
    assert_int_equal(tn_sampler_accept(sampler, 2, NULL), TN_OK);
    assert_int_equal(pick(sampler, (float[]){-5, -0.9f, -0.5f, -5}), 1); /* -0.5 * 2 = -1 */
    assert_int_equal(tn_sampler_accept(sampler, 4, NULL), TN_ERR_ARG);
    assert_int_equal(tn_sampler_accept(sampler, -1, NULL), TN_ERR_ARG);
    tn_sampler_free(sampler);

    params.repeat_last_n = -1; /* never forgotten */
    sampler = make(params, 4);
    assert_int_equal(tn_sampler_accept(sampler, 0, NULL), TN_OK);
    for (int i = 0; i < 1000; i++) assert_int_equal(tn_sampler_accept(sampler, 3, NULL), TN_OK);
    assert_int_equal(pick(sampler, logits), 1);
    tn_sampler_free(sampler);

    params.repeat_last_n = 0; /* none looked at */
    sampler = make(params, 4);
    assert_int_equal(tn_sampler_accept(sampler, 0, NULL), TN_OK);
    assert_int_equal(pick(sampler, logits), 0);
    tn_sampler_free(sampler);
}

static void a_seed_gives_one_sequence(void **state) {
    (void)state;
    float logits[32] = {0};
    tn_sampler_params other = plain;
    other.seed = 8;
    tn_sampler *a = make(plain, 32), *b = make(plain, 32), *c = make(other, 32);
    int n_same = 0;
    for (int i = 0; i < 1000; i++) {
        int32_t token = pick(a, logits);
        assert_int_equal(token, pick(b, logits));
        n_same += token == pick(c, logits);
    }
    assert_in_range(n_same, 5, 70); /* 1000/32 = 31 by chance */
    tn_sampler_free(a);
    tn_sampler_free(b);
    tn_sampler_free(c);
    tn_sampler_free(NULL);
}

static void logits_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    for (int greedy = 0; greedy < 2; greedy++) {
        tn_sampler_params params = plain;
        params.temperature = greedy ? 0.0f : 1.0f;
        tn_sampler *sampler = make(params, 3);
        tn_error err = {0};
        int32_t token;
        assert_int_equal(tn_sampler_pick(sampler, (float[]){1, NAN, 2}, &token, &err), TN_ERR_NUMERIC);
        assert_non_null(strstr(err.message, "token 1"));
        assert_int_equal(tn_sampler_pick(sampler, (float[]){1, 2, INFINITY}, &token, &err), TN_ERR_NUMERIC);
        assert_int_equal(tn_sampler_pick(sampler, (float[]){-INFINITY, -INFINITY, -INFINITY}, &token, &err),
                         TN_ERR_NUMERIC);
        assert_int_equal(pick(sampler, (float[]){-INFINITY, -3e38f, -INFINITY}), 1);
        assert_int_equal(pick(sampler, (float[]){3e38f, -3e38f, 0}), 0);
        tn_sampler_free(sampler);
    }
}

static void parameters_out_of_range_are_named(void **state) {
    (void)state;
    struct {
        tn_sampler_params params;
        const char *name;
    } cases[16];
    size_t n = 0;
#define CASE(field, value)                                                                                   \
    (cases[n].params = plain, cases[n].params.field = (value), cases[n++].name = #field)
    CASE(temperature, -1), CASE(temperature, NAN), CASE(temperature, INFINITY), CASE(top_k, -1),
        CASE(top_p, 0);
    CASE(top_p, 1.5f), CASE(top_p, NAN), CASE(min_p, -0.1f), CASE(min_p, 1.1f), CASE(min_p, NAN);
    CASE(repeat_penalty, 0), CASE(repeat_penalty, INFINITY), CASE(repeat_penalty, NAN),
        CASE(repeat_last_n, -2);
#undef CASE
    for (size_t i = 0; i < n; i++) {
        tn_sampler *sampler;
        tn_error err = {0};
        assert_int_equal(tn_sampler_new(&cases[i].params, 5, &sampler, &err), TN_ERR_ARG);
        assert_null(sampler);
        assert_non_null(strstr(err.message, cases[i].name));
    }
    tn_sampler *sampler;
    assert_int_equal(tn_sampler_new(&plain, 0, &sampler, NULL), TN_ERR_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(temperature_raises_probabilities_to_its_inverse),
        cmocka_unit_test(top_k_keeps_the_best_k),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_p),
        cmocka_unit_test(min_p_is_relative_to_the_best),
        cmocka_unit_test(equals_are_kept_by_ascending_id),
        cmocka_unit_test(top_k_on_a_large_vocabulary_equals_a_sort),
        cmocka_unit_test(greedy_takes_the_lowest_id_among_equals),
        cmocka_unit_test(penalty_divides_positive_and_multiplies_negative_logits_once),
        cmocka_unit_test(a_seed_gives_one_sequence),
        cmocka_unit_test(logits_that_are_no_numbers_are_refused),
        cmocka_unit_test(parameters_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
