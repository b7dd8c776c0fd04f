#include "expr.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/fmath.h"

enum { MAX_DEPTH = 32 };

typedef struct parser {
    const char *p;
    tn_expr_lookup *lookup;
    const void *user;
    const char *why; /* first failure; NULL while all is well */
    int depth;
} parser;

static double parse_or(parser *s);

static double fail(parser *s, const char *why) {
    if (!s->why) s->why = why;
    return 0;
}

static void skip(parser *s) {
    while (*s->p == ' ' || *s->p == '\n') s->p++;
}

static bool take(parser *s, const char *token) {
    skip(s);
    size_t n = strlen(token);
    if (strncmp(s->p, token, n) != 0) return false;
    s->p += n;
    return true;
}

static double parse_number(parser *s) {
    double value = 0, place = 1;
    while (isdigit((unsigned char)*s->p)) value = value * 10 + (*s->p++ - '0');
    if (*s->p != '.') return value;
    for (s->p++; isdigit((unsigned char)*s->p); s->p++) value += (*s->p - '0') * (place /= 10);
    return value;
}

static double call(parser *s, const char *name, size_t n) {
    double arg[3] = {0};
    int count = 0;
    do {
        if (count == 3) return fail(s, "too many arguments");
        arg[count++] = parse_or(s);
        if (s->why) return 0;
    } while (take(s, ","));
    if (!take(s, ")")) return fail(s, "missing ')'");
    if (n == 2 && !memcmp(name, "if", n) && count == 3) return arg[0] != 0 ? arg[1] : arg[2];
    if (n == 4 && !memcmp(name, "sqrt", n) && count == 1) return sqrt(arg[0]);
    if (n == 3 && !memcmp(name, "log", n) && count == 1)
        return arg[0] >= DBL_MIN && arg[0] <= DBL_MAX ? tn_log(arg[0])
                                                      : fail(s, "logarithm of a number that is not above 0");
    if (n == 5 && !memcmp(name, "floor", n) && count == 1) return floor(arg[0]);
    if (n == 3 && !memcmp(name, "pow", n) && count == 2)
        return arg[0] >= DBL_MIN && arg[0] <= DBL_MAX ? tn_pow(arg[0], arg[1])
                                                      : fail(s, "power of a number that is not above 0");
    if (n == 3 && !memcmp(name, "min", n) && count == 2) return arg[0] < arg[1] ? arg[0] : arg[1];
    if (n == 3 && !memcmp(name, "max", n) && count == 2) return arg[0] > arg[1] ? arg[0] : arg[1];
    return fail(s, "unknown function, or a wrong number of arguments");
}

static double parse_primary(parser *s) {
    skip(s);
    if (isdigit((unsigned char)*s->p)) return parse_number(s);
    if (take(s, "(")) {
        double value = parse_or(s);
        return take(s, ")") || s->why ? value : fail(s, "missing ')'");
    }
    const char *name = s->p;
    while (isalnum((unsigned char)*s->p) || *s->p == '_' || *s->p == '.') s->p++;
    size_t n = (size_t)(s->p - name);
    if (n == 0) return fail(s, "expected a number, a name or '('");
    if (take(s, "(")) return call(s, name, n);
    double value = 0;
    return s->lookup(s->user, name, n, &value) ? value : fail(s, name);
}

static double parse_unary(parser *s) {
    if (++s->depth > MAX_DEPTH) return fail(s, "nested too deep");
    double value;
    skip(s);
    if (s->p[0] == '!' && s->p[1] != '=') {
        s->p++;
        value = parse_unary(s) == 0;
    } else if (take(s, "-")) {
        value = -parse_unary(s);
    } else {
        value = parse_primary(s);
    }
    s->depth--;
    return value;
}

static double parse_product(parser *s) {
    double a = parse_unary(s);
    while (!s->why) {
        if (take(s, "*")) {
            a *= parse_unary(s);
        } else if (take(s, "/")) {
            double b = parse_unary(s);
            if (b == 0) return fail(s, "division by zero");
            a /= b;
        } else if (take(s, "%")) {
            double b = parse_unary(s);
            if (b == 0) return fail(s, "division by zero");
            a = fmod(a, b);
        } else {
            break;
        }
    }
    return a;
}

static double parse_sum(parser *s) {
    double a = parse_product(s);
    while (!s->why) {
        if (take(s, "+"))
            a += parse_product(s);
        else if (take(s, "-"))
            a -= parse_product(s);
        else
            break;
    }
    return a;
}

static double parse_comparison(parser *s) {
    double a = parse_sum(s);
    if (take(s, "==")) return a == parse_sum(s);
    if (take(s, "!=")) return a != parse_sum(s);
    if (take(s, "<=")) return a <= parse_sum(s);
    if (take(s, ">=")) return a >= parse_sum(s);
    if (take(s, "<")) return a < parse_sum(s);
    if (take(s, ">")) return a > parse_sum(s);
    return a;
}

static double parse_and(parser *s) {
    double a = parse_comparison(s);
    while (!s->why && take(s, "&&")) {
        double b = parse_comparison(s);
        a = a != 0 && b != 0;
    }
    return a;
}

static double parse_or(parser *s) {
    double a = parse_and(s);
    while (!s->why && take(s, "||")) {
        double b = parse_and(s);
        a = a != 0 || b != 0;
    }
    return a;
}

bool tn_expr_eval(const char *text, tn_expr_lookup *lookup, const void *user, double *value,
                  const char **why) {
    parser s = {text, lookup, user, NULL, 0};
    *value = parse_or(&s);
    skip(&s);
    if (!s.why && *s.p) s.why = "unexpected text after the expression";
    *why = s.why;
    return s.why == NULL;
}
