/* A rendering: what its parts share. */
#ifndef TN_TEXT_TEMPLATE_RUN_H
#define TN_TEXT_TEMPLATE_RUN_H

#include "template_node.h"

/* Of a running function; slots of functions around it are reached through `outer`. */
typedef struct tn_tframe {
    tn_tval *slots;
    struct tn_tframe *outer;
} tn_tframe;

typedef struct tn_trun {
    tn_tmem m;
    tn_tdict *variables; /* of the rendering and the environment */
    tn_tframe *frame;
    tn_tbuf *out;
} tn_trun;

/* ---- Calls (template_call.c) --------------------------------------------------------------------------- */

typedef struct tn_targs {
    const tn_tval *positional, *named;
    const tn_tstr **names; /* of named */
    size_t n_positional, n_named;
} tn_targs;

enum { TN_TMAX_PARAMETERS = 6 };

/* A filter, test, method or function of ours. */
struct tn_tfunction {
    const char *name;
    /* Names of parameters separated by spaces, those that may be left out with a '?'; NULL: `free` takes what comes. */
    const char *parameters;
    /* self: what is filtered or tested, a method's object; a: one value a parameter, TN_T_MISSING if left out. */
    tn_tval (*call)(tn_trun *r, tn_tval self, const tn_tval *a);
    tn_tval (*free)(tn_trun *r, tn_tval self, const tn_targs *args);
};

struct tn_tmethod {
    const tn_tfunction *function;
    tn_tval self;
};

tn_tval tn_tapply(tn_trun *r, const tn_tfunction *function, tn_tval self, const tn_targs *args);
tn_tval tn_tcall(tn_trun *r, tn_tval callee, const tn_targs *args);

/* NULL if there is none of that name. */
const tn_tfunction *tn_tfind_function(const tn_tfunction *table, size_t n, const tn_tstr *name);
const tn_tfunction *tn_tfind_filter(const tn_tstr *name);
const tn_tfunction *tn_tfind_test(const tn_tstr *name);
extern const tn_tfunction tn_ttext_filters[], tn_tlist_filters[], tn_tvalue_filters[], tn_tstr_methods[];
extern const size_t tn_n_ttext_filters, tn_n_tlist_filters, tn_n_tvalue_filters, tn_n_tstr_methods;

/* A parameter's value, or what it is when it was left out. */
/* None where it means the same as nothing. */
tn_tval tn_targ_some(tn_tval a);
int64_t tn_targ_int(tn_trun *r, tn_tval a, int64_t otherwise);
bool tn_targ_truth(tn_trun *r, tn_tval a, bool otherwise);
const tn_tstr *tn_targ_str(tn_trun *r, tn_tval a); /* an error unless a string */

/* ---- Access (template_access.c) ------------------------------------------------------------------------ */

tn_tval tn_tget_attribute(tn_trun *r, tn_tval object, const tn_tstr *name);
/* The same without items: TN_T_MISSING if the type has no such attribute. */
tn_tval tn_tget_own_attribute(tn_trun *r, tn_tval object, const tn_tstr *name);
tn_tval tn_tget_item(tn_trun *r, tn_tval object, tn_tval key);
tn_tval tn_tslice(tn_trun *r, tn_tval object, tn_tval start, tn_tval stop, tn_tval step);
/* "a.b.0", an integer, or none for the object itself; what is undefined on the way is `otherwise` unless that is missing. */
tn_tval tn_tget_path(tn_trun *r, tn_tval object, tn_tval path, tn_tval otherwise);

/* ---- Iteration (template_iter.c) ----------------------------------------------------------------------- */

struct tn_titer {
    bool (*next)(tn_trun *r, tn_titer *it, tn_tval *out);
    tn_tval source;
    size_t at;
    tn_titer *inner;
    void *state; /* of whoever made it */
};

/* An error if v cannot be iterated. */
tn_titer *tn_titerate(tn_trun *r, tn_tval v);
bool tn_tis_iterable(tn_tval v);
bool tn_titer_next(tn_trun *r, tn_titer *it, tn_tval *out);
/* All that is left, in a new list. */
tn_tlist *tn_tto_list(tn_trun *r, tn_tval v);
/* len(); false if v has none. */
bool tn_tlength(tn_tval v, int64_t *n);
bool tn_tcontains(tn_trun *r, tn_tval container, tn_tval v);
/* Item i of a list, tuple, view, string or range whose length is known to be above i. */
tn_tval tn_titem(tn_trun *r, tn_tval v, int64_t i);
int64_t tn_trange_at(const tn_trange *range, int64_t i); /* item i, without overflow where there is one */

/* Of a list: a stable sort by keys, which are compared in Python's order. */
void tn_tsort(tn_trun *r, tn_tlist *values, tn_tlist *keys, bool reverse);

/* ---- Evaluation (template_eval.c, template_exec.c, template_ops.c) ------------------------------------- */

typedef struct tn_tmacro {
    const tn_tmacro_code *code;
    tn_tframe *frame; /* where it was made */
} tn_tmacro;

struct tn_tloop {
    tn_tval iterable, before, current, after, changed;
    tn_titer *items;
    int64_t index0, length, depth0; /* length < 0: not known */
    bool sized;
    const tn_tnode *node;
    tn_tframe *frame; /* around the loop */
};

struct tn_tcycler {
    tn_tlist *items;
    size_t at;
    const tn_tstr *separator; /* of a joiner */
    bool used;
};

tn_tval tn_teval(tn_trun *r, const tn_tnode *node);
/* A call whose named arguments are joined by `caller` unless that is missing. */
tn_tval tn_teval_call(tn_trun *r, const tn_tnode *node, tn_tval caller);
tn_tval tn_teval_filter(tn_trun *r, const tn_tnode *node, tn_tval innermost);
tn_tval *tn_tslot(tn_trun *r, tn_tref ref);

tn_tval tn_tbinary_op(tn_trun *r, tn_tbinary op, tn_tval a, tn_tval b);
bool tn_tcompare_op(tn_trun *r, tn_tbinary op, tn_tval a, tn_tval b);
tn_tval tn_tnegate(tn_trun *r, tn_tval v, bool negative);

void tn_texec_template(tn_trun *r, const tn_template *t);
tn_tval tn_tcall_macro(tn_trun *r, const tn_tmacro *macro, const tn_targs *args);
tn_tval tn_tcall_loop(tn_trun *r, const tn_tloop *loop, const tn_targs *args);
tn_tval tn_tloop_attribute(tn_trun *r, tn_tloop *loop, const tn_tstr *name);

/* ---- Environment (template_globals.c), text (template_json.c, template_format.c, template_case.c) ------ */

void tn_tadd_globals(tn_trun *r, tn_tdict *variables);

typedef struct tn_tjson_style {
    const tn_tstr *indent, *item_separator, *key_separator; /* indent NULL: on one line */
    bool ascii, sort_keys;
} tn_tjson_style;

void tn_tjson(tn_trun *r, tn_tbuf *b, tn_tval v, const tn_tjson_style *style);

tn_tval tn_tpercent(tn_trun *r, const tn_tstr *format, tn_tval values);               /* format % values */
tn_tval tn_tstr_format(tn_trun *r, const tn_tstr *format, const tn_targs *arguments); /* format.format(...) */

/* & < > ' " as character references, as markupsafe does; markup stays. */
tn_tval tn_tescape(tn_trun *r, tn_tval v);
const tn_tstr *tn_tas_markup(tn_trun *r, const tn_tstr *s);

typedef enum tn_tcase {
    TN_CASE_LOWER,
    TN_CASE_UPPER,
    TN_CASE_TITLE,
    TN_CASE_CAPITALIZE,
    TN_CASE_SWAP,
    TN_CASE_FOLD
} tn_tcase;
tn_tval tn_tto_case(tn_trun *r, const tn_tstr *s, tn_tcase to);
void tn_tcase_chars(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end, tn_tcase to); /* lower or upper */

typedef enum tn_tclass {
    TN_CLASS_ALPHA,
    TN_CLASS_ALNUM,
    TN_CLASS_ASCII,
    TN_CLASS_DECIMAL,
    TN_CLASS_DIGIT,
    TN_CLASS_NUMERIC,
    TN_CLASS_LOWER,
    TN_CLASS_UPPER,
    TN_CLASS_TITLE,
    TN_CLASS_SPACE,
    TN_CLASS_PRINTABLE,
    TN_CLASS_IDENTIFIER,
} tn_tclass;
bool tn_tis_class(tn_trun *r, const tn_tstr *s, tn_tclass class);
bool tn_tis_word_char(uint32_t code);
bool tn_tis_printable(uint32_t code);

#endif
