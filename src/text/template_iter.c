/* Going through values one by one. */
#include <string.h>

#include "template_run.h"

static tn_tval char_val(tn_trun *r, const tn_tstr *s, size_t begin, size_t end) {
    return tn_tstring(tn_tstr_slice(&r->m, s, begin, end));
}

int64_t tn_trange_at(const tn_trange *range, int64_t i) {
    return (int64_t)((uint64_t)range->start + (uint64_t)i * (uint64_t)range->step);
}

tn_tval tn_titem(tn_trun *r, tn_tval v, int64_t i) {
    if (v.kind == TN_T_RANGE) return tn_tint(tn_trange_at(v.range, i));
    if (v.kind != TN_T_STR) return v.l->v[i];
    size_t begin = tn_tstr_byte_of(v.s, (size_t)i), end = begin;
    tn_tcharge(&r->m, begin / 64);
    tn_tnext_char(v.s, &end);
    return char_val(r, v.s, begin, end);
}

static bool next_of_list(tn_trun *r, tn_titer *it, tn_tval *out) {
    (void)r;
    if (it->at == it->source.l->n) return false;
    *out = it->source.l->v[it->at++];
    return true;
}

static bool next_of_dict(tn_trun *r, tn_titer *it, tn_tval *out) {
    (void)r;
    if (it->at == it->source.d->n) return false;
    *out = it->source.d->v[it->at++].key;
    return true;
}

static bool next_of_str(tn_trun *r, tn_titer *it, tn_tval *out) {
    size_t begin = it->at;
    if (begin == it->source.s->n) return false;
    tn_tnext_char(it->source.s, &it->at);
    *out = char_val(r, it->source.s, begin, it->at);
    return true;
}

static bool next_of_range(tn_trun *r, tn_titer *it, tn_tval *out) {
    if ((int64_t)it->at == it->source.range->n) return false;
    *out = tn_titem(r, it->source, (int64_t)it->at++);
    return true;
}

static bool next_of_nothing(tn_trun *r, tn_titer *it, tn_tval *out) {
    (void)r, (void)it, (void)out;
    return false;
}

static bool (*next_of(tn_tval v))(tn_trun *, tn_titer *, tn_tval *) {
    switch (v.kind) {
    case TN_T_UNDEFINED: return next_of_nothing;
    case TN_T_STR: return next_of_str;
    case TN_T_LIST:
    case TN_T_TUPLE:
    case TN_T_VIEW: return next_of_list;
    case TN_T_DICT: return next_of_dict;
    case TN_T_RANGE: return next_of_range;
    default: return NULL;
    }
}

bool tn_tis_iterable(tn_tval v) {
    return v.kind == TN_T_ITER || v.kind == TN_T_LOOP || next_of(v);
}

tn_titer *tn_titerate(tn_trun *r, tn_tval v) {
    if (v.kind == TN_T_ITER) return v.it;
    if (!next_of(v)) tn_tfail(&r->m, TN_ERR_FORMAT, "'%s' object is not iterable", tn_ttype_name(v));
    tn_titer *it = tn_talloc(&r->m, 1, sizeof *it);
    *it = (tn_titer){.next = next_of(v), .source = v};
    return it;
}

bool tn_titer_next(tn_trun *r, tn_titer *it, tn_tval *out) {
    tn_tcharge(&r->m, 1);
    tn_tenter(&r->m); /* it may go through another one */
    const bool some = it->next(r, it, out);
    tn_tleave(&r->m);
    return some;
}

tn_tlist *tn_tto_list(tn_trun *r, tn_tval v) {
    int64_t n = 0;
    tn_tlength(v, &n);
    tn_tlist *l = tn_tlist_new(&r->m, (size_t)n);
    tn_titer *it = tn_titerate(r, v);
    for (tn_tval item; tn_titer_next(r, it, &item);) tn_tlist_add(&r->m, l, item);
    return l;
}

bool tn_tlength(tn_tval v, int64_t *n) {
    switch (v.kind) {
    case TN_T_UNDEFINED: *n = 0; return true;
    case TN_T_STR: *n = (int64_t)v.s->n_chars; return true;
    case TN_T_LIST:
    case TN_T_TUPLE:
    case TN_T_VIEW: *n = (int64_t)v.l->n; return true;
    case TN_T_DICT: *n = (int64_t)v.d->n; return true;
    case TN_T_RANGE: *n = v.range->n; return true;
    default: return false;
    }
}

bool tn_tcontains(tn_trun *r, tn_tval container, tn_tval v) {
    if (container.kind == TN_T_STR) {
        if (v.kind != TN_T_STR)
            tn_tfail(&r->m, TN_ERR_FORMAT, "'in <string>' requires string as left operand, not %s",
                     tn_ttype_name(v));
        return tn_tstr_find(&r->m, container.s, 0, container.s->n, v.s) != SIZE_MAX;
    }
    if (container.kind == TN_T_DICT) return tn_tdict_find(&r->m, container.d, v) != NULL;
    if (!next_of(container) && container.kind != TN_T_ITER)
        tn_tfail(&r->m, TN_ERR_FORMAT, "argument of type '%s' is not iterable", tn_ttype_name(container));
    tn_titer *it = tn_titerate(r, container);
    for (tn_tval item; tn_titer_next(r, it, &item);)
        if (tn_tequal(&r->m, item, v)) return true;
    return false;
}

/* ---- Sorting: merges, since a comparison can be an error and equal items keep their order -------------- */

typedef struct sorting {
    tn_tval *values, *keys, *to_values, *to_keys;
} sorting;

static void swap(sorting *s) {
    tn_tval *values = s->values, *keys = s->keys;
    s->values = s->to_values, s->keys = s->to_keys;
    s->to_values = values, s->to_keys = keys;
}

static void merge(tn_trun *r, sorting *s, size_t begin, size_t middle, size_t end, bool reverse) {
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++) {
        bool second = a == middle;
        if (a < middle && b < end) {
            int order = reverse ? tn_tcompare(&r->m, s->keys[a], s->keys[b], "<")
                                : tn_tcompare(&r->m, s->keys[b], s->keys[a], "<");
            second = order < 0;
        }
        size_t from = second ? b++ : a++;
        s->to_values[i] = s->values[from];
        s->to_keys[i] = s->keys[from];
    }
}

void tn_tsort(tn_trun *r, tn_tlist *values, tn_tlist *keys, bool reverse) {
    size_t n = values->n;
    sorting s = {values->v, keys->v, tn_talloc(&r->m, n, sizeof *s.values),
                 tn_talloc(&r->m, n, sizeof *s.keys)};
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n,
                   end = middle + width < n ? middle + width : n;
            merge(r, &s, begin, middle, end, reverse);
        }
        swap(&s);
    }
    values->v = s.values;
    keys->v = s.keys;
}
