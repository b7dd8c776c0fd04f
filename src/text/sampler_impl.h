/* What the files of the sampler share.
 *
 * Candidates are the tokens still in the race, by ascending id, in parallel arrays. Weights are probabilities as integers, 2^30
 * for the best logit: sums are exact in any order, and nothing has to be sorted, since the best by count or by probability are
 * found with histograms of the bits of a float, in time linear in the vocabulary. */
#ifndef TN_TEXT_SAMPLER_IMPL_H
#define TN_TEXT_SAMPLER_IMPL_H

#include <stdbool.h>
#include <string.h>

#include "sampler.h"

enum {
    TN_STAGE_PENALTIES,
    TN_STAGE_DRY,
    TN_STAGE_TOP_N_SIGMA,
    TN_STAGE_TOP_K,
    TN_STAGE_TYPICAL,
    TN_STAGE_TOP_P,
    TN_STAGE_MIN_P,
    TN_STAGE_XTC,
    TN_STAGE_TEMPERATURE,
    TN_STAGE_MIROSTAT,
    TN_N_STAGES
};

enum {
    TN_WEIGHT_BITS = 30,
    TN_EXP_BLOCK = 64,
    TN_HISTOGRAM_BITS = 11,
    TN_HISTOGRAM_BINS = 1 << TN_HISTOGRAM_BITS
};

/* The last tokens of the text. */
typedef struct tn_history {
    int32_t *ring;         /* cap of them; NULL: not kept */
    uint32_t cap, at, len; /* the next goes to ring[at] */
    uint32_t repeat, dry;  /* how many penalties and DRY look back on */
    uint32_t *n_seen;      /* n_vocab: times among the last `repeat`; NULL: not counted */
    uint64_t *breakers;    /* n_vocab bits */
    int32_t *back;         /* dry: the last tokens, last first */
    uint32_t *match;       /* dry: how many tokens from back[i] on equal those from back[0] on */
    uint32_t *dry_length;  /* n_vocab: tokens of the repetition that this token would lengthen, else 0 */
} tn_history;

struct tn_sampler {
    tn_sampler_params params;
    uint8_t stages[TN_N_STAGES]; /* those in force */
    uint32_t n_stages;
    uint32_t n_vocab;
    uint64_t random_state;
    tn_logit_bias *bias;
    tn_history history;
    /* Candidates: n of them, in arrays of n_vocab rounded up to whole blocks. */
    uint32_t n;
    float *logits;
    uint32_t *ids, *weights;
    float *ranks;   /* of candidates, for a stage whose ranks are not the logits */
    uint16_t *bins; /* of candidates, while the best are found */
    uint32_t *listed;
    double inverse; /* of the temperature so far */
    float max;      /* of the logits when they were weighed */
    bool weighed;   /* weights and sum are those of the candidates at this temperature */
    uint64_t sum;
    double mirostat_mu, mirostat_log_sum, mirostat_inverse, mirostat_max;
    bool mirostat_asked;
    uint64_t histogram[TN_HISTOGRAM_BINS];
};

/* ---- sampler_select.c ---------------------------------------------------------------------------------------- */

/* out[i] = 2^30 exp((logits[i] - max) inverse) for one block, at least about 2^-85; arguments above 0 do not occur. */
void tn_exp_block(const float *logits, float max, float inverse, float *out);

/* Unsigned integers in the order of the floats; -0 and 0 are equal. */
static inline uint32_t tn_order_bits(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (bits >> 31 ? UINT32_MAX : 0x80000000u);
}

float tn_greatest(const float *x, uint32_t n);         /* -infinity of none */
bool tn_all_finite_or_low(const float *x, uint32_t n); /* no NaN, no +infinity */

/* The least integer not below x, for x in [0, 2^63). */
uint64_t tn_round_up_real(double x);

/* Sets weights and sum, unless they are right already. */
void tn_weigh(tn_sampler *s);

/* Keeps the candidates of at least this weight. */
void tn_keep_heavy(tn_sampler *s, uint64_t least);

/* Keeps the fewest candidates, highest ranks first and by ascending id among equals, whose weights (by_count: whose number)
 * reach target: 1 <= target <= the sum of all. ranks[i] is candidate i's: the logits, or s->ranks. */
void tn_keep_best(tn_sampler *s, const float *ranks, bool by_count, uint64_t target);

uint64_t tn_next_random(tn_sampler *s);

/* Index of the candidate in whose share of the sum a uniform number falls, shares laid out by ascending id. */
uint32_t tn_draw(tn_sampler *s);

/* ---- sampler_filters.c ----------------------------------------------------------------------------------------- */

extern void (*const tn_sampler_filters[TN_N_STAGES])(tn_sampler *s);

/* Tells mirostat which candidate was drawn; nothing unless it was asked. */
void tn_mirostat_drawn(tn_sampler *s, float logit);

/* ---- sampler_history.c ------------------------------------------------------------------------------------------ */

tn_status tn_history_new(tn_sampler *s, const tn_tokenizer *tok, tn_error *err);
void tn_history_free(tn_history *h);
void tn_history_push(tn_history *h, int32_t token);
void tn_apply_penalties(tn_sampler *s);
void tn_apply_dry(tn_sampler *s);

/* ---- sampler_chain.c -------------------------------------------------------------------------------------------- */

/* Checks the parameters and fills the stages in force. */
tn_status tn_chain_init(tn_sampler *s, tn_error *err);

#endif
