/* Weights, selection without sorting, and the draw. */
#include <float.h>
#include <math.h>

#include "sampler_impl.h"

/* Four lanes, computed as four scalars would be: what every processor has, and what compilers leave scalar in loops with a choice
 * in them. */
typedef float tn_floats __attribute__((vector_size(16)));
typedef int32_t tn_ints __attribute__((vector_size(16)));
typedef uint16_t tn_shorts __attribute__((vector_size(8)));
enum { LANES = 4 };

static inline tn_floats load(const float *from) {
    tn_floats v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline tn_floats all(float x) {
    return (tn_floats){x, x, x, x};
}

static inline tn_floats choose(tn_ints mask, tn_floats yes, tn_floats no) {
    return (tn_floats)((mask & (tn_ints)yes) | (~mask & (tn_ints)no));
}

/* x = k ln2 + r; the series of exp(r) to r^6 is within float precision for |r| <= 0.35. */
void tn_exp_block(const float *logits, float max, float inverse, float *out) {
    for (int i = 0; i < TN_EXP_BLOCK; i += LANES) {
        tn_floats x = (load(logits + i) - max) * inverse;
        x = choose(x < -80.0f, all(-80.0f), x);
        /* Towards zero: the nearest, as x <= 0. */
        const tn_ints k = __builtin_convertvector(x * 0x1.715476p+0f - 0.5f, tn_ints);
        const tn_floats kf = __builtin_convertvector(k, tn_floats);
        const tn_floats r = (x - kf * 0x1.62e4p-1f) - kf * 0x1.7f7d1cp-20f;
        tn_floats series = 0x1.111112p-7f + r * 0x1.6c16c2p-10f;
        series = 0x1.555556p-3f + r * (0x1.555556p-5f + r * series);
        series = 1 + r * (1 + r * (0.5f + r * series));
        const tn_floats scaled = series * (tn_floats)((k + 127 + TN_WEIGHT_BITS) * (1 << 23));
        memcpy(out + i, &scaled, sizeof scaled);
    }
}

bool tn_all_finite_or_low(const float *x, uint32_t n) {
    tn_ints bad = {0, 0, 0, 0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) bad |= ~(load(x + i) < INFINITY);
    for (; i < n; i++) bad[0] |= !(x[i] < INFINITY);
    return !(bad[0] | bad[1] | bad[2] | bad[3]);
}

uint64_t tn_round_up_real(double x) {
    uint64_t whole = (uint64_t)x;
    return whole + ((double)whole < x);
}

static inline tn_floats greater(tn_floats a, tn_floats b) {
    return choose(a > b, a, b);
}

/* Four in turn: each choice waits for the one before it. */
float tn_greatest(const float *x, uint32_t n) {
    tn_floats a = all(-INFINITY), b = a, c = a, d = a;
    uint32_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a = greater(load(x + i), a);
        b = greater(load(x + i + LANES), b);
        c = greater(load(x + i + 2 * LANES), c);
        d = greater(load(x + i + 3 * LANES), d);
    }
    const tn_floats best = greater(greater(a, b), greater(c, d));
    float greatest = -INFINITY;
    for (uint32_t j = 0; j < LANES; j++) greatest = best[j] > greatest ? best[j] : greatest;
    for (; i < n; i++) greatest = x[i] > greatest ? x[i] : greatest;
    return greatest;
}

/* The least that is at least `floor`; some of them there must be. */
static float least_above(const float *x, uint32_t n, float floor) {
    tn_floats least = all(INFINITY);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const tn_floats here = load(x + i);
        least = choose((here < least) & (here >= floor), here, least);
    }
    for (; i < n; i++) least[0] = x[i] < least[0] && x[i] >= floor ? x[i] : least[0];
    for (uint32_t j = 1; j < LANES; j++) least[0] = least[j] < least[0] ? least[j] : least[0];
    return least[0];
}

void tn_weigh(tn_sampler *s) {
    if (s->weighed) return;
    float scaled[TN_EXP_BLOCK];
    const float inverse = s->inverse > (double)FLT_MAX ? FLT_MAX : (float)s->inverse;
    s->max = tn_greatest(s->logits, s->n);
    for (uint32_t at = 0; at < s->n; at += TN_EXP_BLOCK) {
        tn_exp_block(s->logits + at, s->max, inverse, scaled);
        for (uint32_t i = 0; i < TN_EXP_BLOCK; i += LANES) {
            const tn_ints weights = __builtin_convertvector(load(scaled + i), tn_ints);
            memcpy(s->weights + at + i, &weights, sizeof weights);
        }
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

/* In what models give, nearly all are kept or nearly none: a branch is foreseen. */
void tn_keep_heavy(tn_sampler *s, uint64_t least) {
    uint32_t n_kept = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->weights[i] < least) continue;
        sum += s->weights[i];
        move(s, n_kept++, i);
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
    const float best = tn_greatest(ranks, s->n), least = least_above(ranks, s->n, best - reach),
                range = best - least;
    if (!(range > 0)) return 0;
    const float scale = (float)(TN_HISTOGRAM_BINS - 1) / range;
    for (uint32_t i = 0; i < s->n; i += LANES) { /* to the end of the last block of the arrays */
        tn_floats step = (load(ranks + i) - least) * scale;
        step = choose(step > 0, step, all(0));
        step = choose(step < TN_HISTOGRAM_BINS, step, all(TN_HISTOGRAM_BINS - 1));
        const tn_shorts bins = __builtin_convertvector(__builtin_convertvector(step, tn_ints), tn_shorts);
        memcpy(s->bins + i, &bins, sizeof bins);
    }
    memset(s->histogram, 0, sizeof s->histogram);
    for (uint32_t i = 0; i < s->n; i++) s->histogram[s->bins[i]] += by_count ? 1 : s->weights[i];
    return find_bin(s, target);
}

/* The same by the bits of the ranks behind the ones that prefix gives, among the n candidates listed in s->listed. */
static uint32_t cut_by_bits(tn_sampler *s, const float *ranks, bool by_count, uint32_t n, uint32_t prefix,
                            unsigned shift, uint64_t *target) {
    const uint64_t group = (uint64_t)prefix >> shift >> TN_HISTOGRAM_BITS;
    memset(s->histogram, 0, sizeof s->histogram);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = s->listed[i];
        const uint64_t bits = (uint64_t)tn_order_bits(ranks[at]) >> shift;
        if (bits >> TN_HISTOGRAM_BITS == group)
            s->histogram[bits & (TN_HISTOGRAM_BINS - 1)] += by_count ? 1 : s->weights[at];
    }
    return prefix | find_bin(s, target) << shift;
}

/* Keeps what is above the threshold (an order of bits), and of what is equal to it the first until target is reached. */
static void keep_above(tn_sampler *s, const float *ranks, bool by_count, uint32_t threshold,
                       uint64_t target) {
    uint32_t n_kept = 0;
    s->sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t bits = tn_order_bits(ranks[i]);
        if (bits < threshold || (bits == threshold && target == 0)) continue;
        if (bits == threshold) {
            const uint64_t weight = by_count ? 1 : s->weights[i];
            target -= weight < target ? weight : target;
        }
        s->sum += s->weights[i];
        move(s, n_kept++, i);
    }
    s->n = n_kept;
}

void tn_keep_best(tn_sampler *s, const float *ranks, bool by_count, uint64_t target) {
    const uint32_t step = cut_by_steps(s, ranks, by_count, &target);
    uint32_t threshold = 0, n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->listed[n] = i;
        n += s->bins[i] == step;
    }
    for (unsigned level = 0; level < 3; level++) /* the top 10 bits, then 11, then 11 */
        threshold = cut_by_bits(s, ranks, by_count, n, threshold, 22 - 11 * level, &target);
    keep_above(s, ranks, by_count, threshold, target);
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
