/* From logits to a token: a chain of stages in an order that can be set, then one draw.
 *
 * A stage changes logits (penalties, DRY), keeps some of the tokens (top-k, top-p, ...) or sets the temperature; each looks at
 * what the one before it left, with probabilities summing to one again. Everything is computed by the same arithmetic on every
 * machine (no libm), so a seed gives the same text everywhere.
 *
 *   penalties    logit / repeat_penalty if positive, else times it (Keskar et al. 2019, section 4.1), for each token among
 *                the last repeat_last_n; then minus presence_penalty, and minus frequency_penalty for each occurrence
 *   dry          minus multiplier base^(L - allowed_length) for a token that would lengthen a repetition of the last L >=
 *                allowed_length tokens (p-e-w, "DRY", 2024); a repetition does not reach across a breaker
 *   top-n-sigma  keeps logits within n standard deviations of the best (Tang et al. 2024, equation 4)
 *   top-k        keeps the k best (Fan et al. 2018)
 *   typical      keeps those whose surprise is nearest to the entropy, up to the sum typical_p (Meister et al. 2022, section 3)
 *   top-p        keeps the fewest best that reach the sum top_p (Holtzman et al. 2019, section 3.1)
 *   min-p        keeps those of at least min_p times the best's probability (Nguyen et al. 2024, section 3)
 *   xtc          in a share xtc_probability of the draws drops all tokens of at least xtc_threshold but the least likely of
 *                these (p-e-w, "Exclude Top Choices", 2024)
 *   temperature  divides logits by it; with a range r by T - r + 2 r (entropy / log(tokens left))^exponent (Zhang et al. 2024,
 *                "EDT", in the linear form of the field)
 *   mirostat     keeps tokens of at most mu bits of surprise, and after the draw moves mu by eta towards a surprise of tau
 *                (Basu et al. 2021, algorithm 2 as in section 6) */
#ifndef TN_TEXT_SAMPLER_H
#define TN_TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "../base/status.h"
#include "tokenizer.h"

typedef struct tn_logit_bias {
    int32_t token;
    float bias; /* added to its logit; -infinity bans it */
} tn_logit_bias;

/* What each value switches off is said behind it. Strings and arrays are read while the sampler is made, not kept. */
typedef struct tn_sampler_params {
    uint64_t seed;
    float temperature;       /* 0: greedy, the lowest id among the best after bias, penalties and DRY */
    float temperature_range; /* 0: fixed */
    float temperature_exponent;
    int32_t top_k;           /* 0: all */
    float top_p;             /* 1: all */
    float min_p;             /* 0: all */
    float typical_p;         /* 1: all */
    float top_n_sigma;       /* 0: all */
    float xtc_probability;   /* 0: never */
    float xtc_threshold;     /* above 0.5: none */
    float repeat_penalty;    /* 1: none */
    float presence_penalty;  /* 0: none */
    float frequency_penalty; /* 0: none */
    int32_t repeat_last_n;   /* tokens looked back on; 0: none, -1: all (the last 2^20) */
    float dry_multiplier;    /* 0: none */
    float dry_base;
    int32_t dry_allowed_length;
    int32_t dry_last_n;              /* as repeat_last_n */
    const char *const *dry_breakers; /* a token whose text contains one of these is a breaker */
    size_t n_dry_breakers;
    float mirostat_tau; /* 0: none */
    float mirostat_eta;
    const tn_logit_bias *bias; /* n_bias of them, before all stages */
    size_t n_bias;
    const char *
        order; /* "top-k,temperature": stages to apply; NULL: as listed above, with mirostat without the filters */
} tn_sampler_params;

enum { TN_SAMPLER_MAX_BIAS = 4096 };

typedef struct tn_sampler tn_sampler;
struct tn_constraint;

/* Checks the ranges. tok gives the texts of breakers; NULL: there are none. */
tn_status tn_sampler_new(const tn_sampler_params *params, const tn_tokenizer *tok, uint32_t n_vocab,
                         tn_sampler **out, tn_error *err);
void tn_sampler_free(tn_sampler *sampler);

/* Picks a token from n_vocab logits (left as they are), of those that the constraint (NULL: none) allows. A logit that is NaN or
 * +infinity is TN_ERR_NUMERIC; no allocation. */
tn_status tn_sampler_pick(tn_sampler *sampler, const float *logits, struct tn_constraint *constraint,
                          int32_t *token, tn_error *err);

/* Tells the sampler of a token that is now part of the text (prompt tokens too), for penalties and DRY. */
tn_status tn_sampler_accept(tn_sampler *sampler, int32_t token, tn_error *err);

/* The stages in force, in order, with their values: "top-k 40, top-p 0.95, temperature 0.8". */
void tn_sampler_describe(const tn_sampler *sampler, char *dst, size_t cap);

typedef struct tn_logprob {
    int32_t token;
    float logprob; /* natural logarithm of the probability that the logits alone give it */
} tn_logprob;

/* Of the token, in out[0], and of the n_top best (by ascending id among equals), n_top <= n_vocab. */
void tn_logprobs(const float *logits, uint32_t n_vocab, int32_t token, uint32_t n_top, tn_logprob *out);

#endif
