/* What a chain consists of: ranges of parameters, names and order of stages, and their description. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "../base/c_locale.h"
#include "sampler_impl.h"

/* ---- Ranges ---------------------------------------------------------------------------------------------- */

typedef struct tn_range {
    const char *name;
    size_t offset; /* of a float in tn_sampler_params */
    double low, high;
    bool above; /* low itself is out */
    const char *text;
} tn_range;

#define AT(member) #member, offsetof(tn_sampler_params, member)
#define ANY_LEAST  0, (double)FLT_MAX, false, "a finite number >= 0"
#define SHARE      0, 1, false, "in [0, 1]"

static const tn_range ranges[] = {
    {AT(temperature), ANY_LEAST},
    {AT(temperature_range), ANY_LEAST},
    {AT(temperature_exponent), ANY_LEAST},
    {AT(top_p), 0, 1, true, "in (0, 1]"},
    {AT(min_p), SHARE},
    {AT(typical_p), 0, 1, true, "in (0, 1]"},
    {AT(top_n_sigma), ANY_LEAST},
    {AT(xtc_probability), SHARE},
    {AT(xtc_threshold), SHARE},
    {AT(repeat_penalty), 0, (double)FLT_MAX, true, "a finite number > 0"},
    {AT(presence_penalty), -1000, 1000, false, "in [-1000, 1000]"},
    {AT(frequency_penalty), -1000, 1000, false, "in [-1000, 1000]"},
    {AT(dry_multiplier), 0, 1000, false, "in [0, 1000]"},
    {AT(dry_base), 0, 1000, false, "in [0, 1000]"},
    {AT(mirostat_tau), ANY_LEAST},
    {AT(mirostat_eta), ANY_LEAST},
};

static tn_status bad_parameter(tn_error *err, const char *name, const char *range, double value) {
    return tn_fail(err, TN_ERR_ARG, "sampler", name, "%g, expected %s", value, range);
}

static tn_status check_bias(const tn_sampler *s, tn_error *err) {
    const tn_sampler_params *p = &s->params;
    if (p->n_bias > TN_SAMPLER_MAX_BIAS)
        return tn_fail(err, TN_ERR_ARG, "sampler", "bias", "%zu of them, expected at most %d", p->n_bias,
                       TN_SAMPLER_MAX_BIAS);
    for (size_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].token < 0 || (uint32_t)p->bias[i].token >= s->n_vocab)
            return tn_fail(err, TN_ERR_ARG, "sampler", "bias", "token %d, but there are %u tokens",
                           p->bias[i].token, s->n_vocab);
        if (!(p->bias[i].bias < INFINITY))
            return bad_parameter(err, "bias", "a finite number or -infinity", (double)p->bias[i].bias);
    }
    return TN_OK;
}

static tn_status check_params(const tn_sampler *s, tn_error *err) {
    const tn_sampler_params *p = &s->params;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const tn_range *r = &ranges[i];
        float value;
        memcpy(&value, (const char *)p + r->offset, sizeof value);
        const double x = (double)value;
        /* Written so that NaN fails. */
        if (!(x >= r->low && x <= r->high && !(r->above && x == r->low)))
            return bad_parameter(err, r->name, r->text, x);
    }
    if (p->top_k < 0) return bad_parameter(err, "top_k", ">= 0", p->top_k);
    if (p->repeat_last_n < -1) return bad_parameter(err, "repeat_last_n", ">= -1", p->repeat_last_n);
    if (p->dry_last_n < -1) return bad_parameter(err, "dry_last_n", ">= -1", p->dry_last_n);
    if (p->dry_allowed_length < 0)
        return bad_parameter(err, "dry_allowed_length", ">= 0", p->dry_allowed_length);
    return check_bias(s, err);
}

/* ---- Order -------------------------------------------------------------------------------------------------- */

/* The second name is that of model files and of other engines. */
static const char *const names[TN_N_STAGES][2] = {
    [TN_STAGE_PENALTIES] = {"penalties", "penalties"},
    [TN_STAGE_DRY] = {"dry", "dry"},
    [TN_STAGE_TOP_N_SIGMA] = {"top-n-sigma", "top-n-sigma"},
    [TN_STAGE_TOP_K] = {"top-k", "top-k"},
    [TN_STAGE_TYPICAL] = {"typical", "typ-p"},
    [TN_STAGE_TOP_P] = {"top-p", "top-p"},
    [TN_STAGE_MIN_P] = {"min-p", "min-p"},
    [TN_STAGE_XTC] = {"xtc", "xtc"},
    [TN_STAGE_TEMPERATURE] = {"temperature", "temp"},
    [TN_STAGE_MIROSTAT] = {"mirostat", "mirostat"},
};

static bool in_force(const tn_sampler_params *p, unsigned stage) {
    switch (stage) {
    case TN_STAGE_PENALTIES:
        return p->repeat_last_n != 0 &&
               (p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0);
    case TN_STAGE_DRY: return p->dry_multiplier > 0 && p->dry_last_n != 0;
    case TN_STAGE_TOP_N_SIGMA: return p->top_n_sigma > 0;
    case TN_STAGE_TOP_K: return p->top_k > 0;
    case TN_STAGE_TYPICAL: return p->typical_p < 1;
    case TN_STAGE_TOP_P: return p->top_p < 1;
    case TN_STAGE_MIN_P: return p->min_p > 0;
    case TN_STAGE_XTC: return p->xtc_probability > 0 && p->xtc_threshold <= 0.5f;
    case TN_STAGE_TEMPERATURE: return p->temperature != 1 || p->temperature_range > 0;
    default: return p->mirostat_tau > 0;
    }
}

/* Whether n bytes are the name; '_' is '-'. */
static bool is_name(const char *text, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if ((text[i] == '_' ? '-' : text[i]) != name[i]) return false;
    return !name[n];
}

static tn_status read_order(tn_sampler *s, tn_error *err) {
    bool seen[TN_N_STAGES] = {false};
    for (const char *text = s->params.order; *text;) {
        const size_t n = strcspn(text, ",;");
        unsigned stage = 0;
        while (stage < TN_N_STAGES && !is_name(text, n, names[stage][0]) &&
               !is_name(text, n, names[stage][1]))
            stage++;
        if (stage == TN_N_STAGES)
            return tn_fail(err, TN_ERR_ARG, "sampler", "order",
                           "no stage '%.*s', expected names of penalties, dry, top-n-sigma, top-k, typical, "
                           "top-p, min-p, "
                           "xtc, temperature, mirostat separated by commas",
                           n < 40 ? (int)n : 40, text);
        if (seen[stage])
            return tn_fail(err, TN_ERR_ARG, "sampler", "order", "'%s' is there twice", names[stage][0]);
        seen[stage] = true;
        if (in_force(&s->params, stage)) s->stages[s->n_stages++] = (uint8_t)stage;
        text += n + (text[n] != '\0');
    }
    return TN_OK;
}

tn_status tn_chain_init(tn_sampler *s, tn_error *err) {
    const tn_status status = check_params(s, err);
    if (status != TN_OK) return status;
    if (s->params.order) return read_order(s, err);
    for (unsigned stage = 0; stage < TN_N_STAGES; stage++) {
        const bool filter = stage >= TN_STAGE_TOP_N_SIGMA && stage <= TN_STAGE_XTC;
        if (!in_force(&s->params, stage) || (filter && s->params.mirostat_tau > 0)) continue;
        s->stages[s->n_stages++] = (uint8_t)stage;
    }
    return TN_OK;
}

/* ---- Description ------------------------------------------------------------------------------------------------ */

static int describe_stage(const tn_sampler_params *p, unsigned stage, char *dst, size_t cap) {
    const char *name = names[stage][0];
    const bool ranged = p->temperature_range > 0;
    switch (stage) {
    case TN_STAGE_PENALTIES:
        return tn_snprintf(dst, cap, "%s repeat %g, presence %g, frequency %g, of the last %d", name,
                           (double)p->repeat_penalty, (double)p->presence_penalty,
                           (double)p->frequency_penalty, p->repeat_last_n);
    case TN_STAGE_DRY:
        return tn_snprintf(dst, cap, "%s %g, base %g, length %d, of the last %d", name,
                           (double)p->dry_multiplier, (double)p->dry_base, p->dry_allowed_length,
                           p->dry_last_n);
    case TN_STAGE_TOP_N_SIGMA: return tn_snprintf(dst, cap, "%s %g", name, (double)p->top_n_sigma);
    case TN_STAGE_TOP_K: return snprintf(dst, cap, "%s %d", name, p->top_k);
    case TN_STAGE_TYPICAL: return tn_snprintf(dst, cap, "%s %g", name, (double)p->typical_p);
    case TN_STAGE_TOP_P: return tn_snprintf(dst, cap, "%s %g", name, (double)p->top_p);
    case TN_STAGE_MIN_P: return tn_snprintf(dst, cap, "%s %g", name, (double)p->min_p);
    case TN_STAGE_XTC:
        return tn_snprintf(dst, cap, "%s %g, threshold %g", name, (double)p->xtc_probability,
                           (double)p->xtc_threshold);
    case TN_STAGE_TEMPERATURE:
        if (!ranged) return tn_snprintf(dst, cap, "%s %g", name, (double)p->temperature);
        return tn_snprintf(dst, cap, "%s %g, range %g, exponent %g", name, (double)p->temperature,
                           (double)p->temperature_range, (double)p->temperature_exponent);
    default:
        return tn_snprintf(dst, cap, "%s %g, rate %g", name, (double)p->mirostat_tau,
                           (double)p->mirostat_eta);
    }
}

void tn_sampler_describe(const tn_sampler *s, char *dst, size_t cap) {
    const bool greedy = s->params.temperature == 0;
    size_t at = 0;
    if (cap) dst[0] = '\0';
    if (s->params.n_bias && cap) at = (size_t)snprintf(dst, cap, "bias of %zu", s->params.n_bias);
    for (uint32_t i = 0; i < s->n_stages && at + 1 < cap; i++) {
        if (greedy && s->stages[i] > TN_STAGE_DRY) continue;
        if (at) at += (size_t)snprintf(dst + at, cap - at, "; ");
        if (at < cap) at += (size_t)describe_stage(&s->params, s->stages[i], dst + at, cap - at);
    }
    if (at + 1 < cap) snprintf(dst + at, cap - at, "%s%s", at ? "; " : "", greedy ? "greedy" : "draw");
}
