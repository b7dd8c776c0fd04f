/* Filters of numbers and of values of any kind. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/c_locale.h"
#include "template_strings.h"

_Noreturn static void too_large(tn_trun *r) {
    tn_tfail(&r->m, TN_ERR_UNSUPPORTED, "an integer of more than 64 bits");
}

/* ---- Numbers out of texts ------------------------------------------------------------------------------ */

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10 : 99;
}

/* Digits below `base` with single '_' between them, up to `at`'s end. */
static size_t digits_end(const char *p, size_t n, size_t at, int base) {
    size_t begin = at;
    for (; at < n; at++)
        if (digit_value(p[at]) >= base && !(p[at] == '_' && at > begin && p[at - 1] != '_')) break;
    return at > begin && p[at - 1] == '_' ? at - 1 : at;
}

/* Python's int(text, base); false if it is none. */
static bool parse_int(tn_trun *r, const tn_tstr *text, int64_t base, int64_t *out) {
    const tn_tstr *s = tn_tstrip(r, text, NULL, true, true);
    size_t at = s->n && (s->p[0] == '-' || s->p[0] == '+');
    const bool negative = at && s->p[0] == '-';
    char prefix = s->n - at > 1 && s->p[at] == '0' ? (char)(s->p[at + 1] | 0x20) : 0;
    int64_t named = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (base != 0 && (base < 2 || base > 36)) return false;
    if (named && (base == 0 || base == named)) {
        base = named;
        at += 2;
        at += at < s->n && s->p[at] == '_';
    } else if (base == 0) {
        base = 10;
    }
    size_t end = digits_end(s->p, s->n, at, (int)base);
    if (end == at || end != s->n) return false;
    int64_t value = 0;
    for (; at < end; at++) {
        if (s->p[at] == '_') continue;
        int digit = digit_value(s->p[at]);
        if (__builtin_mul_overflow(value, base, &value) || __builtin_sub_overflow(value, digit, &value))
            too_large(r);
    }
    if (!negative && value == INT64_MIN) too_large(r);
    *out = negative ? value : -value;
    return true;
}

/* `word` has small letters of ASCII; strncasecmp would compare as the host's language does. */
static bool is_word(const char *p, size_t n, const char *word) {
    size_t i = 0;
    while (i < n && word[i] && (p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 0x20 : p[i]) == word[i]) i++;
    return i == n && !word[i];
}

/* Python's float(text). */
static bool parse_float(tn_trun *r, const tn_tstr *text, double *out) {
    const tn_tstr *s = tn_tstrip(r, text, NULL, true, true);
    size_t begin = s->n && (s->p[0] == '-' || s->p[0] == '+'), n = s->n - begin;
    const char *p = s->p + begin;
    const double sign = begin && s->p[0] == '-' ? -1 : 1;
    if (is_word(p, n, "nan") || is_word(p, n, "inf") || is_word(p, n, "infinity")) {
        *out = (p[0] | 0x20) == 'n' ? NAN : sign * INFINITY;
        return true;
    }
    size_t whole = digits_end(p, n, 0, 10), at = whole, fraction = 0;
    if (at < n && p[at] == '.') {
        fraction = digits_end(p, n, at + 1, 10) - at - 1;
        at += 1 + fraction;
    }
    if (whole + fraction == 0) return false;
    if (at < n && (p[at] | 0x20) == 'e') {
        size_t digits = at + 1 + (at + 1 < n && (p[at + 1] == '-' || p[at + 1] == '+'));
        at = digits_end(p, n, digits, 10);
        if (at == digits) return false;
    }
    if (at != n) return false;
    *out = sign * tn_tdecimal_value(&r->m, p, n);
    return true;
}

static bool to_float(tn_trun *r, tn_tval v, double *out) {
    if (v.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, v);
    if (v.kind == TN_T_STR) return parse_float(r, v.s, out);
    if (!tn_tis_number(v)) return false;
    *out = tn_tdouble_of(v);
    return true;
}

static tn_tval filter_int(tn_trun *r, tn_tval self, const tn_tval *a) {
    int64_t i;
    double f;
    if (self.kind == TN_T_STR && parse_int(r, self.s, tn_targ_int(r, a[1], 10), &i)) return tn_tint(i);
    if (self.kind == TN_T_INT || self.kind == TN_T_BOOL) return tn_tint(tn_tint_of(self));
    if (!to_float(r, self, &f) || isnan(f) || isinf(f)) return a[0].kind == TN_T_MISSING ? tn_tint(0) : a[0];
    if (!(f >= -0x1p63 && f < 0x1p63)) too_large(r);
    return tn_tint((int64_t)f);
}

static tn_tval filter_float(tn_trun *r, tn_tval self, const tn_tval *a) {
    double f;
    if (to_float(r, self, &f)) return tn_tfloat(f);
    return a[0].kind == TN_T_MISSING ? tn_tfloat(0) : a[0];
}

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

static tn_tval filter_abs(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    if (!tn_tis_number(self))
        tn_tfail(&r->m, TN_ERR_FORMAT, "bad operand type for abs(): '%s'", tn_ttype_name(self));
    if (self.kind == TN_T_FLOAT) return tn_tfloat(fabs(self.f));
    return tn_tnegate(r, self, tn_tint_of(self) < 0);
}

/* To a multiple of 10^n, halves to even. */
static tn_tval round_int(tn_trun *r, int64_t v, int64_t n) {
    int64_t unit = 1;
    for (int64_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(unit, 10, &unit)) return tn_tint(0);
    int64_t rest = v % unit, low = v - rest;
    if (rest < 0) {
        rest += unit;
        if (__builtin_sub_overflow(low, unit, &low)) too_large(r);
    }
    bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
    if (up && __builtin_add_overflow(low, unit, &low)) too_large(r);
    return tn_tint(low);
}

/* To the nearest decimal of the exact value: what printf does with a precision, whatever the host's point. */
static double round_float(tn_trun *r, double v, int64_t precision) {
    char text[800];
    if (!isfinite(v) || precision > 330) return v;
    if (precision < -310) return copysign(0.0, v);
    if (precision >= 0) {
        tn_snprintf(text, sizeof text, "%.*f", (int)precision, fabs(v));
    } else {
        if (v == 0) return v;
        tn_snprintf(text, sizeof text, "%.17e", fabs(v));
        const int exponent = atoi(strchr(text, 'e') + 1);
        if (exponent + precision < -1) return copysign(0.0, v);
        if (exponent + precision == -1) { /* below the unit: up or nothing */
            double unit = pow(10, (double)-precision);
            return fabs(v) > unit / 2 ? copysign(unit, v) : copysign(0.0, v);
        }
        tn_snprintf(text, sizeof text, "%.*e", (int)(exponent + precision), fabs(v));
    }
    for (char *p = text; *p; p++)
        if (!strchr("0123456789eE+-", *p)) *p = '.';
    return copysign(tn_tdecimal_value(&r->m, text, strlen(text)), v);
}

static tn_tval filter_round(tn_trun *r, tn_tval self, const tn_tval *a) {
    int64_t precision = tn_targ_int(r, a[0], 0);
    const tn_tstr *method = a[1].kind == TN_T_MISSING ? tn_tliteral(&r->m, "common").s : tn_targ_str(r, a[1]);
    const bool up = tn_tstr_is(method, "ceil"), down = tn_tstr_is(method, "floor");
    if (!up && !down && !tn_tstr_is(method, "common"))
        tn_tfail(&r->m, TN_ERR_FORMAT, "method must be common, ceil or floor");
    if (self.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, self);
    if (!tn_tis_number(self))
        tn_tfail(&r->m, TN_ERR_FORMAT, "type %s doesn't define __round__ method", tn_ttype_name(self));
    if (!up && !down) {
        if (self.kind == TN_T_FLOAT) return tn_tfloat(round_float(r, self.f, precision));
        return precision >= 0 ? tn_tint(tn_tint_of(self))
                              : round_int(r, tn_tint_of(self), precision < -30 ? 30 : -precision);
    }
    double unit = pow(10, (double)precision), scaled = tn_tdouble_of(self) * unit;
    if (!isfinite(scaled)) tn_tfail(&r->m, TN_ERR_FORMAT, "cannot convert float infinity to integer");
    scaled = (up ? ceil(scaled) : floor(scaled)) + 0.0; /* an int in Python, so without -0 */
    return tn_tfloat(scaled / unit);
}

/* ---- Any value ----------------------------------------------------------------------------------------- */

static tn_tval filter_default(tn_trun *r, tn_tval self, const tn_tval *a) {
    bool replaced = self.kind == TN_T_UNDEFINED || (tn_targ_truth(r, a[1], false) && !tn_ttruth(&r->m, self));
    if (!replaced) return self;
    return a[0].kind == TN_T_MISSING ? tn_ttext(&r->m, "", 0) : a[0];
}

static tn_tval filter_attr(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *name = tn_targ_str(r, a[0]);
    if (self.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, self);
    tn_tval v = tn_tget_own_attribute(r, self, name);
    if (v.kind != TN_T_MISSING) return v;
    return tn_tundef(&r->m, "'%s object' has no attribute '%.*s'", tn_ttype_name(self),
                     (int)(name->n < 100 ? name->n : 100), name->p);
}

const tn_tfunction tn_tvalue_filters[] = {
    {"abs", "", filter_abs, NULL},
    {"attr", "name", filter_attr, NULL},
    {"d", "default_value? boolean?", filter_default, NULL},
    {"default", "default_value? boolean?", filter_default, NULL},
    {"float", "default?", filter_float, NULL},
    {"int", "default? base?", filter_int, NULL},
    {"round", "precision? method?", filter_round, NULL},
};
const size_t tn_n_tvalue_filters = sizeof tn_tvalue_filters / sizeof *tn_tvalue_filters;
