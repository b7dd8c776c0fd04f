/* Ranges of numbers as digits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schema_impl.h"

#define LARGEST INT64_C(999999999999999) /* 15 digits: exact as a double too */

static void put_any_digits(tn_text_buffer *out, size_t n) {
    if (n) tn_put(out, " [0-9]{%zu}", n);
}

/* As many digits as the bound has, not below it (or not above it). */
static void put_one_sided(tn_text_buffer *out, const char *bound, size_t n, bool above) {
    const char end = above ? '9' : '0', next = (char)(above ? bound[0] + 1 : bound[0] - 1);
    if (n == 0) return;
    tn_put(out, " (\"%c\"", bound[0]);
    put_one_sided(out, bound + 1, n - 1, above);
    if (bound[0] != end) {
        tn_put(out, above ? " | [%c-9]" : " | [0-%c]", next);
        put_any_digits(out, n - 1);
    }
    tn_put(out, ")");
}

/* Between two numbers of n digits. */
static void put_between(tn_text_buffer *out, const char *low, const char *high, size_t n) {
    size_t same = 0;
    while (same < n && low[same] == high[same]) same++;
    if (same) tn_put(out, "\"%.*s\"", (int)same, low);
    if (same == n) return;
    const size_t left = n - same - 1;
    tn_put(out, " (\"%c\"", low[same]);
    put_one_sided(out, low + same + 1, left, true);
    if (high[same] - low[same] > 1) {
        tn_put(out, " | [%c-%c]", low[same] + 1, high[same] - 1);
        put_any_digits(out, left);
    }
    tn_put(out, " | \"%c\"", high[same]);
    put_one_sided(out, high + same + 1, left, false);
    tn_put(out, ")");
}

/* Whole numbers from low to high, 0 <= low <= high: by the number of their digits. */
static void put_range(tn_text_buffer *out, int64_t low, int64_t high) {
    char from[24], to[24];
    for (bool first = true; low <= high; first = false) {
        snprintf(from, sizeof from, "%lld", (long long)low);
        int64_t end = 9;
        for (size_t i = 1; from[i]; i++) end = end * 10 + 9;
        if (end > high) end = high;
        snprintf(to, sizeof to, "%lld", (long long)end);
        if (!first) tn_put(out, " | ");
        put_between(out, from, to, strlen(from));
        low = end + 1;
    }
}

/* ---- Bounds --------------------------------------------------------------------------------------------------------- */

typedef struct tn_interval {
    double low, high;  /* at most LARGEST each way */
    bool above, below; /* low or high itself is out */
} tn_interval;

static tn_status read_bound(const tn_schema *c, const json_t *schema, const char *keyword, bool lower,
                            bool exclusive, tn_interval *in) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value) return TN_OK;
    if (!json_is_number(value)) return tn_schema_unsupported(c, keyword, "expected a number");
    const double x = json_number_value(value), most = (double)LARGEST;
    if (lower ? x > most : x < -most)
        return tn_schema_unsupported(c, keyword, "numbers have at most 15 digits here");
    if (lower && (x > in->low || (x == in->low && exclusive))) in->low = x, in->above = exclusive;
    if (!lower && (x < in->high || (x == in->high && exclusive))) in->high = x, in->below = exclusive;
    return TN_OK;
}

/* The whole numbers within. */
static int64_t least_whole(const tn_interval *in) {
    const double x = ceil(in->low);
    return (int64_t)x + (in->above && x == in->low);
}

static int64_t greatest_whole(const tn_interval *in) {
    const double x = floor(in->high);
    return (int64_t)x - (in->below && x == in->high);
}

/* Alternatives are parted as they come. */
typedef struct tn_alternatives {
    tn_text_buffer *out;
    bool any;
} tn_alternatives;

/* Whole numbers low to high, if there are any, behind a sign and before a fraction. */
static void put_part(tn_alternatives *a, const char *sign, int64_t low, int64_t high, const char *fraction) {
    if (low > high) return;
    tn_put(a->out, "%s%s(", a->any ? " | " : "", sign);
    put_range(a->out, low, high);
    tn_put(a->out, ")%s", fraction);
    a->any = true;
}

static void put_whole_numbers(tn_alternatives *a, int64_t low, int64_t high) {
    put_part(a, "\"-\" ", high < 0 ? -high : 1, -low, "");
    put_part(a, "", low > 0 ? low : 0, high, "");
}

/* n.fff lies in [n, n + 1): within if n is, and n + 1 is not above the upper end; below 0 the other way round. Where a bound is
 * itself no whole number, what lies between it and the next one is left out. */
static void put_fractions(tn_alternatives *a, const tn_interval *in) {
    static const char fraction[] = " \".\" [0-9]{1,15}";
    const int64_t low = least_whole(in), high = greatest_whole(in);
    put_part(a, "", low > 0 ? low : 0, (int64_t)floor(in->high) - 1, fraction);
    put_part(a, "\"-\" ", high < 0 ? -high : 0, -(int64_t)ceil(in->low) - 1, fraction);
}

tn_status tn_schema_put_number(const tn_schema *c, const json_t *schema, bool whole, tn_text_buffer *out) {
    const double most = (double)LARGEST;
    tn_interval in = {.low = -most, .high = most};
    tn_status s;
    if ((s = read_bound(c, schema, "minimum", true, false, &in)) ||
        (s = read_bound(c, schema, "maximum", false, false, &in)) ||
        (s = read_bound(c, schema, "exclusiveMinimum", true, true, &in)) ||
        (s = read_bound(c, schema, "exclusiveMaximum", false, true, &in)))
        return s;
    if (in.low == -most && in.high == most) {
        tn_put(out, whole ? "integer" : "number");
        return TN_OK;
    }
    tn_alternatives a = {.out = out};
    put_whole_numbers(&a, least_whole(&in), greatest_whole(&in));
    if (!whole) put_fractions(&a, &in);
    if (a.any) return TN_OK;
    return tn_schema_bad(c, "keyword 'minimum' or 'maximum': no %s lies between the bounds",
                         whole || in.low > in.high ? "number"
                                                   : "whole number (which a range here must have)");
}
