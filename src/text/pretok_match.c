/* Which of the published pre-tokenizers a tokenizer.json describes: by the texts of its patterns, in which a character may be
 * written as itself or as an escape. */
#include <stdint.h>
#include <string.h>

#include "../base/utf8.h"
#include "pretok.h"

/* What a sign behind a backslash is, other than the sign alone. */
enum { ESCAPED = 1 << 24 };

static uint32_t read_hex(const char **at, int n_most) {
    uint32_t value = 0;
    for (int i = 0; i < n_most; i++, ++*at) {
        const char c = **at, lower = (char)(c | 0x20);
        const bool digit = c >= '0' && c <= '9';
        if (!digit && (lower < 'a' || lower > 'f')) break;
        value = value * 16 + (uint32_t)(digit ? c - '0' : lower - 'a' + 10);
    }
    return value;
}

/* A sign that was named by its number is that sign and no operator. */
static uint32_t by_number(uint32_t value) {
    const bool is_operator = value < 0x80 && value && strchr("\\^$.[]|()?*+{}-", (int)value);
    return is_operator ? ESCAPED | value : value;
}

/* A backslash and what stands behind it, taken together: so the second of two never joins with what follows. "\xHH" and
 * "\x{H...}" are the character they name, an escaped quote or slash is a plain one. */
static uint32_t next_escaped(const char **at) {
    const char sign = (*at)[1];
    *at += 2;
    if (sign == '"' || sign == '/') return (unsigned char)sign;
    if (sign != 'x') return ESCAPED | (unsigned char)sign;
    if (**at != '{') return by_number(read_hex(at, 2));
    ++*at;
    const uint32_t value = read_hex(at, 6);
    if (**at != '}') return ESCAPED;
    ++*at;
    return by_number(value);
}

/* Takes a character off the pattern. */
static uint32_t next_char(const char **at) {
    const char *p = *at;
    if (p[0] == '\\' && p[1]) return next_escaped(at);
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
