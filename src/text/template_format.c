/* format % values and format.format(...): Python's two ways to put values into a text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template_run.h"

/* How one value is written. */
typedef struct spec {
    uint32_t fill;
    char align; /* '<' '>' '^' '=' or 0 */
    char sign;  /* '+' ' ' or 0 */
    bool alternate, zero;
    char grouping; /* ',' '_' or 0 */
    int64_t width, precision;
    char type; /* 0: by the value */
} spec;

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 100 };

/* ---- One value ----------------------------------------------------------------------------------------- */

static void pad(tn_tbuf *b, uint32_t fill, int64_t n) {
    for (int64_t i = 0; i < n; i++) tn_tbuf_char(b, fill, false);
}

/* The text in its field; `head` bytes of it are a sign or prefix, behind which '=' pads. */
static void put_field(tn_tbuf *b, const spec *s, const tn_tstr *text, size_t head, char otherwise) {
    int64_t room = s->width - (int64_t)text->n_chars;
    char align = s->align ? s->align : s->zero && otherwise == '>' ? '=' : otherwise;
    int64_t left = room <= 0 ? 0 : align == '>' ? room : align == '^' ? room / 2 : 0;
    pad(b, s->fill, left);
    tn_tbuf_slice(b, text, 0, head);
    if (align == '=') pad(b, s->fill, room);
    tn_tbuf_slice(b, text, head, text->n);
    if (align == '<' || align == '^') pad(b, s->fill, room - left);
}

static void put_str(tn_trun *r, tn_tbuf *b, const spec *s, const tn_tstr *text) {
    size_t end = text->n;
    if (s->precision >= 0 && (uint64_t)s->precision < text->n_chars)
        end = tn_tstr_byte_of(text, (size_t)s->precision);
    put_field(b, s, tn_tstr_slice(&r->m, text, 0, end), 0, '<');
}

/* Digits, with a separator between groups of the whole part, which has n_whole of them. */
static void put_grouped(tn_tbuf *b, const char *digits, size_t n, size_t n_whole, char grouping,
                        size_t group) {
    for (size_t i = 0; i < n; i++) {
        if (grouping && i && i < n_whole && (n_whole - i) % group == 0) tn_tbuf_bytes(b, &grouping, 1, false);
        tn_tbuf_bytes(b, digits + i, 1, false);
    }
}

static void put_number(tn_tbuf *b, const spec *s, bool negative, const char *prefix, const char *digits,
                       size_t n_whole) {
    tn_tbuf text = {.m = b->m};
    size_t group = s->type == 'x' || s->type == 'X' || s->type == 'o' || s->type == 'b' ? 4 : 3;
    tn_tbuf_text(&text, negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "");
    tn_tbuf_text(&text, prefix);
    size_t head = text.n;
    put_grouped(&text, digits, strlen(digits), n_whole, s->grouping, group);
    put_field(b, s, tn_tbuf_done(&text).s, head, '>');
}

static void put_int(tn_trun *r, tn_tbuf *b, const spec *s, int64_t v) {
    char digits[MAX_PRECISION + 2];
    size_t at = sizeof digits - 1;
    const unsigned base = s->type == 'x' || s->type == 'X' ? 16
                          : s->type == 'o'                 ? 8
                          : s->type == 'b'                 ? 2
                                                           : 10;
    const char *alphabet = s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    const char *prefix = !s->alternate || base == 10 ? ""
                         : s->type == 'x'            ? "0x"
                         : s->type == 'X'            ? "0X"
                         : base == 8                 ? "0o"
                                                     : "0b";
    if (s->type == 'c') {
        if (v < 0 || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000))
            tn_tfail(&r->m, TN_ERR_FORMAT, "%%c: no such character");
        tn_tbuf text = {.m = &r->m};
        tn_tbuf_char(&text, (uint32_t)v, false);
        put_field(b, s, tn_tbuf_done(&text).s, 0, '<');
        return;
    }
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    digits[at] = '\0';
    do digits[--at] = alphabet[magnitude % base];
    while (magnitude /= base);
    while (s->precision > (int64_t)(sizeof digits - 1 - at) && at) digits[--at] = '0'; /* "%.5d" */
    put_number(b, s, v < 0, prefix, digits + at, sizeof digits - 1 - at);
}

/* A float's digits without sign, with a point whatever the host's language. */
static void float_digits(double v, const spec *s, char *dst, size_t cap) {
    int precision = (int)(s->precision < 0 ? 6 : s->precision);
    const char *percent = "";
    char type = s->type;
    v = fabs(v);
    if (type == '%') {
        v *= 100;
        type = 'f';
        percent = "%";
    }
    if (!isfinite(v)) {
        snprintf(dst, cap, "%s%s", isnan(v) ? "nan" : "inf", percent);
        return;
    }
    const char format[] = {'%',
                           s->alternate ? '#' : '.',
                           s->alternate ? '.' : '*',
                           s->alternate ? '*' : type,
                           s->alternate ? type : '\0',
                           '\0'};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = (size_t)snprintf(dst, cap, format, precision, v);
#pragma GCC diagnostic pop
    for (size_t i = 0; i < n; i++)
        if (!strchr("0123456789eE+-", dst[i])) dst[i] = '.';
    snprintf(dst + n, cap - n, "%s", percent);
}

static void put_float(tn_trun *r, tn_tbuf *b, const spec *given, double v) {
    char digits[512];
    spec s = *given;
    if (!s.type && s.precision < 0) {
        tn_tfloat_repr(fabs(v), digits);
    } else {
        if (!s.type) s.type = 'g';
        if (s.type == 'n') s.type = 'g';
        float_digits(v, &s, digits, sizeof digits);
        if (!given->type && isfinite(v) && !strpbrk(digits, ".e")) strcat(digits, ".0");
    }
    (void)r;
    put_number(b, &s, signbit(v) && !isnan(v), "", digits, strspn(digits, "0123456789"));
}

static bool is_float_type(char type) {
    return type && strchr("eEfFgG%", type);
}

/* ---- format % values ----------------------------------------------------------------------------------- */

typedef struct percent {
    tn_trun *r;
    const tn_tstr *format;
    tn_tval values;
    size_t at, n_used;
    tn_tbuf out;
} percent;

_Noreturn static void bad(tn_trun *r, const char *why) {
    tn_tfail(&r->m, TN_ERR_FORMAT, "%s", why);
}

static char here(const percent *p) {
    if (p->at >= p->format->n) bad(p->r, "incomplete format");
    return p->format->p[p->at];
}

static tn_tval next_value(percent *p) {
    const bool tuple = p->values.kind == TN_T_TUPLE;
    if (p->n_used >= (tuple ? p->values.l->n : 1)) bad(p->r, "not enough arguments for format string");
    return tuple ? p->values.l->v[p->n_used++] : (p->n_used++, p->values);
}

static tn_tval named_value(percent *p) {
    size_t begin = ++p->at, depth = 1;
    for (; depth; p->at++) depth += (here(p) == '(') - (size_t)(here(p) == ')');
    if (p->values.kind != TN_T_DICT) bad(p->r, "format requires a mapping");
    const tn_tstr *key = tn_tstr_slice(&p->r->m, p->format, begin, p->at - 1);
    const tn_tpair *found = tn_tdict_find_str(&p->r->m, p->values.d, key);
    if (!found)
        tn_tfail(&p->r->m, TN_ERR_FORMAT, "format: no key '%.*s'", (int)(key->n < 100 ? key->n : 100),
                 key->p);
    return found->value;
}

static int64_t read_count(percent *p, int64_t most) {
    int64_t n = 0;
    if (here(p) == '*') {
        p->at++;
        n = tn_targ_int(p->r, next_value(p), 0);
    } else {
        for (; here(p) >= '0' && here(p) <= '9'; p->at++)
            if (n <= most) n = 10 * n + (here(p) - '0');
    }
    if (n > most || n < -most) bad(p->r, "the width or precision of a format is too large");
    return n;
}

static int64_t to_int(percent *p, tn_tval v, char type) {
    if (v.kind == TN_T_INT || v.kind == TN_T_BOOL) return tn_tint_of(v);
    if (v.kind == TN_T_FLOAT && (type == 'd' || type == 'i' || type == 'u') && fabs(v.f) < 0x1p63)
        return (int64_t)v.f;
    if (v.kind == TN_T_UNDEFINED) tn_tfail_undefined(&p->r->m, v);
    tn_tfail(&p->r->m, TN_ERR_FORMAT, "%%%c format: a number is required, not %s", type, tn_ttype_name(v));
}

static void put_percent(percent *p, spec *s, tn_tval v) {
    const char type = s->type;
    tn_tbuf text = {.m = &p->r->m};
    switch (type) {
    case 's':
    case 'r':
    case 'a':
        if (p->format->markup) v = tn_tescape(p->r, v);
        if (type == 's' || p->format->markup)
            tn_tprint(&text, v);
        else
            tn_trepr(&text, v);
        put_str(p->r, &p->out, s, tn_tbuf_done(&text).s);
        break;
    case 'c':
        if (v.kind == TN_T_STR && v.s->n_chars == 1) {
            put_str(p->r, &p->out, s, v.s);
            break;
        }
        put_int(p->r, &p->out, s, to_int(p, v, type));
        break;
    case 'd':
    case 'i':
    case 'u':
        s->type = 'd';
        put_int(p->r, &p->out, s, to_int(p, v, type));
        break;
    case 'o':
    case 'x':
    case 'X': put_int(p->r, &p->out, s, to_int(p, v, type)); break;
    default:
        if (!is_float_type(type) || type == '%')
            tn_tfail(&p->r->m, TN_ERR_FORMAT, "unsupported format character '%c'", type);
        if (v.kind == TN_T_UNDEFINED) tn_tfail_undefined(&p->r->m, v);
        if (!tn_tis_number(v))
            tn_tfail(&p->r->m, TN_ERR_FORMAT, "must be real number, not %s", tn_ttype_name(v));
        put_float(p->r, &p->out, s, tn_tdouble_of(v));
    }
}

/* Behind a '%'. */
static void put_conversion(percent *p) {
    spec s = {.fill = ' ', .precision = -1, .align = '>'};
    tn_tval v = TN_TMISSING;
    if (here(p) == '(') v = named_value(p);
    for (; here(p) && strchr("-+ #0", here(p)); p->at++) {
        char c = here(p);
        if (c == '-') s.align = '<';
        if (c == '+' || (c == ' ' && !s.sign)) s.sign = c;
        if (c == '#') s.alternate = true;
        if (c == '0') s.zero = true;
    }
    s.width = read_count(p, MAX_WIDTH);
    if (s.width < 0) {
        s.width = -s.width;
        s.align = '<';
    }
    if (here(p) == '.') {
        p->at++;
        s.precision = read_count(p, MAX_PRECISION);
        if (s.precision < 0) s.precision = 0;
    }
    while (strchr("hlL", here(p)) && here(p)) p->at++;
    s.type = here(p);
    p->at++;
    if (s.type == '%') {
        tn_tbuf_text(&p->out, "%");
        return;
    }
    if (s.zero && s.align == '>' && !strchr("srac", s.type)) {
        s.fill = '0';
        s.align = '=';
    }
    put_percent(p, &s, v.kind == TN_T_MISSING ? next_value(p) : v);
}

tn_tval tn_tpercent(tn_trun *r, const tn_tstr *format, tn_tval values) {
    percent p = {.r = r, .format = format, .values = values, .out = {.m = &r->m}};
    bool named = values.kind == TN_T_DICT || values.kind == TN_T_LIST || values.kind == TN_T_RANGE ||
                 values.kind == TN_T_UNDEFINED;
    for (size_t begin = 0; p.at < format->n; begin = p.at) {
        const char *percent_sign = memchr(format->p + begin, '%', format->n - begin);
        p.at = percent_sign ? (size_t)(percent_sign - format->p) : format->n;
        tn_tbuf_slice(&p.out, format, begin, p.at);
        if (!percent_sign) break;
        p.at++;
        put_conversion(&p);
    }
    size_t n_given = values.kind == TN_T_TUPLE ? values.l->n : 1;
    if (p.n_used < n_given && !named) bad(r, "not all arguments converted during string formatting");
    tn_tval v = tn_tbuf_done(&p.out);
    return format->markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
}

/* ---- format.format(...) -------------------------------------------------------------------------------- */

typedef struct formatter {
    tn_trun *r;
    const tn_targs *args;
    size_t next; /* of the fields without a number */
    bool numbered, automatic;
} formatter;

static void put_fields(formatter *f, tn_tbuf *b, const tn_tstr *format, int depth);

static size_t read_number(formatter *f, const tn_tstr *s, size_t at, int64_t most, int64_t *out) {
    int64_t n = 0;
    size_t begin = at;
    for (; at < s->n && s->p[at] >= '0' && s->p[at] <= '9'; at++)
        if (n <= most) n = 10 * n + (s->p[at] - '0');
    if (n > most) bad(f->r, "the width or precision of a format is too large");
    if (at > begin) *out = n;
    return at;
}

static spec read_spec(formatter *f, const tn_tstr *s) {
    spec out = {.fill = ' ', .precision = -1};
    size_t at = 0, behind = 0;
    if (s->n) {
        uint32_t fill = tn_tnext_char(s, &behind);
        if (behind < s->n && strchr("<>=^", s->p[behind]) && s->p[behind]) {
            out.fill = fill;
            out.align = s->p[behind];
            at = behind + 1;
        } else if (strchr("<>=^", s->p[0]) && s->p[0]) {
            out.align = s->p[0];
            at = 1;
        }
    }
    if (at < s->n && s->p[at] && strchr("+- ", s->p[at])) out.sign = s->p[at++];
    if (at < s->n && s->p[at] == '#') out.alternate = ++at;
    if (at < s->n && s->p[at] == '0') {
        if (!out.align) out.fill = '0';
        out.zero = ++at;
    }
    at = read_number(f, s, at, MAX_WIDTH, &out.width);
    if (at < s->n && (s->p[at] == ',' || s->p[at] == '_')) out.grouping = s->p[at++];
    if (at < s->n && s->p[at] == '.') {
        at = read_number(f, s, at + 1, MAX_PRECISION, &out.precision);
        if (out.precision < 0) bad(f->r, "format specifier missing precision");
    }
    if (at < s->n) out.type = s->p[at++];
    if (at < s->n) bad(f->r, "invalid format specifier");
    return out;
}

static void put_formatted(formatter *f, tn_tbuf *b, tn_tval v, const tn_tstr *text) {
    spec s = read_spec(f, text);
    if (v.kind == TN_T_STR) {
        if (s.type && s.type != 's')
            tn_tfail(&f->r->m, TN_ERR_FORMAT, "unknown format code '%c' for object of type 'str'", s.type);
        put_str(f->r, b, &s, v.s);
    } else if (text->n == 0) {
        tn_tprint(b, v);
    } else if ((v.kind == TN_T_INT || v.kind == TN_T_BOOL) && !is_float_type(s.type)) {
        if (s.type && !strchr("bcdoxXn", s.type))
            tn_tfail(&f->r->m, TN_ERR_FORMAT, "unknown format code '%c' for object of type 'int'", s.type);
        put_int(f->r, b, &s, tn_tint_of(v));
    } else if (tn_tis_number(v)) {
        if (s.type && !is_float_type(s.type) && s.type != 'n')
            tn_tfail(&f->r->m, TN_ERR_FORMAT, "unknown format code '%c' for object of type 'float'", s.type);
        put_float(f->r, b, &s, tn_tdouble_of(v));
    } else {
        tn_tfail(&f->r->m, TN_ERR_FORMAT, "unsupported format string for %s", tn_ttype_name(v));
    }
}

static tn_tval positional(formatter *f, int64_t i) {
    if (i < 0 || (uint64_t)i >= f->args->n_positional) bad(f->r, "format: replacement index out of range");
    return f->args->positional[i];
}

/* The argument that a field's first part names. */
static tn_tval first_value(formatter *f, const tn_tstr *name) {
    int64_t number = -1;
    if (name->n == 0) {
        f->automatic = true;
        number = (int64_t)f->next++;
    } else if (read_number(f, name, 0, INT32_MAX, &number) == name->n) {
        f->numbered = true;
    } else {
        for (size_t i = 0; i < f->args->n_named; i++)
            if (tn_tstr_equal(f->args->names[i], name)) return f->args->named[i];
        tn_tfail(&f->r->m, TN_ERR_FORMAT, "format: no argument '%.*s'", (int)(name->n < 100 ? name->n : 100),
                 name->p);
    }
    if (f->numbered && f->automatic) bad(f->r, "format: numbered and automatic fields cannot be mixed");
    return positional(f, number);
}

static tn_tval field_value(formatter *f, const tn_tstr *field) {
    size_t at = 0;
    while (at < field->n && field->p[at] != '.' && field->p[at] != '[') at++;
    tn_tval v = first_value(f, tn_tstr_slice(&f->r->m, field, 0, at));
    while (at < field->n) {
        const bool item = field->p[at++] == '[';
        size_t begin = at;
        while (at < field->n && (item ? field->p[at] != ']' : field->p[at] != '.' && field->p[at] != '['))
            at++;
        const tn_tstr *name = tn_tstr_slice(&f->r->m, field, begin, at);
        int64_t number;
        if (item && name->n && read_number(f, name, 0, INT32_MAX, &number) == name->n)
            v = tn_tget_item(f->r, v, tn_tint(number));
        else
            v = item ? tn_tget_item(f->r, v, tn_tstring(name)) : tn_tget_attribute(f->r, v, name);
        at += item;
    }
    return v;
}

/* "field!conversion:spec" */
static void put_field_of(formatter *f, tn_tbuf *b, const tn_tstr *text, int depth) {
    size_t field = 0, bracket = 0;
    for (; field < text->n; field++) {
        bracket += (text->p[field] == '[') - (size_t)(bracket && text->p[field] == ']');
        if (!bracket && (text->p[field] == '!' || text->p[field] == ':')) break;
    }
    tn_tval v = field_value(f, tn_tstr_slice(&f->r->m, text, 0, field));
    if (field < text->n && text->p[field] == '!') {
        char conversion = field + 1 < text->n ? text->p[field + 1] : 0;
        tn_tbuf converted = {.m = &f->r->m};
        if (conversion == 's')
            tn_tprint(&converted, v);
        else if (conversion == 'r' || conversion == 'a')
            tn_trepr(&converted, v);
        else
            bad(f->r, "format: unknown conversion specifier");
        v = tn_tbuf_done(&converted);
        field += 2;
    }
    tn_tbuf spec_text = {.m = &f->r->m};
    if (field < text->n && text->p[field] != ':')
        bad(f->r, "format: expected ':' after conversion specifier");
    if (field < text->n)
        put_fields(f, &spec_text, tn_tstr_slice(&f->r->m, text, field + 1, text->n), depth + 1);
    put_formatted(f, b, v, tn_tbuf_done(&spec_text).s);
}

static void put_fields(formatter *f, tn_tbuf *b, const tn_tstr *format, int depth) {
    if (depth > 2) bad(f->r, "format: max string recursion exceeded");
    for (size_t at = 0; at < format->n;) {
        char c = format->p[at];
        if ((c == '{' || c == '}') && at + 1 < format->n && format->p[at + 1] == c && depth == 0) {
            tn_tbuf_slice(b, format, at, at + 1);
            at += 2;
        } else if (c == '{') {
            size_t begin = ++at;
            for (size_t nested = 1; nested; at++) {
                if (at == format->n) bad(f->r, "format: expected '}' before end of string");
                nested += (format->p[at] == '{') - (size_t)(format->p[at] == '}');
            }
            put_field_of(f, b, tn_tstr_slice(&f->r->m, format, begin, at - 1), depth);
        } else if (c == '}') {
            bad(f->r, "format: single '}' encountered in format string");
        } else {
            size_t begin = at;
            while (at < format->n && format->p[at] != '{' && format->p[at] != '}') at++;
            tn_tbuf_slice(b, format, begin, at);
        }
        tn_tcharge(&f->r->m, 1);
    }
}

tn_tval tn_tstr_format(tn_trun *r, const tn_tstr *format, const tn_targs *args) {
    formatter f = {.r = r, .args = args};
    tn_tbuf b = {.m = &r->m};
    put_fields(&f, &b, format, 0);
    tn_tval v = tn_tbuf_done(&b);
    return format->markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
}
