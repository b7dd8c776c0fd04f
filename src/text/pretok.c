#include "pretok.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* OpenAI's encoder.py for GPT-2; also what `tokenizers` calls ByteLevel with use_regex. */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* meta-llama/llama3, llama/tokenizer.py. */
#define LLAMA3                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Qwen/Qwen2-7B, tokenizer.json: as Llama 3, digits one by one. */
#define QWEN2                                                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"      \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* openai/tiktoken, tiktoken_ext/openai_public.py, o200k_base. */
#define O200K                                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"                                                                         \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* mistralai/Mistral-Nemo-Base-2407, tokenizer.json ("tekken"). */
#define TEKKEN                                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"             \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"             \
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const tn_pretok_spec specs[] = {
    {.names = {"gpt-2", "phi-2", "olmo"}, .patterns = {GPT2}},
    {.names = {"llama-bpe", "llama3", "llama-v3"},
     .patterns = {LLAMA3},
     .ignore_merges = true,
     .add_bos = true},
    {.names = {"qwen2", "deepseek-r1-qwen", "stablelm2"}, .patterns = {QWEN2}},
    /* HuggingFaceTB/SmolLM2-135M, bigcode/starcoder, CohereForAI/c4ai-command-r-v01, tokenizer.json: the
     * Digits pre-tokenizer with individual_digits, then ByteLevel. */
    {.names = {"smollm", "starcoder", "refact", "command-r"}, .patterns = {"\\p{N}", GPT2}},
    {.names = {"gpt-4o", "llama4"}, .patterns = {O200K}},
    {.names = {"tekken"}, .patterns = {TEKKEN}, .ignore_merges = true, .add_bos = true},
    /* What llama.cpp's converter means by this name: punctuation apart, then GPT-2's, then digits in threes.
     */
    {.names = {"default"},
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+",
                  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)", "\\p{N}+",
                  "[0-9][0-9][0-9]"}},
};

struct tn_pretok {
    pcre2_code *codes[TN_PRETOK_MAX_PATTERNS];
    size_t n;
};

const tn_pretok_spec *tn_pretok_find(const char *name) {
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (const char *const *known = specs[i].names; *known; known++)
            if (strcmp(*known, name) == 0) return &specs[i];
    return NULL;
}

void tn_pretok_names(char *dst, size_t cap) {
    size_t len = 0;
    dst[0] = '\0';
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (const char *const *known = specs[i].names; *known; known++) {
            size_t n = strlen(*known);
            if (len + n + 3 > cap) return;
            if (len) len = (size_t)(stpcpy(dst + len, ", ") - dst);
            len = (size_t)(stpcpy(dst + len, *known) - dst);
        }
    }
}

/* Writes the pattern with \s and \S spelled out as Unicode's White_Space, which is what the published
 * tokenizers' engines mean by them; PCRE2 has U+180E in \s as well. dst holds EXPANDED_CAP bytes, enough for
 * every pattern of the table. */
enum { EXPANDED_CAP = 1024 };
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

tn_status tn_pretok_new(const tn_pretok_spec *spec, tn_pretok **out, tn_error *err) {
    *out = NULL;
    tn_pretok *pretok = calloc(1, sizeof *pretok);
    if (!pretok) return tn_fail(err, TN_ERR_MEMORY, "tokenizer", spec->names[0], "out of memory");
    for (; pretok->n < TN_PRETOK_MAX_PATTERNS && spec->patterns[pretok->n]; pretok->n++) {
        char expanded[EXPANDED_CAP];
        size_t len = expand_spaces(expanded, spec->patterns[pretok->n]), where;
        int error;
        pcre2_code *code =
            pcre2_compile((PCRE2_SPTR)expanded, len, PCRE2_UTF | PCRE2_UCP, &error, &where, NULL);
        if (!code) {
            tn_pretok_free(pretok);
            return tn_fail(err, TN_ERR_MEMORY, "tokenizer", spec->names[0],
                           "pattern not compiled (PCRE2 error %d at offset %zu)", error, where);
        }
        pretok->codes[pretok->n] = code;
    }
    *out = pretok;
    return TN_OK;
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
