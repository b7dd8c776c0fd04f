/* The tree of a template: made by the parser, its names bound to slots by template_scope.c, then only read. */
#ifndef TN_TEXT_TEMPLATE_NODE_H
#define TN_TEXT_TEMPLATE_NODE_H

#include "template_lexer.h"

typedef enum tn_tnode_kind {
    /* expressions */
    TN_N_CONST, /* value; template text too */
    TN_N_NAME,
    TN_N_NSREF, /* name.attribute as a target */
    TN_N_LIST,  /* items */
    TN_N_TUPLE,
    TN_N_DICT,    /* items: keys, more: values */
    TN_N_GETATTR, /* a . name */
    TN_N_GETITEM, /* a [ b ] */
    TN_N_SLICE,   /* a : b : c, each may be NULL */
    TN_N_CALL,    /* a ( args ) */
    TN_N_FILTER,  /* a | name ( args ); a is NULL in a filter block */
    TN_N_TEST,    /* a is name ( args ) */
    TN_N_NOT,     /* a */
    TN_N_NEG,
    TN_N_POS,
    TN_N_BINARY,  /* a op b */
    TN_N_AND,     /* a, b */
    TN_N_OR,      /* a, b */
    TN_N_CONCAT,  /* items */
    TN_N_COMPARE, /* a, items: operands */
    TN_N_OPERAND, /* op, a */
    TN_N_COND,    /* b if a else c (or NULL) */
    /* statements */
    TN_N_OUTPUT,       /* items */
    TN_N_IF,           /* items: clauses */
    TN_N_CLAUSE,       /* if a (NULL: else), items */
    TN_N_FOR,          /* for a in b if c; items, else more; d: a again, for the test */
    TN_N_SET,          /* a = b */
    TN_N_SET_BLOCK,    /* a = body, through the filters b (or NULL) */
    TN_N_MACRO,        /* name ( items = more ): body */
    TN_N_CALL_BLOCK,   /* ( items = more ) a: body; a NULL: the generation tag */
    TN_N_FILTER_BLOCK, /* items through the filters c */
    TN_N_WITH,         /* items = more: body */
    TN_N_BLOCK,        /* name: items */
    TN_N_BREAK,
    TN_N_CONTINUE,
} tn_tnode_kind;

typedef enum tn_tbinary {
    TN_B_ADD,
    TN_B_SUB,
    TN_B_MUL,
    TN_B_DIV,
    TN_B_FLOORDIV,
    TN_B_MOD,
    TN_B_POW,
    TN_B_EQ, /* from here on of a comparison */
    TN_B_NE,
    TN_B_LT,
    TN_B_LE,
    TN_B_GT,
    TN_B_GE,
    TN_B_IN,
    TN_B_NOT_IN,
} tn_tbinary;

typedef struct tn_tnode tn_tnode;

typedef struct tn_tnodes {
    tn_tnode **v;
    size_t n, cap;
} tn_tnodes;

typedef struct tn_tcall_args {
    tn_tnodes positional, named;
    const tn_tstr **names; /* of named */
    tn_tnode *star, *star_star;
} tn_tcall_args;

/* A variable: so many functions out, that slot. */
typedef struct tn_tref {
    uint32_t up, slot;
} tn_tref;

/* How a slot gets its value when its scope is entered. */
typedef struct tn_tload {
    enum { TN_LOAD_PARAMETER, TN_LOAD_RESOLVE, TN_LOAD_ALIAS, TN_LOAD_UNDEFINED } kind;
    uint32_t slot;
    const tn_tstr *name; /* RESOLVE: in the variables of the rendering */
    tn_tref from;        /* ALIAS */
} tn_tload;

typedef struct tn_tscope {
    tn_tload *loads;
    size_t n_loads;
    uint32_t n_slots; /* of the function, if the scope is one */
} tn_tscope;

typedef struct tn_tmacro_code {
    const tn_tnode *node; /* TN_N_MACRO or TN_N_CALL_BLOCK */
    tn_tscope scope;
    tn_tref *parameters; /* of node->items */
    bool has_caller, has_kwargs, has_varargs, explicit_caller;
    tn_tref caller, kwargs, varargs;
} tn_tmacro_code;

typedef struct tn_tfor_code {
    bool recursive;
    tn_tscope scope, else_scope, test_scope;
    tn_tref loop;
    uint32_t n_slots; /* of the recursive loop's function */
} tn_tfor_code;

struct tn_tnode {
    tn_tnode_kind kind;
    tn_tbinary op;
    uint32_t line;
    bool stores;  /* a name that is a target */
    bool exports; /* a target that blocks see */
    tn_tval value;
    const tn_tstr *name, *attribute;
    tn_tnode *a, *b, *c, *d;
    tn_tnodes items, more, body;
    tn_tcall_args *args;
    tn_tref ref;
    const void *function; /* of a filter or test; NULL: unknown, an error when it is reached */
    tn_tscope *scope;     /* of set blocks, filter blocks, with, block */
    tn_tmacro_code *macro;
    tn_tfor_code *loop;
};

struct tn_template {
    tn_tmem m;
    tn_tnodes body;
    tn_tscope scope;
    tn_tdict *blocks; /* names */
};

typedef struct tn_tparser {
    tn_tmem *m;
    tn_tlexer lexer;
    uint32_t loops; /* around the statement, in its function */
    tn_tdict *blocks;
} tn_tparser;

/* ---- Parsing (template_expr.c, template_parse.c) ------------------------------------------------------- */

tn_tnode *tn_tnode_new(tn_tparser *p, tn_tnode_kind kind, uint32_t line);
void tn_tnodes_add(tn_tmem *m, tn_tnodes *list, tn_tnode *node);

bool tn_tparser_is(const tn_tparser *p, tn_ttoken_kind kind);
bool tn_tparser_is_name(const tn_tparser *p, const char *name);
bool tn_tparser_skip(tn_tparser *p, tn_ttoken_kind kind);
bool tn_tparser_skip_name(tn_tparser *p, const char *name);
/* The token, which must be of the kind; moves past it. */
tn_ttoken tn_tparser_expect(tn_tparser *p, tn_ttoken_kind kind);
_Noreturn void tn_tparser_unexpected(tn_tparser *p);

tn_tnode *tn_tparse_expression(tn_tparser *p);
/* One expression, or several with commas as a tuple, up to `end_name` if that is not NULL. */
tn_tnode *tn_tparse_tuple(tn_tparser *p, bool with_condition, const char *end_name, bool parenthesized);
/* "| filter | ..." behind `node`; with `inline_start` the first one's '|' is left out. */
tn_tnode *tn_tparse_filters(tn_tparser *p, tn_tnode *node, bool inline_start);
tn_tnode *tn_tparse_target(tn_tparser *p, const char *end_name, bool with_namespace);
tn_tnode *tn_tparse_name_target(tn_tparser *p);

/* Fills t->body and t->blocks. */
void tn_tparse(tn_tmem *m, struct tn_template *t, const char *source, size_t n);

/* Binds names and filters (template_scope.c). */
void tn_tbind(struct tn_template *t);

#endif
