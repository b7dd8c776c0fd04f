/* object.name and object[key] by the rules of jinja2's sandbox: an attribute of the type goes before an item with a dot, behind it
 * with brackets; what does not exist is undefined. */
#include <string.h>

#include "template_run.h"

/* ---- Dict methods -------------------------------------------------------------------------------------- */

static tn_tval dict_get(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tpair *found = tn_tdict_find(&r->m, self.d, a[0]);
    if (found) return found->value;
    return a[1].kind == TN_T_MISSING ? TN_TNONE : a[1];
}

static tn_tval view(tn_trun *r, tn_tval self, int role) {
    tn_tlist *l = tn_tlist_new(&r->m, self.d->n);
    for (size_t i = 0; i < self.d->n; i++) {
        const tn_tpair *pair = &self.d->v[i];
        tn_tlist_add(&r->m, l,
                     role == TN_TLIST_KEYS     ? pair->key
                     : role == TN_TLIST_VALUES ? pair->value
                                               : tn_tpair_val(&r->m, pair->key, pair->value));
    }
    l->role = role;
    return (tn_tval){.kind = TN_T_VIEW, .l = l};
}

static tn_tval dict_keys(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return view(r, self, TN_TLIST_KEYS);
}

static tn_tval dict_values(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return view(r, self, TN_TLIST_VALUES);
}

static tn_tval dict_items(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return view(r, self, TN_TLIST_ITEMS);
}

static tn_tval copy(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)r, (void)a;
    return self; /* nothing can change either */
}

static const tn_tfunction dict_methods[] = {
    {"get", "key default?", dict_get, NULL}, {"keys", "", dict_keys, NULL}, {"values", "", dict_values, NULL},
    {"items", "", dict_items, NULL},         {"copy", "", copy, NULL},
};

/* ---- List, tuple and range methods --------------------------------------------------------------------- */

static tn_tval list_count(tn_trun *r, tn_tval self, const tn_tval *a) {
    int64_t n = 0;
    tn_titer *it = tn_titerate(r, self);
    for (tn_tval item; tn_titer_next(r, it, &item);) n += tn_tequal(&r->m, item, a[0]);
    return tn_tint(n);
}

static int64_t clamp_index(int64_t i, int64_t n) {
    if (i < 0) i += n;
    return i < 0 ? 0 : i > n ? n : i;
}

static tn_tval list_index(tn_trun *r, tn_tval self, const tn_tval *a) {
    int64_t n = 0;
    tn_tlength(self, &n);
    int64_t start = clamp_index(tn_targ_int(r, a[1], 0), n), stop = clamp_index(tn_targ_int(r, a[2], n), n);
    for (int64_t i = start; i < stop; i++)
        if (tn_tequal(&r->m, tn_titem(r, self, i), a[0])) return tn_tint(i);
    tn_tfail(&r->m, TN_ERR_FORMAT, "index(): the value is not in the %s", tn_ttype_name(self));
}

static const tn_tfunction list_methods[] = {{"count", "value", list_count, NULL},
                                            {"index", "value start? stop?", list_index, NULL},
                                            {"copy", "", copy, NULL}};
enum { N_SEQUENCE_METHODS = 2 }; /* without copy: those of tuples and ranges */

/* ---- Loops, cyclers, joiners --------------------------------------------------------------------------- */

static tn_tval loop_cycle(tn_trun *r, tn_tval self, const tn_targs *args) {
    if (!args->n_positional) tn_tfail(&r->m, TN_ERR_FORMAT, "no items for cycling given");
    return args->positional[self.loop->index0 % (int64_t)args->n_positional];
}

static tn_tval loop_changed(tn_trun *r, tn_tval self, const tn_targs *args) {
    tn_tlist *values = tn_tlist_new(&r->m, args->n_positional);
    for (size_t i = 0; i < args->n_positional; i++) tn_tlist_add(&r->m, values, args->positional[i]);
    tn_tval now = tn_ttuple_val(values);
    if (self.loop->changed.kind == TN_T_TUPLE && tn_tequal(&r->m, self.loop->changed, now))
        return tn_tbool(false);
    self.loop->changed = now;
    return tn_tbool(true);
}

static const tn_tfunction loop_methods[] = {{"cycle", NULL, NULL, loop_cycle},
                                            {"changed", NULL, NULL, loop_changed}};

static bool peek(tn_trun *r, tn_tloop *loop) {
    if (loop->after.kind == TN_T_MISSING && !tn_titer_next(r, loop->items, &loop->after))
        loop->after = TN_TMISSING;
    return loop->after.kind != TN_T_MISSING;
}

static int64_t loop_length(tn_trun *r, tn_tloop *loop) {
    if (loop->length >= 0) return loop->length;
    if (loop->sized && tn_tlength(loop->iterable, &loop->length)) return loop->length;
    tn_tval rest = {.kind = TN_T_ITER, .it = loop->items};
    const tn_tlist *l = tn_tto_list(r, rest);
    loop->items = tn_titerate(r, tn_tlist_val(l));
    loop->length = (int64_t)l->n + loop->index0 + 1 + (loop->after.kind != TN_T_MISSING);
    return loop->length;
}

tn_tval tn_tloop_attribute(tn_trun *r, tn_tloop *loop, const tn_tstr *name) {
    if (tn_tstr_is(name, "index0")) return tn_tint(loop->index0);
    if (tn_tstr_is(name, "index")) return tn_tint(loop->index0 + 1);
    if (tn_tstr_is(name, "first")) return tn_tbool(loop->index0 == 0);
    if (tn_tstr_is(name, "last")) return tn_tbool(!peek(r, loop));
    if (tn_tstr_is(name, "length")) return tn_tint(loop_length(r, loop));
    if (tn_tstr_is(name, "revindex")) return tn_tint(loop_length(r, loop) - loop->index0);
    if (tn_tstr_is(name, "revindex0")) return tn_tint(loop_length(r, loop) - loop->index0 - 1);
    if (tn_tstr_is(name, "depth")) return tn_tint(loop->depth0 + 1);
    if (tn_tstr_is(name, "depth0")) return tn_tint(loop->depth0);
    if (tn_tstr_is(name, "previtem"))
        return loop->index0 == 0 ? tn_tundef(&r->m, "there is no previous item") : loop->before;
    if (tn_tstr_is(name, "nextitem"))
        return peek(r, loop) ? loop->after : tn_tundef(&r->m, "there is no next item");
    return TN_TMISSING;
}

static tn_tval cycler_next(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)r, (void)a;
    tn_tval v = self.cycler->items->v[self.cycler->at];
    self.cycler->at = (self.cycler->at + 1) % self.cycler->items->n;
    return v;
}

static tn_tval cycler_reset(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)r, (void)a;
    self.cycler->at = 0;
    return TN_TNONE;
}

static const tn_tfunction cycler_methods[] = {{"next", "", cycler_next, NULL},
                                              {"reset", "", cycler_reset, NULL}};

/* ---- Attributes ---------------------------------------------------------------------------------------- */

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const tn_tfunction *find_method(tn_tval object, const tn_tstr *name) {
    switch (object.kind) {
    case TN_T_STR: return tn_tfind_function(tn_tstr_methods, tn_n_tstr_methods, name);
    case TN_T_DICT: return tn_tfind_function(dict_methods, COUNT(dict_methods), name);
    case TN_T_LIST: return tn_tfind_function(list_methods, COUNT(list_methods), name);
    case TN_T_TUPLE:
    case TN_T_RANGE: return tn_tfind_function(list_methods, N_SEQUENCE_METHODS, name);
    case TN_T_LOOP: return tn_tfind_function(loop_methods, COUNT(loop_methods), name);
    case TN_T_CYCLER: return tn_tfind_function(cycler_methods, COUNT(cycler_methods), name);
    default: return NULL;
    }
}

/* Methods that exist but change their object: the sandbox gives what is undefined. */
static bool is_unsafe(tn_tval object, const tn_tstr *name) {
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
    static const char *const of_lists[] = {"append", "clear", "pop",    "reverse",
                                           "insert", "sort",  "extend", "remove"};
    const char *const *names = object.kind == TN_T_DICT ? of_dicts : of_lists;
    size_t n = object.kind == TN_T_DICT ? COUNT(of_dicts) : object.kind == TN_T_LIST ? COUNT(of_lists) : 0;
    for (size_t i = 0; i < n; i++)
        if (tn_tstr_is(name, names[i])) return true;
    return false;
}

static tn_tval macro_attribute(tn_trun *r, const tn_tmacro *macro, const tn_tstr *name) {
    const tn_tmacro_code *code = macro->code;
    if (tn_tstr_is(name, "name")) return code->node->name ? tn_tstring(code->node->name) : TN_TNONE;
    if (tn_tstr_is(name, "catch_kwargs")) return tn_tbool(code->has_kwargs);
    if (tn_tstr_is(name, "catch_varargs")) return tn_tbool(code->has_varargs);
    if (tn_tstr_is(name, "caller")) return tn_tbool(code->has_caller);
    if (!tn_tstr_is(name, "arguments")) return TN_TMISSING;
    tn_tlist *l = tn_tlist_new(&r->m, code->node->items.n);
    for (size_t i = 0; i < code->node->items.n; i++)
        tn_tlist_add(&r->m, l, tn_tstring(code->node->items.v[i]->name));
    return tn_ttuple_val(l);
}

static tn_tval own_attribute(tn_trun *r, tn_tval object, const tn_tstr *name) {
    const tn_tpair *found;
    switch (object.kind) {
    case TN_T_NAMESPACE:
        found = tn_tdict_find_str(&r->m, object.d, name);
        return found ? found->value : TN_TMISSING;
    case TN_T_LOOP: return tn_tloop_attribute(r, object.loop, name);
    case TN_T_MACRO: return macro_attribute(r, object.macro, name);
    case TN_T_CYCLER:
        if (tn_tstr_is(name, "current")) return object.cycler->items->v[object.cycler->at];
        return TN_TMISSING;
    case TN_T_RANGE:
        if (tn_tstr_is(name, "start")) return tn_tint(object.range->start);
        if (tn_tstr_is(name, "stop")) return tn_tint(object.range->stop);
        if (tn_tstr_is(name, "step")) return tn_tint(object.range->step);
        return TN_TMISSING;
    case TN_T_TUPLE:
        if (object.l->role == TN_TLIST_GROUP && tn_tstr_is(name, "grouper")) return object.l->v[0];
        if (object.l->role == TN_TLIST_GROUP && tn_tstr_is(name, "list")) return object.l->v[1];
        return TN_TMISSING;
    default: return TN_TMISSING;
    }
}

tn_tval tn_tget_own_attribute(tn_trun *r, tn_tval object, const tn_tstr *name) {
    tn_tval own = own_attribute(r, object, name);
    if (own.kind != TN_T_MISSING) return own;
    const tn_tfunction *function = find_method(object, name);
    if (function) {
        tn_tmethod *method = tn_talloc(&r->m, 1, sizeof *method);
        *method = (tn_tmethod){.function = function, .self = object};
        return (tn_tval){.kind = TN_T_METHOD, .method = method};
    }
    if (!is_unsafe(object, name)) return TN_TMISSING;
    return tn_tundef(&r->m, "access to attribute '%.*s' of '%s' object is unsafe", (int)name->n, name->p,
                     tn_ttype_name(object));
}

static tn_tval no_attribute(tn_trun *r, tn_tval object, const tn_tstr *name) {
    int n = (int)(name->n < 200 ? name->n : 200);
    if (object.kind == TN_T_NONE) return tn_tundef(&r->m, "'None' has no attribute '%.*s'", n, name->p);
    return tn_tundef(&r->m, "'%s object' has no attribute '%.*s'", tn_ttype_name(object), n, name->p);
}

tn_tval tn_tget_attribute(tn_trun *r, tn_tval object, const tn_tstr *name) {
    if (object.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, object);
    tn_tval v = tn_tget_own_attribute(r, object, name);
    if (v.kind != TN_T_MISSING) return v;
    const tn_tpair *found = object.kind == TN_T_DICT ? tn_tdict_find_str(&r->m, object.d, name) : NULL;
    return found ? found->value : no_attribute(r, object, name);
}

/* ---- Items --------------------------------------------------------------------------------------------- */

static bool is_hashable(tn_trun *r, tn_tval v) {
    bool hashable = v.kind != TN_T_LIST && v.kind != TN_T_DICT && v.kind != TN_T_VIEW;
    if (v.kind != TN_T_TUPLE) return hashable;
    tn_tcharge(&r->m, v.l->n);
    tn_tenter(&r->m);
    for (size_t i = 0; i < v.l->n && hashable; i++) hashable = is_hashable(r, v.l->v[i]);
    tn_tleave(&r->m);
    return hashable;
}

/* object[key], or TN_T_MISSING. */
static tn_tval item(tn_trun *r, tn_tval object, tn_tval key) {
    if (object.kind == TN_T_DICT) {
        const tn_tpair *found = is_hashable(r, key) ? tn_tdict_find(&r->m, object.d, key) : NULL;
        return found ? found->value : TN_TMISSING;
    }
    bool indexed = object.kind == TN_T_LIST || object.kind == TN_T_TUPLE || object.kind == TN_T_STR ||
                   object.kind == TN_T_RANGE;
    if (!indexed || (key.kind != TN_T_INT && key.kind != TN_T_BOOL)) return TN_TMISSING;
    int64_t i = tn_tint_of(key), n = 0;
    tn_tlength(object, &n);
    if (i < 0) i += n;
    return i >= 0 && i < n ? tn_titem(r, object, i) : TN_TMISSING;
}

tn_tval tn_tget_item(tn_trun *r, tn_tval object, tn_tval key) {
    if (object.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, object);
    tn_tval v = item(r, object, key);
    if (v.kind == TN_T_MISSING && key.kind == TN_T_STR) v = tn_tget_own_attribute(r, object, key.s);
    if (v.kind != TN_T_MISSING) return v;
    if (key.kind == TN_T_STR) return no_attribute(r, object, key.s);
    tn_tbuf b = {.m = &r->m};
    tn_trepr(&b, key);
    return tn_tundef(&r->m, "%s object has no element %.*s", tn_ttype_name(object),
                     (int)(b.n < 200 ? b.n : 200), b.p);
}

tn_tval tn_tget_path(tn_trun *r, tn_tval object, tn_tval path, tn_tval otherwise) {
    if (path.kind == TN_T_NONE || path.kind == TN_T_MISSING) return object;
    size_t n = path.kind == TN_T_STR ? path.s->n : 0;
    for (size_t begin = 0, end; begin <= n; begin = end + 1) {
        tn_tval part = path;
        end = n;
        if (path.kind == TN_T_STR) {
            const char *dot = memchr(path.s->p + begin, '.', n - begin);
            if (dot) end = (size_t)(dot - path.s->p);
            part = tn_tstring(tn_tstr_slice(&r->m, path.s, begin, end));
            int64_t number = 0;
            bool digits = end > begin && end - begin < 18;
            for (size_t i = begin; i < end; i++) {
                digits = digits && path.s->p[i] >= '0' && path.s->p[i] <= '9';
                if (digits) number = 10 * number + (path.s->p[i] - '0');
            }
            if (digits) part = tn_tint(number);
        }
        object = tn_tget_item(r, object, part);
        if (object.kind == TN_T_UNDEFINED && otherwise.kind != TN_T_MISSING) object = otherwise;
    }
    return object;
}

/* ---- Slices -------------------------------------------------------------------------------------------- */

static bool slice_part(tn_trun *r, tn_tval v, int64_t *out) {
    if (v.kind == TN_T_MISSING || v.kind == TN_T_NONE) return false;
    if (v.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, v);
    if (v.kind != TN_T_INT && v.kind != TN_T_BOOL)
        tn_tfail(&r->m, TN_ERR_FORMAT, "slice indices must be integers or None");
    *out = tn_tint_of(v);
    return true;
}

/* What Python's slice.indices says, and how many items that are. */
typedef struct slice_bounds {
    int64_t first, stop, count;
} slice_bounds;

static slice_bounds find_bounds(tn_trun *r, tn_tval start, tn_tval stop, int64_t step, int64_t n) {
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, count = 0;
    int64_t from = step < 0 ? high : low, to = step < 0 ? low : high;
    if (slice_part(r, start, &from))
        from = from < 0 ? (from < -n ? low : from + n) : from > high ? high : from;
    if (slice_part(r, stop, &to)) to = to < 0 ? (to < -n ? low : to + n) : to > high ? high : to;
    if (step > 0 && to > from) count = (to - from - 1) / step + 1;
    if (step < 0 && from > to) count = (from - to - 1) / -step + 1;
    return (slice_bounds){from, to, count};
}

/* The ends of a slice may lie a step outside of what 64 bits hold; its items do not. */
static tn_tval slice_range(tn_trun *r, const tn_trange *of, slice_bounds bounds, int64_t step) {
    tn_trange *range = tn_talloc(&r->m, 1, sizeof *range);
    int64_t by;
    if (__builtin_mul_overflow(of->step, step, &by)) by = of->step; /* at most one item */
    *range = (tn_trange){tn_trange_at(of, bounds.first), tn_trange_at(of, bounds.stop), by, bounds.count};
    return (tn_tval){.kind = TN_T_RANGE, .range = range};
}

static tn_tval slice_str(tn_trun *r, const tn_tstr *s, int64_t first, int64_t step, int64_t count) {
    if (step == 1) {
        size_t begin = tn_tstr_byte_of(s, (size_t)first);
        tn_tcharge(&r->m, s->n / 64);
        return tn_tstring(tn_tstr_slice(&r->m, s, begin, tn_tstr_byte_of(s, (size_t)(first + count))));
    }
    size_t *at = tn_talloc(&r->m, s->n_chars + 1, sizeof *at), n = 0;
    for (size_t i = 0; i < s->n; tn_tnext_char(s, &i)) at[n++] = i;
    at[n] = s->n;
    tn_tbuf b = {.m = &r->m};
    for (int64_t i = 0, k = first; i < count; i++, k += step) {
        tn_tcharge(&r->m, 1);
        tn_tbuf_slice(&b, s, at[k], at[k + 1]);
    }
    return tn_tbuf_done(&b);
}

tn_tval tn_tslice(tn_trun *r, tn_tval object, tn_tval start, tn_tval stop, tn_tval step) {
    int64_t by = 1, n = 0;
    if (object.kind == TN_T_UNDEFINED) tn_tfail_undefined(&r->m, object);
    if (object.kind != TN_T_STR && object.kind != TN_T_LIST && object.kind != TN_T_TUPLE &&
        object.kind != TN_T_RANGE)
        tn_tfail(&r->m, TN_ERR_FORMAT, "'%s' object cannot be sliced", tn_ttype_name(object));
    if (slice_part(r, step, &by) && by == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "slice step cannot be zero");
    if (by == INT64_MIN) by++; /* longer than any sequence, and its negative exists */
    tn_tlength(object, &n);
    const slice_bounds bounds = find_bounds(r, start, stop, by, n);
    if (object.kind == TN_T_RANGE) return slice_range(r, object.range, bounds, by);
    if (bounds.count <= 1) by = 1;
    if (object.kind == TN_T_STR) {
        tn_tval v = slice_str(r, object.s, bounds.count ? bounds.first : 0, by, bounds.count);
        return object.s->markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
    }
    tn_tlist *l = tn_tlist_new(&r->m, (size_t)bounds.count);
    for (int64_t i = 0; i < bounds.count; i++) {
        tn_tcharge(&r->m, 1);
        tn_tlist_add(&r->m, l, tn_titem(r, object, bounds.first + i * by));
    }
    return object.kind == TN_T_TUPLE ? tn_ttuple_val(l) : tn_tlist_val(l);
}
