/* What the files of the grammar share: the automaton.
 *
 * Each rule is a graph of nodes over bytes; characters beyond ASCII are sequences of bytes. Node 0 accepts, node 1 returns. */
#ifndef TN_TEXT_GRAMMAR_IMPL_H
#define TN_TEXT_GRAMMAR_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "grammar.h"

enum { TN_NODE_ACCEPT_ID, TN_NODE_RETURN_ID, TN_N_FIXED_NODES };

typedef enum tn_node_kind {
    TN_NODE_ACCEPT, /* the text may end */
    TN_NODE_RETURN, /* the rule is matched */
    TN_NODE_BYTE,   /* a byte in [low, high], then next */
    TN_NODE_SPLIT,  /* next or other */
    TN_NODE_CALL,   /* rule `other`, then next */
    TN_NODE_JUMP,   /* next; only while parsing */
} tn_node_kind;

typedef struct tn_node {
    uint8_t kind, low, high;
    uint32_t next, other;
} tn_node;

typedef struct tn_rule {
    const char *name; /* in the text, while parsing; NULL for a repeated group */
    uint32_t name_len, line;
    uint32_t start; /* node; 0: not defined */
    uint32_t rank;  /* a rule that begins with another has a lower rank than that one */
    bool nullable;
} tn_rule;

struct tn_grammar {
    tn_node *nodes;
    tn_rule *rules;
    uint32_t n_nodes, cap_nodes, n_rules, cap_rules;
    uint32_t root;
};

/* Removes jumps, finds nullable rules and ranks, and refuses left recursion (grammar_check.c). */
tn_status tn_grammar_check(tn_grammar *g, const char *where, tn_error *err);

/* A piece of the automaton while it is built: `end` is a jump that leads nowhere yet. */
typedef struct tn_fragment {
    uint32_t start, end;
} tn_fragment;

typedef struct tn_char_range {
    uint32_t low, high;
} tn_char_range;

/* A new node; 0 when there are too many or memory is out. */
uint32_t tn_grammar_node(tn_grammar *g, tn_node node);

/* Any one character of the ranges (sorted here and joined; surrogates left out), or of all others; false when tn_grammar_node
 * fails (grammar_chars.c). */
bool tn_grammar_class(tn_grammar *g, tn_char_range *ranges, uint32_t n, bool negated, tn_fragment *out);

#endif
