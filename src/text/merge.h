/* The merge loop that both kinds of byte-pair encoding share.
 *
 * Symbols stand in a doubly linked list. Of all neighbouring pairs that can merge, the one of the lowest rank
 * goes first, the leftmost among equals, until none is left. A heap of (rank, position) makes that O(n log
 * n); entries whose pair has changed since are recognised when they come up. */
#ifndef TN_TEXT_MERGE_H
#define TN_TEXT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vocab_index.h"

typedef struct tn_symbol {
    uint32_t prev, next; /* positions, or TN_NO_SYMBOL */
    uint32_t start, len; /* bytes of the text it stands for */
    uint32_t id;         /* TN_NO_TOKEN if no token has this text */
    uint32_t pair_id;    /* the token that this and the next symbol merge into, or TN_NO_TOKEN */
    uint32_t pair_rank;
} tn_symbol;

#define TN_NO_SYMBOL UINT32_MAX

/* One merge that was made: symbol `right` went into symbol `left`, which stood for left_id before. */
typedef struct tn_merge_event {
    uint32_t left, right, left_id;
} tn_merge_event;

/* Reused from piece to piece; all zero at the start. */
typedef struct tn_merge_work {
    tn_symbol *symbols;
    uint64_t *heap; /* rank << 32 | position, smallest first */
    tn_merge_event *events;
    size_t cap, heap_len, n_events;
} tn_merge_work;

/* Makes room for n symbols; events are kept only if asked for here. False when memory is out. */
bool tn_merge_reserve(tn_merge_work *work, size_t n, bool keep_events);
void tn_merge_free(tn_merge_work *work);

/* Sets left->pair_id and left->pair_rank for the pair (left, right). */
typedef void tn_pair_fn(const void *user, tn_symbol *left, const tn_symbol *right);

/* Merges symbols[0 .. n), n >= 1, of which start, len and id are set; the list that starts at 0 is the
 * result. */
void tn_merge_run(tn_merge_work *work, size_t n, tn_pair_fn *pair, const void *user);

#endif
