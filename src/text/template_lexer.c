/* The rules are those of jinja2's lexer with trim_blocks and lstrip_blocks: a newline behind a block or comment goes, and so does
 * white space before one on its line; '-' takes all white space on its side, '+' keeps it. */
#include "template_lexer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "../base/c_locale.h"
#include "../base/utf8.h"

static const struct {
    char text[3];
    tn_ttoken_kind kind;
} operators[] = {
    /* longer ones first */
    {"//", TN_TOK_FLOORDIV}, {"**", TN_TOK_POW},      {"==", TN_TOK_EQ},    {"!=", TN_TOK_NE},
    {">=", TN_TOK_GE},       {"<=", TN_TOK_LE},       {"+", TN_TOK_ADD},    {"-", TN_TOK_SUB},
    {"/", TN_TOK_DIV},       {"*", TN_TOK_MUL},       {"%", TN_TOK_MOD},    {"~", TN_TOK_TILDE},
    {"[", TN_TOK_LBRACKET},  {"]", TN_TOK_RBRACKET},  {"(", TN_TOK_LPAREN}, {")", TN_TOK_RPAREN},
    {"{", TN_TOK_LBRACE},    {"}", TN_TOK_RBRACE},    {">", TN_TOK_GT},     {"<", TN_TOK_LT},
    {"=", TN_TOK_ASSIGN},    {".", TN_TOK_DOT},       {":", TN_TOK_COLON},  {"|", TN_TOK_PIPE},
    {",", TN_TOK_COMMA},     {";", TN_TOK_SEMICOLON},
};

const char *tn_ttoken_name(tn_ttoken_kind kind) {
    static const char *const names[] = {
        [TN_TOK_END] = "end of template",
        [TN_TOK_DATA] = "text",
        [TN_TOK_BLOCK_BEGIN] = "'{%'",
        [TN_TOK_BLOCK_END] = "'%}'",
        [TN_TOK_VARIABLE_BEGIN] = "'{{'",
        [TN_TOK_VARIABLE_END] = "'}}'",
        [TN_TOK_NAME] = "a name",
        [TN_TOK_STRING] = "a string",
        [TN_TOK_INTEGER] = "an integer",
        [TN_TOK_FLOAT] = "a number",
        [TN_TOK_ADD] = "'+'",
        [TN_TOK_SUB] = "'-'",
        [TN_TOK_DIV] = "'/'",
        [TN_TOK_FLOORDIV] = "'//'",
        [TN_TOK_MUL] = "'*'",
        [TN_TOK_MOD] = "'%'",
        [TN_TOK_POW] = "'**'",
        [TN_TOK_TILDE] = "'~'",
        [TN_TOK_LBRACKET] = "'['",
        [TN_TOK_RBRACKET] = "']'",
        [TN_TOK_LPAREN] = "'('",
        [TN_TOK_RPAREN] = "')'",
        [TN_TOK_LBRACE] = "'{'",
        [TN_TOK_RBRACE] = "'}'",
        [TN_TOK_EQ] = "'=='",
        [TN_TOK_NE] = "'!='",
        [TN_TOK_GT] = "'>'",
        [TN_TOK_GE] = "'>='",
        [TN_TOK_LT] = "'<'",
        [TN_TOK_LE] = "'<='",
        [TN_TOK_ASSIGN] = "'='",
        [TN_TOK_DOT] = "'.'",
        [TN_TOK_COLON] = "':'",
        [TN_TOK_PIPE] = "'|'",
        [TN_TOK_COMMA] = "','",
        [TN_TOK_SEMICOLON] = "';'",
    };
    return names[kind];
}

bool tn_tis_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

/* ---- Source -------------------------------------------------------------------------------------------- */

void tn_tlexer_init(tn_tlexer *lexer, tn_tmem *m, const char *source, size_t n) {
    char *copy = tn_talloc(m, n + 1, 1);
    size_t len = 0;
    *lexer = (tn_tlexer){.m = m, .p = copy, .line = 1, .line_starts = true, .begun = TN_TOK_END};
    m->line = 1;
    for (size_t i = 0, step; i < n; i += step) {
        step = tn_utf8_char(source + i, n - i);
        if (!step) tn_tfail(m, TN_ERR_FORMAT, "byte %zu is not UTF-8", i);
        if (source[i] == '\r') {
            if (i + 1 < n && source[i + 1] == '\n') i++;
            copy[len++] = '\n';
        } else {
            memcpy(copy + len, source + i, step);
            len += step;
        }
        m->line += copy[len - 1] == '\n';
    }
    if (len && copy[len - 1] == '\n') len--;
    lexer->n = len;
    tn_tlexer_next(lexer);
}

/* ---- Places -------------------------------------------------------------------------------------------- */

static char byte_at(const tn_tlexer *lexer, size_t at) {
    return at < lexer->n ? lexer->p[at] : '\0';
}

static bool is_at(const tn_tlexer *lexer, size_t at, const char *text) {
    size_t n = strlen(text);
    return lexer->n - at >= n && memcmp(lexer->p + at, text, n) == 0;
}

static uint32_t char_at(const tn_tlexer *lexer, size_t at, size_t *next) {
    const tn_tstr all = {.p = lexer->p, .n = lexer->n};
    *next = at;
    return tn_tnext_char(&all, next);
}

static size_t skip_space(const tn_tlexer *lexer, size_t at) {
    size_t next;
    while (at < lexer->n && tn_tis_space(char_at(lexer, at, &next))) at = next;
    return at;
}

static void move_to(tn_tlexer *lexer, size_t at) {
    for (size_t i = lexer->at; i < at; i++) lexer->line += lexer->p[i] == '\n';
    if (at > lexer->at) lexer->line_starts = lexer->p[at - 1] == '\n';
    lexer->at = at;
}

/* Where "CLOSE", "-CLOSE" or, with trim, "+CLOSE" at `at` ends, with the white space it takes; SIZE_MAX if it is not there. */
static size_t tag_end(const tn_tlexer *lexer, size_t at, const char *close, bool trim) {
    bool plus = trim && byte_at(lexer, at) == '+', minus = byte_at(lexer, at) == '-';
    if (at > lexer->n || !is_at(lexer, at + (plus || minus), close)) return SIZE_MAX;
    at += (size_t)(plus || minus) + strlen(close);
    if (minus) return skip_space(lexer, at);
    return at + (trim && !plus && byte_at(lexer, at) == '\n');
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

/* The end of the text [begin, end) before a tag with this sign. */
static size_t strip_end(const tn_tlexer *lexer, size_t begin, size_t end, char sign, bool variable) {
    if (sign == '+' || (sign != '-' && variable)) return end;
    size_t low = begin;
    if (sign != '-') {
        const char *newline = end > begin ? memrchr(lexer->p + begin, '\n', end - begin) : NULL;
        if (!newline && !lexer->line_starts) return end;
        if (newline) low = (size_t)(newline - lexer->p) + 1;
    }
    size_t kept = low, next;
    for (size_t i = low; i < end; i = next)
        if (!tn_tis_space(char_at(lexer, i, &next))) kept = next;
    return sign == '-' || kept == low ? kept : end;
}

static void emit(tn_tlexer *lexer, tn_ttoken *token, tn_ttoken_kind kind, size_t begin, size_t end) {
    *token = (tn_ttoken){.kind = kind, .line = lexer->line};
    if (kind == TN_TOK_DATA || kind == TN_TOK_NAME)
        token->text = tn_ttext(lexer->m, lexer->p + begin, end - begin).s;
}

static bool is_sign(char c) {
    return c == '-' || c == '+';
}

/* The end of "{%", a sign, `word` and, for `raw`, the tag's end; 0 if that is not what stands at `at`. */
static size_t raw_tag(const tn_tlexer *lexer, size_t at, const char *word, bool trim) {
    if (!is_at(lexer, at, "{%")) return 0;
    at += 2;
    if (is_sign(byte_at(lexer, at))) at++;
    at = skip_space(lexer, at);
    if (!is_at(lexer, at, word)) return 0;
    at = tag_end(lexer, skip_space(lexer, at + strlen(word)), "%}", trim);
    return at == SIZE_MAX ? 0 : at;
}

/* Behind "{% raw %}": the text up to "{% endraw %}". False if it is empty. */
static bool take_raw(tn_tlexer *lexer, tn_ttoken *token) {
    for (size_t at = lexer->at; at < lexer->n; at++) {
        size_t end = raw_tag(lexer, at, "endraw", true);
        if (!end) continue;
        size_t kept = strip_end(lexer, lexer->at, at, byte_at(lexer, at + 2), false);
        emit(lexer, token, TN_TOK_DATA, lexer->at, kept);
        bool some = kept > lexer->at;
        move_to(lexer, end);
        return some;
    }
    lexer->m->line = lexer->line;
    tn_tfail(lexer->m, TN_ERR_FORMAT, "'raw' has no end");
}

static void skip_comment(tn_tlexer *lexer) {
    for (size_t at = lexer->at; at < lexer->n; at++) {
        size_t end = tag_end(lexer, at, "#}", true);
        if (end == SIZE_MAX) continue;
        move_to(lexer, end);
        return;
    }
    lexer->m->line = lexer->line;
    tn_tfail(lexer->m, TN_ERR_FORMAT, "a comment has no end");
}

static size_t find_tag(const tn_tlexer *lexer) {
    for (size_t at = lexer->at; at + 1 < lexer->n; at++) {
        const char *brace = memchr(lexer->p + at, '{', lexer->n - at);
        if (!brace) break;
        at = (size_t)(brace - lexer->p);
        char c = byte_at(lexer, at + 1);
        if (c == '{' || c == '%' || c == '#') return at;
    }
    return lexer->n;
}

/* Goes behind the tag's beginning. */
static void begin_tag(tn_tlexer *lexer, size_t at) {
    size_t raw = raw_tag(lexer, at, "raw", false);
    char c = byte_at(lexer, at + 1);
    move_to(lexer, raw ? raw : at + 2 + is_sign(byte_at(lexer, at + 2)));
    if (raw)
        lexer->begun = TN_TOK_DATA;
    else if (c == '#')
        skip_comment(lexer);
    else
        lexer->begun = c == '{' ? TN_TOK_VARIABLE_BEGIN : TN_TOK_BLOCK_BEGIN;
}

/* False if there is no token yet. */
static bool take_text(tn_tlexer *lexer, tn_ttoken *token) {
    tn_ttoken_kind begun = lexer->begun;
    lexer->begun = TN_TOK_END;
    if (begun == TN_TOK_DATA) return take_raw(lexer, token);
    if (begun != TN_TOK_END) {
        emit(lexer, token, begun, 0, 0);
        lexer->state = begun == TN_TOK_BLOCK_BEGIN ? TN_TLEX_BLOCK : TN_TLEX_VARIABLE;
        return true;
    }
    if (lexer->at == lexer->n) {
        emit(lexer, token, TN_TOK_END, 0, 0);
        return true;
    }
    size_t begin = lexer->at, at = find_tag(lexer);
    size_t end = at == lexer->n
                     ? at
                     : strip_end(lexer, begin, at, byte_at(lexer, at + 2), byte_at(lexer, at + 1) == '{');
    emit(lexer, token, TN_TOK_DATA, begin, end);
    if (at == lexer->n)
        move_to(lexer, at);
    else
        begin_tag(lexer, at);
    return end > begin;
}

/* ---- In tags ------------------------------------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name_char(uint32_t c) {
    if (c < 0x80) return c == '_' || is_digit((char)c) || (c | 0x20) - 'a' < 26;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO) || k == UTF8PROC_CATEGORY_PC;
}

static size_t name_end(const tn_tlexer *lexer, size_t at) {
    size_t next;
    while (at < lexer->n && is_name_char(char_at(lexer, at, &next))) at = next;
    return at;
}

/* The end of digits below `base`, each but the first perhaps behind a '_'. */
static size_t digits_end(const tn_tlexer *lexer, size_t at, int base, bool first_too) {
    for (;; at++) {
        size_t digit = at + (first_too && byte_at(lexer, at) == '_');
        char c = byte_at(lexer, digit);
        int value = is_digit(c)                              ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : 99;
        if (value >= base) return at;
        at = digit;
        first_too = true;
    }
}

/* The end of a float at `at`, or `at`. */
static size_t float_end(const tn_tlexer *lexer, size_t at) {
    if (at && lexer->p[at - 1] == '.') return at;
    size_t whole = digits_end(lexer, at, 10, false), end = whole;
    if (whole == at) return at;
    if (byte_at(lexer, whole) == '.') {
        size_t fraction = digits_end(lexer, whole + 1, 10, false);
        if (fraction > whole + 1) end = fraction;
    }
    if ((byte_at(lexer, end) | 0x20) == 'e') {
        size_t digits = end + 1 + is_sign(byte_at(lexer, end + 1));
        size_t exponent = digits_end(lexer, digits, 10, false);
        if (exponent > digits) return exponent;
    }
    return end > whole ? end : at;
}

double tn_tdecimal_value(tn_tmem *m, const char *p, size_t n) {
    char *text = tn_talloc(m, n + 32, 1);
    size_t at = 0, i = 0;
    int64_t n_fraction = 0, exponent = 0;
    bool fraction = false, negative = false;
    for (; i < n && (p[i] | 0x20) != 'e'; i++) {
        fraction = fraction || p[i] == '.';
        if (p[i] == '.' || p[i] == '_') continue;
        text[at++] = p[i];
        n_fraction += fraction;
    }
    for (i++; i < n; i++) {
        negative = negative || p[i] == '-';
        if (is_digit(p[i]) && exponent < 100000000) exponent = 10 * exponent + (p[i] - '0');
    }
    snprintf(text + at, 32, "e%" PRId64, (negative ? -exponent : exponent) - n_fraction);
    return tn_strtod(text, NULL);
}

static size_t integer_end(const tn_tlexer *lexer, size_t at, int *base, size_t *digits) {
    char c = (char)(byte_at(lexer, at + 1) | 0x20);
    *base = byte_at(lexer, at) != '0' ? 10 : c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    *digits = at;
    if (*base != 10) {
        *digits = at + 2;
        size_t end = digits_end(lexer, at + 2, *base, true);
        if (end > at + 2) return end;
        *base = 10;
        *digits = at;
    }
    return digits_end(lexer, at, byte_at(lexer, at) == '0' ? 1 : 10, false);
}

static void take_number(tn_tlexer *lexer, tn_ttoken *token) {
    size_t begin = lexer->at, end = float_end(lexer, begin), digits;
    if (end > begin) {
        emit(lexer, token, TN_TOK_FLOAT, 0, 0);
        token->number = tn_tfloat(tn_tdecimal_value(lexer->m, lexer->p + begin, end - begin));
        move_to(lexer, end);
        return;
    }
    int base;
    int64_t value = 0;
    end = integer_end(lexer, begin, &base, &digits);
    for (size_t i = digits; i < end; i++) {
        char c = lexer->p[i];
        if (c == '_') continue;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10, &value))
            tn_tfail(lexer->m, TN_ERR_FORMAT, "an integer of more than 64 bits");
    }
    emit(lexer, token, TN_TOK_INTEGER, 0, 0);
    token->number = tn_tint(value);
    move_to(lexer, end);
}

static uint32_t hex_value(const tn_tlexer *lexer, size_t at, size_t n) {
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++) {
        char c = byte_at(lexer, at + i);
        int digit = is_digit(c)                              ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (digit < 0) tn_tfail(lexer->m, TN_ERR_FORMAT, "a truncated \\x, \\u or \\U escape");
        value = value * 16 + (uint32_t)digit;
    }
    return value;
}

/* What stands behind a backslash at `at`; returns where it ends. */
static size_t take_escape(tn_tlexer *lexer, tn_tbuf *b, size_t at) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = lexer->p[at];
    const char *simple = memchr(from, c, sizeof from - 1);
    if (simple) {
        tn_tbuf_bytes(b, &to[simple - from], 1, false);
        return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c == 'x' || c == 'u' || c == 'U') {
        size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t code = hex_value(lexer, at + 1, n);
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            tn_tfail(lexer->m, TN_ERR_FORMAT, "an escape that is no character: U+%04X", code);
        tn_tbuf_char(b, code, false);
        return at + 1 + n;
    }
    if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t i = at;
        for (; i < at + 3 && byte_at(lexer, i) >= '0' && byte_at(lexer, i) <= '7'; i++)
            code = code * 8 + (uint32_t)(lexer->p[i] - '0');
        tn_tbuf_char(b, code, false);
        return i;
    }
    if (c == 'N') tn_tfail(lexer->m, TN_ERR_UNSUPPORTED, "escapes by name (\\N) are not supported");
    tn_tbuf_bytes(b, "\\", 1, false); /* an unknown escape stays as it is */
    return at;
}

static void take_string(tn_tlexer *lexer, tn_ttoken *token) {
    const char quote = lexer->p[lexer->at];
    tn_tbuf b = {.m = lexer->m};
    size_t at = lexer->at + 1;
    while (at < lexer->n && lexer->p[at] != quote) {
        if (lexer->p[at] == '\\' && at + 1 < lexer->n) {
            at = take_escape(lexer, &b, at + 1);
        } else {
            tn_tbuf_bytes(&b, lexer->p + at, 1, false);
            at++;
        }
    }
    if (at >= lexer->n) tn_tfail(lexer->m, TN_ERR_FORMAT, "a string has no end");
    emit(lexer, token, TN_TOK_STRING, 0, 0);
    token->text = tn_tbuf_done(&b).s;
    move_to(lexer, at + 1);
}

static void balance(tn_tlexer *lexer, tn_ttoken_kind kind) {
    const char close = kind == TN_TOK_LBRACE     ? '}'
                       : kind == TN_TOK_LPAREN   ? ')'
                       : kind == TN_TOK_LBRACKET ? ']'
                                                 : 0;
    if (close) {
        if (lexer->n_brackets == TN_TMAX_BRACKETS)
            tn_tfail(lexer->m, TN_ERR_FORMAT, "it is nested too deeply");
        lexer->brackets[lexer->n_brackets++] = close;
    } else if (kind == TN_TOK_RBRACE || kind == TN_TOK_RPAREN || kind == TN_TOK_RBRACKET) {
        if (!lexer->n_brackets || lexer->brackets[--lexer->n_brackets] != lexer->p[lexer->at])
            tn_tfail(lexer->m, TN_ERR_FORMAT, "unexpected %s", tn_ttoken_name(kind));
    }
}

static void take_operator(tn_tlexer *lexer, tn_ttoken *token) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!is_at(lexer, lexer->at, operators[i].text)) continue;
        balance(lexer, operators[i].kind);
        emit(lexer, token, operators[i].kind, 0, 0);
        move_to(lexer, lexer->at + strlen(operators[i].text));
        return;
    }
    size_t next;
    char_at(lexer, lexer->at, &next);
    tn_tfail(lexer->m, TN_ERR_FORMAT, "unexpected character '%.*s'", (int)(next - lexer->at),
             lexer->p + lexer->at);
}

static void take_in_tag(tn_tlexer *lexer, tn_ttoken *token) {
    const bool block = lexer->state == TN_TLEX_BLOCK;
    for (;;) { /* the end may stand behind white space */
        lexer->m->line = lexer->line;
        size_t end = lexer->n_brackets ? SIZE_MAX : tag_end(lexer, lexer->at, block ? "%}" : "}}", block);
        if (end != SIZE_MAX) {
            emit(lexer, token, block ? TN_TOK_BLOCK_END : TN_TOK_VARIABLE_END, 0, 0);
            move_to(lexer, end);
            lexer->state = TN_TLEX_TEXT;
            return;
        }
        size_t behind = skip_space(lexer, lexer->at);
        if (behind == lexer->at) break;
        move_to(lexer, behind);
    }
    char c = byte_at(lexer, lexer->at);
    size_t name = name_end(lexer, lexer->at);
    if (lexer->at == lexer->n) {
        emit(lexer, token, TN_TOK_END, 0, 0);
    } else if (is_digit(c)) {
        take_number(lexer, token);
    } else if (name > lexer->at) {
        emit(lexer, token, TN_TOK_NAME, lexer->at, name);
        move_to(lexer, name);
    } else if (c == '\'' || c == '"') {
        take_string(lexer, token);
    } else {
        take_operator(lexer, token);
    }
}

static void take(tn_tlexer *lexer, tn_ttoken *token) {
    tn_tcharge(lexer->m, 1);
    lexer->m->line = lexer->line;
    if (lexer->state != TN_TLEX_TEXT) {
        take_in_tag(lexer, token);
        return;
    }
    while (!take_text(lexer, token)) {
    }
}

void tn_tlexer_next(tn_tlexer *lexer) {
    if (lexer->has_ahead)
        lexer->token = lexer->ahead;
    else
        take(lexer, &lexer->token);
    lexer->has_ahead = false;
    lexer->m->line = lexer->token.line;
}

const tn_ttoken *tn_tlexer_look(tn_tlexer *lexer) {
    if (!lexer->has_ahead) take(lexer, &lexer->ahead);
    lexer->has_ahead = true;
    lexer->m->line = lexer->token.line;
    return &lexer->ahead;
}
