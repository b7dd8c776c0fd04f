/* Weights, selection without sorting, and the draw. */
#include <float.h>
#include <math.h>

#include "sampler_impl.h"

/* x = k ln2 + r; the series of exp(r) to r^6 is within float precision for |r| <= 0.35. No branch and a fixed length: this is
 * compiled to vector instructions, whose results are those of the scalar ones. */
void tn_exp_block(const float *logits, float max, float inverse, float *out) {
    for (int i = 0; i < TN_EXP_BLOCK; i++) {
        float x = (logits[i] - max) * inverse;
        x = x < -80.0f ? -80.0f : x;
        const int32_t k = (int32_t)(x * 0x1.715476p+0f - 0.5f); /* towards zero: the nearest, as x <= 0 */
        const float kf = (float)k;
        const float r = (x - kf * 0x1.62e4p-1f) - kf * 0x1.7f7d1cp-20f;
        const float series =
            1 +
            r * (1 + r * (0.5f + r * (0x1.555556p-3f +
                                      r * (0x1.555556p-5f + r * (0x1.111112p-7f + r * 0x1.6c16c2p-10f)))));
        const int32_t bits = (127 + TN_WEIGHT_BITS + k) * (1 << 23);
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        out[i] = series * scale;
    }
}

uint64_t tn_round_up_real(double x) {
    uint64_t whole = (uint64_t)x;
    return whole + ((double)whole < x);
}

static float greatest(const float *x, uint32_t n) {
    float best[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (uint32_t j = 0; j < 8; j++) best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
    for (; i < n; i++) best[0] = x[i] > best[0] ? x[i] : best[0];
    for (uint32_t j = 1; j < 8; j++) best[0] = best[j] > best[0] ? best[j] : best[0];
    return best[0];
}

void tn_weigh(tn_sampler *s) {
    if (s->weighed) return;
    float scaled[TN_EXP_BLOCK];
    const float inverse = s->inverse > (double)FLT_MAX ? FLT_MAX : (float)s->inverse;
    s->max = greatest(s->logits, s->n);
    for (uint32_t at = 0; at < s->n; at += TN_EXP_BLOCK) {
        tn_exp_block(s->logits + at, s->max, inverse, scaled);
        for (uint32_t i = 0; i < TN_EXP_BLOCK; i++) s->weights[at + i] = (uint32_t)(int32_t)scaled[i];
    }
    s->sum = 0;
    for (uint32_t i = 0; i < s->n; i++) s->sum += s->weights[i];
    s->weighed = true;
}

static inline void move(tn_sampler *s, uint32_t to, uint32_t from) {
    s->logits[to] = s->logits[from];
    s->ids[to] = s->ids[from];
    s->weights[to] = s->weights[from];
}

void tn_keep_heavy(tn_sampler *s, uint64_t least) {
    uint32_t n_kept = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t weight = s->weights[i];
        move(s, n_kept, i);
        n_kept += weight >= least;
        sum += weight >= least ? weight : 0;
    }
    s->n = n_kept;
    s->sum = sum;
}

/* ---- The best, without sorting ------------------------------------------------------------------------------ */

/* Takes the bins above the one where the sum from the top reaches *target off it, and returns that one. */
static uint32_t find_bin(const tn_sampler *s, uint64_t *target) {
    uint32_t bin = TN_HISTOGRAM_BINS - 1;
    for (; bin > 0 && s->histogram[bin] < *target; bin--) *target -= s->histogram[bin];
    return bin;
}

/* Puts candidates into equal steps of rank between the least (but not far below the best) and the best, and finds the step where
 * the threshold is: a first cut that leaves few for the exact ones. Few candidates are left to those at once. */
static uint32_t cut_by_steps(tn_sampler *s, const float *ranks, bool by_count, uint64_t *target) {
    enum { FEW = 4096 };
    const float reach = 40; /* what is e^-40 times the best will not be chosen */
    memset(s->bins, 0, s->n * sizeof *s->bins);
    if (s->n <= FEW) return 0;
    const float best = greatest(ranks, s->n);
    float least = best;
    for (uint32_t i = 0; i < s->n; i++)
        least = ranks[i] < least && ranks[i] >= best - reach ? ranks[i] : least;
    const float range = best - least;
    if (!(range > 0)) return 0;
    const float scale = (float)(TN_HISTOGRAM_BINS - 1) / range;
    for (uint32_t i = 0; i < s->n; i++) {
        const float step = (ranks[i] - least) * scale;
        s->bins[i] = (uint16_t)(int32_t)(step > 0 ? step : 0);
    }
    memset(s->histogram, 0, sizeof s->histogram);
    for (uint32_t i = 0; i < s->n; i++) s->histogram[s->bins[i]] += by_count ? 1 : s->weights[i];
    return find_bin(s, target);
}

/* The same by the bits of the ranks behind the ones that prefix gives, among candidates of one step. */
static uint32_t cut_by_bits(tn_sampler *s, const float *ranks, bool by_count, uint32_t step, uint32_t prefix,
                            unsigned shift, uint64_t *target) {
    const uint64_t group = (uint64_t)prefix >> shift >> TN_HISTOGRAM_BITS;
    memset(s->histogram, 0, sizeof s->histogram);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->bins[i] != step) continue;
        const uint64_t bits = (uint64_t)tn_order_bits(ranks[i]) >> shift;
        if (bits >> TN_HISTOGRAM_BITS == group)
            s->histogram[bits & (TN_HISTOGRAM_BINS - 1)] += by_count ? 1 : s->weights[i];
    }
    return prefix | find_bin(s, target) << shift;
}

void tn_keep_best(tn_sampler *s, const float *ranks, bool by_count, uint64_t target) {
    const uint32_t step = cut_by_steps(s, ranks, by_count, &target);
    uint32_t threshold = 0, n_kept = 0;
    for (unsigned level = 0; level < 3; level++) /* the top 10 bits, then 11, then 11 */
        threshold = cut_by_bits(s, ranks, by_count, step, threshold, 22 - 11 * level, &target);
    s->sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t bits = tn_order_bits(ranks[i]);
        bool kept = bits > threshold;
        if (bits == threshold) {
            const uint64_t weight = by_count ? 1 : s->weights[i];
            kept = target > 0;
            target -= weight < target ? weight : target;
        }
        s->sum += kept ? s->weights[i] : 0;
        move(s, n_kept, i);
        n_kept += kept;
    }
    s->n = n_kept;
}

/* splitmix64 (Steele, Lea and Flood 2014). */
uint64_t tn_next_random(tn_sampler *s) {
    uint64_t z = s->random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint32_t tn_draw(tn_sampler *s) {
    __extension__ typedef unsigned __int128 u128;
    tn_weigh(s);
    uint64_t at = (uint64_t)((u128)tn_next_random(s) * s->sum >> 64);
    uint32_t i = 0;
    for (; i + 1 < s->n && at >= s->weights[i]; i++) at -= s->weights[i];
    return i;
}
