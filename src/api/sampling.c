/* Settings of the sampler: the defaults, and what a model's file recommends. */
#include <float.h>
#include <stdint.h>
#include <stdio.h>

#include "../base/c_locale.h"
#include "api.h"

_Static_assert(sizeof(tern_logit_bias) == sizeof(tn_logit_bias), "biases agree");

void tern_sampling_defaults(tern_sampling *s) {
    static const char *const breakers[] = {"\n", ":", "\"", "*"};
    *s = (tern_sampling){.size = sizeof *s,
                         .temperature = 0.8f,
                         .top_k = 40,
                         .top_p = 0.95f,
                         .min_p = 0.05f,
                         .repeat_penalty = 1.0f,
                         .repeat_last_n = 64,
                         .temperature_exponent = 1.0f,
                         .typical_p = 1.0f,
                         .xtc_threshold = 0.1f,
                         .dry_base = 1.75f,
                         .dry_allowed_length = 2,
                         .dry_last_n = -1,
                         .dry_breakers = breakers,
                         .n_dry_breakers = sizeof breakers / sizeof *breakers,
                         .mirostat_eta = 0.1f};
}

tn_sampler_params tn_api_sampler_params(const tern_sampling *s) {
    return (tn_sampler_params){.seed = s->seed,
                               .temperature = s->temperature,
                               .temperature_range = s->temperature_range,
                               .temperature_exponent = s->temperature_exponent,
                               .top_k = s->top_k,
                               .top_p = s->top_p,
                               .min_p = s->min_p,
                               .typical_p = s->typical_p,
                               .top_n_sigma = s->top_n_sigma,
                               .xtc_probability = s->xtc_probability,
                               .xtc_threshold = s->xtc_threshold,
                               .repeat_penalty = s->repeat_penalty,
                               .presence_penalty = s->presence_penalty,
                               .frequency_penalty = s->frequency_penalty,
                               .repeat_last_n = s->repeat_last_n,
                               .dry_multiplier = s->dry_multiplier,
                               .dry_base = s->dry_base,
                               .dry_allowed_length = s->dry_allowed_length,
                               .dry_last_n = s->dry_last_n,
                               .dry_breakers = s->dry_breakers,
                               .n_dry_breakers = s->n_dry_breakers,
                               .mirostat_tau = s->mirostat_tau,
                               .mirostat_eta = s->mirostat_eta,
                               .bias = (const tn_logit_bias *)s->bias,
                               .n_bias = s->n_bias,
                               .order = s->samplers};
}

/* ---- The model's file ----------------------------------------------------------------------------------------- */

typedef struct tn_sampling_key {
    const char *key;
    size_t offset;
    bool whole; /* an int32_t; else a float */
    double low, high;
} tn_sampling_key;

#define PREFIX     "general.sampling."
#define AT(member) offsetof(tern_sampling, member)

static const tn_sampling_key keys[] = {
    {PREFIX "top_k", AT(top_k), true, INT32_MIN, INT32_MAX}, /* some writers say -1 for all */
    {PREFIX "top_p", AT(top_p), false, 0, 1},
    {PREFIX "min_p", AT(min_p), false, 0, 1},
    {PREFIX "xtc_probability", AT(xtc_probability), false, 0, 1},
    {PREFIX "xtc_threshold", AT(xtc_threshold), false, 0, 1},
    {PREFIX "temp", AT(temperature), false, 0, 100},
    {PREFIX "penalty_last_n", AT(repeat_last_n), true, -1, INT32_MAX},
    {PREFIX "penalty_repeat", AT(repeat_penalty), false, (double)FLT_MIN, 100},
    {PREFIX "mirostat_tau", AT(mirostat_tau), false, 0, 100},
    {PREFIX "mirostat_eta", AT(mirostat_eta), false, 0, 100},
};

static tn_status bad_key(const tern_model *model, const char *key, const char *expected, tn_error *e) {
    return tn_fail(e, TN_ERR_FORMAT, "bad sampling settings", tn_file_path(model->m->file),
                   "key '%s': expected %s", key, expected);
}

static tn_status read_key(const tern_model *model, const tn_sampling_key *k, tern_sampling *s, tn_error *e) {
    const tn_meta *meta = tn_file_meta(model->m->file, k->key);
    char expected[64];
    double number = 0;
    int64_t whole = 0;
    if (!meta) return TN_OK;
    const bool read = k->whole ? tn_meta_i64(meta, 0, &whole) : tn_meta_f64(meta, 0, &number);
    if (k->whole) number = (double)whole;
    if (!read || !(number >= k->low && number <= k->high)) {
        tn_snprintf(expected, sizeof expected, "a%s from %g to %g", k->whole ? " whole number" : " number",
                    k->low, k->high);
        return bad_key(model, k->key, expected, e);
    }
    const int32_t as_whole = (int32_t)whole;
    const float as_float = (float)number;
    memcpy((char *)s + k->offset, k->whole ? (const void *)&as_whole : (const void *)&as_float, 4);
    return TN_OK;
}

/* The key 'mirostat' says whether: 0 not, 1 and 2 which of the two algorithms. Both aim at the same surprise; we have the
 * second. */
static tn_status read_mirostat(const tern_model *model, tern_sampling *s, tn_error *e) {
    const tn_meta *meta = tn_file_meta(model->m->file, PREFIX "mirostat");
    int64_t kind = 0;
    if (meta && (!tn_meta_i64(meta, 0, &kind) || kind < 0 || kind > 2))
        return bad_key(model, PREFIX "mirostat", "0, 1 or 2", e);
    if (kind == 0)
        s->mirostat_tau = 0;
    else if (s->mirostat_tau == 0)
        s->mirostat_tau = 5;
    return TN_OK;
}

tn_status tn_api_model_sampling(const tern_model *model, tern_sampling *s, tn_error *e) {
    tern_sampling_defaults(s);
    tn_status status = TN_OK;
    for (size_t i = 0; !status && i < sizeof keys / sizeof *keys; i++)
        status = read_key(model, &keys[i], s, e);
    if (!status) status = read_mirostat(model, s, e);
    if (status) return status;
    if (s->top_k < 0) s->top_k = 0;
    if (s->top_p == 0) s->top_p = FLT_MIN; /* the best alone */
    if (model->samplers[0]) s->samplers = model->samplers;
    return TN_OK;
}

tern_status tern_model_sampling(const tern_model *model, tern_sampling *sampling, tern_error *err) {
    if (!model || !sampling) return tn_api_null(err, __func__);
    tn_error e = {0};
    return tn_api_give(err, tn_api_model_sampling(model, sampling, &e), &e);
}
