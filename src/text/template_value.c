/* Memory, lists, dicts, and what Python says of any two values: truth, equality, order, hash. */
#include "template_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/checked.h"

/* ---- Memory -------------------------------------------------------------------------------------------- */

void tn_tfail(tn_tmem *m, tn_status code, const char *format, ...) {
    char why[600], where[32];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    snprintf(where, sizeof where, "line %u", m->line);
    m->status = tn_fail(m->err, code, "chat template", where, "%s", why);
    longjmp(m->fail, 1);
}

void *tn_talloc(tn_tmem *m, size_t n, size_t size) {
    uint64_t bytes;
    if (!tn_mul_u64(n, size, &bytes) || bytes > m->max_bytes || m->arena.total_bytes > m->max_bytes - bytes)
        tn_tfail(m, TN_ERR_MEMORY, "more than %zu MiB of memory are needed", m->max_bytes >> 20);
    void *p = tn_arena_alloc(&m->arena, n, size);
    if (!p) tn_tfail(m, TN_ERR_MEMORY, "out of memory");
    return p;
}

void tn_tcharge(tn_tmem *m, uint64_t steps) {
    if (steps > m->steps_left) tn_tfail(m, TN_ERR_FORMAT, "it takes too many steps");
    m->steps_left -= steps;
}

void tn_tenter(tn_tmem *m) {
    if (++m->depth > m->max_depth) tn_tfail(m, TN_ERR_FORMAT, "it is nested too deeply");
}

/* ---- Values -------------------------------------------------------------------------------------------- */

tn_tval tn_tundef(tn_tmem *m, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    tn_tundefined *u = tn_talloc(m, 1, sizeof *u);
    char *copy = tn_talloc(m, len + 1, 1);
    memcpy(copy, text, len);
    u->message = copy;
    return (tn_tval){.kind = TN_T_UNDEFINED, .u = u};
}

void tn_tfail_undefined(tn_tmem *m, tn_tval v) {
    tn_tfail(m, TN_ERR_FORMAT, "%s", v.u->message);
}

const char *tn_ttype_name(tn_tval v) {
    static const char *const names[] = {
        [TN_T_MISSING] = "missing", [TN_T_UNDEFINED] = "Undefined",
        [TN_T_NONE] = "NoneType",   [TN_T_BOOL] = "bool",
        [TN_T_INT] = "int",         [TN_T_FLOAT] = "float",
        [TN_T_STR] = "str",         [TN_T_LIST] = "list",
        [TN_T_TUPLE] = "tuple",     [TN_T_DICT] = "dict",
        [TN_T_VIEW] = "dict view",  [TN_T_ITER] = "generator",
        [TN_T_RANGE] = "range",     [TN_T_NAMESPACE] = "Namespace",
        [TN_T_MACRO] = "Macro",     [TN_T_FUNCTION] = "function",
        [TN_T_METHOD] = "method",   [TN_T_LOOP] = "LoopContext",
        [TN_T_CYCLER] = "Cycler",   [TN_T_JOINER] = "Joiner",
    };
    return v.kind == TN_T_STR && v.s->markup ? "Markup" : names[v.kind];
}

tn_tlist *tn_tlist_new(tn_tmem *m, size_t cap) {
    tn_tlist *l = tn_talloc(m, 1, sizeof *l);
    if (cap) l->v = tn_talloc(m, cap, sizeof *l->v);
    l->cap = cap;
    return l;
}

void tn_tlist_add(tn_tmem *m, tn_tlist *l, tn_tval v) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4;
        tn_tval *grown = tn_talloc(m, cap, sizeof *grown);
        if (l->n) memcpy(grown, l->v, l->n * sizeof *grown);
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

tn_tval tn_tlist_val(const tn_tlist *l) {
    return (tn_tval){.kind = TN_T_LIST, .l = l};
}

tn_tval tn_ttuple_val(const tn_tlist *l) {
    return (tn_tval){.kind = TN_T_TUPLE, .l = l};
}

tn_tval tn_tpair_val(tn_tmem *m, tn_tval a, tn_tval b) {
    tn_tlist *pair = tn_tlist_new(m, 2);
    tn_tlist_add(m, pair, a);
    tn_tlist_add(m, pair, b);
    return tn_ttuple_val(pair);
}

/* ---- Dicts --------------------------------------------------------------------------------------------- */

enum { SMALL_DICT = 8 };

tn_tdict *tn_tdict_new(tn_tmem *m, size_t cap) {
    tn_tdict *d = tn_talloc(m, 1, sizeof *d);
    if (cap) d->v = tn_talloc(m, cap, sizeof *d->v);
    d->cap = cap;
    return d;
}

static void index_add(tn_tdict *d, size_t at) {
    size_t i = d->v[at].hash & (d->n_index - 1);
    while (d->index[i]) i = (i + 1) & (d->n_index - 1);
    d->index[i] = (uint32_t)at + 1;
}

static void dict_grow(tn_tmem *m, tn_tdict *d) {
    size_t cap = d->cap ? 2 * d->cap : 4;
    tn_tpair *grown = tn_talloc(m, cap, sizeof *grown);
    if (d->n) memcpy(grown, d->v, d->n * sizeof *grown);
    d->v = grown;
    d->cap = cap;
}

/* Keeps the index at most half full. */
static void dict_reindex(tn_tmem *m, tn_tdict *d) {
    size_t n_index = 4 * SMALL_DICT;
    while (n_index < 4 * d->n) n_index *= 2;
    d->index = tn_talloc(m, n_index, sizeof *d->index);
    d->n_index = n_index;
    for (size_t i = 0; i < d->n; i++) index_add(d, i);
}

static tn_tpair *find(tn_tmem *m, const tn_tdict *d, tn_tval key, uint64_t hash) {
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].hash == hash && tn_tequal(m, d->v[i].key, key)) return &d->v[i];
        return NULL;
    }
    for (size_t i = hash & (d->n_index - 1); d->index[i]; i = (i + 1) & (d->n_index - 1)) {
        tn_tpair *pair = &d->v[d->index[i] - 1];
        if (pair->hash == hash && tn_tequal(m, pair->key, key)) return pair;
    }
    return NULL;
}

tn_tpair *tn_tdict_find(tn_tmem *m, const tn_tdict *d, tn_tval key) {
    return find(m, d, key, tn_thash(m, key));
}

tn_tpair *tn_tdict_find_str(tn_tmem *m, const tn_tdict *d, const tn_tstr *key) {
    return tn_tdict_find(m, d, tn_tstring(key));
}

void tn_tdict_set(tn_tmem *m, tn_tdict *d, tn_tval key, tn_tval value) {
    uint64_t hash = tn_thash(m, key);
    tn_tpair *pair = find(m, d, key, hash);
    if (pair) {
        pair->value = value;
        return;
    }
    if (d->n == d->cap) dict_grow(m, d);
    d->v[d->n++] = (tn_tpair){.key = key, .value = value, .hash = hash};
    if (d->n <= SMALL_DICT) return;
    if (!d->index || 2 * d->n > d->n_index)
        dict_reindex(m, d);
    else
        index_add(d, d->n - 1);
}

/* ---- Truth, equality, order ---------------------------------------------------------------------------- */

bool tn_ttruth(tn_tmem *m, tn_tval v) {
    (void)m;
    switch (v.kind) {
    case TN_T_MISSING:
    case TN_T_UNDEFINED:
    case TN_T_NONE: return false;
    case TN_T_BOOL: return v.b;
    case TN_T_INT: return v.i != 0;
    case TN_T_FLOAT: return v.f != 0.0;
    case TN_T_STR: return v.s->n != 0;
    case TN_T_LIST:
    case TN_T_TUPLE:
    case TN_T_VIEW: return v.l->n != 0;
    case TN_T_DICT: return v.d->n != 0;
    case TN_T_RANGE: return v.range->n != 0;
    default: return true;
    }
}

static bool lists_equal(tn_tmem *m, const tn_tlist *a, const tn_tlist *b) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    tn_tenter(m);
    bool equal = true;
    for (size_t i = 0; equal && i < a->n; i++) equal = tn_tequal(m, a->v[i], b->v[i]);
    tn_tleave(m);
    return equal;
}

static bool dicts_equal(tn_tmem *m, const tn_tdict *a, const tn_tdict *b) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    tn_tenter(m);
    bool equal = true;
    for (size_t i = 0; equal && i < a->n; i++) {
        const tn_tpair *other = find(m, b, a->v[i].key, a->v[i].hash);
        equal = other && tn_tequal(m, a->v[i].value, other->value);
    }
    tn_tleave(m);
    return equal;
}

/* Exact where a double is not: both are wider in long double. */
static int compare_numbers(tn_tval a, tn_tval b) {
    if (a.kind != TN_T_FLOAT && b.kind != TN_T_FLOAT) {
        int64_t x = tn_tint_of(a), y = tn_tint_of(b);
        return (x > y) - (x < y);
    }
    long double x = a.kind == TN_T_FLOAT ? (long double)a.f : (long double)tn_tint_of(a);
    long double y = b.kind == TN_T_FLOAT ? (long double)b.f : (long double)tn_tint_of(b);
    return (x > y) - (x < y);
}

static bool is_nan(tn_tval v) {
    return v.kind == TN_T_FLOAT && isnan(v.f);
}

bool tn_tequal(tn_tmem *m, tn_tval a, tn_tval b) {
    tn_tcharge(m, 1);
    if (tn_tis_number(a) && tn_tis_number(b)) return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case TN_T_MISSING:
    case TN_T_UNDEFINED:
    case TN_T_NONE: return true;
    case TN_T_STR: return tn_tstr_equal(a.s, b.s);
    case TN_T_LIST:
    case TN_T_TUPLE: return lists_equal(m, a.l, b.l);
    case TN_T_DICT: return dicts_equal(m, a.d, b.d);
    case TN_T_RANGE:
        return a.range->n == b.range->n && (a.range->n == 0 || a.range->start == b.range->start) &&
               (a.range->n <= 1 || a.range->step == b.range->step);
    default: return a.l == b.l; /* the same object */
    }
}

static int compare_lists(tn_tmem *m, const tn_tlist *a, const tn_tlist *b, const char *op) {
    int order = 0;
    tn_tenter(m);
    for (size_t i = 0; order == 0 && i < a->n && i < b->n; i++)
        if (!tn_tequal(m, a->v[i], b->v[i])) order = tn_tcompare(m, a->v[i], b->v[i], op);
    tn_tleave(m);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

int tn_tcompare(tn_tmem *m, tn_tval a, tn_tval b, const char *op) {
    tn_tcharge(m, 1);
    if (tn_tis_number(a) && tn_tis_number(b)) return compare_numbers(a, b);
    if (a.kind == TN_T_UNDEFINED) tn_tfail_undefined(m, a);
    if (b.kind == TN_T_UNDEFINED) tn_tfail_undefined(m, b);
    if (a.kind == b.kind && a.kind == TN_T_STR) return tn_tstr_compare(a.s, b.s);
    if (a.kind == b.kind && (a.kind == TN_T_LIST || a.kind == TN_T_TUPLE))
        return compare_lists(m, a.l, b.l, op);
    tn_tfail(m, TN_ERR_FORMAT, "'%s' not supported between instances of '%s' and '%s'", op, tn_ttype_name(a),
             tn_ttype_name(b));
}

/* ---- Hash ---------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static uint64_t hash_bytes(const char *p, size_t n) {
    uint64_t h = n;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = mix(h, word);
    }
    uint64_t rest = 0;
    if (n) memcpy(&rest, p, n);
    return mix(h, rest);
}

uint64_t tn_thash(tn_tmem *m, tn_tval v) {
    switch (v.kind) {
    case TN_T_UNDEFINED:
    case TN_T_NONE: return mix(1, v.kind);
    case TN_T_BOOL:
    case TN_T_INT: return mix(2, (uint64_t)tn_tint_of(v));
    case TN_T_FLOAT: /* a whole number is equal to its int */
        if (v.f >= -0x1p63 && v.f < 0x1p63 && v.f == floor(v.f)) return mix(2, (uint64_t)(int64_t)v.f);
        return hash_bytes((const char *)&v.f, sizeof v.f);
    case TN_T_STR: tn_tcharge(m, v.s->n / 64); return hash_bytes(v.s->p, v.s->n);
    case TN_T_TUPLE: {
        uint64_t h = 3;
        tn_tcharge(m, v.l->n);
        tn_tenter(m);
        for (size_t i = 0; i < v.l->n; i++) h = mix(h, tn_thash(m, v.l->v[i]));
        tn_tleave(m);
        return h;
    }
    case TN_T_LIST:
    case TN_T_DICT:
    case TN_T_VIEW: tn_tfail(m, TN_ERR_FORMAT, "unhashable type: '%s'", tn_ttype_name(v));
    default: return mix(4, (uint64_t)(uintptr_t)v.l);
    }
}
