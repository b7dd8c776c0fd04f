/* Expressions. */
#include <string.h>

#include "template_run.h"

tn_tval *tn_tslot(tn_trun *r, tn_tref ref) {
    tn_tframe *frame = r->frame;
    for (uint32_t i = 0; i < ref.up; i++) frame = frame->outer;
    return &frame->slots[ref.slot];
}

static tn_tval eval_name(tn_trun *r, const tn_tnode *node) {
    tn_tval v = *tn_tslot(r, node->ref);
    if (v.kind != TN_T_MISSING) return v;
    return tn_tundef(&r->m, "'%.*s' is undefined", (int)(node->name->n < 200 ? node->name->n : 200),
                     node->name->p);
}

static tn_tlist *eval_list(tn_trun *r, const tn_tnodes *items) {
    tn_tlist *l = tn_tlist_new(&r->m, items->n);
    for (size_t i = 0; i < items->n; i++) tn_tlist_add(&r->m, l, tn_teval(r, items->v[i]));
    return l;
}

static tn_tval eval_dict(tn_trun *r, const tn_tnode *node) {
    tn_tdict *d = tn_tdict_new(&r->m, node->items.n);
    for (size_t i = 0; i < node->items.n; i++) {
        tn_tval key = tn_teval(r, node->items.v[i]);
        tn_tdict_set(&r->m, d, key, tn_teval(r, node->more.v[i]));
    }
    return (tn_tval){.kind = TN_T_DICT, .d = d};
}

static tn_tval eval_or_missing(tn_trun *r, const tn_tnode *node) {
    return node ? tn_teval(r, node) : TN_TMISSING;
}

static tn_tval eval_item(tn_trun *r, const tn_tnode *node) {
    tn_tval object = tn_teval(r, node->a);
    if (node->b->kind != TN_N_SLICE) return tn_tget_item(r, object, tn_teval(r, node->b));
    tn_tval start = eval_or_missing(r, node->b->a), stop = eval_or_missing(r, node->b->b);
    return tn_tslice(r, object, start, stop, eval_or_missing(r, node->b->c));
}

static tn_tval eval_concat(tn_trun *r, const tn_tnode *node) {
    tn_tbuf b = {.m = &r->m};
    tn_tlist *parts = eval_list(r, &node->items);
    for (size_t i = 0; i < parts->n; i++) tn_tprint(&b, parts->v[i]);
    return tn_tbuf_done(&b);
}

static tn_tval eval_compare(tn_trun *r, const tn_tnode *node) {
    tn_tval left = tn_teval(r, node->a);
    for (size_t i = 0; i < node->items.n; i++) {
        tn_tval right = tn_teval(r, node->items.v[i]->a);
        if (!tn_tcompare_op(r, node->items.v[i]->op, left, right)) return tn_tbool(false);
        left = right;
    }
    return tn_tbool(true);
}

static tn_tval eval_condition(tn_trun *r, const tn_tnode *node) {
    if (tn_ttruth(&r->m, tn_teval(r, node->a))) return tn_teval(r, node->b);
    if (node->c) return tn_teval(r, node->c);
    return tn_tundef(&r->m,
                     "the inline if-expression on line %u evaluated to false and no else section was defined",
                     node->line);
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

typedef struct argument_lists {
    tn_tlist positional, named;
    const tn_tstr **names;
} argument_lists;

static void add_named(tn_trun *r, argument_lists *lists, const tn_tstr *name, tn_tval value) {
    for (size_t i = 0; i < lists->named.n; i++)
        if (tn_tstr_equal(lists->names[i], name))
            tn_tfail(&r->m, TN_ERR_FORMAT, "got multiple values for keyword argument '%.*s'",
                     (int)(name->n < 100 ? name->n : 100), name->p);
    tn_tlist_add(&r->m, &lists->named, value);
    lists->names[lists->named.n - 1] = name;
}

static tn_targs eval_arguments(tn_trun *r, const tn_tcall_args *args, tn_tval caller) {
    argument_lists lists = {0};
    tn_tval more_named = TN_TMISSING;
    if (args) {
        for (size_t i = 0; i < args->positional.n; i++)
            tn_tlist_add(&r->m, &lists.positional, tn_teval(r, args->positional.v[i]));
        if (args->star) {
            const tn_tlist *more = tn_tto_list(r, tn_teval(r, args->star));
            for (size_t i = 0; i < more->n; i++) tn_tlist_add(&r->m, &lists.positional, more->v[i]);
        }
        if (args->star_star) more_named = tn_teval(r, args->star_star);
        if (args->star_star && more_named.kind != TN_T_DICT)
            tn_tfail(&r->m, TN_ERR_FORMAT, "argument after ** must be a mapping, not %s",
                     tn_ttype_name(more_named));
    }
    size_t n_more = more_named.kind == TN_T_DICT ? more_named.d->n : 0;
    size_t n_named = (args ? args->named.n : 0) + n_more + 1;
    if (n_named > 1 || caller.kind != TN_T_MISSING)
        lists.names = tn_talloc(&r->m, n_named, sizeof *lists.names);
    for (size_t i = 0; args && i < args->named.n; i++)
        add_named(r, &lists, args->names[i], tn_teval(r, args->named.v[i]));
    for (size_t i = 0; i < n_more; i++) {
        if (more_named.d->v[i].key.kind != TN_T_STR)
            tn_tfail(&r->m, TN_ERR_FORMAT, "keywords must be strings");
        add_named(r, &lists, more_named.d->v[i].key.s, more_named.d->v[i].value);
    }
    if (caller.kind != TN_T_MISSING) add_named(r, &lists, tn_tliteral(&r->m, "caller").s, caller);
    return (tn_targs){.positional = lists.positional.v,
                      .n_positional = lists.positional.n,
                      .named = lists.named.v,
                      .n_named = lists.named.n,
                      .names = lists.names};
}

tn_tval tn_teval_call(tn_trun *r, const tn_tnode *node, tn_tval caller) {
    tn_tval callee = tn_teval(r, node->a);
    const tn_targs args = eval_arguments(r, node->args, caller);
    r->m.line = node->line;
    return tn_tcall(r, callee, &args);
}

static tn_tval apply_function(tn_trun *r, const tn_tnode *node, tn_tval self, const char *kind) {
    const tn_targs args = eval_arguments(r, node->args, TN_TMISSING);
    r->m.line = node->line;
    if (!node->function)
        tn_tfail(&r->m, TN_ERR_FORMAT, "no %s is named '%.*s'", kind,
                 (int)(node->name->n < 100 ? node->name->n : 100), node->name->p);
    return tn_tapply(r, node->function, self, &args);
}

tn_tval tn_teval_filter(tn_trun *r, const tn_tnode *node, tn_tval innermost) {
    tn_tenter(&r->m);
    tn_tval self = !node->a                       ? innermost
                   : node->a->kind == TN_N_FILTER ? tn_teval_filter(r, node->a, innermost)
                                                  : tn_teval(r, node->a);
    tn_tleave(&r->m);
    return apply_function(r, node, self, "filter");
}

/* ---- All ----------------------------------------------------------------------------------------------- */

static tn_tval eval(tn_trun *r, const tn_tnode *node) {
    switch (node->kind) {
    case TN_N_CONST: return node->value;
    case TN_N_NAME: return eval_name(r, node);
    case TN_N_LIST: return tn_tlist_val(eval_list(r, &node->items));
    case TN_N_TUPLE: return tn_ttuple_val(eval_list(r, &node->items));
    case TN_N_DICT: return eval_dict(r, node);
    case TN_N_GETATTR: return tn_tget_attribute(r, tn_teval(r, node->a), node->name);
    case TN_N_GETITEM: return eval_item(r, node);
    case TN_N_CALL: return tn_teval_call(r, node, TN_TMISSING);
    case TN_N_FILTER: return tn_teval_filter(r, node, TN_TMISSING);
    case TN_N_TEST: return apply_function(r, node, tn_teval(r, node->a), "test");
    case TN_N_NOT: return tn_tbool(!tn_ttruth(&r->m, tn_teval(r, node->a)));
    case TN_N_NEG:
    case TN_N_POS: return tn_tnegate(r, tn_teval(r, node->a), node->kind == TN_N_NEG);
    case TN_N_BINARY: {
        tn_tval left = tn_teval(r, node->a);
        return tn_tbinary_op(r, node->op, left, tn_teval(r, node->b));
    }
    case TN_N_AND:
    case TN_N_OR: {
        tn_tval left = tn_teval(r, node->a);
        return tn_ttruth(&r->m, left) == (node->kind == TN_N_OR) ? left : tn_teval(r, node->b);
    }
    case TN_N_CONCAT: return eval_concat(r, node);
    case TN_N_COMPARE: return eval_compare(r, node);
    case TN_N_COND: return eval_condition(r, node);
    default: tn_tfail(&r->m, TN_ERR_FORMAT, "a slice stands among other subscripts");
    }
}

tn_tval tn_teval(tn_trun *r, const tn_tnode *node) {
    if (node->kind == TN_N_CONST) return node->value;
    tn_tcharge(&r->m, 1);
    tn_tenter(&r->m);
    const uint32_t line = r->m.line;
    r->m.line = node->line;
    tn_tval v = eval(r, node);
    r->m.line = line;
    tn_tleave(&r->m);
    return v;
}
