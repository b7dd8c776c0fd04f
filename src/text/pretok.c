#include "pretok.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

struct tn_pretok {
    pcre2_code *codes[TN_PRETOK_MAX_PATTERNS];
    size_t n;
};

/* Writes the pattern with \s and \S spelled out as Unicode's White_Space, which is what the published
 * tokenizers' engines mean by them; PCRE2 has U+180E in \s as well. dst holds EXPANDED_CAP bytes, enough for
 * every pattern of the table; none of them has \S inside a class. */
enum { EXPANDED_CAP = 2048 };
static size_t expand_spaces(char *dst, const char *pattern) {
    static const char space[] = "\\t-\\r\\x{85}\\p{Z}";
    bool in_class = false;
    char *out = dst;
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '\\' && (p[1] == 's' || p[1] == 'S')) {
            if (!in_class) out = stpcpy(out, p[1] == 's' ? "[" : "[^");
            out = stpcpy(out, space);
            if (!in_class) *out++ = ']';
            p++;
            continue;
        }
        if (*p == '\\')
            *out++ = *p++;
        else if (*p == '[')
            in_class = true;
        else if (*p == ']')
            in_class = false;
        *out++ = *p;
    }
    return (size_t)(out - dst);
}

static tn_status compile(tn_pretok *pretok, const char *pattern, bool bytes, const char *name,
                         tn_error *err) {
    char expanded[EXPANDED_CAP];
    size_t len = expand_spaces(expanded, pattern), where;
    int error;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)expanded, len, bytes ? 0 : PCRE2_UTF | PCRE2_UCP, &error, &where, NULL);
    if (!code)
        return tn_fail(err, TN_ERR_MEMORY, "tokenizer", name,
                       "pattern not compiled (PCRE2 error %d at offset %zu)", error, where);
    pretok->codes[pretok->n++] = code;
    return TN_OK;
}

tn_status tn_pretok_new(const tn_pretok_spec *spec, tn_pretok **out, tn_error *err) {
    *out = NULL;
    tn_pretok *pretok = calloc(1, sizeof *pretok);
    if (!pretok) return tn_fail(err, TN_ERR_MEMORY, "tokenizer", spec->names[0], "out of memory");
    size_t n = 0;
    while (n < TN_PRETOK_MAX_PATTERNS && spec->patterns[n]) n++;
    tn_status status = TN_OK;
    for (size_t i = 0; status == TN_OK && i < n; i++)
        status = compile(pretok, spec->patterns[i], i + spec->n_byte_patterns >= n, spec->names[0], err);
    if (status == TN_OK)
        *out = pretok;
    else
        tn_pretok_free(pretok);
    return status;
}

void tn_pretok_free(tn_pretok *pretok) {
    if (!pretok) return;
    for (size_t i = 0; i < pretok->n; i++) pcre2_code_free(pretok->codes[i]);
    free(pretok);
}

typedef struct tn_split {
    const tn_pretok *pretok;
    pcre2_match_context *context;
    pcre2_match_data *data;
    tn_piece_fn *fn;
    void *user;
    tn_error *err;
} tn_split;

/* Cuts by pattern `level` and those after it. Recursion is as deep as the table has patterns. */
static tn_status split_level(const tn_split *split, size_t level, const char *text, size_t n) {
    if (n == 0) return TN_OK;
    if (level == split->pretok->n) return split->fn(split->user, text, n);
    tn_status status = TN_OK;
    size_t done = 0;
    while (status == TN_OK && done < n) {
        int count = pcre2_match(split->pretok->codes[level], (PCRE2_SPTR)text, n, done,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, split->data, split->context);
        if (count < 0 && count != PCRE2_ERROR_NOMATCH)
            return tn_fail(split->err, TN_ERR_MEMORY, "tokenize", "pre-tokenizer", "PCRE2 error %d", count);
        const size_t *span = pcre2_get_ovector_pointer(split->data);
        size_t from = count < 0 ? n : span[0], to = count < 0 ? n : span[1];
        status = split_level(split, level + 1, text + done, from - done);
        if (status == TN_OK) status = split_level(split, level + 1, text + from, to - from);
        done = to;
    }
    return status;
}

tn_status tn_pretok_split(const tn_pretok *pretok, const char *text, size_t n, tn_piece_fn *fn, void *user,
                          tn_error *err) {
    tn_split split = {pretok, pcre2_match_context_create(NULL), pcre2_match_data_create(1, NULL), fn, user,
                      err};
    tn_status status;
    if (!split.context || !split.data) {
        status = tn_fail(err, TN_ERR_MEMORY, "tokenize", "pre-tokenizer", "out of memory");
    } else {
        /* No pattern backtracks more than once over a run, so time is linear without the default limit of
         * 10^7 steps, which a long enough run of spaces would reach. */
        pcre2_set_match_limit(split.context, UINT32_MAX);
        status = split_level(&split, 0, text, n);
    }
    pcre2_match_data_free(split.data);
    pcre2_match_context_free(split.context);
    return status;
}
