/* The sampler against distributions worked by hand, and draws against their probabilities. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/text/sampler.h"
#include "tests/unit/vocab_fixture.h"

enum { N_DRAWS = 20000, MAX_VOCAB = 64 };

/* Every stage off. */
static const tn_sampler_params plain = {
    .seed = 7, .temperature = 1, .top_p = 1, .typical_p = 1, .repeat_penalty = 1, .temperature_exponent = 1};

static tn_sampler *make(tn_sampler_params params, uint32_t n_vocab) {
    tn_sampler *sampler = NULL;
    tn_error err = {0};
    if (tn_sampler_new(&params, NULL, n_vocab, &sampler, &err) != TN_OK) fail_msg("%s", err.message);
    return sampler;
}

static int32_t pick(tn_sampler *sampler, const float *logits) {
    int32_t token;
    assert_int_equal(tn_sampler_pick(sampler, logits, NULL, &token, NULL), TN_OK);
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
        for (int i = 0; i < 600; i++) {
            float logit = logits[pick(sampler, logits)];
            if (logit < least) least = logit;
        }
        assert_true(least >= sorted[ks[c] - 1]);
        if (ks[c] <= 40)
            assert_true(least == sorted[ks[c] - 1]);
        else
            assert_true(least <= sorted[ks[c] - ks[c] / 40]);
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

/* ---- The further stages ---------------------------------------------------------------------------------------- */

static void presence_and_frequency_are_taken_off(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.repeat_last_n = 4;
    params.presence_penalty = 0.5f;
    params.frequency_penalty = 0.25f;
    float logits[5];
    double p[5], sum = 0;
    set_logits(logits, five, 5);
    tn_sampler *sampler = make(params, 5);
    const int32_t text[] = {4, 1, 1, 3, 1}; /* the 4 is no longer looked back on */
    for (int i = 0; i < 5; i++) assert_int_equal(tn_sampler_accept(sampler, text[i], NULL), TN_OK);
    const double off[5] = {0, 0.5 + 3 * 0.25, 0, 0.5 + 0.25, 0};
    for (int i = 0; i < 5; i++) sum += p[i] = five[i] * exp(-off[i]);
    for (int i = 0; i < 5; i++) p[i] /= sum;
    expect_distribution(sampler, logits, p, 5);
    tn_sampler_free(sampler);
}

/* sigma of the logits 0 1 2 3 4 is sqrt(2): within 1 sigma of the best are 3 and 4, within 1.5 also 2. */
static void top_n_sigma_keeps_within_deviations_of_the_best(void **state) {
    (void)state;
    const float logits[7] = {2, -INFINITY, 0, 4, 1, 3, -INFINITY};
    const struct {
        float n, temperature;
        bool kept[7];
    } cases[] = {{1, 1, {0, 0, 0, 1, 0, 1, 0}},
                 {1.5f, 1, {1, 0, 0, 1, 0, 1, 0}},
                 {1.5f, 3, {1, 0, 0, 1, 0, 1, 0}}, /* whatever the temperature, and wherever it stands */
                 {0.5f, 1, {0, 0, 0, 1, 0, 0, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int first = 0; first < 2; first++) {
            tn_sampler_params params = plain;
            params.top_n_sigma = cases[i].n;
            params.temperature = cases[i].temperature;
            params.order = first ? "temperature,top-n-sigma" : "top-n-sigma,temperature";
            double p[7], sum = 0;
            for (int j = 0; j < 7; j++)
                sum += p[j] = cases[i].kept[j] ? exp((double)logits[j] / (double)cases[i].temperature) : 0;
            for (int j = 0; j < 7; j++) p[j] /= sum;
            tn_sampler *sampler = make(params, 7);
            expect_distribution(sampler, logits, p, 7);
            tn_sampler_free(sampler);
        }
}

/* By formula: -log p less the entropy, sorted, until the sum is reached. */
static void typical_keeps_the_nearest_to_the_entropy(void **state) {
    (void)state;
    static const double p[5] = {0.5, 0.2, 0.15, 0.1, 0.05};
    for (float share = 0.05f; share < 1; share += 0.11f) {
        double entropy = 0, kept[5] = {0}, sum = 0;
        for (int i = 0; i < 5; i++) entropy -= p[i] * log(p[i]);
        while (sum < (double)share) {
            int nearest = -1;
            for (int i = 0; i < 5; i++)
                if (kept[i] == 0 &&
                    (nearest < 0 || fabs(-log(p[i]) - entropy) < fabs(-log(p[nearest]) - entropy)))
                    nearest = i;
            sum += kept[nearest] = p[nearest];
        }
        float logits[5];
        set_logits(logits, p, 5);
        for (int i = 0; i < 5; i++) kept[i] /= sum;
        tn_sampler_params params = plain;
        params.typical_p = share;
        tn_sampler *sampler = make(params, 5);
        expect_distribution(sampler, logits, kept, 5);
        tn_sampler_free(sampler);
    }
}

static void xtc_drops_all_likely_ones_but_the_least(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    params.xtc_probability = 1;
    params.xtc_threshold = 0.15f;
    expect_filtered(params, (double[]){0.1, 0, 0.05, 0, 0.2}); /* 0.4 0.25 0.2 are likely */
    params.xtc_threshold = 0.3f;
    expect_filtered(params, five); /* one alone is kept */
    params.xtc_threshold = 0.51f;
    expect_filtered(params, five);
    params.xtc_threshold = 0;
    expect_filtered(params, (double[]){0, 0, 1, 0, 0});
    /* In a share of the draws: a mixture of the two distributions. */
    params.xtc_threshold = 0.15f;
    params.xtc_probability = 0.3f;
    double mixed[5];
    const double dropped[5] = {0.1 / 0.35, 0, 0.05 / 0.35, 0, 0.2 / 0.35};
    for (int i = 0; i < 5; i++) mixed[i] = 0.7 * five[i] + 0.3 * dropped[i];
    expect_filtered(params, mixed);
}

static void a_ranged_temperature_follows_the_entropy(void **state) {
    (void)state;
    double entropy = 0, p[5];
    for (int i = 0; i < 5; i++) entropy -= five[i] * log(five[i]);
    for (float exponent = 0.5f; exponent < 3; exponent += 1) {
        tn_sampler_params params = plain;
        params.temperature = 1.2f;
        params.temperature_range = 0.9f;
        params.temperature_exponent = exponent;
        const double t = 0.3 + 1.8 * pow(entropy / log(5), (double)exponent);
        for (int i = 0; i < 5; i++) p[i] = pow(five[i], 1 / t);
        expect_filtered(params, p);
    }
    /* A flat distribution has all of the range, a certain one none of it (and the range does not go below 0). */
    tn_sampler_params params = plain;
    params.temperature = 0.5f;
    params.temperature_range = 2;
    const float flat[3] = {1, 1, 1}, sure[3] = {100, 0, 0};
    tn_sampler *sampler = make(params, 3);
    expect_distribution(sampler, flat, (double[]){1 / 3.0, 1 / 3.0, 1 / 3.0}, 3);
    expect_distribution(sampler, sure, (double[]){1, 0, 0}, 3);
    tn_sampler_free(sampler);
}

/* Mirostat against its own definition, step by step: tokens of more than mu bits never come, mu moves by the error. */
static void mirostat_holds_to_its_bound_and_reaches_its_surprise(void **state) {
    (void)state;
    enum { N = 40, STEPS = 4000 };
    double p[N], sum = 0, total = 0;
    float logits[N];
    for (int i = 0; i < N; i++) sum += p[i] = pow(i + 1, -1.1); /* Zipf, as in section 4 of the paper */
    for (int i = 0; i < N; i++) p[i] /= sum, logits[i] = (float)log(p[i]);
    tn_sampler_params params = plain;
    params.mirostat_tau = 3;
    params.mirostat_eta = 0.1f;
    tn_sampler *sampler = make(params, N);
    double mu = 6;
    for (int i = 0; i < STEPS; i++) {
        const double surprise = -log2(p[pick(sampler, logits)]);
        assert_true(surprise <= mu + 1e-4 || surprise <= -log2(p[0]) + 1e-4);
        mu -= 0.1 * (surprise - 3);
        if (i >= STEPS / 4) total += surprise;
    }
    assert_true(fabs(total / (STEPS * 3 / 4) - 3) < 0.1);
    char text[200];
    tn_sampler_describe(sampler, text, sizeof text);
    assert_string_equal(text, "mirostat 3, rate 0.1; draw");
    tn_sampler_free(sampler);
}

/* What follows the longest earlier occurrence of the text's end, by comparing everything with everything. */
static void brute_force_dry(const int32_t *text, int n, const bool *breaker, int n_vocab, int allowed,
                            int *length) {
    for (int i = 0; i < n_vocab; i++) length[i] = 0;
    for (int end = 1; end < n; end++) { /* the earlier occurrence ends before text[end] */
        int len = 0;
        while (len < end && text[end - 1 - len] == text[n - 1 - len] && !breaker[text[n - 1 - len]]) len++;
        const int next = text[end];
        if (len >= allowed && len > 0 && len > length[next] && !breaker[next]) length[next] = len;
    }
}

static void dry_is_what_comparing_everything_gives(void **state) {
    (void)state;
    enum { N_VOCAB = 6, N = 60 };
    const float logits[N_VOCAB] = {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
    uint64_t r = 3;
    int n_penalized = 0;
    for (int round = 0; round < 400; round++) {
        tn_sampler_params params = plain;
        params.dry_multiplier = 0.7f;
        params.dry_base = 1.5f;
        params.dry_allowed_length = round % 4;
        params.dry_last_n = round % 3 ? 25 : -1;
        params.temperature = 0;
        tn_sampler *sampler = make(params, N_VOCAB);
        const bool breaker[N_VOCAB] = {false};
        int32_t text[N];
        int n = 0, length[N_VOCAB];
        const int n_letters = 2 + round % 4;
        for (; n < N; n++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            text[n] = n > 8 && (r >> 60) < 12 ? text[n - 5] : (int32_t)((r >> 33) % n_letters);
            assert_int_equal(tn_sampler_accept(sampler, text[n], NULL), TN_OK);
            const int seen = params.dry_last_n < 0 || n + 1 < 25 ? n + 1 : 25;
            brute_force_dry(text + n + 1 - seen, seen, breaker, N_VOCAB, params.dry_allowed_length, length);
            int best = 0;
            double highest = -1e300;
            for (int i = 0; i < N_VOCAB; i++) {
                double logit = (double)logits[i];
                if (length[i]) logit -= 0.7f * pow(1.5, length[i] - params.dry_allowed_length);
                n_penalized += length[i] != 0;
                if (logit > highest + 1e-6) highest = logit, best = i;
            }
            assert_int_equal(pick(sampler, logits), best);
        }
        tn_sampler_free(sampler);
    }
    assert_true(n_penalized > 10000);
}

static void a_dry_breaker_ends_a_repetition(void **state) {
    (void)state;
    vocab v;
    start(&v, "llama", NULL);
    static const char *const texts[] = {"a", "b", "c", "x\n", "d"};
    for (int i = 0; i < 5; i++) add(&v, texts[i], TN_TOKEN_NORMAL, 0);
    tn_tokenizer *tok = load(&v);
    static const char *const breakers[] = {"\n", ":"};
    tn_sampler_params params = plain;
    params.dry_multiplier = 5;
    params.dry_base = 2;
    params.dry_allowed_length = 2;
    params.dry_last_n = -1;
    params.dry_breakers = breakers;
    params.n_dry_breakers = 2;
    params.temperature = 0;
    const struct {
        int32_t text[8];
        int n, picked;
    } cases[] = {
        {{0, 1, 2, 4, 0, 1}, 6, 1},       /* "ab" was followed by c: 2, which would be best, is penalized */
        {{0, 3, 1, 2, 4, 0, 3, 1}, 8, 2}, /* only "b" repeats behind the break */
        {{0, 1, 3, 4, 0, 1}, 6, 2},       /* what followed is a breaker itself, and free */
    };
    const float logits[5] = {0, 0.5f, 1, -9, -9};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_sampler *sampler;
        assert_int_equal(tn_sampler_new(&params, tok, 5, &sampler, NULL), TN_OK);
        for (int j = 0; j < cases[i].n; j++)
            assert_int_equal(tn_sampler_accept(sampler, cases[i].text[j], NULL), TN_OK);
        assert_int_equal(pick(sampler, logits), cases[i].picked);
        tn_sampler_free(sampler);
    }
    tn_tokenizer_free(tok);
}

static void bias_is_added_and_bans(void **state) {
    (void)state;
    const tn_logit_bias bias[] = {{3, (float)log(2)}, {1, -INFINITY}, {3, (float)log(1.5)}};
    tn_sampler_params params = plain;
    params.bias = bias;
    params.n_bias = 3;
    expect_filtered(params, (double[]){0.1, 0, 0.05, 0.25 * 3, 0.2});
    params.temperature = 0;
    tn_sampler *sampler = make(params, 5);
    assert_int_equal(pick(sampler, (float[]){1, 9, 1, 0, 0}), 3); /* log 3 is above 1 */
    tn_sampler_free(sampler);
}

static void stages_come_in_the_order_asked_for(void **state) {
    (void)state;
    /* At temperature 2 the probabilities are as 0.316 0.632 0.224 0.5 0.447 (sum 2.119): min-p 0.6 keeps three of them where the
     * temperature comes first, and two where it comes last. */
    tn_sampler_params params = plain;
    params.temperature = 2;
    params.min_p = 0.6f;
    params.order = "temperature,min_p";
    expect_filtered(params, (double[]){0, sqrt(0.4), 0, sqrt(0.25), sqrt(0.2)});
    params.order = "min-p;temp";
    expect_filtered(params, (double[]){0, sqrt(0.4), 0, sqrt(0.25), 0});
    params.order = "min-p"; /* a stage that is not listed is not applied */
    expect_filtered(params, (double[]){0, 0.4, 0, 0.25, 0});
    params.order = "";
    expect_filtered(params, five);
    /* A penalty behind the temperature is taken off what the temperature left. */
    params = plain;
    params.temperature = 2;
    params.presence_penalty = 1;
    params.repeat_last_n = 8;
    for (int first = 0; first < 2; first++) {
        double p[3] = {exp(1 / 2.0), 1, exp((first ? 1 / 2.0 - 1 : (1 - 1) / 2.0))}, sum = p[0] + p[1] + p[2];
        for (int i = 0; i < 3; i++) p[i] /= sum;
        params.order = first ? "temperature,penalties" : "penalties,temperature";
        tn_sampler *sampler = make(params, 3);
        assert_int_equal(tn_sampler_accept(sampler, 2, NULL), TN_OK);
        expect_distribution(sampler, (float[]){1, 0, 1}, p, 3);
        tn_sampler_free(sampler);
    }
    const struct {
        const char *order, *why;
    } bad[] = {{"top-k,nonsense", "nonsense"},
               {"top-k,,min-p", "no stage ''"},
               {"min-p,min_p", "twice"},
               {"top-kk", "top-kk"}};
    for (size_t i = 0; i < 4; i++) {
        tn_sampler *sampler;
        tn_error err = {0};
        params.order = bad[i].order;
        assert_int_equal(tn_sampler_new(&params, NULL, 5, &sampler, &err), TN_ERR_ARG);
        assert_non_null(strstr(err.message, bad[i].why));
    }
}

static void the_description_names_what_is_in_force(void **state) {
    (void)state;
    tn_sampler_params params = plain;
    char text[300];
    params.top_k = 40;
    params.top_p = 0.95f;
    params.temperature = 0.75f;
    tn_sampler *sampler = make(params, 50);
    tn_sampler_describe(sampler, text, sizeof text);
    assert_string_equal(text, "top-k 40; top-p 0.95; temperature 0.75; draw");
    for (size_t cap = 0; cap < 30; cap++) {
        memset(text, 'x', sizeof text);
        tn_sampler_describe(sampler, text, cap);
        assert_int_equal(text[cap], 'x');
    }
    tn_sampler_free(sampler);
    params.temperature = 0;
    sampler = make(params, 50);
    tn_sampler_describe(sampler, text, sizeof text);
    assert_string_equal(text, "greedy");
    tn_sampler_free(sampler);
}

static void logprobs_are_the_log_of_the_softmax(void **state) {
    (void)state;
    enum { N = 1000, TOP = 20 };
    float logits[N], sorted[N];
    uint64_t r = 9;
    double sum = 0;
    for (int i = 0; i < N; i++) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        logits[i] = (float)((double)(r >> 40) / 1e6 - 8); /* -8 to 8.8 */
        if (i % 100 == 7) logits[i] = -INFINITY;
        sum += exp((double)logits[i]);
    }
    memcpy(sorted, logits, sizeof logits);
    qsort(sorted, N, sizeof *sorted, by_descending);
    tn_logprob found[TOP + 1];
    tn_logprobs(logits, N, 123, TOP, found);
    assert_int_equal(found[0].token, 123);
    assert_true(fabs((double)found[0].logprob - ((double)logits[123] - log(sum))) < 1e-5);
    for (int i = 1; i <= TOP; i++) {
        assert_true(logits[found[i].token] == sorted[i - 1]);
        assert_true(fabs((double)found[i].logprob - ((double)sorted[i - 1] - log(sum))) < 1e-5);
    }
    tn_logprobs((float[]){1, 2, 2, 1}, 4, 0, 4, found); /* equals by ascending id */
    assert_true(found[1].token == 1 && found[2].token == 2 && found[3].token == 0 && found[4].token == 3);
    tn_logprobs((float[]){-INFINITY, 0}, 2, 0, 0, found);
    assert_true(found[0].logprob == -INFINITY);
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
        assert_int_equal(tn_sampler_pick(sampler, (float[]){1, NAN, 2}, NULL, &token, &err), TN_ERR_NUMERIC);
        assert_non_null(strstr(err.message, "token 1"));
        assert_int_equal(tn_sampler_pick(sampler, (float[]){1, 2, INFINITY}, NULL, &token, &err),
                         TN_ERR_NUMERIC);
        assert_int_equal(
            tn_sampler_pick(sampler, (float[]){-INFINITY, -INFINITY, -INFINITY}, NULL, &token, &err),
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
    } cases[32];
    size_t n = 0;
#define CASE(field, value)                                                                                   \
    (cases[n].params = plain, cases[n].params.field = (value), cases[n++].name = #field)
    CASE(temperature, -1), CASE(temperature, NAN), CASE(temperature, INFINITY), CASE(top_k, -1),
        CASE(top_p, 0);
    CASE(top_p, 1.5f), CASE(top_p, NAN), CASE(min_p, -0.1f), CASE(min_p, 1.1f), CASE(min_p, NAN);
    CASE(repeat_penalty, 0), CASE(repeat_penalty, INFINITY), CASE(repeat_penalty, NAN),
        CASE(repeat_last_n, -2);
    CASE(temperature_range, -1), CASE(temperature_exponent, NAN), CASE(typical_p, 0), CASE(top_n_sigma, -1);
    CASE(xtc_probability, 1.1f), CASE(xtc_threshold, -1), CASE(presence_penalty, INFINITY),
        CASE(frequency_penalty, NAN);
    CASE(dry_multiplier, -1), CASE(dry_base, NAN), CASE(dry_allowed_length, -1), CASE(dry_last_n, -2);
    CASE(mirostat_tau, -1), CASE(mirostat_eta, INFINITY);
#undef CASE
    for (size_t i = 0; i < n; i++) {
        tn_sampler *sampler;
        tn_error err = {0};
        assert_int_equal(tn_sampler_new(&cases[i].params, NULL, 5, &sampler, &err), TN_ERR_ARG);
        assert_null(sampler);
        assert_non_null(strstr(err.message, cases[i].name));
    }
    tn_sampler *sampler;
    assert_int_equal(tn_sampler_new(&plain, NULL, 0, &sampler, NULL), TN_ERR_ARG);
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
        cmocka_unit_test(presence_and_frequency_are_taken_off),
        cmocka_unit_test(top_n_sigma_keeps_within_deviations_of_the_best),
        cmocka_unit_test(typical_keeps_the_nearest_to_the_entropy),
        cmocka_unit_test(xtc_drops_all_likely_ones_but_the_least),
        cmocka_unit_test(a_ranged_temperature_follows_the_entropy),
        cmocka_unit_test(mirostat_holds_to_its_bound_and_reaches_its_surprise),
        cmocka_unit_test(dry_is_what_comparing_everything_gives),
        cmocka_unit_test(a_dry_breaker_ends_a_repetition),
        cmocka_unit_test(bias_is_added_and_bans),
        cmocka_unit_test(stages_come_in_the_order_asked_for),
        cmocka_unit_test(the_description_names_what_is_in_force),
        cmocka_unit_test(logprobs_are_the_log_of_the_softmax),
        cmocka_unit_test(a_seed_gives_one_sequence),
        cmocka_unit_test(logits_that_are_no_numbers_are_refused),
        cmocka_unit_test(parameters_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
