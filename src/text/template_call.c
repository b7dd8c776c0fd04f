/* Calls of our own functions: arguments by position and name onto parameters. */
#include <string.h>

#include "template_run.h"

const tn_tfunction *tn_tfind_function(const tn_tfunction *table, size_t n, const tn_tstr *name) {
    for (size_t i = 0; i < n; i++)
        if (tn_tstr_is(name, table[i].name)) return &table[i];
    return NULL;
}

const tn_tfunction *tn_tfind_filter(const tn_tstr *name) {
    const tn_tfunction *found = tn_tfind_function(tn_ttext_filters, tn_n_ttext_filters, name);
    if (!found) found = tn_tfind_function(tn_tlist_filters, tn_n_tlist_filters, name);
    return found ? found : tn_tfind_function(tn_tvalue_filters, tn_n_tvalue_filters, name);
}

/* The parameter of that name, or -1. */
static int find_parameter(const char *parameters, const tn_tstr *name) {
    int at = 0;
    for (const char *p = parameters; *p; at++) {
        size_t n = strcspn(p, " ?");
        if (n == name->n && memcmp(p, name->p, n) == 0) return at;
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    return -1;
}

static void check_parameters(tn_trun *r, const tn_tfunction *f, const tn_tval *a, size_t n_given) {
    size_t at = 0;
    const char *p = f->parameters;
    for (; *p; at++) {
        size_t n = strcspn(p, " ?");
        if (p[n] != '?' && a[at].kind == TN_T_MISSING)
            tn_tfail(&r->m, TN_ERR_FORMAT, "%s(): missing argument '%.*s'", f->name, (int)n, p);
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    if (n_given > at)
        tn_tfail(&r->m, TN_ERR_FORMAT, "%s(): takes at most %zu argument(s), %zu given", f->name, at,
                 n_given);
}

tn_tval tn_tapply(tn_trun *r, const tn_tfunction *f, tn_tval self, const tn_targs *args) {
    if (!f->parameters) return f->free(r, self, args);
    tn_tval a[TN_TMAX_PARAMETERS + 1] = {0};
    for (size_t i = 0; i < args->n_positional && i < TN_TMAX_PARAMETERS; i++) a[i] = args->positional[i];
    for (size_t i = 0; i < args->n_named; i++) {
        int at = find_parameter(f->parameters, args->names[i]);
        int n = (int)(args->names[i]->n < 100 ? args->names[i]->n : 100);
        if (at < 0)
            tn_tfail(&r->m, TN_ERR_FORMAT, "%s(): unexpected keyword argument '%.*s'", f->name, n,
                     args->names[i]->p);
        if (a[at].kind != TN_T_MISSING)
            tn_tfail(&r->m, TN_ERR_FORMAT, "%s(): multiple values for argument '%.*s'", f->name, n,
                     args->names[i]->p);
        a[at] = args->named[i];
    }
    check_parameters(r, f, a, args->n_positional);
    return f->call(r, self, a);
}

static tn_tval call_joiner(tn_trun *r, tn_tcycler *joiner) {
    if (joiner->used) return tn_tstring(joiner->separator);
    joiner->used = true;
    return tn_ttext(&r->m, "", 0);
}

tn_tval tn_tcall(tn_trun *r, tn_tval callee, const tn_targs *args) {
    switch (callee.kind) {
    case TN_T_UNDEFINED: tn_tfail_undefined(&r->m, callee);
    case TN_T_FUNCTION: return tn_tapply(r, callee.function, TN_TMISSING, args);
    case TN_T_METHOD: return tn_tapply(r, callee.method->function, callee.method->self, args);
    case TN_T_MACRO: return tn_tcall_macro(r, callee.macro, args);
    case TN_T_LOOP: return tn_tcall_loop(r, callee.loop, args);
    case TN_T_JOINER: return call_joiner(r, callee.cycler);
    default: tn_tfail(&r->m, TN_ERR_FORMAT, "'%s' object is not callable", tn_ttype_name(callee));
    }
}

int64_t tn_targ_int(tn_trun *r, tn_tval a, int64_t otherwise) {
    if (a.kind == TN_T_MISSING) return otherwise;
    if (a.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, a);
    if (a.kind != TN_T_INT && a.kind != TN_T_BOOL)
        tn_tfail(&r->m, TN_ERR_FORMAT, "'%s' object cannot be interpreted as an integer", tn_ttype_name(a));
    return tn_tint_of(a);
}

tn_tval tn_targ_some(tn_tval a) {
    return a.kind == TN_T_NONE ? TN_TMISSING : a;
}

bool tn_targ_truth(tn_trun *r, tn_tval a, bool otherwise) {
    return a.kind == TN_T_MISSING ? otherwise : tn_ttruth(&r->m, a);
}

const tn_tstr *tn_targ_str(tn_trun *r, tn_tval a) {
    if (a.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, a);
    if (a.kind != TN_T_STR) tn_tfail(&r->m, TN_ERR_FORMAT, "expected a string, found '%s'", tn_ttype_name(a));
    return a.s;
}
