/* Operators on values, as Python has them. */
#include <math.h>
#include <string.h>

#include "template_run.h"

static const char *const names[] = {
    [TN_B_ADD] = "+", [TN_B_SUB] = "-",  [TN_B_MUL] = "*", [TN_B_DIV] = "/", [TN_B_FLOORDIV] = "//",
    [TN_B_MOD] = "%", [TN_B_POW] = "**", [TN_B_EQ] = "==", [TN_B_NE] = "!=", [TN_B_LT] = "<",
    [TN_B_LE] = "<=", [TN_B_GT] = ">",   [TN_B_GE] = ">=", [TN_B_IN] = "in", [TN_B_NOT_IN] = "not in",
};

_Noreturn static void too_large(tn_trun *r) {
    tn_tfail(&r->m, TN_ERR_UNSUPPORTED, "an integer of more than 64 bits");
}

/* ---- Numbers ------------------------------------------------------------------------------------------- */

static int64_t floor_div(tn_trun *r, int64_t a, int64_t b) {
    if (b == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "integer division or modulo by zero");
    if (a == INT64_MIN && b == -1) too_large(r);
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static tn_tval int_power(tn_trun *r, int64_t base, int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "0.0 cannot be raised to a negative power");
        return tn_tfloat(pow((double)base, (double)exponent));
    }
    int64_t result = 1;
    while (exponent) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) too_large(r);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) too_large(r);
    }
    return tn_tint(result);
}

static tn_tval int_op(tn_trun *r, tn_tbinary op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
    case TN_B_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
    case TN_B_SUB: overflow = __builtin_sub_overflow(a, b, &result); break;
    case TN_B_MUL: overflow = __builtin_mul_overflow(a, b, &result); break;
    case TN_B_FLOORDIV: result = floor_div(r, a, b); break;
    case TN_B_MOD: result = b == -1 ? 0 : a - floor_div(r, a, b) * b; break;
    case TN_B_POW: return int_power(r, a, b);
    default:
        if (b == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "division by zero");
        return tn_tfloat((double)((long double)a / (long double)b));
    }
    if (overflow) too_large(r);
    return tn_tint(result);
}

/* CPython's float_divmod. */
static double float_mod(double a, double b, double *quotient) {
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0.0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1.0;
        }
    } else {
        mod = copysign(0.0, b);
    }
    double whole = div != 0.0 ? floor(div) : copysign(0.0, a / b);
    if (div - whole > 0.5) whole += 1.0;
    *quotient = whole;
    return mod;
}

static tn_tval float_op(tn_trun *r, tn_tbinary op, double a, double b) {
    double quotient, mod;
    switch (op) {
    case TN_B_ADD: return tn_tfloat(a + b);
    case TN_B_SUB: return tn_tfloat(a - b);
    case TN_B_MUL: return tn_tfloat(a * b);
    case TN_B_POW:
        if (a == 0.0 && b < 0) tn_tfail(&r->m, TN_ERR_FORMAT, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            tn_tfail(&r->m, TN_ERR_UNSUPPORTED, "complex numbers are not supported");
        if (isfinite(a) && isfinite(b) && isinf(pow(a, b)))
            tn_tfail(&r->m, TN_ERR_FORMAT, "numerical result out of range");
        return tn_tfloat(pow(a, b));
    default: break;
    }
    if (b == 0.0) tn_tfail(&r->m, TN_ERR_FORMAT, op == TN_B_MOD ? "float modulo" : "float division by zero");
    if (op == TN_B_DIV) return tn_tfloat(a / b);
    mod = float_mod(a, b, &quotient);
    return tn_tfloat(op == TN_B_MOD ? mod : quotient);
}

tn_tval tn_tnegate(tn_trun *r, tn_tval v, bool negative) {
    if (v.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, v);
    if (!tn_tis_number(v))
        tn_tfail(&r->m, TN_ERR_FORMAT, "bad operand type for unary %s: '%s'", negative ? "-" : "+",
                 tn_ttype_name(v));
    if (v.kind == TN_T_FLOAT) return tn_tfloat(negative ? -v.f : v.f);
    int64_t i = tn_tint_of(v);
    if (negative && i == INT64_MIN) too_large(r);
    return tn_tint(negative ? -i : i);
}

/* ---- Sequences ----------------------------------------------------------------------------------------- */

static tn_tval concat_str(tn_trun *r, tn_tval a, tn_tval b) {
    const bool markup = a.s->markup || b.s->markup;
    if (markup) {
        a = tn_tescape(r, a);
        b = tn_tescape(r, b);
    }
    tn_tbuf buf = {.m = &r->m};
    tn_tbuf_str(&buf, a.s);
    tn_tbuf_str(&buf, b.s);
    tn_tval v = tn_tbuf_done(&buf);
    return markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
}

static tn_tval concat_lists(tn_trun *r, tn_tval a, tn_tval b) {
    tn_tlist *l = tn_tlist_new(&r->m, a.l->n + b.l->n);
    tn_tcharge(&r->m, a.l->n + b.l->n);
    for (size_t i = 0; i < a.l->n; i++) tn_tlist_add(&r->m, l, a.l->v[i]);
    for (size_t i = 0; i < b.l->n; i++) tn_tlist_add(&r->m, l, b.l->v[i]);
    return a.kind == TN_T_LIST ? tn_tlist_val(l) : tn_ttuple_val(l);
}

static tn_tval repeat(tn_trun *r, tn_tval v, int64_t n) {
    if (v.kind == TN_T_STR) {
        tn_tbuf b = {.m = &r->m};
        tn_tbuf_repeat(&b, v.s, n);
        tn_tval s = tn_tbuf_done(&b);
        return v.s->markup ? tn_tstring(tn_tas_markup(r, s.s)) : s;
    }
    tn_tlist *l = tn_tlist_new(&r->m, 0);
    for (int64_t i = 0; v.l->n && i < n; i++) {
        tn_tcharge(&r->m, v.l->n);
        for (size_t k = 0; k < v.l->n; k++) tn_tlist_add(&r->m, l, v.l->v[k]);
    }
    return v.kind == TN_T_LIST ? tn_tlist_val(l) : tn_ttuple_val(l);
}

static bool is_sequence(tn_tval v) {
    return v.kind == TN_T_STR || v.kind == TN_T_LIST || v.kind == TN_T_TUPLE;
}

static bool is_int(tn_tval v) {
    return v.kind == TN_T_INT || v.kind == TN_T_BOOL;
}

tn_tval tn_tbinary_op(tn_trun *r, tn_tbinary op, tn_tval a, tn_tval b) {
    if (op == TN_B_MOD && a.kind == TN_T_STR) return tn_tpercent(r, a.s, b);
    if (a.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, a);
    if (b.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, b);
    if (tn_tis_number(a) && tn_tis_number(b)) {
        if (is_int(a) && is_int(b)) return int_op(r, op, tn_tint_of(a), tn_tint_of(b));
        return float_op(r, op, tn_tdouble_of(a), tn_tdouble_of(b));
    }
    if (op == TN_B_ADD && a.kind == b.kind && a.kind == TN_T_STR) return concat_str(r, a, b);
    if (op == TN_B_ADD && a.kind == b.kind && is_sequence(a)) return concat_lists(r, a, b);
    if (op == TN_B_MUL && is_sequence(a) && is_int(b)) return repeat(r, a, tn_tint_of(b));
    if (op == TN_B_MUL && is_int(a) && is_sequence(b)) return repeat(r, b, tn_tint_of(a));
    if (op == TN_B_ADD && a.kind == TN_T_STR)
        tn_tfail(&r->m, TN_ERR_FORMAT, "can only concatenate str (not \"%s\") to str", tn_ttype_name(b));
    tn_tfail(&r->m, TN_ERR_FORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", names[op],
             tn_ttype_name(a), tn_ttype_name(b));
}

static bool is_nan(tn_tval v) {
    return v.kind == TN_T_FLOAT && isnan(v.f);
}

bool tn_tcompare_op(tn_trun *r, tn_tbinary op, tn_tval a, tn_tval b) {
    switch (op) {
    case TN_B_EQ: return tn_tequal(&r->m, a, b);
    case TN_B_NE: return !tn_tequal(&r->m, a, b);
    case TN_B_IN: return tn_tcontains(r, b, a);
    case TN_B_NOT_IN: return !tn_tcontains(r, b, a);
    default: break;
    }
    int order = tn_tcompare(&r->m, a, b, names[op]);
    if (is_nan(a) || is_nan(b)) return false;
    return op == TN_B_LT ? order < 0 : op == TN_B_LE ? order <= 0 : op == TN_B_GT ? order > 0 : order >= 0;
}
