/* The values of a template, as Python has them, and the memory they live in.
 *
 * All memory of a parse or a rendering is one arena, so nothing is freed singly. Every step of the interpreter can run into a
 * budget or an error of the template; such a failure leaves by longjmp to the one place that owns the arena, and functions
 * return their result and nothing else. */
#ifndef TN_TEXT_TEMPLATE_VALUE_H
#define TN_TEXT_TEMPLATE_VALUE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/arena.h"
#include "template.h"

/* ---- Memory and failure -------------------------------------------------------------------------------- */

typedef struct tn_tmem {
    tn_arena arena;
    size_t max_bytes;          /* of the arena */
    uint64_t steps_left;       /* work, in steps of some tens of nanoseconds */
    uint32_t line;             /* of what is parsed or run */
    uint32_t depth, max_depth; /* of recursion: some hundred bytes of stack each */
    tn_error *err;
    tn_status status;
    jmp_buf fail;
} tn_tmem;

_Noreturn void tn_tfail(tn_tmem *m, tn_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* n objects of size bytes, zeroed. */
void *tn_talloc(tn_tmem *m, size_t n, size_t size);

/* Takes steps from the budget. */
void tn_tcharge(tn_tmem *m, uint64_t steps);

/* One level of recursion more; tn_tleave undoes it. */
void tn_tenter(tn_tmem *m);
static inline void tn_tleave(tn_tmem *m) {
    m->depth--;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

typedef enum tn_tkind {
    TN_T_MISSING,   /* no value: a slot not set, an argument not given */
    TN_T_UNDEFINED, /* prints as nothing; most uses are errors */
    TN_T_NONE,
    TN_T_BOOL,
    TN_T_INT,
    TN_T_FLOAT,
    TN_T_STR,
    TN_T_LIST,
    TN_T_TUPLE,
    TN_T_DICT,
    TN_T_VIEW, /* keys(), values() or items() of a dict */
    TN_T_ITER, /* what map, select and their like give: passed through once */
    TN_T_RANGE,
    TN_T_NAMESPACE,
    TN_T_MACRO,
    TN_T_FUNCTION, /* of the environment: range, dict, ... */
    TN_T_METHOD,   /* bound to its object */
    TN_T_LOOP,
    TN_T_CYCLER,
    TN_T_JOINER,
} tn_tkind;

typedef struct tn_tstr tn_tstr;
typedef struct tn_tlist tn_tlist;
typedef struct tn_tdict tn_tdict;
typedef struct tn_tundefined tn_tundefined;
typedef struct tn_titer tn_titer;
typedef struct tn_trange tn_trange;
typedef struct tn_tmacro tn_tmacro;
typedef struct tn_tfunction tn_tfunction;
typedef struct tn_tmethod tn_tmethod;
typedef struct tn_tloop tn_tloop;
typedef struct tn_tcycler tn_tcycler;

typedef struct tn_tval {
    tn_tkind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const tn_tstr *s;
        const tn_tlist *l; /* list, tuple, view */
        tn_tdict *d;       /* dict; a namespace changes it */
        const tn_tundefined *u;
        tn_titer *it;
        const tn_trange *range;
        const tn_tmacro *macro;
        const tn_tfunction *function;
        const tn_tmethod *method;
        tn_tloop *loop;
        tn_tcycler *cycler; /* and joiner */
    };
} tn_tval;

/* UTF-8, immutable, with the ranges that came from the caller. */
struct tn_tstr {
    const char *p;
    size_t n, n_chars; /* bytes, code points */
    const tn_range_pair *data;
    size_t n_data;
    bool markup; /* "safe" as jinja2's escape filters make it: + and % escape what joins it */
};

struct tn_tlist {
    tn_tval *v;
    size_t n, cap;
    enum { TN_TLIST_PLAIN, TN_TLIST_GROUP, TN_TLIST_KEYS, TN_TLIST_VALUES, TN_TLIST_ITEMS } role;
};

typedef struct tn_tpair {
    tn_tval key, value;
    uint64_t hash;
} tn_tpair;

struct tn_tdict { /* in the order of insertion */
    tn_tpair *v;
    size_t n, cap;
    uint32_t *index; /* of positions + 1 by hash, 2 * cap entries; NULL while the dict is small */
    size_t n_index;
};

struct tn_tundefined {
    const char *message; /* of the error that a use makes */
};

struct tn_trange {
    int64_t start, stop, step, n;
};

#define TN_TNONE    ((tn_tval){.kind = TN_T_NONE})
#define TN_TMISSING ((tn_tval){.kind = TN_T_MISSING})

static inline tn_tval tn_tbool(bool b) {
    return (tn_tval){.kind = TN_T_BOOL, .b = b};
}
static inline tn_tval tn_tint(int64_t i) {
    return (tn_tval){.kind = TN_T_INT, .i = i};
}
static inline tn_tval tn_tfloat(double f) {
    return (tn_tval){.kind = TN_T_FLOAT, .f = f};
}
static inline tn_tval tn_tstring(const tn_tstr *s) {
    return (tn_tval){.kind = TN_T_STR, .s = s};
}

/* Of a literal of ours; n bytes, borrowed. */
tn_tval tn_ttext(tn_tmem *m, const char *p, size_t n);
tn_tval tn_tliteral(tn_tmem *m, const char *text);

/* The message may hold bytes of any value. */
tn_tval tn_tundef(tn_tmem *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void tn_tfail_undefined(tn_tmem *m, tn_tval v);

/* "dict", "str", ... */
const char *tn_ttype_name(tn_tval v);

/* ---- Strings (template_str.c) -------------------------------------------------------------------------- */

/* Bytes [begin, end) with their ranges. */
const tn_tstr *tn_tstr_slice(tn_tmem *m, const tn_tstr *s, size_t begin, size_t end);
bool tn_tstr_is_data(const tn_tstr *s, size_t at);
bool tn_tstr_equal(const tn_tstr *a, const tn_tstr *b);
bool tn_tstr_is(const tn_tstr *s, const char *text);
int tn_tstr_compare(const tn_tstr *a, const tn_tstr *b); /* by code points */
size_t tn_tstr_byte_of(const tn_tstr *s, size_t i_char); /* i_char <= n_chars */
size_t tn_tstr_char_of(const tn_tstr *s, size_t i_byte);
/* The first place at or after `from` (the last one before `end`), or SIZE_MAX. */
size_t tn_tstr_find(tn_tmem *m, const tn_tstr *s, size_t from, size_t end, const tn_tstr *what);
size_t tn_tstr_rfind(tn_tmem *m, const tn_tstr *s, size_t from, size_t end, const tn_tstr *what);

/* Grows by appending; what is appended keeps its ranges. */
typedef struct tn_tbuf {
    tn_tmem *m;
    char *p;
    size_t n, cap;
    tn_range_pair *data;
    size_t n_data, cap_data;
    size_t max; /* bytes; 0: as the memory allows */
} tn_tbuf;

void tn_tbuf_bytes(tn_tbuf *b, const char *p, size_t n, bool is_data);
void tn_tbuf_text(tn_tbuf *b, const char *text);
void tn_tbuf_char(tn_tbuf *b, uint32_t code, bool is_data);
void tn_tbuf_slice(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end);
void tn_tbuf_str(tn_tbuf *b, const tn_tstr *s);
/* A fill that was asked for n times. */
void tn_tbuf_repeat(tn_tbuf *b, const tn_tstr *s, int64_t n);
tn_tval tn_tbuf_done(tn_tbuf *b);

/* The code point at byte i, which moves past it. Strings are valid UTF-8: JSON and the parser see to that. */
uint32_t tn_tnext_char(const tn_tstr *s, size_t *i);

/* ---- Lists and dicts (template_value.c) ---------------------------------------------------------------- */

tn_tlist *tn_tlist_new(tn_tmem *m, size_t cap);
void tn_tlist_add(tn_tmem *m, tn_tlist *l, tn_tval v);
tn_tval tn_tlist_val(const tn_tlist *l);
tn_tval tn_ttuple_val(const tn_tlist *l);
tn_tval tn_tpair_val(tn_tmem *m, tn_tval a, tn_tval b);

tn_tdict *tn_tdict_new(tn_tmem *m, size_t cap);
void tn_tdict_set(tn_tmem *m, tn_tdict *d, tn_tval key, tn_tval value);
/* NULL if absent; an error for a key that cannot be one. */
tn_tpair *tn_tdict_find(tn_tmem *m, const tn_tdict *d, tn_tval key);
tn_tpair *tn_tdict_find_str(tn_tmem *m, const tn_tdict *d, const tn_tstr *key);

/* Python's bool(), ==, and hash(). */
bool tn_ttruth(tn_tmem *m, tn_tval v);
bool tn_tequal(tn_tmem *m, tn_tval a, tn_tval b);
uint64_t tn_thash(tn_tmem *m, tn_tval v);
/* < 0, 0, > 0; an error for values without an order. `op` is for the message. */
int tn_tcompare(tn_tmem *m, tn_tval a, tn_tval b, const char *op);

static inline bool tn_tis_number(tn_tval v) {
    return v.kind == TN_T_INT || v.kind == TN_T_FLOAT || v.kind == TN_T_BOOL;
}
/* Of an int or a bool. */
static inline int64_t tn_tint_of(tn_tval v) {
    return v.kind == TN_T_BOOL ? v.b : v.i;
}
static inline double tn_tdouble_of(tn_tval v) {
    return v.kind == TN_T_FLOAT ? v.f : (double)tn_tint_of(v);
}

/* ---- As text (template_print.c) ------------------------------------------------------------------------ */

/* Python's str() and repr(). */
void tn_tprint(tn_tbuf *b, tn_tval v);
void tn_trepr(tn_tbuf *b, tn_tval v);
const tn_tstr *tn_tstr_of(tn_tmem *m, tn_tval v);
/* repr() of a double as Python prints it, NUL-terminated. */
enum { TN_TFLOAT_CHARS = 32 };
void tn_tfloat_repr(double f, char dst[TN_TFLOAT_CHARS]);

#endif
