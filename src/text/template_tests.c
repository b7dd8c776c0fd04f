/* Tests: what stands behind `is`, and what select is told. */
#include "template_run.h"

/* ---- Comparisons --------------------------------------------------------------------------------------- */

#define COMPARE_TEST(name, op)                                                                               \
    static tn_tval name(tn_trun *r, tn_tval self, const tn_tval *a) {                                        \
        return tn_tbool(tn_tcompare_op(r, op, self, a[0]));                                                  \
    }
COMPARE_TEST(test_eq, TN_B_EQ)
COMPARE_TEST(test_ne, TN_B_NE)
COMPARE_TEST(test_lt, TN_B_LT)
COMPARE_TEST(test_le, TN_B_LE)
COMPARE_TEST(test_gt, TN_B_GT)
COMPARE_TEST(test_ge, TN_B_GE)
COMPARE_TEST(test_in, TN_B_IN)

static bool remainder_is(tn_trun *r, tn_tval v, tn_tval divisor, int64_t rest) {
    return tn_tequal(&r->m, tn_tbinary_op(r, TN_B_MOD, v, divisor), tn_tint(rest));
}

static tn_tval test_odd(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tbool(remainder_is(r, self, tn_tint(2), 1));
}

static tn_tval test_even(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tbool(remainder_is(r, self, tn_tint(2), 0));
}

static tn_tval test_divisibleby(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tbool(remainder_is(r, self, a[0], 0));
}

/* Python's `is`, of which numbers and strings have no other meaning here than being made from the same literal. */
static tn_tval test_sameas(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)r;
    enum { LEAST = -5, MOST = 256 }; /* the integers of which there is one */
    tn_tval other = a[0];
    bool same = self.kind == other.kind;
    if (same && self.kind == TN_T_BOOL)
        same = self.b == other.b;
    else if (same && self.kind == TN_T_INT)
        same = self.i == other.i && self.i >= LEAST && self.i <= MOST;
    else if (same && self.kind == TN_T_FLOAT)
        same = false;
    else if (same && self.kind != TN_T_NONE)
        same = self.l == other.l;
    return tn_tbool(same);
}

/* ---- Kinds --------------------------------------------------------------------------------------------- */

#define KIND_TEST(name, condition)                                                                           \
    static tn_tval name(tn_trun *r, tn_tval self, const tn_tval *a) {                                        \
        (void)r, (void)a;                                                                                    \
        return tn_tbool(condition);                                                                          \
    }
KIND_TEST(test_defined, self.kind != TN_T_UNDEFINED)
KIND_TEST(test_undefined, self.kind == TN_T_UNDEFINED)
KIND_TEST(test_none, self.kind == TN_T_NONE)
KIND_TEST(test_boolean, self.kind == TN_T_BOOL)
KIND_TEST(test_true, self.kind == TN_T_BOOL && self.b)
KIND_TEST(test_false, self.kind == TN_T_BOOL && !self.b)
KIND_TEST(test_integer, self.kind == TN_T_INT)
KIND_TEST(test_float, self.kind == TN_T_FLOAT)
KIND_TEST(test_number, tn_tis_number(self))
KIND_TEST(test_string, self.kind == TN_T_STR)
KIND_TEST(test_mapping, self.kind == TN_T_DICT)
KIND_TEST(test_iterable, tn_tis_iterable(self))
KIND_TEST(test_escaped, self.kind == TN_T_STR && self.s->markup)
/* What has a length and can be indexed: what is undefined has both, in its way. */
KIND_TEST(test_sequence, self.kind != TN_T_VIEW && tn_tlength(self, &(int64_t){0}))
KIND_TEST(test_callable, self.kind == TN_T_UNDEFINED || self.kind == TN_T_MACRO ||
                             self.kind == TN_T_FUNCTION || self.kind == TN_T_METHOD ||
                             self.kind == TN_T_LOOP || self.kind == TN_T_JOINER)

static tn_tval test_lower(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tbool(tn_tis_class(r, tn_tstr_of(&r->m, self), TN_CLASS_LOWER));
}

static tn_tval test_upper(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tbool(tn_tis_class(r, tn_tstr_of(&r->m, self), TN_CLASS_UPPER));
}

static tn_tval test_filter(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)r, (void)a;
    return tn_tbool(self.kind == TN_T_STR && tn_tfind_filter(self.s));
}

static tn_tval test_test(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)r, (void)a;
    return tn_tbool(self.kind == TN_T_STR && tn_tfind_test(self.s));
}

static const tn_tfunction tests[] = {
    {"odd", "", test_odd, NULL},
    {"even", "", test_even, NULL},
    {"divisibleby", "num", test_divisibleby, NULL},
    {"defined", "", test_defined, NULL},
    {"undefined", "", test_undefined, NULL},
    {"filter", "", test_filter, NULL},
    {"test", "", test_test, NULL},
    {"none", "", test_none, NULL},
    {"boolean", "", test_boolean, NULL},
    {"false", "", test_false, NULL},
    {"true", "", test_true, NULL},
    {"integer", "", test_integer, NULL},
    {"float", "", test_float, NULL},
    {"lower", "", test_lower, NULL},
    {"upper", "", test_upper, NULL},
    {"string", "", test_string, NULL},
    {"mapping", "", test_mapping, NULL},
    {"number", "", test_number, NULL},
    {"sequence", "", test_sequence, NULL},
    {"iterable", "", test_iterable, NULL},
    {"callable", "", test_callable, NULL},
    {"sameas", "other", test_sameas, NULL},
    {"escaped", "", test_escaped, NULL},
    {"in", "seq", test_in, NULL},
    {"==", "other", test_eq, NULL},
    {"eq", "other", test_eq, NULL},
    {"equalto", "other", test_eq, NULL},
    {"!=", "other", test_ne, NULL},
    {"ne", "other", test_ne, NULL},
    {">", "other", test_gt, NULL},
    {"gt", "other", test_gt, NULL},
    {"greaterthan", "other", test_gt, NULL},
    {"ge", "other", test_ge, NULL},
    {">=", "other", test_ge, NULL},
    {"<", "other", test_lt, NULL},
    {"lt", "other", test_lt, NULL},
    {"lessthan", "other", test_lt, NULL},
    {"<=", "other", test_le, NULL},
    {"le", "other", test_le, NULL},
};

const tn_tfunction *tn_tfind_test(const tn_tstr *name) {
    return tn_tfind_function(tests, sizeof tests / sizeof *tests, name);
}
