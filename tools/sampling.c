#include "sampling.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <jansson.h>

#include "json_print.h"
#include "terminal.h"

const char tn_sampling_help[] =
    "Tokens are drawn by a chain of stages. Defaults: those of --profile, else the\n"
    "model file's, else as here. --grammar FILE and --json-schema FILE bind the text.\n"
    "  -s, --seed N             seed of the draws (a new one, printed at the end)\n"
    "  --samplers LIST          the stages, in order: penalties,dry,top-n-sigma,\n"
    "                           top-k,typical,top-p,min-p,xtc,temperature\n"
    "  --repeat-penalty X, --presence-penalty X, --frequency-penalty X   for tokens\n"
    "                           among the last --repeat-last-n N (1, 0, 0; 64)\n"
    "  --dry X, --dry-base X    penalty of repetitions (0, off), growth (1.75)\n"
    "  --dry-length N           repeated tokens that are free (2)\n"
    "  --dry-last-n N, --dry-break TEXT   tokens looked at (-1: all), what ends one\n"
    "  --top-n-sigma X          keep logits in X deviations of the best (0, off)\n"
    "  --top-k N                keep the N likeliest (40; 0: all)\n"
    "  --typical X              keep the most typical, up to this share (1, off)\n"
    "  --top-p X, --min-p X     share kept (0.95), of the best's probability (0.05)\n"
    "  --xtc X                  chance to drop the likeliest (0, off) of at least\n"
    "  --xtc-threshold X        this probability (0.1), but for one\n"
    "  --temp X                 temperature (0.8; 0: greedy)\n"
    "  --temp-range X, --temp-exponent X   more or less of it by entropy (0, off; 1)\n"
    "  --mirostat X             instead of filters, aim at X bits a token (0, off)\n"
    "  --mirostat-rate X        how fast (0.1)\n"
    "  --bias ID=X              add to the logit of a token; -inf bans it\n"
    "  --logprobs N             of each token and the N likeliest, as lines of JSON\n"
    "  --profile NAME           settings from ~/.config/tern/config.yaml (default)\n"
    "  --help-sampling          this text\n";

static uint64_t new_seed(void) {
    uint32_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint32_t)(tn_seconds() * 1e6);
    return seed; /* 32 bits: short enough to type again */
}

static void set_real(const tn_options *options, tn_option_id id, double value, float *out) {
    if (tn_option_given(options, id)) *out = (float)value;
}

static void set_whole(const tn_options *options, tn_option_id id, int64_t value, int32_t *out) {
    if (tn_option_given(options, id)) *out = (int32_t)value;
}

static void set_given(const tn_options *o, tern_sampling *s) {
    set_real(o, TN_OPTION_TEMP, o->temp, &s->temperature);
    set_real(o, TN_OPTION_TEMP_RANGE, o->temp_range, &s->temperature_range);
    set_real(o, TN_OPTION_TEMP_EXPONENT, o->temp_exponent, &s->temperature_exponent);
    set_whole(o, TN_OPTION_TOP_K, o->top_k, &s->top_k);
    set_real(o, TN_OPTION_TOP_P, o->top_p, &s->top_p);
    set_real(o, TN_OPTION_MIN_P, o->min_p, &s->min_p);
    set_real(o, TN_OPTION_TYPICAL, o->typical, &s->typical_p);
    set_real(o, TN_OPTION_TOP_N_SIGMA, o->top_n_sigma, &s->top_n_sigma);
    set_real(o, TN_OPTION_XTC, o->xtc, &s->xtc_probability);
    set_real(o, TN_OPTION_XTC_THRESHOLD, o->xtc_threshold, &s->xtc_threshold);
    set_real(o, TN_OPTION_REPEAT_PENALTY, o->repeat_penalty, &s->repeat_penalty);
    set_real(o, TN_OPTION_PRESENCE_PENALTY, o->presence_penalty, &s->presence_penalty);
    set_real(o, TN_OPTION_FREQUENCY_PENALTY, o->frequency_penalty, &s->frequency_penalty);
    set_whole(o, TN_OPTION_REPEAT_LAST_N, o->repeat_last_n, &s->repeat_last_n);
    set_real(o, TN_OPTION_DRY, o->dry, &s->dry_multiplier);
    set_real(o, TN_OPTION_DRY_BASE, o->dry_base, &s->dry_base);
    set_whole(o, TN_OPTION_DRY_LENGTH, o->dry_length, &s->dry_allowed_length);
    set_whole(o, TN_OPTION_DRY_LAST_N, o->dry_last_n, &s->dry_last_n);
    set_real(o, TN_OPTION_MIROSTAT, o->mirostat, &s->mirostat_tau);
    set_real(o, TN_OPTION_MIROSTAT_RATE, o->mirostat_rate, &s->mirostat_eta);
    if (o->dry_break.n) s->dry_breakers = o->dry_break.v, s->n_dry_breakers = o->dry_break.n;
    if (o->samplers) s->samplers = o->samplers;
}

/* "ID=X" */
static int read_bias(const tn_options *options, const char *text, tern_logit_bias *out) {
    const char *equals = strchr(text, '=');
    char id_text[16];
    int64_t id;
    double bias = -INFINITY;
    const size_t n = equals ? (size_t)(equals - text) : 0;
    if (n && n < sizeof id_text) memcpy(id_text, text, n);
    id_text[n < sizeof id_text ? n : 0] = '\0';
    if (!equals || !tn_parse_integer(id_text, 0, INT32_MAX, &id) ||
        (strcmp(equals + 1, "-inf") != 0 && !tn_parse_real(equals + 1, &bias)))
        return tn_cli_fail_usage(options->command,
                                 "--bias: expected a token id, '=' and a number or -inf, found '%s'", text);
    *out = (tern_logit_bias){(int32_t)id, (float)bias};
    return TN_EXIT_DONE;
}

/* A schema may stand on the command line itself: it begins with a brace. */
static int read_constraint(const tn_options *options, tn_sampling *out) {
    const char *schema = options->json_schema;
    if (options->grammar && schema)
        return tn_cli_fail_usage(options->command,
                                 "--grammar and --json-schema: expected one of them, found both");
    if (options->grammar) return tn_cli_read(options->grammar, &out->grammar);
    if (!schema) return TN_EXIT_DONE;
    if (schema[strspn(schema, " \t\n")] != '{') return tn_cli_read(schema, &out->grammar);
    out->grammar = (tn_text){strdup(schema), strlen(schema)};
    return out->grammar.bytes ? TN_EXIT_DONE : tn_cli_fail("cannot read: --json-schema: out of memory");
}

int tn_sampling_read(const tn_options *options, const tern_model *model, tn_sampling *out) {
    tern_error err;
    if (tern_model_sampling(model, &out->s, &err) != TERN_OK) return tn_cli_fail_library(&err);
    set_given(options, &out->s);
    out->s.seed = tn_option_given(options, TN_OPTION_SEED) ? (uint64_t)options->seed : new_seed();
    for (size_t i = 0; i < options->bias.n; i++) {
        const int failed = read_bias(options, options->bias.v[i], &out->bias[i]);
        if (failed) return failed;
    }
    out->s.bias = out->bias;
    out->s.n_bias = options->bias.n;
    return read_constraint(options, out);
}

void tn_sampling_free(tn_sampling *sampling) {
    free(sampling->grammar.bytes);
    sampling->grammar = (tn_text){0};
}

void tn_sampling_config(const tn_sampling *sampling, const tn_options *options,
                        tern_generator_options *config) {
    config->sampling = &sampling->s;
    if (options->json_schema) {
        config->json_schema = sampling->grammar.bytes;
        config->n_json_schema = sampling->grammar.n;
    } else {
        config->grammar = sampling->grammar.bytes;
        config->n_grammar = sampling->grammar.n;
    }
    config->want_logprobs = tn_option_given(options, TN_OPTION_LOGPROBS);
    config->n_logprobs = (uint32_t)options->n_logprobs;
}

void tn_sampling_print(const tern_generator *generator) {
    char text[1024];
    tern_generator_describe(generator, text, sizeof text);
    fprintf(stderr, "%-12s %s\n", "sampling", text);
}

static json_t *logprob_json(const tern_model *model, const tern_logprob *l) {
    size_t n;
    char safe[512];
    const char *text = tern_token_text(model, l->token, true, &n);
    json_t *exact = json_stringn(text, n); /* NULL if it is no UTF-8: then with \\xNN */
    tern_escape(safe, sizeof safe, text, n);
    /* JSON has no infinity: a token that cannot be has null. */
    return json_pack("{s:i, s:o, s:o}", "token", l->token, "text", exact ? exact : json_string(safe),
                     "logprob", isfinite(l->logprob) ? json_real((double)l->logprob) : json_null());
}

int tn_logprobs_print(const tern_model *model, const tern_generator *generator) {
    tern_generated made;
    tern_generator_result(generator, &made);
    const tern_logprob *l = made.logprobs;
    if (made.n_logprobs == 0) return TN_EXIT_DONE;
    json_t *line = logprob_json(model, &l[0]), *top = json_array();
    for (size_t i = 1; i < made.n_logprobs; i++) json_array_append_new(top, logprob_json(model, &l[i]));
    json_object_set_new(line, "top", top);
    const int failed = tn_json_print(stderr, line, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(line);
    return failed;
}
