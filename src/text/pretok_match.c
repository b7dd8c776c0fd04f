/* Which of the published pre-tokenizers a tokenizer.json describes: by the texts of its patterns, in which a character may be
 * written as itself or as an escape. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pretok.h"
#include "utf8.h"

/* Takes a character off the pattern: "\xHH" and "\x{H...}" are the character they name, an escaped quote or slash is a
 * plain one, all else is itself. */
static uint32_t next_char(const char **at) {
    const char *p = *at;
    if (p[0] == '\\' && p[1] == 'x') {
        char *end;
        char digits[3] = {p[2], p[2] ? p[3] : '\0', '\0'};
        const bool braced = p[2] == '{';
        const unsigned long value = strtoul(braced ? p + 3 : digits, &end, 16);
        *at = braced ? end + (*end == '}') : p + 2 + (end - digits);
        return (uint32_t)value;
    }
    if (p[0] == '\\' && (p[1] == '"' || p[1] == '/')) {
        *at += 2;
        return (unsigned char)p[1];
    }
    const uint32_t n = tn_utf8_char(p, strlen(p));
    if (n < 2) {
        (*at)++;
        return (unsigned char)*p;
    }
    uint32_t value = (unsigned char)*p & (0x7fu >> n);
    for (uint32_t i = 1; i < n; i++) value = value << 6 | ((unsigned char)p[i] & 0x3f);
    *at += n;
    return value;
}

/* An escaped sign stays escaped, so a backslash never joins with what follows it by accident. */
static bool same_pattern(const char *a, const char *b) {
    while (*a && *b)
        if (next_char(&a) != next_char(&b)) return false;
    return !*a && !*b;
}

static bool matches(const tn_pretok_spec *spec, const tn_stage *stages, size_t n) {
    const char *const *known = spec->published[0] ? spec->published : spec->patterns;
    for (size_t i = 0; i < n; i++)
        if (i == TN_PRETOK_MAX_PATTERNS || !known[i] || !same_pattern(tn_stage_pattern(&stages[i]), known[i]))
            return false;
    return n == TN_PRETOK_MAX_PATTERNS || !known[n];
}

const char *tn_pretok_match(const tn_stage *stages, size_t n, size_t n_byte_stages, bool nfc,
                            bool ignore_merges) {
    const tn_pretok_spec *spec;
    for (size_t i = 0; n > 0 && (spec = tn_pretok_spec_at(i)); i++)
        if (spec->nfc == nfc && spec->ignore_merges == ignore_merges &&
            spec->n_byte_patterns == n_byte_stages && !spec->marks_spaces && matches(spec, stages, n))
            return spec->names[0];
    return NULL;
}
