/* Functions that every template finds. */
#include <string.h>
#include <time.h>

#include "../base/c_locale.h"
#include "template_run.h"

/* ---- range --------------------------------------------------------------------------------------------- */

enum { MAX_RANGE = 100000 }; /* as jinja2's sandbox has it */

static tn_tval global_range(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)self;
    tn_trange *range = tn_talloc(&r->m, 1, sizeof *range);
    bool one = a[1].kind == TN_T_MISSING;
    int64_t first = tn_targ_int(r, a[0], 0), n = 0;
    *range = (tn_trange){one ? 0 : first, one ? first : tn_targ_int(r, a[1], 0), tn_targ_int(r, a[2], 1), 0};
    if (range->step == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "range() arg 3 must not be zero");
    bool up = range->step > 0;
    if (up ? range->stop > range->start : range->stop < range->start) {
        uint64_t span = up ? (uint64_t)range->stop - (uint64_t)range->start
                           : (uint64_t)range->start - (uint64_t)range->stop;
        uint64_t step = up ? (uint64_t)range->step : 0 - (uint64_t)range->step;
        uint64_t count = (span - 1) / step + 1;
        if (count > MAX_RANGE)
            tn_tfail(&r->m, TN_ERR_FORMAT,
                     "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d)", MAX_RANGE);
        n = (int64_t)count;
    }
    range->n = n;
    return (tn_tval){.kind = TN_T_RANGE, .range = range};
}

/* ---- dict, namespace ----------------------------------------------------------------------------------- */

static void add_pairs(tn_trun *r, tn_tdict *d, tn_tval v) {
    if (v.kind == TN_T_DICT || v.kind == TN_T_NAMESPACE) {
        for (size_t i = 0; i < v.d->n; i++) tn_tdict_set(&r->m, d, v.d->v[i].key, v.d->v[i].value);
        return;
    }
    tn_titer *it = tn_titerate(r, v);
    for (tn_tval item; tn_titer_next(r, it, &item);) {
        const tn_tlist *pair = tn_tto_list(r, item);
        if (pair->n != 2)
            tn_tfail(&r->m, TN_ERR_FORMAT, "dictionary update sequence element has length %zu; 2 is required",
                     pair->n);
        tn_tdict_set(&r->m, d, pair->v[0], pair->v[1]);
    }
}

static tn_tdict *make_dict(tn_trun *r, const tn_targs *args) {
    tn_tdict *d = tn_tdict_new(&r->m, 0);
    if (args->n_positional > 1)
        tn_tfail(&r->m, TN_ERR_FORMAT, "dict expected at most 1 argument, got %zu", args->n_positional);
    if (args->n_positional) add_pairs(r, d, args->positional[0]);
    for (size_t i = 0; i < args->n_named; i++)
        tn_tdict_set(&r->m, d, tn_tstring(args->names[i]), args->named[i]);
    return d;
}

static tn_tval global_dict(tn_trun *r, tn_tval self, const tn_targs *args) {
    (void)self;
    return (tn_tval){.kind = TN_T_DICT, .d = make_dict(r, args)};
}

static tn_tval global_namespace(tn_trun *r, tn_tval self, const tn_targs *args) {
    (void)self;
    tn_tdict *d = make_dict(r, args);
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].key.kind == TN_T_STR && d->v[i].key.s->n && d->v[i].key.s->p[0] == '_')
            tn_tfail(&r->m, TN_ERR_FORMAT,
                     "names with an underscore in front cannot be stored on a namespace");
    return (tn_tval){.kind = TN_T_NAMESPACE, .d = d};
}

/* ---- cycler, joiner ------------------------------------------------------------------------------------ */

static tn_tval global_cycler(tn_trun *r, tn_tval self, const tn_targs *args) {
    (void)self;
    if (!args->n_positional || args->n_named)
        tn_tfail(&r->m, TN_ERR_FORMAT, "at least one item has to be provided");
    tn_tcycler *cycler = tn_talloc(&r->m, 1, sizeof *cycler);
    cycler->items = tn_tlist_new(&r->m, args->n_positional);
    for (size_t i = 0; i < args->n_positional; i++) tn_tlist_add(&r->m, cycler->items, args->positional[i]);
    return (tn_tval){.kind = TN_T_CYCLER, .cycler = cycler};
}

static tn_tval global_joiner(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)self;
    tn_tcycler *joiner = tn_talloc(&r->m, 1, sizeof *joiner);
    joiner->separator = a[0].kind == TN_T_MISSING ? tn_tliteral(&r->m, ", ").s : tn_targ_str(r, a[0]);
    return (tn_tval){.kind = TN_T_JOINER, .cycler = joiner};
}

/* ---- What transformers adds ---------------------------------------------------------------------------- */

static tn_tval global_raise_exception(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)self;
    const tn_tstr *message = tn_tstr_of(&r->m, a[0]);
    tn_tfail(&r->m, TN_ERR_FORMAT, "%.*s", (int)(message->n < 400 ? message->n : 400), message->p);
}

static tn_tval global_strftime_now(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)self;
    enum { MAX_FORMAT = 200, MAX_TEXT = 4096 };
    const tn_tstr *s = tn_targ_str(r, a[0]);
    if (s->n > MAX_FORMAT || memchr(s->p, '\0', s->n))
        tn_tfail(&r->m, TN_ERR_FORMAT, "strftime_now: the format is too long");
    char format[MAX_FORMAT + 2], *text = tn_talloc(&r->m, MAX_TEXT, 1);
    memcpy(format, s->p, s->n);
    memcpy(format + s->n, "|", 2); /* so that an empty result differs from one that has no room */
    struct tm now;
    const time_t seconds = time(NULL);
    if (!localtime_r(&seconds, &now)) tn_tfail(&r->m, TN_ERR_IO, "strftime_now: the clock cannot be read");
    const size_t n = tn_strftime(text, MAX_TEXT, format, &now);
    if (n == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "strftime_now: the result is too long");
    return tn_ttext(&r->m, text, n - 1);
}

static const tn_tfunction globals[] = {
    {"range", "start stop? step?", global_range, NULL},
    {"dict", NULL, NULL, global_dict},
    {"namespace", NULL, NULL, global_namespace},
    {"cycler", NULL, NULL, global_cycler},
    {"joiner", "sep?", global_joiner, NULL},
    {"raise_exception", "message", global_raise_exception, NULL},
    {"strftime_now", "format", global_strftime_now, NULL},
};

void tn_tadd_globals(tn_trun *r, tn_tdict *variables) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        tn_tdict_set(&r->m, variables, tn_tliteral(&r->m, globals[i].name),
                     (tn_tval){.kind = TN_T_FUNCTION, .function = &globals[i]});
}
