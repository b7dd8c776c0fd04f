/* The options of every subcommand: one table, so that the same word means the same everywhere. */
#ifndef TN_TOOLS_OPTIONS_H
#define TN_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern.h"

typedef struct tn_command tn_command;

typedef enum tn_option_id {
    TN_OPTION_MODEL,
    TN_OPTION_PROMPT,
    TN_OPTION_FILE,
    TN_OPTION_PREDICT,
    TN_OPTION_CTX,
    TN_OPTION_THREADS,
    TN_OPTION_BATCH,
    TN_OPTION_SEED,
    TN_OPTION_TEMP,
    TN_OPTION_TOP_K,
    TN_OPTION_TOP_P,
    TN_OPTION_MIN_P,
    TN_OPTION_REPEAT_PENALTY,
    TN_OPTION_REPEAT_LAST_N,
    TN_OPTION_STOP,
    TN_OPTION_KV,
    TN_OPTION_PIN,
    TN_OPTION_IGNORE_EOS,
    TN_OPTION_NO_SPECIAL,
    TN_OPTION_NO_BOS,
    TN_OPTION_IDS,
    TN_OPTION_ALL,
    TN_OPTION_OUTPUT,
    TN_OPTION_JSON,
    TN_OPTION_TENSORS,
    TN_OPTION_VERBOSE,
    TN_OPTION_QUIET,
    TN_OPTION_PRE,
    TN_OPTION_ARCH_FILE,
    TN_OPTION_DEPTH,
    TN_OPTION_RUNS,
    TN_OPTION_CSV,
    TN_OPTION_YAML,
    TN_OPTION_RAW,
    TN_OPTION_POOLING,
    TN_OPTION_NO_NORMALIZE,
    TN_OPTION_TYPE,
    TN_OPTION_RECIPE,
    TN_OPTION_IMATRIX,
    TN_OPTION_DRY_RUN,
    TN_OPTION_KEEP_SPLIT,
    TN_OPTION_SPLIT_SIZE,
    TN_OPTION_OVERRIDE,
    TN_OPTION_ALLOW_REQUANTIZE,
    TN_OPTION_SAMPLERS,
    TN_OPTION_TEMP_RANGE,
    TN_OPTION_TEMP_EXPONENT,
    TN_OPTION_TYPICAL,
    TN_OPTION_TOP_N_SIGMA,
    TN_OPTION_XTC,
    TN_OPTION_XTC_THRESHOLD,
    TN_OPTION_PRESENCE_PENALTY,
    TN_OPTION_FREQUENCY_PENALTY,
    TN_OPTION_DRY,
    TN_OPTION_DRY_BASE,
    TN_OPTION_DRY_LENGTH,
    TN_OPTION_DRY_LAST_N,
    TN_OPTION_DRY_BREAK,
    TN_OPTION_MIROSTAT,
    TN_OPTION_MIROSTAT_RATE,
    TN_OPTION_BIAS,
    TN_OPTION_LOGPROBS,
    TN_OPTION_GRAMMAR,
    TN_OPTION_JSON_SCHEMA,
    TN_OPTION_PROFILE,
    TN_OPTION_HELP_SAMPLING,
    TN_OPTION_STATE,
    TN_OPTION_DRAFT,
    TN_OPTION_MESSAGES,
    TN_OPTION_TOOLS,
    TN_OPTION_VAR,
    TN_OPTION_BOS,
    TN_OPTION_EOS,
    TN_OPTION_NO_GENERATION_PROMPT,
    TN_OPTION_SYSTEM,
    TN_OPTION_TEMPLATE,
    TN_OPTION_LOAD,
    TN_OPTION_FULL,
    TN_OPTION_REASONING,
    TN_OPTION_BASE,
    TN_OPTION_SAVE_BASE,
    TN_OPTION_AUTO,
    TN_OPTION_TARGET_BPW,
    TN_OPTION_SANDBOX,
    TN_OPTION_SANDBOX_DIR,
    TN_OPTION_MEASURES,
    TN_OPTION_HELP,
    TN_OPTION_COUNT
} tn_option_id;

/* A set of options. */
__extension__ typedef unsigned __int128 tn_option_set;
#define TN_OPTION_BIT(id) ((tn_option_set)1 << (id))
#define TN_ACCEPT(name)   TN_OPTION_BIT(TN_OPTION_##name)

/* Of an option that may be given several times. */
enum { TN_MAX_TEXTS = 16 };
typedef struct tn_texts {
    const char *v[TN_MAX_TEXTS];
    size_t n;
} tn_texts;

/* What was given; strings are borrowed from argv. A number that was not given is 0: ask tn_option_given. */
typedef struct tn_options {
    const tn_command *command;
    tn_option_set given; /* TN_OPTION_BIT of each option seen */
    const char *kind;    /* one of the command's kinds */
    const char *model, *prompt, *file, *ids, *output, *pre, *arch_file, *yaml, *messages, *tools, *bos, *eos;
    const char *pooling, *type, *recipe, *imatrix, *samplers, *grammar, *json_schema, *profile, *state,
        *draft, *system, *template, *load, *full, *reasoning, *base, *save_base, *sandbox_dir, *measures;
    tn_texts stop, var, overrides, dry_break, bias;
    const char *list[TN_OPTION_COUNT]; /* of options that the command takes as lists */
    int64_t n_predict, n_ctx, n_threads, n_batch, seed, top_k, repeat_last_n, n_runs, split_size;
    int64_t dry_length, dry_last_n, n_logprobs;
    tern_kv_type kv;
    double temp, top_p, min_p, repeat_penalty;
    double temp_range, temp_exponent, typical, top_n_sigma, xtc, xtc_threshold, presence_penalty,
        frequency_penalty, dry, dry_base, mirostat, mirostat_rate, target_bpw;
    bool ignore_eos, no_special, no_bos, pin, all, json, csv, raw, no_normalize, tensors, verbose, quiet,
        dry_run, keep_split, allow_requantize, no_generation_prompt, automatic, sandbox, help, help_sampling;
} tn_options;

static inline bool tn_option_given(const tn_options *options, tn_option_id id) {
    return (options->given & TN_OPTION_BIT(id)) != 0;
}

/* Parses the arguments that follow the command's name. Returns 0, or the exit code after printing what is
 * wrong. */
int tn_options_parse(const tn_command *command, int n_args, char *const *args, tn_options *out);

/* The option of a long name, TN_OPTION_COUNT if there is none. */
tn_option_id tn_option_named(const char *name);

/* What values an option has: none but its presence, one, or several in turn. */
typedef enum tn_option_values { TN_VALUES_NONE, TN_VALUES_ONE, TN_VALUES_LIST } tn_option_values;
tn_option_values tn_option_values_of(tn_option_id id);

/* Its long form without dashes, its short one (0: none), and the words that it may be, separated by spaces (NULL: any text). */
const char *tn_option_name(tn_option_id id);
char tn_option_letter(tn_option_id id);
const char *tn_option_words(tn_option_id id);

/* Sets an option as if it had been given, with `word` for its name in errors. Returns the exit code. */
int tn_option_set_value(tn_options *options, tn_option_id id, const char *word, const char *value);

/* Decimal integer without sign (but '-' where low is negative), spaces or anything behind it. */
bool tn_parse_integer(const char *text, int64_t low, int64_t high, int64_t *out);

/* Decimal notation alone: no hexadecimal, no "inf", no "nan", no spaces. */
bool tn_parse_real(const char *text, double *out);

/* The word of a KV cache type in options and reports, and back from one of n bytes. */
const char *tn_kv_name(tern_kv_type kv);
bool tn_parse_kv(const char *text, size_t n, tern_kv_type *kv);
#define TN_KV_WORDS "f16, q8_0 or f32"

#endif
