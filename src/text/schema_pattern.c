/* Regular expressions, as schemas have them, to what may stand between the quotes of a JSON string. What Python and ECMAScript
 * take differently is kept to what both allow. */
#include <stdlib.h>
#include <string.h>

#include "../base/utf8.h"
#include "schema_impl.h"

enum { MAX_RANGES = 256, MAX_DEPTH = 60, LAST_CHAR = 0x10FFFF };

typedef struct tn_set {
    uint32_t low[MAX_RANGES], high[MAX_RANGES];
    size_t n;
    bool ascii_only; /* \W and the like, and their complements, are disagreed on beyond ASCII */
} tn_set;

typedef struct tn_pattern {
    const char *text;
    size_t n, at;
    int depth;
    tn_text_buffer *out;
    const char *why; /* the error */
} tn_pattern;

static bool fail(tn_pattern *p, const char *why) {
    p->why = why;
    return false;
}

static char peek(const tn_pattern *p) {
    return p->at < p->n ? p->text[p->at] : '\0';
}

/* ---- Sets of characters ---------------------------------------------------------------------------------------------- */

static bool add(tn_pattern *p, tn_set *set, uint32_t low, uint32_t high) {
    if (set->n == MAX_RANGES) return fail(p, "too many ranges in a class");
    set->low[set->n] = low;
    set->high[set->n++] = high;
    return true;
}

static bool has(const tn_set *set, uint32_t ch) {
    for (size_t i = 0; i < set->n; i++)
        if (ch >= set->low[i] && ch <= set->high[i]) return true;
    return false;
}

/* The complement, within ASCII where that is all that is agreed on. Ranges of what is left are found by their borders. */
static bool complement(tn_pattern *p, tn_set *set) {
    tn_set out = {.ascii_only = set->ascii_only};
    const uint32_t last = set->ascii_only ? 0x7F : LAST_CHAR;
    uint32_t at = 0;
    while (at <= last) {
        uint32_t next = last + 1; /* the next border behind at */
        for (size_t i = 0; i < set->n; i++) {
            if (set->low[i] > at && set->low[i] < next) next = set->low[i];
            if (set->high[i] >= at && set->high[i] + 1 < next) next = set->high[i] + 1;
        }
        if (!has(set, at) && !add(p, &out, at, next - 1)) return false;
        at = next;
    }
    *set = out;
    return true;
}

/* \d \w \s and their complements. */
static bool add_shorthand(tn_pattern *p, tn_set *set, char kind) {
    tn_set own = {.ascii_only = true}; /* a few ranges: they fit */
    const char lower = (char)(kind | 0x20);
    bool ok = true;
    if (lower != 's') add(p, &own, '0', '9');
    if (lower == 'w') add(p, &own, 'A', 'Z'), add(p, &own, 'a', 'z'), add(p, &own, '_', '_');
    if (lower == 's') add(p, &own, '\t', '\r'), add(p, &own, ' ', ' ');
    if (kind != lower) complement(p, &own);
    for (size_t i = 0; ok && i < own.n; i++) ok = add(p, set, own.low[i], own.high[i]);
    set->ascii_only = true;
    return ok;
}

static const struct {
    uint32_t ch;
    const char *literal;
} escaped[] = {{'"', "\"\\\\\\\"\""},
               {'\\', "\"\\\\\\\\\""},
               {'\t', "\"\\\\t\""},
               {'\n', "\"\\\\n\""},
               {'\r', "\"\\\\r\""}};

/* Ranges without what a JSON string must escape, and that by itself. */
static bool put_set(tn_pattern *p, const tn_set *set) {
    bool any = false;
    tn_put(p->out, "([");
    for (size_t i = 0; i < set->n; i++) {
        static const uint32_t cuts[] = {0x22, 0x5C, 0x7F};
        uint32_t low = set->low[i] < 0x20 ? 0x20 : set->low[i];
        if (low >= 0xD800 && low <= 0xDFFF) low = 0xE000;
        for (size_t j = 0; j <= 3 && low <= set->high[i]; j++) {
            const uint32_t end = j == 3 || cuts[j] > set->high[i] ? set->high[i] : cuts[j] - 1;
            if (j < 3 && cuts[j] < low) continue;
            if (end >= low) {
                tn_put_class_char(p->out, low);
                tn_put(p->out, "-");
                tn_put_class_char(p->out, end >= 0xD800 && end <= 0xDFFF ? 0xD7FF : end);
                any = true;
            }
            low = end + 2;
        }
    }
    tn_put(p->out, "]");
    for (size_t i = 0; i < sizeof escaped / sizeof *escaped; i++) {
        if (!has(set, escaped[i].ch)) continue;
        tn_put(p->out, " | %s", escaped[i].literal);
        any = true;
    }
    tn_put(p->out, ")");
    if (!any) return fail(p, "a class of which no character can be written");
    return true;
}

/* ---- Characters -------------------------------------------------------------------------------------------------------- */

static bool read_hex(tn_pattern *p, int n, uint32_t *ch) {
    *ch = 0;
    for (int i = 0; i < n; i++, p->at++) {
        const char c = peek(p);
        const int digit = c >= '0' && c <= '9'                     ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : -1;
        if (digit < 0) return fail(p, "bad hexadecimal escape");
        *ch = *ch << 4 | (uint32_t)digit;
    }
    if (*ch >= 0xD800 && *ch <= 0xDFFF) return fail(p, "a surrogate by itself is no character");
    return true;
}

/* One character, escaped or not; *shorthand is its letter if it stands for a class. */
static bool read_char(tn_pattern *p, uint32_t *ch, char *shorthand) {
    *shorthand = '\0';
    if (peek(p) != '\\') {
        const uint32_t len = tn_utf8_char(p->text + p->at, p->n - p->at);
        const unsigned char *bytes = (const unsigned char *)p->text + p->at;
        if (!len) return fail(p, "not UTF-8");
        *ch = len == 1 ? bytes[0] : bytes[0] & (0xFFu >> (len + 1));
        for (uint32_t i = 1; i < len; i++) *ch = *ch << 6 | (bytes[i] & 0x3F);
        p->at += len;
        return true;
    }
    p->at++;
    const char c = peek(p);
    static const char controls[] = "t\tn\nr\rf\fv\v";
    if (c == '\0') return fail(p, "it ends with a backslash");
    p->at++;
    if (strchr("dwsDWS", c)) return *shorthand = c, *ch = 0, true;
    if (c == 'x') return read_hex(p, 2, ch);
    if (c == 'u') return read_hex(p, 4, ch);
    for (size_t i = 0; i + 1 < sizeof controls; i += 2)
        if (c == controls[i]) return *ch = (uint32_t)controls[i + 1], true;
    if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char)c >= 0x80)
        return fail(p, "an escape that is not supported");
    *ch = (uint32_t)c;
    return true;
}

static bool read_class(tn_pattern *p, tn_set *set) {
    const bool negated = peek(p) == '^';
    p->at += negated;
    while (peek(p) != ']') {
        uint32_t low, high;
        char shorthand, second;
        if (p->at >= p->n) return fail(p, "a class does not end");
        if (!read_char(p, &low, &shorthand)) return false;
        if (shorthand) {
            if (!add_shorthand(p, set, shorthand)) return false;
            continue;
        }
        high = low;
        if (peek(p) == '-' && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            if (!read_char(p, &high, &second)) return false;
            if (second || high < low) return fail(p, "a range that ends before it begins");
        }
        if (!add(p, set, low, high)) return false;
    }
    p->at++;
    return !negated || complement(p, set);
}

/* ---- Structure --------------------------------------------------------------------------------------------------------- */

static bool put_alternatives(tn_pattern *p, bool top);

static bool put_group(tn_pattern *p) {
    if (p->depth == MAX_DEPTH) return fail(p, "groups nested too deeply");
    if (peek(p) == '?') {
        if (p->at + 1 >= p->n || p->text[p->at + 1] != ':')
            return fail(p, "look-around and named groups are not supported");
        p->at += 2;
    }
    p->depth++;
    tn_put(p->out, "(");
    if (!put_alternatives(p, false)) return false;
    tn_put(p->out, ")");
    p->depth--;
    if (peek(p) != ')') return fail(p, "a group does not end");
    p->at++;
    return true;
}

static bool put_atom(tn_pattern *p) {
    tn_set set = {0};
    uint32_t ch;
    char shorthand;
    switch (peek(p)) {
    case '(': p->at++; return put_group(p);
    case '[': p->at++; return read_class(p, &set) && put_set(p, &set);
    case '.':
        p->at++;
        tn_put(p->out, "any-char");
        return true;
    case '^':
    case '$': return fail(p, "'^' and '$' are supported at the ends alone");
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
    case ']': return fail(p, "nothing to repeat, or a bracket by itself");
    default: break;
    }
    if (!read_char(p, &ch, &shorthand)) return false;
    if (shorthand)
        add_shorthand(p, &set, shorthand);
    else
        add(p, &set, ch, ch);
    return put_set(p, &set);
}

/* Digits, if there are any, up to the most that a grammar takes. */
static bool read_count(tn_pattern *p, uint32_t *count) {
    enum { MOST = 10000 };
    const size_t start = p->at;
    for (*count = 0; peek(p) >= '0' && peek(p) <= '9' && *count <= MOST; p->at++)
        *count = *count * 10 + (uint32_t)(peek(p) - '0');
    return p->at > start && *count <= MOST;
}

/* {n} {n,} {n,m} */
static bool put_counts(tn_pattern *p) {
    uint32_t least, most;
    p->at++;
    bool good = read_count(p, &least);
    const bool list = good && peek(p) == ',';
    if (list) p->at++;
    const bool bounded = list && peek(p) != '}';
    if (bounded) good = read_count(p, &most) && least <= most;
    if (!good || peek(p) != '}') return fail(p, "bad numbers of a repetition (at most 10000)");
    p->at++;
    tn_put(p->out, "{%u%s", least, list ? "," : "");
    if (bounded) tn_put(p->out, "%u", most);
    tn_put(p->out, "}");
    return true;
}

static bool put_quantifier(tn_pattern *p) {
    const char c = peek(p);
    if (c == '*' || c == '+' || c == '?') {
        tn_put(p->out, "%c", c);
        p->at++;
    } else if (c == '{') {
        if (!put_counts(p)) return false;
    } else {
        return true;
    }
    if (peek(p) == '?') p->at++; /* as few as can be: the same texts */
    if (peek(p) == '*' || peek(p) == '+' || peek(p) == '?' || peek(p) == '{')
        return fail(p, "a repetition of a repetition");
    return true;
}

static bool at_end(const tn_pattern *p, bool top) {
    if (p->at >= p->n || peek(p) == '|' || peek(p) == ')') return true;
    return top && peek(p) == '$' && (p->at + 1 >= p->n || p->text[p->at + 1] == '|');
}

/* Without '^' or '$' anything may stand before or behind. */
static bool put_alternative(tn_pattern *p, bool top) {
    if (top && peek(p) == '^')
        p->at++;
    else if (top)
        tn_put(p->out, "char* ");
    while (!at_end(p, top)) {
        if (!put_atom(p) || !put_quantifier(p)) return false;
        tn_put(p->out, " ");
    }
    if (top && peek(p) == '$')
        p->at++;
    else if (top)
        tn_put(p->out, "char*");
    return true;
}

static bool put_alternatives(tn_pattern *p, bool top) {
    for (;;) {
        if (!put_alternative(p, top)) return false;
        if (peek(p) != '|') break;
        p->at++;
        tn_put(p->out, " | ");
    }
    if (top && p->at < p->n) return fail(p, "a bracket by itself");
    return true;
}

const char *tn_schema_put_pattern(const char *pattern, size_t n, tn_text_buffer *out) {
    tn_pattern p = {.text = pattern, .n = n, .out = out};
    put_alternatives(&p, true);
    return p.why;
}
