/* Filters of sequences. Those that are generators in jinja2 compute their items when these are asked for. */
#include <string.h>

#include "template_run.h"

static tn_tval iter_val(tn_titer *it) {
    return (tn_tval){.kind = TN_T_ITER, .it = it};
}

static tn_tval iter_over(tn_trun *r, const tn_tlist *l) {
    return iter_val(tn_titerate(r, tn_tlist_val(l)));
}

static bool given(tn_tval a) {
    return a.kind != TN_T_MISSING && a.kind != TN_T_NONE;
}

/* ---- Ends, lengths, order ------------------------------------------------------------------------------ */

static tn_tval filter_first(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    tn_tval v;
    if (tn_titer_next(r, tn_titerate(r, self), &v)) return v;
    return tn_tundef(&r->m, "No first item, sequence was empty");
}

static tn_tval filter_last(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    int64_t n;
    if (!tn_tlength(self, &n))
        tn_tfail(&r->m, TN_ERR_FORMAT, "'%s' object is not reversible", tn_ttype_name(self));
    if (n == 0) return tn_tundef(&r->m, "No last item, sequence was empty");
    return self.kind == TN_T_DICT ? self.d->v[n - 1].key : tn_titem(r, self, n - 1);
}

static tn_tval filter_length(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    int64_t n;
    if (!tn_tlength(self, &n))
        tn_tfail(&r->m, TN_ERR_FORMAT, "object of type '%s' has no len()", tn_ttype_name(self));
    return tn_tint(n);
}

static tn_tval filter_list(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tlist_val(tn_tto_list(r, self));
}

static tn_tval filter_reverse(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    if (self.kind == TN_T_STR) return tn_tslice(r, self, TN_TMISSING, TN_TMISSING, tn_tint(-1));
    tn_tlist *l = tn_tto_list(r, self);
    for (size_t i = 0; i < l->n / 2; i++) {
        tn_tval v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
    return self.kind == TN_T_ITER ? tn_tlist_val(l) : iter_over(r, l);
}

static tn_tval filter_join(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *separator = a[0].kind == TN_T_MISSING ? tn_ttext(&r->m, "", 0).s : tn_tstr_of(&r->m, a[0]);
    tn_tbuf b = {.m = &r->m};
    tn_titer *it = tn_titerate(r, self);
    bool first = true;
    for (tn_tval item; tn_titer_next(r, it, &item); first = false) {
        if (!first) tn_tbuf_str(&b, separator);
        tn_tprint(&b, tn_tget_path(r, item, a[1], TN_TMISSING));
    }
    return tn_tbuf_done(&b);
}

static tn_tval filter_sum(tn_trun *r, tn_tval self, const tn_tval *a) {
    tn_tval sum = a[1].kind == TN_T_MISSING ? tn_tint(0) : a[1];
    if (sum.kind == TN_T_STR) tn_tfail(&r->m, TN_ERR_FORMAT, "sum() can't sum strings");
    tn_titer *it = tn_titerate(r, self);
    for (tn_tval item; tn_titer_next(r, it, &item);)
        sum = tn_tbinary_op(r, TN_B_ADD, sum, tn_tget_path(r, item, a[0], TN_TMISSING));
    return sum;
}

/* ---- By keys ------------------------------------------------------------------------------------------- */

static tn_tval fold(tn_trun *r, tn_tval v, bool case_sensitive) {
    return v.kind == TN_T_STR && !case_sensitive ? tn_tto_case(r, v.s, TN_CASE_LOWER) : v;
}

/* What items are sorted by: a list of their attributes, which commas separate. */
static tn_tval sort_key(tn_trun *r, tn_tval item, tn_tval attributes, bool case_sensitive) {
    tn_tlist *key = tn_tlist_new(&r->m, 1);
    if (attributes.kind != TN_T_STR) {
        tn_tlist_add(&r->m, key, fold(r, tn_tget_path(r, item, attributes, TN_TMISSING), case_sensitive));
        return tn_tlist_val(key);
    }
    const tn_tstr *s = attributes.s;
    for (size_t begin = 0, end; begin <= s->n; begin = end + 1) {
        const char *comma = memchr(s->p + begin, ',', s->n - begin);
        end = comma ? (size_t)(comma - s->p) : s->n;
        tn_tval part = tn_tstring(tn_tstr_slice(&r->m, s, begin, end));
        tn_tlist_add(&r->m, key, fold(r, tn_tget_path(r, item, part, TN_TMISSING), case_sensitive));
    }
    return tn_tlist_val(key);
}

static tn_tval filter_sort(tn_trun *r, tn_tval self, const tn_tval *a) {
    bool reverse = tn_targ_truth(r, a[0], false), case_sensitive = tn_targ_truth(r, a[1], false);
    tn_tlist *values = tn_tto_list(r, self), *keys = tn_tlist_new(&r->m, values->n);
    for (size_t i = 0; i < values->n; i++)
        tn_tlist_add(&r->m, keys, sort_key(r, values->v[i], a[2], case_sensitive));
    tn_tsort(r, values, keys, reverse);
    return tn_tlist_val(values);
}

static tn_tval filter_dictsort(tn_trun *r, tn_tval self, const tn_tval *a) {
    bool case_sensitive = tn_targ_truth(r, a[0], false), reverse = tn_targ_truth(r, a[2], false);
    const tn_tstr *by = a[1].kind == TN_T_MISSING ? tn_tliteral(&r->m, "key").s : tn_targ_str(r, a[1]);
    if (!tn_tstr_is(by, "key") && !tn_tstr_is(by, "value"))
        tn_tfail(&r->m, TN_ERR_FORMAT, "You can only sort by either \"key\" or \"value\"");
    if (self.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, self);
    if (self.kind != TN_T_DICT) tn_tfail(&r->m, TN_ERR_FORMAT, "dictsort: expected a mapping");
    tn_tlist *values = tn_tlist_new(&r->m, self.d->n), *keys = tn_tlist_new(&r->m, self.d->n);
    for (size_t i = 0; i < self.d->n; i++) {
        const tn_tpair *pair = &self.d->v[i];
        tn_tlist_add(&r->m, values, tn_tpair_val(&r->m, pair->key, pair->value));
        tn_tlist_add(&r->m, keys, fold(r, tn_tstr_is(by, "key") ? pair->key : pair->value, case_sensitive));
    }
    tn_tsort(r, values, keys, reverse);
    return tn_tlist_val(values);
}

static tn_tval extreme(tn_trun *r, tn_tval self, const tn_tval *a, bool largest) {
    bool case_sensitive = tn_targ_truth(r, a[0], false), some = false;
    tn_tval best = TN_TMISSING, best_key = TN_TMISSING;
    tn_titer *it = tn_titerate(r, self);
    for (tn_tval item; tn_titer_next(r, it, &item); some = true) {
        tn_tval key = fold(r, tn_tget_path(r, item, a[1], TN_TMISSING), case_sensitive);
        if (some && !tn_tcompare_op(r, largest ? TN_B_GT : TN_B_LT, key, best_key)) continue;
        best = item;
        best_key = key;
    }
    return some ? best : tn_tundef(&r->m, "No aggregated item, sequence was empty");
}

static tn_tval filter_min(tn_trun *r, tn_tval self, const tn_tval *a) {
    return extreme(r, self, a, false);
}

static tn_tval filter_max(tn_trun *r, tn_tval self, const tn_tval *a) {
    return extreme(r, self, a, true);
}

static tn_tval filter_groupby(tn_trun *r, tn_tval self, const tn_tval *a) {
    bool case_sensitive = tn_targ_truth(r, a[2], false);
    tn_tval otherwise = given(a[1]) ? a[1] : TN_TMISSING;
    tn_tlist *values = tn_tto_list(r, self), *keys = tn_tlist_new(&r->m, values->n),
             *groups = tn_tlist_new(&r->m, 0);
    for (size_t i = 0; i < values->n; i++)
        tn_tlist_add(&r->m, keys, fold(r, tn_tget_path(r, values->v[i], a[0], otherwise), case_sensitive));
    tn_tsort(r, values, keys, false);
    tn_tlist *members = NULL;
    for (size_t i = 0; i < values->n; i++) {
        if (i == 0 || !tn_tequal(&r->m, keys->v[i - 1], keys->v[i])) {
            members = tn_tlist_new(&r->m, 0);
            tn_tlist *group = tn_tlist_new(&r->m, 2);
            group->role = TN_TLIST_GROUP;
            tn_tlist_add(&r->m, group,
                         case_sensitive ? keys->v[i] : tn_tget_path(r, values->v[i], a[0], otherwise));
            tn_tlist_add(&r->m, group, tn_tlist_val(members));
            tn_tlist_add(&r->m, groups, tn_ttuple_val(group));
        }
        tn_tlist_add(&r->m, members, values->v[i]);
    }
    return tn_tlist_val(groups);
}

/* ---- Generators ---------------------------------------------------------------------------------------- */

/* The state of one: what it was called with. */
typedef struct generator {
    tn_tval self;
    tn_tval a[3];
    tn_targs args;
    tn_tlist *(*make)(tn_trun *r, const struct generator *g); /* all items at once */
    tn_titer *items;
    const tn_tfunction *function; /* map's filter, select's test */
    bool by_attribute, rejects;
} generator;

static bool next_made(tn_trun *r, tn_titer *it, tn_tval *out) {
    generator *g = it->state;
    if (!g->items) g->items = tn_titerate(r, tn_tlist_val(g->make(r, g)));
    return tn_titer_next(r, g->items, out);
}

static tn_tval generate(tn_trun *r, tn_tval self, const tn_tval *a, size_t n_a,
                        tn_tlist *(*make)(tn_trun *, const generator *)) {
    generator *g = tn_talloc(&r->m, 1, sizeof *g);
    *g = (generator){.self = self, .make = make};
    for (size_t i = 0; i < n_a; i++) g->a[i] = a[i];
    tn_titer *it = tn_talloc(&r->m, 1, sizeof *it);
    *it = (tn_titer){.next = next_made, .state = g};
    return iter_val(it);
}

static tn_tlist *make_items(tn_trun *r, const generator *g) {
    tn_tlist *l = tn_tlist_new(&r->m, 0);
    if (g->self.kind == TN_T_UNDEFINED) return l;
    if (g->self.kind != TN_T_DICT) tn_tfail(&r->m, TN_ERR_FORMAT, "Can only get item pairs from a mapping");
    for (size_t i = 0; i < g->self.d->n; i++)
        tn_tlist_add(&r->m, l, tn_tpair_val(&r->m, g->self.d->v[i].key, g->self.d->v[i].value));
    return l;
}

static tn_tval filter_items(tn_trun *r, tn_tval self, const tn_tval *a) {
    return generate(r, self, a, 0, make_items);
}

static tn_tlist *make_unique(tn_trun *r, const generator *g) {
    bool case_sensitive = tn_targ_truth(r, g->a[0], false);
    tn_tlist *l = tn_tlist_new(&r->m, 0);
    tn_tdict *seen = tn_tdict_new(&r->m, 0);
    tn_titer *it = tn_titerate(r, g->self);
    for (tn_tval item; tn_titer_next(r, it, &item);) {
        tn_tval key = fold(r, tn_tget_path(r, item, g->a[1], TN_TMISSING), case_sensitive);
        if (tn_tdict_find(&r->m, seen, key)) continue;
        tn_tdict_set(&r->m, seen, key, TN_TNONE);
        tn_tlist_add(&r->m, l, item);
    }
    return l;
}

static tn_tval filter_unique(tn_trun *r, tn_tval self, const tn_tval *a) {
    return generate(r, self, a, 2, make_unique);
}

static tn_tlist *make_batches(tn_trun *r, const generator *g) {
    int64_t size = tn_targ_int(r, g->a[0], 0);
    tn_tlist *batches = tn_tlist_new(&r->m, 0), *batch = NULL;
    tn_titer *it = tn_titerate(r, g->self);
    for (tn_tval item; tn_titer_next(r, it, &item);) {
        if (!batch || (int64_t)batch->n == size) {
            batch = tn_tlist_new(&r->m, 0);
            tn_tlist_add(&r->m, batches, tn_tlist_val(batch));
        }
        tn_tlist_add(&r->m, batch, item);
    }
    for (; batch && given(g->a[1]) && (int64_t)batch->n < size; tn_tcharge(&r->m, 1))
        tn_tlist_add(&r->m, batch, g->a[1]);
    return batches;
}

static tn_tval filter_batch(tn_trun *r, tn_tval self, const tn_tval *a) {
    return generate(r, self, a, 2, make_batches);
}

static tn_tlist *make_slices(tn_trun *r, const generator *g) {
    int64_t n_slices = tn_targ_int(r, g->a[0], 0), at = 0;
    const tn_tlist *items = tn_tto_list(r, g->self);
    tn_tlist *slices = tn_tlist_new(&r->m, 0);
    if (n_slices == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "integer division or modulo by zero");
    for (int64_t i = 0; i < n_slices; i++) {
        bool extra = i < (int64_t)items->n % n_slices;
        tn_tlist *slice = tn_tlist_new(&r->m, 0);
        for (int64_t end = at + (int64_t)items->n / n_slices + extra; at < end; at++)
            tn_tlist_add(&r->m, slice, items->v[at]);
        if (given(g->a[1]) && !extra) tn_tlist_add(&r->m, slice, g->a[1]);
        tn_tlist_add(&r->m, slices, tn_tlist_val(slice));
        tn_tcharge(&r->m, 1);
    }
    return slices;
}

static tn_tval filter_slice(tn_trun *r, tn_tval self, const tn_tval *a) {
    return generate(r, self, a, 2, make_slices);
}

/* ---- map, select, reject ------------------------------------------------------------------------------- */

static const tn_tfunction *named_function(tn_trun *r, tn_tval name, bool filter) {
    const tn_tfunction *found = NULL;
    if (name.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, name);
    if (name.kind == TN_T_STR) found = filter ? tn_tfind_filter(name.s) : tn_tfind_test(name.s);
    if (found) return found;
    const tn_tstr *text = tn_tstr_of(&r->m, name);
    tn_tfail(&r->m, TN_ERR_FORMAT, "no %s is named '%.*s'", filter ? "filter" : "test",
             (int)(text->n < 100 ? text->n : 100), text->p);
}

static void drop_positional(tn_targs *args, size_t n) {
    args->positional += n;
    args->n_positional -= n;
}

static void start_map(tn_trun *r, generator *g) {
    g->items = tn_titerate(r, g->self);
    for (size_t i = 0; i < g->args.n_named && !g->args.n_positional; i++)
        g->by_attribute = g->by_attribute || tn_tstr_is(g->args.names[i], "attribute");
    if (!g->by_attribute) {
        if (!g->args.n_positional) tn_tfail(&r->m, TN_ERR_FORMAT, "map requires a filter argument");
        g->function = named_function(r, g->args.positional[0], true);
        drop_positional(&g->args, 1);
        return;
    }
    for (size_t i = 0; i < g->args.n_named; i++) {
        const tn_tstr *name = g->args.names[i];
        if (tn_tstr_is(name, "attribute"))
            g->a[0] = g->args.named[i];
        else if (!tn_tstr_is(name, "default"))
            tn_tfail(&r->m, TN_ERR_FORMAT, "map: unexpected keyword argument '%.*s'",
                     (int)(name->n < 100 ? name->n : 100), name->p);
        else if (given(g->args.named[i]))
            g->a[1] = g->args.named[i];
    }
}

static bool next_mapped(tn_trun *r, tn_titer *it, tn_tval *out) {
    generator *g = it->state;
    if (!g->items) {
        if (!tn_ttruth(&r->m, g->self)) return false;
        start_map(r, g);
    }
    tn_tval item;
    if (!tn_titer_next(r, g->items, &item)) return false;
    *out =
        g->by_attribute ? tn_tget_path(r, item, g->a[0], g->a[1]) : tn_tapply(r, g->function, item, &g->args);
    return true;
}

static void start_select(tn_trun *r, generator *g) {
    g->items = tn_titerate(r, g->self);
    if (g->by_attribute) {
        if (!g->args.n_positional) tn_tfail(&r->m, TN_ERR_FORMAT, "Missing parameter for attribute name");
        g->a[0] = g->args.positional[0];
        drop_positional(&g->args, 1);
    }
    if (!g->args.n_positional) return;
    g->function = named_function(r, g->args.positional[0], false);
    drop_positional(&g->args, 1);
}

static bool next_selected(tn_trun *r, tn_titer *it, tn_tval *out) {
    generator *g = it->state;
    if (!g->items) {
        if (!tn_ttruth(&r->m, g->self)) return false;
        start_select(r, g);
    }
    for (tn_tval item; tn_titer_next(r, g->items, &item);) {
        tn_tval v = g->by_attribute ? tn_tget_path(r, item, g->a[0], TN_TMISSING) : item;
        if (g->function) v = tn_tapply(r, g->function, v, &g->args);
        if (tn_ttruth(&r->m, v) == g->rejects) continue;
        *out = item;
        return true;
    }
    return false;
}

static tn_tval lazy(tn_trun *r, tn_tval self, const tn_targs *args,
                    bool (*next)(tn_trun *, tn_titer *, tn_tval *), bool by_attribute, bool rejects) {
    generator *g = tn_talloc(&r->m, 1, sizeof *g);
    *g = (generator){.self = self, .args = *args, .by_attribute = by_attribute, .rejects = rejects};
    tn_titer *it = tn_talloc(&r->m, 1, sizeof *it);
    *it = (tn_titer){.next = next, .state = g};
    return iter_val(it);
}

static tn_tval filter_map(tn_trun *r, tn_tval self, const tn_targs *args) {
    return lazy(r, self, args, next_mapped, false, false);
}

static tn_tval filter_select(tn_trun *r, tn_tval self, const tn_targs *args) {
    return lazy(r, self, args, next_selected, false, false);
}

static tn_tval filter_reject(tn_trun *r, tn_tval self, const tn_targs *args) {
    return lazy(r, self, args, next_selected, false, true);
}

static tn_tval filter_selectattr(tn_trun *r, tn_tval self, const tn_targs *args) {
    return lazy(r, self, args, next_selected, true, false);
}

static tn_tval filter_rejectattr(tn_trun *r, tn_tval self, const tn_targs *args) {
    return lazy(r, self, args, next_selected, true, true);
}

const tn_tfunction tn_tlist_filters[] = {
    {"batch", "linecount fill_with?", filter_batch, NULL},
    {"count", "", filter_length, NULL},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort, NULL},
    {"first", "", filter_first, NULL},
    {"groupby", "attribute default? case_sensitive?", filter_groupby, NULL},
    {"items", "", filter_items, NULL},
    {"join", "d? attribute?", filter_join, NULL},
    {"last", "", filter_last, NULL},
    {"length", "", filter_length, NULL},
    {"list", "", filter_list, NULL},
    {"map", NULL, NULL, filter_map},
    {"max", "case_sensitive? attribute?", filter_max, NULL},
    {"min", "case_sensitive? attribute?", filter_min, NULL},
    {"reject", NULL, NULL, filter_reject},
    {"rejectattr", NULL, NULL, filter_rejectattr},
    {"reverse", "", filter_reverse, NULL},
    {"select", NULL, NULL, filter_select},
    {"selectattr", NULL, NULL, filter_selectattr},
    {"slice", "slices fill_with?", filter_slice, NULL},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort, NULL},
    {"sum", "attribute? start?", filter_sum, NULL},
    {"unique", "case_sensitive? attribute?", filter_unique, NULL},
};
const size_t tn_n_tlist_filters = sizeof tn_tlist_filters / sizeof *tn_tlist_filters;
