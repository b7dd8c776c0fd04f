/* A pick, from the logits to the token. */
#include "sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "../base/fmath.h"
#include "constraint.h"
#include "sampler_impl.h"

/* ---- New ----------------------------------------------------------------------------------------------- */

static int by_token(const void *a, const void *b) {
    const int32_t x = ((const tn_logit_bias *)a)->token, y = ((const tn_logit_bias *)b)->token;
    return (x > y) - (x < y);
}

static tn_status init(tn_sampler *s, const tn_tokenizer *tok, tn_error *err) {
    tn_status status = tn_chain_init(s, err);
    if (status != TN_OK) return status;
    const size_t n = ((size_t)s->n_vocab + TN_EXP_BLOCK - 1) / TN_EXP_BLOCK * TN_EXP_BLOCK,
                 n_bias = s->params.n_bias;
    s->logits = calloc(n, sizeof *s->logits);
    s->ids = calloc(n, sizeof *s->ids);
    s->weights = calloc(n, sizeof *s->weights);
    s->ranks = calloc(n, sizeof *s->ranks);
    s->bins = calloc(n, sizeof *s->bins);
    s->listed = calloc(n, sizeof *s->listed);
    s->bias = calloc(n_bias + 1, sizeof *s->bias);
    if (!s->logits || !s->ids || !s->weights || !s->ranks || !s->bins || !s->listed || !s->bias)
        return tn_fail(err, TN_ERR_MEMORY, "sampler", NULL, "out of memory");
    if (n_bias) memcpy(s->bias, s->params.bias, n_bias * sizeof *s->bias);
    qsort(s->bias, n_bias, sizeof *s->bias, by_token);
    s->random_state = s->params.seed;
    s->mirostat_mu = 2 * (double)s->params.mirostat_tau;
    status = tn_history_new(s, tok, err);
    s->params.bias = NULL, s->params.order = NULL, s->params.dry_breakers = NULL; /* the caller's */
    return status;
}

tn_status tn_sampler_new(const tn_sampler_params *params, const tn_tokenizer *tok, uint32_t n_vocab,
                         tn_sampler **out, tn_error *err) {
    *out = NULL;
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return tn_fail(err, TN_ERR_ARG, "sampler", "n_vocab", "%u, expected 1 to 2^31 - 1", n_vocab);
    tn_sampler *s = calloc(1, sizeof *s);
    if (!s) return tn_fail(err, TN_ERR_MEMORY, "sampler", NULL, "out of memory");
    s->params = *params;
    s->n_vocab = n_vocab;
    const tn_status status = init(s, tok, err);
    if (status != TN_OK) {
        tn_sampler_free(s);
        return status;
    }
    *out = s;
    return TN_OK;
}

void tn_sampler_free(tn_sampler *s) {
    if (!s) return;
    free(s->logits);
    free(s->ids);
    free(s->weights);
    free(s->ranks);
    free(s->bins);
    free(s->listed);
    free(s->bias);
    tn_history_free(&s->history);
    free(s);
}

tn_status tn_sampler_accept(tn_sampler *s, int32_t token, tn_error *err) {
    if (token < 0 || (uint32_t)token >= s->n_vocab)
        return tn_fail(err, TN_ERR_ARG, "sampler", "token", "%d, but there are %u tokens", token, s->n_vocab);
    tn_history_push(&s->history, token);
    return TN_OK;
}

/* ---- Candidates ---------------------------------------------------------------------------------------- */

static tn_status check_logits(const tn_sampler *s, const float *logits, tn_error *err) {
    if (tn_all_finite_or_low(logits, s->n_vocab)) return TN_OK;
    for (uint32_t i = 0; i < s->n_vocab; i++)
        if (!(logits[i] < INFINITY))
            return tn_fail(err, TN_ERR_NUMERIC, "sampler", "logits", "token %u has %g", i, (double)logits[i]);
    return TN_OK;
}

/* All tokens, or those of the mask, by ascending id. */
static void gather(tn_sampler *s, const float *logits, const uint64_t *mask) {
    if (!mask) {
        memcpy(s->logits, logits, s->n_vocab * sizeof *logits);
        for (uint32_t i = 0; i < s->n_vocab; i++) s->ids[i] = i;
        s->n = s->n_vocab;
        return;
    }
    s->n = 0;
    for (uint32_t word = 0; word * 64 < s->n_vocab; word++)
        for (uint64_t bits = mask[word]; bits; bits &= bits - 1) {
            const uint32_t id = word * 64 + (uint32_t)__builtin_ctzll(bits);
            s->logits[s->n] = logits[id];
            s->ids[s->n++] = id;
        }
}

/* Both lists are by ascending id. */
static void add_bias(tn_sampler *s) {
    uint32_t low = 0;
    for (size_t i = 0; i < s->params.n_bias; i++) {
        const uint32_t token = (uint32_t)s->bias[i].token;
        uint32_t high = s->n;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (s->ids[middle] < token)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < s->n && s->ids[low] == token) s->logits[low] += s->bias[i].bias;
    }
}

/* The best candidate, the lowest id among equals; n if all are -infinity. */
static uint32_t best(const tn_sampler *s) {
    const float max = tn_greatest(s->logits, s->n);
    uint32_t at = 0;
    if (max == -INFINITY) return s->n;
    while (s->logits[at] != max) at++;
    return at;
}

static tn_status none_left(bool constrained, tn_error *err) {
    return tn_fail(err, TN_ERR_NUMERIC, "sampler", "logits",
                   constrained ? "all tokens that the grammar allows are -inf" : "all are -inf");
}

/* ---- Pick ---------------------------------------------------------------------------------------------- */

/* Stages that look back on the text and stand in front of all filters; for a greedy choice, all of them. Returns the place of
 * the next stage. */
static uint32_t look_back(tn_sampler *s, bool greedy) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n_stages; i++) {
        if (s->stages[i] <= TN_STAGE_DRY && (greedy || i == next)) {
            tn_sampler_filters[s->stages[i]](s);
            next = i + 1;
        }
    }
    return next;
}

/* Which allowed tokens decide, whatever the others are: the n best, or (n 0) those within `reach` of the best. */
typedef struct tn_deciding {
    uint32_t n;
    double reach; /* infinity: all may matter */
} tn_deciding;

static tn_deciding deciding(const tn_sampler *s, bool greedy, uint32_t next) {
    enum { MOST = 1000 };
    const uint8_t stage = next < s->n_stages ? s->stages[next] : TN_N_STAGES;
    if (greedy) return (tn_deciding){.n = 1};
    if (stage == TN_STAGE_TOP_K && s->params.top_k <= MOST)
        return (tn_deciding){.n = (uint32_t)s->params.top_k};
    /* A little more than min-p, whose weights are rounded. */
    if (stage == TN_STAGE_MIN_P && s->params.min_p > FLT_MIN)
        return (tn_deciding){.reach = 0.01 - tn_log((double)s->params.min_p)};
    return (tn_deciding){.reach = INFINITY};
}

/* Narrows the candidates to the allowed ones among the best, if these decide. To look at a few tokens takes less time than to
 * find all that are allowed, and in most texts the best tokens are allowed. */
static bool narrow(tn_sampler *s, tn_constraint *constraint, tn_deciding d) {
    const uint32_t at = d.n == 1 ? best(s) : s->n, n_wide = d.n == 0 ? 512 : d.n < 32 ? 128 : 4 * d.n;
    uint32_t n_kept = 0;
    float least = INFINITY, greatest = -INFINITY; /* of all that are looked at; of the allowed */
    if (at < s->n && tn_constraint_allows(constraint, (int32_t)s->ids[at])) {
        s->logits[0] = s->logits[at];
        s->ids[0] = s->ids[at];
        s->n = 1;
        return true;
    }
    if (d.reach == INFINITY || n_wide >= s->n) return false;
    tn_keep_best(s, s->logits, true, n_wide);
    for (uint32_t i = 0; i < s->n; i++) {
        const float logit = s->logits[i];
        least = logit < least ? logit : least;
        if (!tn_constraint_allows(constraint, (int32_t)s->ids[i])) continue;
        greatest = logit > greatest ? logit : greatest;
        s->logits[n_kept] = logit;
        s->ids[n_kept++] = s->ids[i];
    }
    s->n = n_kept;
    return d.n ? n_kept >= d.n : (double)least < (double)greatest - d.reach;
}

/* Picks with the mask, or without one (NULL); *token stays -1 if that does not do under the constraint. */
static tn_status pick(tn_sampler *s, const float *logits, tn_constraint *constraint, const uint64_t *mask,
                      int32_t *token, tn_error *err) {
    const bool greedy = s->params.temperature == 0;
    gather(s, logits, mask);
    s->inverse = 1;
    s->weighed = false;
    add_bias(s);
    const uint32_t next = look_back(s, greedy);
    if (constraint && !mask && !narrow(s, constraint, deciding(s, greedy, next))) return TN_OK;
    uint32_t at = best(s);
    if (at == s->n) return none_left(constraint != NULL, err);
    if (!greedy) {
        for (uint32_t i = next; i < s->n_stages; i++) tn_sampler_filters[s->stages[i]](s);
        at = tn_draw(s);
        tn_mirostat_drawn(s, s->logits[at]);
    }
    *token = (int32_t)s->ids[at];
    return TN_OK;
}

tn_status tn_sampler_pick(tn_sampler *s, const float *logits, tn_constraint *constraint, int32_t *token,
                          tn_error *err) {
    const uint64_t *mask = NULL;
    *token = -1;
    tn_status status = check_logits(s, logits, err);
    if (status == TN_OK) status = pick(s, logits, constraint, NULL, token, err);
    if (status == TN_OK && *token < 0) status = tn_constraint_mask(constraint, &mask, err);
    if (status == TN_OK && *token < 0) status = pick(s, logits, constraint, mask, token, err);
    return status;
}

/* ---- Log-probabilities ----------------------------------------------------------------------------------- */

static double log_of_sum(const float *logits, uint32_t n, float max) {
    float block[TN_EXP_BLOCK], scaled[TN_EXP_BLOCK];
    double sum = 0;
    for (uint32_t at = 0; at < n; at += TN_EXP_BLOCK) {
        const uint32_t n_here = n - at < TN_EXP_BLOCK ? n - at : TN_EXP_BLOCK;
        for (uint32_t i = 0; i < TN_EXP_BLOCK; i++) block[i] = i < n_here ? logits[at + i] : -INFINITY;
        tn_exp_block(block, max, 1, scaled);
        for (uint32_t i = 0; i < n_here; i++) sum += (double)scaled[i];
    }
    return tn_log(sum) - TN_WEIGHT_BITS * 0x1.62e42fefa39efp-1;
}

void tn_logprobs(const float *logits, uint32_t n_vocab, int32_t token, uint32_t n_top, tn_logprob *out) {
    float max = -INFINITY;
    uint32_t n = 0;
    tn_logprob *top = out + 1;
    for (uint32_t id = 0; id < n_vocab; id++) {
        const float logit = logits[id];
        max = logit > max ? logit : max;
        if (n_top == 0 || (n == n_top && !(logit > top[n - 1].logprob))) continue;
        uint32_t at = n < n_top ? n++ : n - 1;
        for (; at > 0 && logit > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (tn_logprob){(int32_t)id, logit};
    }
    const double log_sum = log_of_sum(logits, n_vocab, max);
    out[0] = (tn_logprob){token, logits[token]};
    for (uint32_t i = 0; i <= n_top; i++)
        out[i].logprob = (float)((double)out[i].logprob - (double)max - log_sum);
}
