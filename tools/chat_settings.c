/* What can be set while a conversation goes on: a table of names, as in the options of the command. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chat.h"

typedef enum setting_kind { SET_REAL, SET_INT32, SET_SEED, SET_COUNT, SET_CHOICE } setting_kind;

typedef struct setting {
    const char *name;
    setting_kind kind;
    size_t offset;        /* in tn_chat_settings: float, int32_t, uint64_t, int64_t or bool */
    double low, high;     /* of a real number; `low` itself only if it is 0 and `zero` */
    bool zero;            /* 0 can be meant */
    const char *no, *yes; /* the words of a choice */
} setting;

#define AT(member) offsetof(tn_chat_settings, member)

#define REAL(name, member, low, high, zero)                                                                  \
    { name, SET_REAL, AT(sampling.s.member), low, high, zero, NULL, NULL }
#define WHOLE(name, member, low)                                                                             \
    { name, SET_INT32, AT(sampling.s.member), low, INT32_MAX, true, NULL, NULL }

static const setting table[] = {
    REAL("temp", temperature, 0, 100, true),
    WHOLE("top-k", top_k, 0),
    REAL("top-p", top_p, 0, 1, false),
    REAL("min-p", min_p, 0, 1, true),
    REAL("typical", typical_p, 0, 1, false),
    REAL("top-n-sigma", top_n_sigma, 0, 100, true),
    REAL("repeat-penalty", repeat_penalty, 0, 100, false),
    REAL("presence-penalty", presence_penalty, -100, 100, true),
    REAL("frequency-penalty", frequency_penalty, -100, 100, true),
    WHOLE("repeat-last-n", repeat_last_n, -1),
    REAL("dry", dry_multiplier, 0, 100, true),
    REAL("dry-base", dry_base, 0, 100, true),
    WHOLE("dry-length", dry_allowed_length, 0),
    WHOLE("dry-last-n", dry_last_n, -1),
    REAL("xtc", xtc_probability, 0, 1, true),
    REAL("xtc-threshold", xtc_threshold, 0, 1, true),
    REAL("temp-range", temperature_range, 0, 100, true),
    REAL("temp-exponent", temperature_exponent, 0, 100, true),
    REAL("mirostat", mirostat_tau, 0, 100, true),
    REAL("mirostat-rate", mirostat_eta, 0, 100, true),
    {"seed", SET_SEED, AT(sampling.s.seed), 0, 0, true, NULL, NULL},
    {"predict", SET_COUNT, AT(n_predict), 0, 0, true, NULL, NULL},
    {"reasoning", SET_CHOICE, AT(hide_reasoning), 0, 0, true, "show", "hide"},
    {"full", SET_CHOICE, AT(drop), 0, 0, true, "stop", "drop"},
};

enum { N_SETTINGS = sizeof table / sizeof *table };

static void *slot(const tn_chat_settings *settings, const setting *s) {
    return (char *)(uintptr_t)settings + s->offset;
}

static bool set_choice(const setting *s, const char *value, bool *out) {
    *out = strcmp(value, s->yes) == 0;
    return *out || strcmp(value, s->no) == 0;
}

static bool set_real(const setting *s, const char *value, float *out) {
    double number;
    if (!tn_parse_real(value, &number) || !(number >= s->low && number <= s->high) ||
        (number == 0 && !s->zero))
        return false;
    *out = (float)number;
    return true;
}

static bool set_value(const tn_chat_settings *settings, const setting *s, const char *value) {
    int64_t whole;
    switch (s->kind) {
    case SET_REAL: return set_real(s, value, slot(settings, s));
    case SET_CHOICE: return set_choice(s, value, slot(settings, s));
    case SET_INT32:
        if (!tn_parse_integer(value, (int64_t)s->low, (int64_t)s->high, &whole)) return false;
        *(int32_t *)slot(settings, s) = (int32_t)whole;
        return true;
    case SET_SEED:
        if (!tn_parse_integer(value, 0, INT64_MAX, &whole)) return false;
        *(uint64_t *)slot(settings, s) = (uint64_t)whole;
        return true;
    case SET_COUNT: return tn_parse_integer(value, 0, UINT32_MAX, slot(settings, s));
    }
    return false;
}

static int wrong_value(const setting *s, const char *value) {
    if (s->kind == SET_CHOICE)
        return tn_cli_fail("cannot set %s: expected %s or %s, found '%s'", s->name, s->no, s->yes, value);
    if (s->kind == SET_REAL)
        return tn_cli_fail("cannot set %s: expected a number %s %g up to %g, found '%s'", s->name,
                           s->zero ? "from" : "above", s->low, s->high, value);
    return tn_cli_fail("cannot set %s: expected an integer from %g, found '%s'", s->name, s->low, value);
}

int tn_chat_settings_set(tn_chat_settings *settings, const char *name, const char *value) {
    for (size_t i = 0; i < N_SETTINGS; i++)
        if (strcmp(table[i].name, name) == 0)
            return set_value(settings, &table[i], value) ? TN_EXIT_DONE : wrong_value(&table[i], value);
    return tn_cli_fail("cannot set %s: no such setting (/set lists them)", name);
}

bool tn_chat_settings_get(const tn_chat_settings *settings, size_t i, const char **name, char value[32]) {
    if (i >= N_SETTINGS) return false;
    const setting *s = &table[i];
    const void *at = slot(settings, s);
    *name = s->name;
    switch (s->kind) {
    case SET_REAL: snprintf(value, 32, "%.9g", (double)*(const float *)at); break;
    case SET_INT32: snprintf(value, 32, "%" PRId32, *(const int32_t *)at); break;
    case SET_SEED: snprintf(value, 32, "%" PRIu64, *(const uint64_t *)at); break;
    case SET_COUNT: snprintf(value, 32, "%" PRId64, *(const int64_t *)at); break;
    case SET_CHOICE: snprintf(value, 32, "%s", *(const bool *)at ? s->yes : s->no); break;
    }
    return true;
}

int tn_chat_settings_start(tn_chat_settings *settings, const tn_options *options, const tern_model *model) {
    settings->n_predict = options->n_predict;
    settings->hide_reasoning = options->reasoning && strcmp(options->reasoning, "hide") == 0;
    settings->drop = options->full && strcmp(options->full, "drop") == 0;
    return tn_sampling_read(options, model, &settings->sampling);
}
