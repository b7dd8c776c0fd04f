#include "model_name.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/c_locale.h"

enum { MAX_PARTS = 32, BASENAME = 1, SIZE_LABEL = 2, FINETUNE = 4, VERSION = 8, TYPE = 16 };
typedef struct parts {
    char text[TN_MODEL_NAME_BYTES];
    char *part[MAX_PARTS];
    unsigned kinds[MAX_PARTS];
    size_t n;
} parts;

/* ---- What a part may be. By hand: the C library's expressions take memory, also where they are matched ---- */

/* Each of these takes something from a text, or nothing if it is not there; of letters either kind. */
static bool take_of(const char **at, const char *signs) {
    const bool found = **at && strchr(signs, tolower((unsigned char)**at));
    *at += found;
    return found;
}

static bool take_word(const char **at, const char *word) {
    const char *c = *at;
    while (*word && tolower((unsigned char)*c) == *word) c++, word++;
    if (*word) return false;
    *at = c;
    return true;
}

static bool take_digits(const char **at) {
    const size_t n = strspn(*at, "0123456789");
    *at += n;
    return n > 0;
}

static bool is_one_of(const char *text, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *at = text;
        if (take_word(&at, words[i]) && !*at) return true;
    }
    return false;
}

/* "v1.0", "2", "iter3" */
static bool is_version(const char *at) {
    if (!take_word(&at, "iter")) take_of(&at, "v");
    do
        if (!take_digits(&at)) return false;
    while (take_of(&at, "."));
    return !*at;
}

/* "Q4_K_M", "IQ3_S", "BF16", "fp16" */
static bool is_type(const char *text) {
    static const char *const floats[] = {"f16", "f32", "fp16", "fp32", "bf16", "bf32", "bfp16", "bfp32"};
    const char *at = text;
    take_of(&at, "i");
    if (!take_of(&at, "q") || !take_of(&at, "0123456789")) return is_one_of(text, floats, 8);
    while (take_of(&at, "_"))
        if (!take_of(&at, "abcdefghijklmnopqrstuvwxyz0123456789_")) return false;
    return !*at;
}

/* "135M", "8x7B", "A2.7B", "7b1", "0_5b"; "small" */
static bool is_size(const char *text) {
    static const char *const words[] = {"small", "mini", "medium", "large", "xl", "xxl"};
    const char *at = text;
    if (is_one_of(text, words, 6)) return true;
    if (!take_of(&at, "a") && take_digits(&at) && !take_of(&at, "x")) at = text;
    if (!take_digits(&at) || (take_of(&at, "._") && !take_digits(&at)) || !take_of(&at, "kmbt")) return false;
    take_of(&at, "0123456789");
    return !*at;
}

static bool is_finetune(const char *text) {
    static const char *const words[] = {"chat", "instruct", "vision", "lora"};
    return is_one_of(text, words, 4);
}

/* "7b1" is 7.1B; the unit is a capital. A length of context, say, is no size: then it is written small. */
static void read_size(parts *p, size_t i, uint64_t n_params) {
    char *part = p->part[i];
    size_t n = strlen(part);
    for (char *c = part; *c; c++)
        if (*c == '_') *c = '.';
    if (isdigit((unsigned char)part[n - 1])) {
        const char unit = part[n - 2];
        part[n - 2] = '.';
        part[n++] = unit; /* split left room for it */
        part[n] = '\0';
    }
    if (n > 1 && isdigit((unsigned char)part[n - 2])) part[n - 1] = (char)toupper((unsigned char)part[n - 1]);
    char *end;
    const double value = tn_strtod(part, &end);
    const char *unit = strchr("KMBT", part[n - 1]);
    if (n_params && unit && *unit && end == part + n - 1) {
        const double scale = pow(1000, (double)(unit - "KMBT" + 1));
        if (fabs(value * scale - (double)n_params) > (double)(7 * n_params / 8)) {
            p->kinds[i] |= FINETUNE;
            part[n - 1] = (char)tolower((unsigned char)part[n - 1]);
        }
    }
    if (!p->kinds[i]) p->kinds[i] = SIZE_LABEL;
}

static void classify(parts *p, uint64_t n_params) {
    for (size_t i = 0; i < p->n; i++) {
        char *part = p->part[i];
        if (is_version(part)) {
            p->kinds[i] = VERSION;
        } else if (is_type(part)) {
            p->kinds[i] = TYPE;
            for (char *c = part; *c; c++) *c = (char)toupper((unsigned char)*c);
        } else if (i > 0 && is_size(part)) {
            read_size(p, i, n_params);
        } else if (i > 0 && is_finetune(part)) {
            p->kinds[i] = FINETUNE;
        }
    }
}

static bool has_digit(const char *text) {
    return strpbrk(text, "0123456789") != NULL;
}

/* Words for a size count only where no number does; the basename is what stands first, a version inside it included. */
static void find_basename(parts *p) {
    bool numbered = false, at_start = true;
    for (size_t i = 0; i < p->n; i++) numbered |= p->kinds[i] == SIZE_LABEL && has_digit(p->part[i]);
    for (size_t i = 0; i < p->n && numbered; i++)
        if (p->kinds[i] == SIZE_LABEL && !has_digit(p->part[i])) p->kinds[i] = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (at_start &&
            ((!p->kinds[i] && isalpha((unsigned char)p->part[i][0])) || (p->kinds[i] & VERSION))) {
            p->kinds[i] |= BASENAME;
        } else {
            at_start = false;
            if (!p->kinds[i]) p->kinds[i] = FINETUNE;
        }
    }
    for (size_t i = p->n; i-- > 0 && (p->kinds[i] & BASENAME) && p->kinds[i] != BASENAME;)
        p->kinds[i] &= ~BASENAME & 31u;
}

/* The parts of a kind with hyphens between them; `once`: none twice. */
static void join(const parts *p, unsigned kind, unsigned without, bool once, char out[TN_MODEL_NAME_BYTES]) {
    size_t at = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (!(p->kinds[i] & kind) || (p->kinds[i] & without)) continue;
        bool seen = false;
        for (size_t k = 0; once && k < i; k++)
            seen |= (p->kinds[k] & kind) && !strcmp(p->part[k], p->part[i]);
        if (!seen)
            at += (size_t)snprintf(out + at, TN_MODEL_NAME_BYTES - at, "%s%s", at ? "-" : "", p->part[i]);
    }
}

static bool is_lower(const char *word, size_t n) {
    bool cased = false;
    for (size_t i = 0; i < n; i++) {
        if (isupper((unsigned char)word[i])) return false;
        cased |= islower((unsigned char)word[i]) != 0;
    }
    return cased;
}

/* Words of small letters get a capital behind each sign, but "v2" and what begins with a digit. */
static void write_title(const char *name, char out[TN_MODEL_NAME_BYTES]) {
    size_t at = 0;
    while (*name) {
        const size_t n = strcspn(name, "- \t"), digits = *name == 'v' ? strspn(name + 1, "0123456789.") : 0;
        const bool plain = !is_lower(name, n) || isdigit((unsigned char)*name) || (digits && digits + 1 == n);
        if (n && at && at + 1 < TN_MODEL_NAME_BYTES) out[at++] = ' ';
        for (size_t i = 0; i < n && at + 1 < TN_MODEL_NAME_BYTES; i++) {
            const bool first = i == 0 || !isalpha((unsigned char)name[i - 1]);
            out[at++] = !plain && first ? (char)toupper((unsigned char)name[i]) : name[i];
        }
        name += n + (name[n] != '\0');
    }
    out[at] = '\0';
}

static void split(parts *p, const char *name) {
    /* A free byte behind each part: a size may grow by one. */
    size_t at = 0;
    while (*name && p->n < MAX_PARTS) {
        const size_t n = strcspn(name, "-");
        if (n && at + n + 2 < sizeof p->text) {
            p->part[p->n++] = memcpy(p->text + at, name, n);
            p->text[at + n] = '\0';
            at += n + 2;
        }
        name += n + (name[n] != '\0');
    }
}

static void read_parts(parts *p, const char *name, uint64_t n_params, tn_model_name *out) {
    split(p, name);
    classify(p, n_params);
    find_basename(p);
    join(p, SIZE_LABEL, 0, true, out->size_label);
    join(p, FINETUNE, 0, false, out->finetune);
    join(p, VERSION, BASENAME, false, out->version);
    if (out->size_label[0] || out->finetune[0] || out->version[0]) join(p, BASENAME, 0, false, out->basename);
}

static void read_id(const char *id, uint64_t n_params, tn_model_name *out) {
    memset(out, 0, sizeof *out);
    if (strchr(id, ' ') || strlen(id) >= TN_MODEL_NAME_BYTES / 2) { /* a sentence, no name of that kind */
        write_title(id, out->title);
        return;
    }
    const char *slash = strchr(id, '/'), *name = slash ? slash + 1 : id;
    if (slash && *id != '.') {
        char organization[TN_MODEL_NAME_BYTES];
        snprintf(organization, sizeof organization, "%.*s", (int)(slash - id), id);
        write_title(organization, out->organization);
    }
    write_title(name, out->title);
    parts p = {0};
    read_parts(&p, name, n_params, out);
}

void tn_model_name_read(const char *id, uint64_t n_params, tn_model_name *out) {
    const tn_locale locale =
        tn_locale_enter(); /* of what is a letter and which is its capital, and of numbers */
    read_id(id, n_params, out);
    tn_locale_leave(locale);
}

void tn_size_label(char *dst, uint64_t cap, uint64_t n_params) {
    static const struct {
        double above, scale;
        char unit;
    } units[] = {{1e12, 1e-12, 'T'}, {1e9, 1e-9, 'B'}, {1e6, 1e-6, 'M'}, {0, 1e-3, 'K'}};
    size_t u = 0;
    while (units[u].above > 0 && !((double)n_params > units[u].above)) u++;
    const double n = (double)n_params * units[u].scale;
    char whole[32];
    tn_snprintf(whole, sizeof whole, "%.0f", n);
    const int digits = strcmp(whole, "0") ? (int)strlen(whole) : 0;
    tn_snprintf(dst, (size_t)cap, "%.*f%c", digits < 2 ? 2 - digits : 0, n, units[u].unit);
}
