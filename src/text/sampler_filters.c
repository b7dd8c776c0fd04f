/* The stages of the chain but for those that look back on the text (sampler_history.c). */
#include <math.h>

#include "../base/fmath.h"
#include "sampler_impl.h"

static const double ln2 = 0x1.62e42fefa39efp-1;

static void top_k(tn_sampler *s) {
    if ((uint32_t)s->params.top_k >= s->n) return;
    tn_keep_best(s, s->logits, true, (uint64_t)s->params.top_k);
}

/* A share of the sum of weights, at least 1. */
static uint64_t share_of(const tn_sampler *s, float share) {
    uint64_t target = tn_round_up_real((double)share * (double)s->sum);
    if (target > s->sum) target = s->sum;
    return target ? target : 1;
}

static void top_p(tn_sampler *s) {
    tn_weigh(s);
    const uint64_t target = share_of(s, s->params.top_p);
    /* Those too light to matter even all together are dropped first, without a look at their order. */
    tn_keep_heavy(s, (s->sum - target) / s->n);
    tn_keep_best(s, s->logits, false, target);
}

static void min_p(tn_sampler *s) {
    tn_weigh(s);
    tn_keep_heavy(s, tn_round_up_real((double)s->params.min_p * (double)(1 << TN_WEIGHT_BITS)));
}

/* The deviations do not depend on the temperature: both sides of the comparison scale with it. */
static void top_n_sigma(tn_sampler *s) {
    double sum = 0, squares = 0, best = -INFINITY;
    uint32_t n = 0, n_kept = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const double logit = (double)s->logits[i];
        if (logit == -INFINITY) continue;
        sum += logit;
        best = logit > best ? logit : best;
        n++;
    }
    const double mean = sum / n;
    for (uint32_t i = 0; i < s->n; i++) {
        const double off = (double)s->logits[i] - mean;
        if (off != -INFINITY) squares += off * off;
    }
    const double reach = (double)s->params.top_n_sigma * sqrt(squares / n);
    for (uint32_t i = 0; i < s->n; i++) {
        if (!((double)s->logits[i] >= best - reach)) continue;
        s->logits[n_kept] = s->logits[i];
        s->ids[n_kept++] = s->ids[i];
    }
    s->n = n_kept;
    s->weighed = false;
}

/* The mean of (logit - max) / T under the distribution: its entropy is the logarithm of the sum of weights less this. */
static double mean_exponent(const tn_sampler *s) {
    double mean = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->weights[i])
            mean += (double)s->weights[i] * (((double)s->logits[i] - (double)s->max) * s->inverse);
    return mean / (double)s->sum;
}

static double log_sum(const tn_sampler *s) {
    return tn_log((double)s->sum) - TN_WEIGHT_BITS * ln2;
}

/* |surprise - entropy| is |exponent - mean exponent|: the logarithm of the sum falls out. */
static void typical(tn_sampler *s) {
    tn_weigh(s);
    const double mean = mean_exponent(s);
    for (uint32_t i = 0; i < s->n; i++) {
        const double exponent = ((double)s->logits[i] - (double)s->max) * s->inverse;
        s->ranks[i] = (float)-fabs(exponent - mean);
    }
    tn_keep_best(s, s->ranks, false, share_of(s, s->params.typical_p));
    s->weighed = false; /* the best may be gone */
}

static void xtc(tn_sampler *s) {
    if ((double)(tn_next_random(s) >> 11) * 0x1p-53 >= (double)s->params.xtc_probability) return;
    tn_weigh(s);
    const uint64_t least = share_of(s, s->params.xtc_threshold);
    uint32_t n_heavy = 0, lightest = 0, n_kept = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->weights[i] < least) continue;
        if (n_heavy++ == 0 || s->weights[i] <= s->weights[lightest]) lightest = i;
    }
    if (n_heavy < 2) return;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->weights[i] >= least && i != lightest) continue;
        s->logits[n_kept] = s->logits[i];
        s->ids[n_kept++] = s->ids[i];
    }
    s->n = n_kept;
    s->weighed = false;
}

static void temperature(tn_sampler *s) {
    const tn_sampler_params *p = &s->params;
    double t = (double)p->temperature;
    if (p->temperature_range > 0 && s->n > 1) {
        tn_weigh(s);
        const double low = t > (double)p->temperature_range ? t - (double)p->temperature_range : 0;
        const double spread = (log_sum(s) - mean_exponent(s)) / tn_log((double)s->n);
        t = low;
        if (spread > 1e-30)
            t += ((double)p->temperature + (double)p->temperature_range - low) *
                 tn_pow(spread < 1 ? spread : 1, (double)p->temperature_exponent);
    }
    s->inverse /= t > 1e-37 ? t : 1e-37;
    s->weighed = false;
}

static void mirostat(tn_sampler *s) {
    tn_weigh(s);
    s->mirostat_asked = true;
    s->mirostat_log_sum = log_sum(s);
    s->mirostat_inverse = s->inverse;
    s->mirostat_max = (double)s->max;
    const double least = (double)s->sum * tn_exp(-s->mirostat_mu * ln2), best = (double)(1 << TN_WEIGHT_BITS);
    tn_keep_heavy(s, tn_round_up_real(least < best ? least : best));
}

void tn_mirostat_drawn(tn_sampler *s, float logit) {
    if (!s->mirostat_asked) return;
    s->mirostat_asked = false;
    const double exponent = ((double)logit - s->mirostat_max) * s->mirostat_inverse;
    const double surprise = (s->mirostat_log_sum - exponent) / ln2;
    s->mirostat_mu -= (double)s->params.mirostat_eta * (surprise - (double)s->params.mirostat_tau);
}

void (*const tn_sampler_filters[TN_N_STAGES])(tn_sampler *s) = {
    [TN_STAGE_PENALTIES] = tn_apply_penalties,
    [TN_STAGE_DRY] = tn_apply_dry,
    [TN_STAGE_TOP_N_SIGMA] = top_n_sigma,
    [TN_STAGE_TOP_K] = top_k,
    [TN_STAGE_TYPICAL] = typical,
    [TN_STAGE_TOP_P] = top_p,
    [TN_STAGE_MIN_P] = min_p,
    [TN_STAGE_XTC] = xtc,
    [TN_STAGE_TEMPERATURE] = temperature,
    [TN_STAGE_MIROSTAT] = mirostat,
};
