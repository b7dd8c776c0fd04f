/* From logits to a token: repetition penalty, then top-k, top-p, min-p, temperature, and one draw.
 *
 * Everything is computed by the same arithmetic on every machine (no libm), so a seed gives the same text everywhere. */
#ifndef TN_TEXT_SAMPLER_H
#define TN_TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "../base/status.h"

typedef struct tn_sampler_params {
    uint64_t seed;
    float temperature;     /* 0: greedy, the lowest id among equals */
    int32_t top_k;         /* 0: all */
    float top_p;           /* 1: all (Holtzman et al. 2019) */
    float min_p;           /* 0: all (Nguyen et al. 2024) */
    float repeat_penalty;  /* 1: none (Keskar et al. 2019, section 4.1) */
    int32_t repeat_last_n; /* tokens looked back on; 0: none, -1: all */
} tn_sampler_params;

typedef struct tn_sampler tn_sampler;

/* Checks the ranges: temperature >= 0, top_p in (0, 1], min_p in [0, 1], repeat_penalty > 0, all finite. */
tn_status tn_sampler_new(const tn_sampler_params *params, uint32_t n_vocab, tn_sampler **out, tn_error *err);
void tn_sampler_free(tn_sampler *sampler);

/* Picks a token from n_vocab logits (left as they are). A logit that is NaN or +infinity is TN_ERR_NUMERIC; no
 * allocation. */
tn_status tn_sampler_pick(tn_sampler *sampler, const float *logits, int32_t *token, tn_error *err);

/* Tells the sampler of a token that is now part of the text (prompt tokens too), for the penalty. */
tn_status tn_sampler_accept(tn_sampler *sampler, int32_t token, tn_error *err);

#endif
