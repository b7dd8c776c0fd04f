/* Options of every command that draws tokens: how, and what the text must match. */
#ifndef TN_TOOLS_SAMPLING_H
#define TN_TOOLS_SAMPLING_H

#include "cli.h"

#define TN_SAMPLING_OPTIONS                                                                                  \
    (TN_ACCEPT(SEED) | TN_ACCEPT(TEMP) | TN_ACCEPT(TEMP_RANGE) | TN_ACCEPT(TEMP_EXPONENT) |                  \
     TN_ACCEPT(TOP_K) | TN_ACCEPT(TOP_P) | TN_ACCEPT(MIN_P) | TN_ACCEPT(TYPICAL) | TN_ACCEPT(TOP_N_SIGMA) |  \
     TN_ACCEPT(XTC) | TN_ACCEPT(XTC_THRESHOLD) | TN_ACCEPT(REPEAT_PENALTY) | TN_ACCEPT(REPEAT_LAST_N) |      \
     TN_ACCEPT(PRESENCE_PENALTY) | TN_ACCEPT(FREQUENCY_PENALTY) | TN_ACCEPT(DRY) | TN_ACCEPT(DRY_BASE) |     \
     TN_ACCEPT(DRY_LENGTH) | TN_ACCEPT(DRY_LAST_N) | TN_ACCEPT(DRY_BREAK) | TN_ACCEPT(MIROSTAT) |            \
     TN_ACCEPT(MIROSTAT_RATE) | TN_ACCEPT(BIAS) | TN_ACCEPT(SAMPLERS) | TN_ACCEPT(LOGPROBS) |                \
     TN_ACCEPT(GRAMMAR) | TN_ACCEPT(JSON_SCHEMA) | TN_ACCEPT(PROFILE) | TN_ACCEPT(HELP_SAMPLING))

/* The text of --help-sampling; at most 24 lines of 80 columns. */
extern const char tn_sampling_help[];

typedef struct tn_sampling {
    tern_sampling s;
    tern_logit_bias bias[TN_MAX_TEXTS];
    tn_text grammar; /* or schema; bytes NULL: none */
} tn_sampling;       /* all zero: empty */

/* The settings: the model's, then what was given; a new seed unless one was given. Reads the grammar or schema. Returns the exit code. */
int tn_sampling_read(const tn_options *options, const tern_model *model, tn_sampling *out);
void tn_sampling_free(tn_sampling *sampling);

/* Fills in the generator's options from the settings, which must stay until the generator is made. */
void tn_sampling_config(const tn_sampling *sampling, const tn_options *options,
                        tern_generator_options *config);

/* The stages as applied, on standard error. */
void tn_sampling_print(const tern_generator *generator);

/* The log-probabilities of the token just made, if asked for, as a line of JSON on standard error. Returns the exit code. */
int tn_logprobs_print(const tern_model *model, const tern_generator *generator);

#endif
