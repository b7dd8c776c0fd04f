/* Probabilities are fixed-point integers here: sums are exact in any order, so a seed gives the same token
 * whatever the machine, and nothing has to be sorted. The best tokens by count or by probability are found
 * with histograms of the logits' bits, in time linear in the vocabulary. */
#include "sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct tn_candidate {
    float logit; /* after the penalty */
    uint32_t id;
} tn_candidate;

enum { HISTOGRAM_BITS = 11, HISTOGRAM_BINS = 1 << HISTOGRAM_BITS };

struct tn_sampler {
    tn_sampler_params params;
    uint32_t n_vocab;
    uint64_t random_state;
    int weight_bits;          /* the best token's weight is 2^weight_bits; n_vocab of them stay below 2^63 */
    tn_candidate *candidates; /* n_vocab; those still in the race come first, by ascending id */
    uint64_t *weights;        /* n_vocab; of the candidates */
    uint64_t histogram[HISTOGRAM_BINS];
    uint32_t *n_seen; /* n_vocab, times a token is in the window; NULL without a penalty */
    int32_t *window;  /* ring of the last repeat_last_n tokens; NULL if all count */
    size_t window_at, window_len;
};

/* ---- New ----------------------------------------------------------------------------------------------- */

static tn_status bad_parameter(tn_error *err, const char *name, const char *range, double value) {
    return tn_fail(err, TN_ERR_ARG, "sampler", name, "%g, expected %s", value, range);
}

static tn_status check_params(const tn_sampler_params *p, tn_error *err) {
    /* The comparisons are written so that NaN fails them. */
    if (!(p->temperature >= 0 && p->temperature < INFINITY))
        return bad_parameter(err, "temperature", "a finite number >= 0", p->temperature);
    if (p->top_k < 0) return bad_parameter(err, "top_k", ">= 0", p->top_k);
    if (!(p->top_p > 0 && p->top_p <= 1)) return bad_parameter(err, "top_p", "in (0, 1]", p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1)) return bad_parameter(err, "min_p", "in [0, 1]", p->min_p);
    if (!(p->repeat_penalty > 0 && p->repeat_penalty < INFINITY))
        return bad_parameter(err, "repeat_penalty", "a finite number > 0", p->repeat_penalty);
    if (p->repeat_last_n < -1) return bad_parameter(err, "repeat_last_n", ">= -1", p->repeat_last_n);
    return TN_OK;
}

tn_status tn_sampler_new(const tn_sampler_params *params, uint32_t n_vocab, tn_sampler **out, tn_error *err) {
    *out = NULL;
    tn_status status = check_params(params, err);
    if (status != TN_OK) return status;
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return tn_fail(err, TN_ERR_ARG, "sampler", "n_vocab", "%u, expected 1 to 2^31 - 1", n_vocab);
    tn_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler) return tn_fail(err, TN_ERR_MEMORY, "sampler", NULL, "out of memory");
    sampler->params = *params;
    sampler->n_vocab = n_vocab;
    sampler->random_state = params->seed;
    sampler->weight_bits = 52;
    while ((uint64_t)INT64_MAX / n_vocab >> sampler->weight_bits == 0) sampler->weight_bits--;
    sampler->candidates = calloc(n_vocab, sizeof *sampler->candidates);
    sampler->weights = calloc(n_vocab, sizeof *sampler->weights);
    bool ok = sampler->candidates && sampler->weights;
    if (params->repeat_penalty != 1 && params->repeat_last_n != 0) {
        sampler->n_seen = calloc(n_vocab, sizeof *sampler->n_seen);
        ok = ok && sampler->n_seen;
        if (params->repeat_last_n > 0) {
            sampler->window = calloc((size_t)params->repeat_last_n, sizeof *sampler->window);
            ok = ok && sampler->window;
        }
    }
    if (!ok) {
        tn_sampler_free(sampler);
        return tn_fail(err, TN_ERR_MEMORY, "sampler", NULL, "out of memory");
    }
    *out = sampler;
    return TN_OK;
}

void tn_sampler_free(tn_sampler *sampler) {
    if (!sampler) return;
    free(sampler->candidates);
    free(sampler->weights);
    free(sampler->n_seen);
    free(sampler->window);
    free(sampler);
}

tn_status tn_sampler_accept(tn_sampler *sampler, int32_t token, tn_error *err) {
    if (token < 0 || (uint32_t)token >= sampler->n_vocab)
        return tn_fail(err, TN_ERR_ARG, "sampler", "token", "%d, but there are %u tokens", token,
                       sampler->n_vocab);
    if (!sampler->n_seen) return TN_OK;
    if (sampler->window) {
        int32_t *oldest = &sampler->window[sampler->window_at];
        size_t cap = (size_t)sampler->params.repeat_last_n;
        if (sampler->window_len == cap)
            sampler->n_seen[*oldest]--;
        else
            sampler->window_len++;
        *oldest = token;
        sampler->window_at = (sampler->window_at + 1) % cap;
    }
    sampler->n_seen[token] += sampler->n_seen[token] != UINT32_MAX;
    return TN_OK;
}

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(tn_sampler *sampler) {
    uint64_t z = sampler->random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 2^(i/32), correctly rounded. */
static const double exp2_32nds[32] = {
    0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
    0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
    0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
    0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
    0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
    0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
    0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
    0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0};

/* exp(x) 2^bits, rounded down, for x <= 0 and bits <= 52: x = k ln2/32 + r, and the series of exp(r) to r^5
 * leaves less than 2^-42 of it. The general tn_exp divides thirteen times, too slow for a whole vocabulary.
 */
static uint64_t fixed_exp(double x, int bits) {
    const double ln2_32_high = 0x1.62e42fee00000p-6, ln2_32_low = 0x1.a39ef35793c76p-38;
    if (!(x > -40)) return 0; /* below 2^-52 */
    int k = (int)(x * 0x1.71547652b82fep+5);
    double r = (x - k * ln2_32_high) - k * ln2_32_low;
    double series = 1 + r * (1 + r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120)))));
    int exponent = bits + (k >> 5); /* k <= 0: the shift rounds down, and k & 31 is what is left */
    uint64_t scale_bits = (uint64_t)(1023 + exponent) << 52;
    double scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    return (uint64_t)(int64_t)(exp2_32nds[k & 31] * series * scale); /* signed: one instruction */
}

static uint64_t round_up(double x) {
    uint64_t whole = (uint64_t)x;
    return whole + ((double)whole < x);
}

/* Unsigned integers in the order of the floats. */
static uint32_t order_bits(float x) {
    uint32_t bits;
    x += 0.0f; /* -0 and 0 are equal */
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (bits >> 31 ? UINT32_MAX : 0x80000000u);
}

/* ---- Pick ---------------------------------------------------------------------------------------------- */

static float penalize(float logit, float penalty) {
    return logit > 0 ? logit / penalty : logit * penalty;
}

/* Fills the candidates with all tokens and finds the best, the lowest id among equals. */
static tn_status gather(tn_sampler *sampler, const float *logits, uint32_t *best, tn_error *err) {
    float max = -INFINITY;
    *best = 0;
    for (uint32_t i = 0; i < sampler->n_vocab; i++) {
        float logit = logits[i];
        if (sampler->n_seen && sampler->n_seen[i]) logit = penalize(logit, sampler->params.repeat_penalty);
        if (!(logit < INFINITY))
            return tn_fail(err, TN_ERR_NUMERIC, "sampler", "logits", "token %u has %g", i, (double)logits[i]);
        sampler->candidates[i] = (tn_candidate){logit, i};
        if (logit > max) {
            max = logit;
            *best = i;
        }
    }
    if (max > -INFINITY) return TN_OK;
    return tn_fail(err, TN_ERR_NUMERIC, "sampler", "logits", "all are -inf");
}

/* Weight of candidate i where every token counts alike, or its probability. */
static uint64_t weight_at(const tn_sampler *sampler, uint32_t i, bool by_count) {
    return by_count ? 1 : sampler->weights[i];
}

/* Of the candidates whose bits above `shift + HISTOGRAM_BITS` are those of prefix, finds the bin of the next
 * bits where the sum from the top reaches *target; takes the bins above it off *target. */
static uint32_t find_bin(tn_sampler *sampler, uint32_t n, bool by_count, uint32_t prefix, unsigned shift,
                         uint64_t *target) {
    const uint64_t group = (uint64_t)prefix >> shift >> HISTOGRAM_BITS;
    memset(sampler->histogram, 0, sizeof sampler->histogram);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)order_bits(sampler->candidates[i].logit) >> shift;
        if (bits >> HISTOGRAM_BITS == group)
            sampler->histogram[bits & (HISTOGRAM_BINS - 1)] += weight_at(sampler, i, by_count);
    }
    uint32_t bin = HISTOGRAM_BINS - 1;
    for (; bin > 0 && sampler->histogram[bin] < *target; bin--) *target -= sampler->histogram[bin];
    return bin << shift;
}

/* Keeps the fewest candidates, best first and by ascending id among equals, whose weights reach target: 1 <=
 * target <= the sum of all. Returns how many are left. */
static uint32_t keep_best(tn_sampler *sampler, uint32_t n, bool by_count, uint64_t target) {
    uint32_t threshold = 0, n_kept = 0;
    threshold |= find_bin(sampler, n, by_count, threshold, 22, &target);
    threshold |= find_bin(sampler, n, by_count, threshold, 11, &target);
    threshold |= find_bin(sampler, n, by_count, threshold, 0, &target);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = order_bits(sampler->candidates[i].logit);
        if (bits < threshold || (bits == threshold && target == 0)) continue;
        uint64_t weight = weight_at(sampler, i, by_count);
        if (bits == threshold) target -= weight < target ? weight : target;
        sampler->candidates[n_kept] = sampler->candidates[i];
        sampler->weights[n_kept++] = sampler->weights[i];
    }
    return n_kept;
}

/* Sets the weights to the probabilities at a temperature, relative to the best logit; returns their sum. */
static uint64_t weigh(tn_sampler *sampler, uint32_t n, float max, float temperature) {
    const double inverse = 1.0 / (double)temperature;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = ((double)sampler->candidates[i].logit - (double)max) * inverse;
        sum += sampler->weights[i] = fixed_exp(x, sampler->weight_bits);
    }
    return sum;
}

/* Keeps the candidates of at least this weight. */
static uint32_t keep_heavy(tn_sampler *sampler, uint32_t n, uint64_t least) {
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        sampler->candidates[n_kept] = sampler->candidates[i];
        sampler->weights[n_kept] = sampler->weights[i];
        n_kept += sampler->weights[i] >= least;
    }
    return n_kept;
}

static uint32_t keep_min_p(tn_sampler *sampler, uint32_t n) {
    double least = (double)sampler->params.min_p * (double)(UINT64_C(1) << sampler->weight_bits);
    return keep_heavy(sampler, n, round_up(least));
}

static uint32_t keep_top_p(tn_sampler *sampler, uint32_t n, uint64_t sum) {
    uint64_t target = round_up((double)sampler->params.top_p * (double)sum);
    if (target > sum) target = sum;
    if (target == 0) target = 1;
    /* Those too light to matter even all together are dropped first, without a look at their order. */
    n = keep_heavy(sampler, n, (sum - target) / n);
    return keep_best(sampler, n, false, target);
}

/* The candidate in whose share of the sum a uniform number falls, shares laid out by ascending id. */
static int32_t draw(tn_sampler *sampler, uint32_t n, uint64_t sum) {
    __extension__ typedef unsigned __int128 u128;
    uint64_t at = (uint64_t)((u128)next_random(sampler) * sum >> 64);
    uint32_t i = 0;
    for (; i + 1 < n && at >= sampler->weights[i]; i++) at -= sampler->weights[i];
    return (int32_t)sampler->candidates[i].id;
}

tn_status tn_sampler_pick(tn_sampler *sampler, const float *logits, int32_t *token, tn_error *err) {
    const tn_sampler_params *p = &sampler->params;
    uint32_t best, n = sampler->n_vocab;
    *token = 0;
    tn_status status = gather(sampler, logits, &best, err);
    if (status != TN_OK) return status;
    if (p->temperature == 0) {
        *token = (int32_t)best;
        return TN_OK;
    }
    float max = sampler->candidates[best].logit;
    if (p->top_k > 0 && (uint32_t)p->top_k < n) n = keep_best(sampler, n, true, (uint64_t)p->top_k);
    if (p->top_p < 1)
        n = keep_top_p(sampler, n, weigh(sampler, n, max, 1));
    else if (p->min_p > 0)
        weigh(sampler, n, max, 1);
    if (p->min_p > 0) n = keep_min_p(sampler, n);
    *token = draw(sampler, n, weigh(sampler, n, max, p->temperature));
    return TN_OK;
}
