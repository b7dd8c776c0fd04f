/* Parses options by table. A value is checked here, once; the commands see only numbers in range. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef enum tn_option_kind {
    TN_KIND_FLAG,     /* bool */
    TN_KIND_TEXT,     /* const char *, not empty */
    TN_KIND_PROMPT,   /* const char *, may be empty */
    TN_KIND_LIST,     /* appended to a tn_texts */
    TN_KIND_WORD,     /* const char *, one of `words` */
    TN_KIND_KV,       /* tern_kv_type */
    TN_KIND_INTEGER,  /* int64_t in [low, high] */
    TN_KIND_SIZE,     /* int64_t bytes in [low, high]: a number with K, M or G behind it, powers of 1000 */
    TN_KIND_REAL,     /* double in [low, high] */
    TN_KIND_POSITIVE, /* double in (0, high] */
} tn_option_kind;

typedef struct tn_option {
    const char *name; /* long form, without dashes */
    char letter;      /* short form; 0: none */
    tn_option_kind kind;
    size_t offset; /* of the value in tn_options */
    int64_t low, high;
    const char *words; /* separated by spaces */
} tn_option;

#define AT(member) offsetof(tn_options, member)

static const tn_option option_table[TN_OPTION_COUNT] = {
    [TN_OPTION_MODEL] = {"model", 'm', TN_KIND_TEXT, AT(model), 0, 0},
    [TN_OPTION_PROMPT] = {"prompt", 'p', TN_KIND_PROMPT, AT(prompt), 0, 0},
    [TN_OPTION_FILE] = {"file", 'f', TN_KIND_TEXT, AT(file), 0, 0},
    [TN_OPTION_PREDICT] = {"predict", 'n', TN_KIND_INTEGER, AT(n_predict), 0, UINT32_MAX},
    [TN_OPTION_CTX] = {"ctx", 'c', TN_KIND_INTEGER, AT(n_ctx), 1, INT32_MAX},
    [TN_OPTION_THREADS] = {"threads", 't', TN_KIND_INTEGER, AT(n_threads), 1, 1024},
    [TN_OPTION_BATCH] = {"batch", 'b', TN_KIND_INTEGER, AT(n_batch), 1, 65536},
    [TN_OPTION_SEED] = {"seed", 's', TN_KIND_INTEGER, AT(seed), 0, INT64_MAX},
    [TN_OPTION_TEMP] = {"temp", 0, TN_KIND_REAL, AT(temp), 0, 100},
    [TN_OPTION_TOP_K] = {"top-k", 0, TN_KIND_INTEGER, AT(top_k), 0, INT32_MAX},
    [TN_OPTION_TOP_P] = {"top-p", 0, TN_KIND_POSITIVE, AT(top_p), 0, 1},
    [TN_OPTION_MIN_P] = {"min-p", 0, TN_KIND_REAL, AT(min_p), 0, 1},
    [TN_OPTION_REPEAT_PENALTY] = {"repeat-penalty", 0, TN_KIND_POSITIVE, AT(repeat_penalty), 0, 100},
    [TN_OPTION_REPEAT_LAST_N] = {"repeat-last-n", 0, TN_KIND_INTEGER, AT(repeat_last_n), -1, INT32_MAX},
    [TN_OPTION_STOP] = {"stop", 0, TN_KIND_LIST, AT(stop), 0, 0},
    [TN_OPTION_KV] = {"kv", 0, TN_KIND_KV, AT(kv), 0, 0, "f16 q8_0 f32"},
    [TN_OPTION_PIN] = {"pin", 0, TN_KIND_FLAG, AT(pin), 0, 0},
    [TN_OPTION_IGNORE_EOS] = {"ignore-eos", 0, TN_KIND_FLAG, AT(ignore_eos), 0, 0},
    [TN_OPTION_NO_SPECIAL] = {"no-special", 0, TN_KIND_FLAG, AT(no_special), 0, 0},
    [TN_OPTION_NO_BOS] = {"no-bos", 0, TN_KIND_FLAG, AT(no_bos), 0, 0},
    [TN_OPTION_IDS] = {"ids", 0, TN_KIND_TEXT, AT(ids), 0, 0},
    [TN_OPTION_ALL] = {"all", 0, TN_KIND_FLAG, AT(all), 0, 0},
    [TN_OPTION_OUTPUT] = {"output", 'o', TN_KIND_TEXT, AT(output), 0, 0},
    [TN_OPTION_JSON] = {"json", 0, TN_KIND_FLAG, AT(json), 0, 0},
    [TN_OPTION_TENSORS] = {"tensors", 0, TN_KIND_FLAG, AT(tensors), 0, 0},
    [TN_OPTION_VERBOSE] = {"verbose", 'v', TN_KIND_FLAG, AT(verbose), 0, 0},
    [TN_OPTION_QUIET] = {"quiet", 'q', TN_KIND_FLAG, AT(quiet), 0, 0},
    [TN_OPTION_PRE] = {"pre", 0, TN_KIND_TEXT, AT(pre), 0, 0},
    [TN_OPTION_ARCH_FILE] = {"arch-file", 0, TN_KIND_TEXT, AT(arch_file), 0, 0},
    [TN_OPTION_DEPTH] = {"depth", 'd', TN_KIND_TEXT, 0, 0, 0}, /* a list wherever it is accepted */
    [TN_OPTION_RUNS] = {"runs", 'r', TN_KIND_INTEGER, AT(n_runs), 1, 100},
    [TN_OPTION_CSV] = {"csv", 0, TN_KIND_FLAG, AT(csv), 0, 0},
    [TN_OPTION_YAML] = {"yaml", 0, TN_KIND_TEXT, AT(yaml), 0, 0},
    [TN_OPTION_RAW] = {"raw", 0, TN_KIND_FLAG, AT(raw), 0, 0},
    [TN_OPTION_POOLING] = {"pooling", 0, TN_KIND_TEXT, AT(pooling), 0, 0},
    [TN_OPTION_NO_NORMALIZE] = {"no-normalize", 0, TN_KIND_FLAG, AT(no_normalize), 0, 0},
    [TN_OPTION_TYPE] = {"type", 0, TN_KIND_TEXT, AT(type), 0, 0},
    [TN_OPTION_RECIPE] = {"recipe", 0, TN_KIND_TEXT, AT(recipe), 0, 0},
    [TN_OPTION_IMATRIX] = {"imatrix", 0, TN_KIND_TEXT, AT(imatrix), 0, 0},
    [TN_OPTION_DRY_RUN] = {"dry-run", 0, TN_KIND_FLAG, AT(dry_run), 0, 0},
    [TN_OPTION_KEEP_SPLIT] = {"keep-split", 0, TN_KIND_FLAG, AT(keep_split), 0, 0},
    [TN_OPTION_SPLIT_SIZE] = {"split-size", 0, TN_KIND_SIZE, AT(split_size), 1, INT64_MAX / 1000},
    [TN_OPTION_OVERRIDE] = {"override", 0, TN_KIND_LIST, AT(overrides), 0, 0},
    [TN_OPTION_ALLOW_REQUANTIZE] = {"allow-requantize", 0, TN_KIND_FLAG, AT(allow_requantize), 0, 0},
    [TN_OPTION_SAMPLERS] = {"samplers", 0, TN_KIND_TEXT, AT(samplers), 0, 0},
    [TN_OPTION_TEMP_RANGE] = {"temp-range", 0, TN_KIND_REAL, AT(temp_range), 0, 100},
    [TN_OPTION_TEMP_EXPONENT] = {"temp-exponent", 0, TN_KIND_REAL, AT(temp_exponent), 0, 100},
    [TN_OPTION_TYPICAL] = {"typical", 0, TN_KIND_POSITIVE, AT(typical), 0, 1},
    [TN_OPTION_TOP_N_SIGMA] = {"top-n-sigma", 0, TN_KIND_REAL, AT(top_n_sigma), 0, 100},
    [TN_OPTION_XTC] = {"xtc", 0, TN_KIND_REAL, AT(xtc), 0, 1},
    [TN_OPTION_XTC_THRESHOLD] = {"xtc-threshold", 0, TN_KIND_REAL, AT(xtc_threshold), 0, 1},
    [TN_OPTION_PRESENCE_PENALTY] = {"presence-penalty", 0, TN_KIND_REAL, AT(presence_penalty), -100, 100},
    [TN_OPTION_FREQUENCY_PENALTY] = {"frequency-penalty", 0, TN_KIND_REAL, AT(frequency_penalty), -100, 100},
    [TN_OPTION_DRY] = {"dry", 0, TN_KIND_REAL, AT(dry), 0, 100},
    [TN_OPTION_DRY_BASE] = {"dry-base", 0, TN_KIND_REAL, AT(dry_base), 0, 100},
    [TN_OPTION_DRY_LENGTH] = {"dry-length", 0, TN_KIND_INTEGER, AT(dry_length), 0, INT32_MAX},
    [TN_OPTION_DRY_LAST_N] = {"dry-last-n", 0, TN_KIND_INTEGER, AT(dry_last_n), -1, INT32_MAX},
    [TN_OPTION_DRY_BREAK] = {"dry-break", 0, TN_KIND_LIST, AT(dry_break), 0, 0},
    [TN_OPTION_MIROSTAT] = {"mirostat", 0, TN_KIND_REAL, AT(mirostat), 0, 100},
    [TN_OPTION_MIROSTAT_RATE] = {"mirostat-rate", 0, TN_KIND_REAL, AT(mirostat_rate), 0, 100},
    [TN_OPTION_BIAS] = {"bias", 0, TN_KIND_LIST, AT(bias), 0, 0},
    [TN_OPTION_LOGPROBS] = {"logprobs", 0, TN_KIND_INTEGER, AT(n_logprobs), 0, 100},
    [TN_OPTION_GRAMMAR] = {"grammar", 0, TN_KIND_TEXT, AT(grammar), 0, 0},
    [TN_OPTION_JSON_SCHEMA] = {"json-schema", 0, TN_KIND_TEXT, AT(json_schema), 0, 0},
    [TN_OPTION_PROFILE] = {"profile", 0, TN_KIND_TEXT, AT(profile), 0, 0},
    [TN_OPTION_HELP_SAMPLING] = {"help-sampling", 0, TN_KIND_FLAG, AT(help_sampling), 0, 0},
    [TN_OPTION_STATE] = {"state", 0, TN_KIND_TEXT, AT(state), 0, 0},
    [TN_OPTION_DRAFT] = {"draft", 0, TN_KIND_TEXT, AT(draft), 0, 0},
    [TN_OPTION_MESSAGES] = {"messages", 0, TN_KIND_TEXT, AT(messages), 0, 0},
    [TN_OPTION_TOOLS] = {"tools", 0, TN_KIND_TEXT, AT(tools), 0, 0},
    [TN_OPTION_VAR] = {"var", 0, TN_KIND_LIST, AT(var), 0, 0},
    [TN_OPTION_BOS] = {"bos", 0, TN_KIND_PROMPT, AT(bos), 0, 0},
    [TN_OPTION_EOS] = {"eos", 0, TN_KIND_PROMPT, AT(eos), 0, 0},
    [TN_OPTION_NO_GENERATION_PROMPT] = {"no-generation-prompt", 0, TN_KIND_FLAG, AT(no_generation_prompt), 0,
                                        0},
    [TN_OPTION_SYSTEM] = {"system", 0, TN_KIND_PROMPT, AT(system), 0, 0},
    [TN_OPTION_TEMPLATE] = {"template", 0, TN_KIND_TEXT, AT(template), 0, 0},
    [TN_OPTION_LOAD] = {"load", 0, TN_KIND_TEXT, AT(load), 0, 0},
    [TN_OPTION_FULL] = {"full", 0, TN_KIND_WORD, AT(full), 0, 0, "stop drop"},
    [TN_OPTION_REASONING] = {"reasoning", 0, TN_KIND_WORD, AT(reasoning), 0, 0, "show hide"},
    [TN_OPTION_BASE] = {"base", 0, TN_KIND_TEXT, AT(base), 0, 0},
    [TN_OPTION_SAVE_BASE] = {"save-base", 0, TN_KIND_TEXT, AT(save_base), 0, 0},
    [TN_OPTION_AUTO] = {"auto", 0, TN_KIND_FLAG, AT(automatic), 0, 0},
    [TN_OPTION_TARGET_BPW] = {"target-bpw", 0, TN_KIND_POSITIVE, AT(target_bpw), 0, 32},
    [TN_OPTION_SANDBOX] = {"sandbox", 0, TN_KIND_FLAG, AT(sandbox), 0, 0},
    [TN_OPTION_SANDBOX_DIR] = {"sandbox-dir", 0, TN_KIND_TEXT, AT(sandbox_dir), 0, 0},
    [TN_OPTION_MEASURES] = {"measures", 0, TN_KIND_TEXT, AT(measures), 0, 0},
    [TN_OPTION_HELP] = {"help", 'h', TN_KIND_FLAG, AT(help), 0, 0},
};

bool tn_parse_integer(const char *text, int64_t low, int64_t high, int64_t *out) {
    const char *digits = low < 0 && *text == '-' ? text + 1 : text;
    if (!*digits || digits[strspn(digits, "0123456789")]) return false;
    errno = 0;
    const long long value = strtoll(text, NULL, 10);
    if (errno || value < low || value > high) return false;
    *out = value;
    return true;
}

static const char *const kv_names[] = {[TERN_KV_F32] = "f32", [TERN_KV_F16] = "f16", [TERN_KV_Q8_0] = "q8_0"};

const char *tn_kv_name(tern_kv_type kv) {
    return kv_names[kv];
}

bool tn_parse_kv(const char *text, size_t n, tern_kv_type *kv) {
    for (size_t i = 0; i < sizeof kv_names / sizeof *kv_names; i++) {
        if (strlen(kv_names[i]) != n || memcmp(kv_names[i], text, n) != 0) continue;
        *kv = (tern_kv_type)i;
        return true;
    }
    return false;
}

bool tn_parse_real(const char *text, double *out) {
    if (!*text || text[strspn(text, "0123456789.eE+-")]) return false;
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

static int store_integer(const tn_command *command, const tn_option *option, const char *word,
                         const char *value, tn_options *out) {
    int64_t *slot = (int64_t *)((char *)out + option->offset);
    if (tn_parse_integer(value, option->low, option->high, slot)) return 0;
    return tn_cli_fail_usage(command, "%s: expected an integer from %" PRId64 " to %" PRId64 ", found '%s'",
                             word, option->low, option->high, value);
}

static int store_size(const tn_command *command, const tn_option *option, const char *word, const char *value,
                      tn_options *out) {
    static const char units[] = "KMG";
    char digits[24];
    const size_t n = strspn(value, "0123456789");
    const char *unit = value[n] ? strchr(units, value[n]) : NULL;
    int64_t scale = 1, number;
    for (const char *u = units; unit && u <= unit; u++) scale *= 1000;
    if (n < sizeof digits && (!value[n] || (unit && !value[n + 1]))) {
        memcpy(digits, value, n);
        digits[n] = '\0';
        if (tn_parse_integer(digits, option->low, option->high / scale, &number)) {
            *(int64_t *)((char *)out + option->offset) = number * scale;
            return 0;
        }
    }
    return tn_cli_fail_usage(command, "%s: expected a size such as 500M or 2G, found '%s'", word, value);
}

static int store_real(const tn_command *command, const tn_option *option, const char *word, const char *value,
                      tn_options *out) {
    double number;
    const bool positive = option->kind == TN_KIND_POSITIVE;
    if (!tn_parse_real(value, &number) || number < (double)option->low || number > (double)option->high ||
        (positive && number <= 0)) {
        return tn_cli_fail_usage(command, "%s: expected a number %s %" PRId64 " %s %" PRId64 ", found '%s'",
                                 word, positive ? "above" : "from", option->low, positive ? "up to" : "to",
                                 option->high, value);
    }
    *(double *)((char *)out + option->offset) = number;
    return 0;
}

static int store_text(const tn_command *command, const tn_option *option, const char *word, const char *value,
                      tn_options *out) {
    if (!*value && option->kind != TN_KIND_PROMPT) {
        return tn_cli_fail_usage(command, "%s: expected a text, found ''", word);
    }
    if (option->kind == TN_KIND_LIST) {
        tn_texts *texts = (tn_texts *)((char *)out + option->offset);
        if (texts->n == TN_MAX_TEXTS) {
            return tn_cli_fail_usage(command, "%s: expected at most %d of them", word, TN_MAX_TEXTS);
        }
        texts->v[texts->n++] = value;
        return 0;
    }
    *(const char **)((char *)out + option->offset) = value;
    return 0;
}

static int store_word(const tn_command *command, const tn_option *option, const char *word, const char *value,
                      tn_options *out) {
    const size_t n = strlen(value);
    for (const char *at = option->words; *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strcspn(at, " ") != n || memcmp(at, value, n) != 0) continue;
        *(const char **)((char *)out + option->offset) = value;
        return 0;
    }
    return tn_cli_fail_usage(command, "%s: expected one of: %s, found '%s'", word, option->words, value);
}

static int store(const tn_command *command, tn_option_id id, const char *word, const char *value,
                 tn_options *out) {
    const tn_option *option = &option_table[id];
    out->given |= TN_OPTION_BIT(id);
    if (command->lists & TN_OPTION_BIT(id)) {
        out->list[id] = value;
        return 0;
    }
    switch (option->kind) {
    case TN_KIND_FLAG: *(bool *)((char *)out + option->offset) = true; return 0;
    case TN_KIND_INTEGER: return store_integer(command, option, word, value, out);
    case TN_KIND_SIZE: return store_size(command, option, word, value, out);
    case TN_KIND_REAL:
    case TN_KIND_POSITIVE: return store_real(command, option, word, value, out);
    case TN_KIND_KV:
        if (tn_parse_kv(value, strlen(value), &out->kv)) return 0;
        return tn_cli_fail_usage(command, "%s: expected " TN_KV_WORDS ", found '%s'", word, value);
    case TN_KIND_WORD: return store_word(command, option, word, value, out);
    case TN_KIND_TEXT:
    case TN_KIND_PROMPT:
    case TN_KIND_LIST: return store_text(command, option, word, value, out);
    }
    return 0;
}

tn_option_id tn_option_named(const char *name) {
    int id = 0;
    while (id < TN_OPTION_COUNT && strcmp(option_table[id].name, name) != 0) id++;
    return (tn_option_id)id;
}

tn_option_values tn_option_values_of(tn_option_id id) {
    const tn_option_kind kind = option_table[id].kind;
    return kind == TN_KIND_FLAG ? TN_VALUES_NONE : kind == TN_KIND_LIST ? TN_VALUES_LIST : TN_VALUES_ONE;
}

const char *tn_option_name(tn_option_id id) {
    return option_table[id].name;
}

char tn_option_letter(tn_option_id id) {
    return option_table[id].letter;
}

const char *tn_option_words(tn_option_id id) {
    return option_table[id].words;
}

int tn_option_set_value(tn_options *options, tn_option_id id, const char *word, const char *value) {
    return store(options->command, id, word, value, options);
}

/* Splits "--name=value", "--name", "-x" or "-xvalue". Returns the option, or TN_OPTION_COUNT; *value is NULL
 * when the word holds none; *n_word is the length of the option's own part. */
static tn_option_id find_option(const char *arg, const char **value, size_t *n_word) {
    *value = NULL;
    if (arg[1] == '-') {
        const size_t n = strcspn(arg + 2, "=");
        if (arg[2 + n]) *value = arg + 2 + n + 1;
        *n_word = n + 2;
        for (int id = 0; id < TN_OPTION_COUNT; id++) {
            const char *name = option_table[id].name;
            if (strlen(name) == n && memcmp(name, arg + 2, n) == 0) return (tn_option_id)id;
        }
        return TN_OPTION_COUNT;
    }
    if (arg[2]) *value = arg + 2;
    *n_word = 2;
    for (int id = 0; id < TN_OPTION_COUNT; id++) {
        if (option_table[id].letter == arg[1]) return (tn_option_id)id;
    }
    return TN_OPTION_COUNT;
}

/* Parses args[*at] as an option, with its value if it takes one, and moves *at past both. */
static int parse_option(const tn_command *command, int n_args, char *const *args, int *at, tn_options *out) {
    const char *arg = args[(*at)++];
    const char *value;
    size_t n_word;
    const tn_option_id id = find_option(arg, &value, &n_word);
    char word[64];
    if (id == TN_OPTION_COUNT || n_word >= sizeof word) {
        return tn_cli_fail_usage(command, "%s: unknown option", arg);
    }
    memcpy(word, arg, n_word);
    word[n_word] = '\0';
    if (!((command->accepted | TN_OPTION_BIT(TN_OPTION_HELP)) & TN_OPTION_BIT(id))) {
        return tn_cli_fail_usage(command, "%s: not an option of this command", word);
    }
    if (option_table[id].kind == TN_KIND_FLAG) {
        if (value) return tn_cli_fail_usage(command, "%s: takes no value, found '%s'", word, value);
    } else if (!value) {
        if (*at == n_args) return tn_cli_fail_usage(command, "%s: missing value", word);
        value = args[(*at)++];
    }
    return store(command, id, word, value, out);
}

static int fail_kind(const tn_command *command, const char *found) {
    char words[128] = "";
    size_t n = 0;
    for (size_t i = 0; command->kinds[i] && n < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, "%s%s",
                              !i                      ? ""
                              : command->kinds[i + 1] ? ", "
                                                      : " or ",
                              command->kinds[i]);
    return tn_cli_fail_usage(command, "expected %s, found '%s'", words, found);
}

static int parse_kind(const tn_command *command, const char *arg, tn_options *out) {
    for (size_t i = 0; command->kinds[i]; i++)
        if (strcmp(command->kinds[i], arg) == 0) out->kind = command->kinds[i];
    return out->kind ? 0 : fail_kind(command, arg);
}

static int parse_operand(const tn_command *command, const char *arg, tn_options *out) {
    if (command->kinds && !out->kind) return parse_kind(command, arg, out);
    const bool output = out->model && command->output_operand && !out->output;
    if (!command->model_operand || (out->model && !output)) {
        return tn_cli_fail_usage(command, "extra argument '%s'", arg);
    }
    if (!*arg) return tn_cli_fail_usage(command, "expected a model file, found ''");
    if (output) {
        out->output = arg;
        out->given |= TN_OPTION_BIT(TN_OPTION_OUTPUT);
        return 0;
    }
    out->model = arg;
    out->given |= TN_OPTION_BIT(TN_OPTION_MODEL);
    return 0;
}

static int check_required(const tn_command *command, const tn_options *options) {
    const tn_option_set missing = command->required & ~options->given;
    for (int id = 0; id < TN_OPTION_COUNT; id++) {
        if (!(missing & TN_OPTION_BIT(id))) continue;
        const tn_option *option = &option_table[id];
        if (option->letter) {
            return tn_cli_fail_usage(command, "-%c: missing option (--%s)", option->letter, option->name);
        }
        return tn_cli_fail_usage(command, "--%s: missing option", option->name);
    }
    return 0;
}

int tn_options_parse(const tn_command *command, int n_args, char *const *args, tn_options *out) {
    memset(out, 0, sizeof *out);
    out->command = command;
    bool only_operands = false;
    for (int at = 0; at < n_args;) {
        const char *arg = args[at];
        int failed;
        if (!only_operands && strcmp(arg, "--") == 0) {
            only_operands = true;
            at++;
            continue;
        }
        if (!only_operands && arg[0] == '-' && arg[1]) {
            failed = parse_option(command, n_args, args, &at, out);
        } else {
            failed = parse_operand(command, arg, out);
            at++;
        }
        if (failed) return failed;
        if (out->help || out->help_sampling) return 0;
    }
    if (command->kinds && !out->kind) return fail_kind(command, "");
    return check_required(command, out);
}
