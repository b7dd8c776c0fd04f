#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_locale.h"
#include "utf8.h"

/* Grows; what was in it is lost. */
typedef struct buffer {
    char *bytes;
    size_t cap;
} buffer;

typedef struct parser {
    const char *begin, *p, *end;
    size_t flags;
    json_error_t *error;
    buffer key, value; /* texts that do not stand in the text as they are */
} parser;

typedef struct span {
    const char *text;
    size_t n;
} span;

/* ---- Errors ---- */

__attribute__((format(printf, 2, 3))) static bool bad(parser *p, const char *format, ...) {
    json_error_t *e = p->error;
    e->line = e->column = 1;
    e->position = p->p - p->begin > INT32_MAX ? INT32_MAX : (int)(p->p - p->begin);
    for (const char *c = p->begin; c < p->p; c++) {
        if (*c == '\n')
            e->line++, e->column = 1;
        else
            e->column += (*c & 0xC0) != 0x80;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return false;
}

static bool expected(parser *p, const char *what) {
    int n = 0;
    while (n < 20 && n < p->end - p->p && (n == 0 || !strchr(" \t\r\n\"[]{},:", p->p[n]))) n++;
    return n ? bad(p, "expected %s, found '%.*s'", what, n, p->p)
             : bad(p, "expected %s, found the end of the text", what);
}

static bool no_memory(parser *p) {
    p->error->line = -1;
    snprintf(p->error->text, sizeof p->error->text, "out of memory");
    return false;
}

static bool reserve(parser *p, buffer *b, size_t n) {
    if (n <= b->cap) return true;
    free(b->bytes);
    b->cap = 0;
    b->bytes = malloc(n);
    if (!b->bytes) return no_memory(p);
    b->cap = n;
    return true;
}

/* ---- Signs ---- */

static void skip_blanks(parser *p) {
    while (p->p < p->end && (*p->p == ' ' || *p->p == '\n' || *p->p == '\t' || *p->p == '\r')) p->p++;
}

static bool take(parser *p, char sign) {
    if (p->p == p->end || *p->p != sign) return false;
    p->p++;
    return true;
}

static bool is_digit(const parser *p) {
    return p->p < p->end && *p->p >= '0' && *p->p <= '9';
}

/* ---- Strings ---- */

/* The value of four hexadecimal digits, or -1. */
static int32_t take_unit(parser *p) {
    int32_t unit = 0;
    if (p->end - p->p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char c = p->p[i], letter = (char)(c | 32);
        if (c >= '0' && c <= '9')
            unit = unit * 16 + (c - '0');
        else if (letter >= 'a' && letter <= 'f')
            unit = unit * 16 + (letter - 'a' + 10);
        else
            return -1;
    }
    p->p += 4;
    return unit;
}

/* Behind \u: a unit, or two that are a pair of surrogates. */
static bool take_code(parser *p, uint32_t *code) {
    const int32_t first = take_unit(p);
    if (first < 0) return expected(p, "four hexadecimal digits");
    if (first == 0 && !(p->flags & JSON_ALLOW_NUL)) return bad(p, "\\u0000 is not allowed here");
    *code = (uint32_t)first;
    if (first < 0xD800 || first > 0xDFFF) return true;
    const bool more = first < 0xDC00 && p->end - p->p > 1 && p->p[0] == '\\' && p->p[1] == 'u';
    if (more) p->p += 2;
    const int32_t second = more ? take_unit(p) : -1;
    if (second < 0xDC00 || second > 0xDFFF)
        return bad(p, "invalid Unicode: a surrogate that is no half of a pair");
    *code = 0x10000 + ((uint32_t)(first - 0xD800) << 10) + (uint32_t)(second - 0xDC00);
    return true;
}

static char *put_code(char *out, uint32_t code) {
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    *out++ = (char)(lead[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--) *out++ = (char)(0x80 | (code >> (6 * i) & 0x3F));
    return out;
}

/* Behind a backslash. */
static bool take_escape(parser *p, char **out) {
    static const char signs[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t code = 0;
    if (take(p, 'u')) {
        if (!take_code(p, &code)) return false;
        *out = put_code(*out, code);
        return true;
    }
    const char *sign = p->p < p->end && *p->p ? strchr(signs, *p->p) : NULL;
    if (!sign) return expected(p, "an escape behind the backslash");
    p->p++;
    *(*out)++ = meant[sign - signs];
    return true;
}

/* To the quotation mark, which is not taken, or the first backslash. */
static bool skip_plain(parser *p) {
    while (p->p < p->end && *p->p != '"' && *p->p != '\\') {
        const uint32_t n = tn_utf8_char(p->p, (size_t)(p->end - p->p));
        if (!n) return bad(p, "bad UTF-8: 0x%02x", (uint8_t)*p->p);
        if ((uint8_t)*p->p < 0x20) return bad(p, "a control character in a string");
        p->p += n;
    }
    return p->p < p->end || bad(p, "a string without an end");
}

/* The rest of a string that has escapes, the first of which is next; no part of it is longer than it stands there. */
static bool unescape(parser *p, const char *begin, buffer *b, span *out) {
    const char *end = p->p;
    while (end < p->end && *end != '"') {
        end += *end == '\\' && p->end - end > 1; /* what is behind a backslash ends nothing */
        end++;
    }
    if (end == p->end) return bad(p, "a string without an end");
    if (!reserve(p, b, (size_t)(end - begin))) return false;
    char *to = b->bytes;
    for (;;) {
        memcpy(to, begin, (size_t)(p->p - begin));
        to += p->p - begin;
        if (*p->p++ == '"') break;
        if (!take_escape(p, &to)) return false;
        begin = p->p;
        if (!skip_plain(p)) return false;
    }
    *out = (span){b->bytes, (size_t)(to - b->bytes)};
    return true;
}

/* Behind the first quotation mark; the text is the caller's until the buffer's next use. */
static bool take_string(parser *p, buffer *b, span *out) {
    const char *begin = p->p;
    if (!skip_plain(p)) return false;
    if (*p->p == '\\') return unescape(p, begin, b, out);
    *out = (span){begin, (size_t)(p->p++ - begin)};
    return true;
}

/* ---- Numbers ---- */

static bool skip_digits(parser *p) {
    if (!is_digit(p)) return expected(p, "a digit");
    while (is_digit(p)) p->p++;
    return true;
}

/* One number; whether it is written as a real one. */
static bool skip_number(parser *p, bool *real) {
    take(p, '-');
    if (!(take(p, '0') || skip_digits(p))) return false;
    if (is_digit(p)) return bad(p, "a number that begins with 0");
    const bool point = take(p, '.');
    if (point && !skip_digits(p)) return false;
    const bool exponent = take(p, 'e') || take(p, 'E');
    if (exponent) {
        if (!take(p, '-')) take(p, '+');
        if (!skip_digits(p)) return false;
    }
    *real = point || exponent;
    return true;
}

/* The number with a NUL behind it. */
static bool copy_number(parser *p, const char *begin, const char **out) {
    const size_t n = (size_t)(p->p - begin);
    if (!reserve(p, &p->value, n + 1)) return false;
    memcpy(p->value.bytes, begin, n);
    p->value.bytes[n] = '\0';
    *out = p->value.bytes;
    return true;
}

static json_t *take_number(parser *p) {
    const char *begin = p->p, *text;
    bool is_real = false;
    if (!skip_number(p, &is_real) || !copy_number(p, begin, &text)) return NULL;
    errno = 0;
    const long long whole = is_real ? 0 : strtoll(text, NULL, 10);
    const double real = is_real ? tn_strtod(text, NULL) : 0;
    if ((!is_real && errno == ERANGE) || isinf(real)) {
        const int n = (int)(p->p - begin < 24 ? p->p - begin : 24);
        p->p = begin;
        bad(p, "a number that overflows: %.*s", n, begin);
        return NULL;
    }
    return is_real ? json_real(real) : json_integer(whole);
}

/* ---- Values ---- */

static json_t *take_word(parser *p) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(p->end - p->p) < n || memcmp(p->p, words[i], n) != 0) continue;
        p->p += n;
        return i == 0 ? json_true() : i == 1 ? json_false() : json_null();
    }
    expected(p, "a value");
    return NULL;
}

/* One without others inside, or an empty one that is still to be filled. */
static json_t *take_value(parser *p, size_t depth) {
    span text;
    p->error->line = 0;
    skip_blanks(p);
    if (depth > TN_JSON_DEPTH) {
        bad(p, "more than the maximum parsing depth, %d", TN_JSON_DEPTH);
        return NULL;
    }
    json_t *value = NULL;
    if (take(p, '{'))
        value = json_object();
    else if (take(p, '['))
        value = json_array();
    else if (take(p, '"'))
        value = take_string(p, &p->value, &text) ? json_stringn_nocheck(text.text, text.n) : NULL;
    else
        value = is_digit(p) || (p->p < p->end && *p->p == '-') ? take_number(p) : take_word(p);
    if (!value && !p->error->line) no_memory(p);
    return value;
}

static bool take_key(parser *p, const json_t *object, span *key) {
    skip_blanks(p);
    const char *at = p->p;
    if (!take(p, '"')) return expected(p, "a string");
    if (!take_string(p, &p->key, key)) return false;
    if (memchr(key->text, '\0', key->n)) return bad(p, "a key with a NUL byte");
    if (p->flags & JSON_REJECT_DUPLICATES && json_object_getn(object, key->text, key->n)) {
        p->p = at;
        return bad(p, "duplicate key '%.*s'", (int)(key->n < 80 ? key->n : 80), key->text);
    }
    skip_blanks(p);
    return take(p, ':') || expected(p, "':'");
}

/* The next value of a list or an object, which owns it then. */
static json_t *take_member(parser *p, json_t *parent, size_t depth) {
    span key = {0};
    if (json_is_object(parent) && !take_key(p, parent, &key)) return NULL;
    json_t *value = take_value(p, depth);
    if (!value) return NULL;
    const int failed = json_is_object(parent) ? json_object_setn_new_nocheck(parent, key.text, key.n, value)
                                              : json_array_append_new(parent, value);
    if (failed) no_memory(p);
    return failed ? NULL : value;
}

/* What is inside of root, however deep: each value is its parent's from its begin on. */
static bool fill(parser *p, json_t *root) {
    json_t *open[TN_JSON_DEPTH] = {root};
    bool first = true; /* nothing is in the innermost yet */
    for (size_t depth = 1; depth;) {
        json_t *parent = open[depth - 1];
        const bool list = json_is_array(parent);
        skip_blanks(p);
        if (take(p, list ? ']' : '}')) {
            depth--;
            first = false;
            continue;
        }
        if (!first && !take(p, ',')) return expected(p, list ? "',' or ']'" : "',' or '}'");
        json_t *value = take_member(p, parent, depth + 1);
        if (!value) return false;
        first = json_is_array(value) || json_is_object(value);
        if (first) open[depth++] = value;
    }
    return true;
}

static json_t *take_text(parser *p) {
    json_t *root = take_value(p, 1);
    const bool nests = root && (json_is_array(root) || json_is_object(root));
    bool good = root != NULL;
    if (good && nests) good = fill(p, root);
    if (good && !nests && !(p->flags & JSON_DECODE_ANY)) {
        p->p = p->begin;
        good = expected(p, "'[' or '{'");
    }
    if (good) skip_blanks(p);
    if (good && p->p < p->end) good = expected(p, "the end of the text");
    if (good) return root;
    json_decref(root);
    return NULL;
}

json_t *tn_json_parse(const char *text, size_t n, size_t flags, json_error_t *error) {
    parser p = {.begin = text, .p = text, .end = text + n, .flags = flags, .error = error};
    *error = (json_error_t){0};
    json_t *root = take_text(&p);
    free(p.key.bytes);
    free(p.value.bytes);
    return root;
}

bool tn_json_no_memory(const json_error_t *error) {
    return error->line < 0;
}
