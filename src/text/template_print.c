/* Values as text: Python's str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/c_locale.h"
#include "template_run.h"

/* ---- Floats: the shortest digits that read back as the same -------------------------------------------- */

/* Digits without point, and the power of ten of the first one. */
static int shortest_digits(double f, char *digits, int *exponent) {
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        tn_snprintf(text, sizeof text, "%.*e", precision, f);
        if (tn_strtod(text, NULL) == f) break;
    }
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    *exponent = atoi(p + 1);
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

void tn_tfloat_repr(double f, char dst[TN_TFLOAT_CHARS]) {
    char digits[20] = "";
    int exponent, n, at = 0;
    if (!isfinite(f)) {
        strcpy(dst, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(f)) dst[at++] = '-';
    n = shortest_digits(fabs(f), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        dst[at++] = digits[0];
        if (n > 1) dst[at++] = '.';
        memcpy(dst + at, digits + 1, (size_t)n - 1);
        at += n - 1;
        snprintf(dst + at, TN_TFLOAT_CHARS - (size_t)at, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        memcpy(dst + at, "0.", 2);
        at += 2;
        for (int zero = exponent + 1; zero < 0; zero++) dst[at++] = '0';
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        if (exponent >= 0 && i == exponent + 1) dst[at++] = '.';
        dst[at++] = i < n ? digits[i] : '0';
    }
    if (exponent >= 0 && n <= exponent + 1) {
        memcpy(dst + at, ".0", 2);
        at += 2;
    }
    dst[at] = '\0';
}

/* ---- Strings ------------------------------------------------------------------------------------------- */

static void repr_char(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end, uint32_t code, char quote) {
    static const char hex[] = "0123456789abcdef";
    const bool is_data = tn_tstr_is_data(s, begin);
    char text[12];
    if (code == (uint32_t)quote || code == '\\' || code == '\n' || code == '\r' || code == '\t') {
        text[0] = '\\';
        text[1] = code == '\n' ? 'n' : code == '\r' ? 'r' : code == '\t' ? 't' : (char)code;
        tn_tbuf_bytes(b, text, 2, is_data);
    } else if (tn_tis_printable(code)) {
        tn_tbuf_slice(b, s, begin, end);
    } else {
        int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
        text[0] = '\\';
        text[1] = digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
        for (int i = 0; i < digits; i++) text[2 + i] = hex[code >> (4 * (digits - 1 - i)) & 15];
        tn_tbuf_bytes(b, text, (size_t)digits + 2, is_data);
    }
}

static void repr_str(tn_tbuf *b, const tn_tstr *s) {
    const char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    if (s->markup) tn_tbuf_text(b, "Markup(");
    tn_tbuf_bytes(b, &quote, 1, false);
    for (size_t i = 0; i < s->n;) {
        size_t begin = i;
        uint32_t code = tn_tnext_char(s, &i);
        repr_char(b, s, begin, i, code, quote);
    }
    tn_tbuf_bytes(b, &quote, 1, false);
    if (s->markup) tn_tbuf_text(b, ")");
}

/* ---- The rest ------------------------------------------------------------------------------------------ */

static void print_list(tn_tbuf *b, const tn_tlist *l, const char *open, const char *close) {
    tn_tbuf_text(b, open);
    for (size_t i = 0; i < l->n; i++) {
        if (i) tn_tbuf_text(b, ", ");
        tn_trepr(b, l->v[i]);
    }
    tn_tbuf_text(b, close);
}

static void print_dict(tn_tbuf *b, const tn_tdict *d) {
    tn_tbuf_text(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) tn_tbuf_text(b, ", ");
        tn_trepr(b, d->v[i].key);
        tn_tbuf_text(b, ": ");
        tn_trepr(b, d->v[i].value);
    }
    tn_tbuf_text(b, "}");
}

static void print_number(tn_tbuf *b, tn_tval v) {
    char text[TN_TFLOAT_CHARS];
    if (v.kind == TN_T_FLOAT)
        tn_tfloat_repr(v.f, text);
    else
        snprintf(text, sizeof text, "%" PRId64, v.i);
    tn_tbuf_text(b, text);
}

static void print_range(tn_tbuf *b, const tn_trange *range) {
    char text[100];
    int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, range->start, range->stop);
    if (range->step != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, range->step);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    tn_tbuf_text(b, text);
}

static void print_macro(tn_tbuf *b, const tn_tmacro *macro) {
    const tn_tstr *name = macro->code->node->name;
    tn_tbuf_text(b, name ? "<Macro " : "<Macro anonymous");
    if (name) repr_str(b, name);
    tn_tbuf_text(b, ">");
}

static void print_view(tn_tbuf *b, const tn_tlist *l) {
    tn_tbuf_text(b, l->role == TN_TLIST_KEYS     ? "dict_keys("
                    : l->role == TN_TLIST_VALUES ? "dict_values("
                                                 : "dict_items(");
    print_list(b, l, "[", "])");
}

static void print_namespace(tn_tbuf *b, const tn_tdict *d) {
    tn_tbuf_text(b, "<Namespace ");
    print_dict(b, d);
    tn_tbuf_text(b, ">");
}

/* What Python prints with an address is told by its type alone. */
static void print_object(tn_tbuf *b, tn_tval v) {
    tn_tbuf_text(b, "<");
    tn_tbuf_text(b, tn_ttype_name(v));
    tn_tbuf_text(b, " object>");
}

void tn_trepr(tn_tbuf *b, tn_tval v) {
    tn_tenter(b->m);
    switch (v.kind) {
    case TN_T_UNDEFINED: tn_tbuf_text(b, "Undefined"); break;
    case TN_T_NONE: tn_tbuf_text(b, "None"); break;
    case TN_T_BOOL: tn_tbuf_text(b, v.b ? "True" : "False"); break;
    case TN_T_INT:
    case TN_T_FLOAT: print_number(b, v); break;
    case TN_T_STR: repr_str(b, v.s); break;
    case TN_T_LIST: print_list(b, v.l, "[", "]"); break;
    case TN_T_TUPLE: print_list(b, v.l, "(", v.l->n == 1 ? ",)" : ")"); break;
    case TN_T_DICT: print_dict(b, v.d); break;
    case TN_T_VIEW: print_view(b, v.l); break;
    case TN_T_RANGE: print_range(b, v.range); break;
    case TN_T_NAMESPACE: print_namespace(b, v.d); break;
    case TN_T_MACRO: print_macro(b, v.macro); break;
    default: print_object(b, v);
    }
    tn_tleave(b->m);
}

void tn_tprint(tn_tbuf *b, tn_tval v) {
    if (v.kind == TN_T_STR)
        tn_tbuf_str(b, v.s);
    else if (v.kind != TN_T_UNDEFINED)
        tn_trepr(b, v);
}

const tn_tstr *tn_tstr_of(tn_tmem *m, tn_tval v) {
    if (v.kind == TN_T_STR) return v.s;
    tn_tbuf b = {.m = m};
    tn_tprint(&b, v);
    return tn_tbuf_done(&b).s;
}
