/* Texts of tokens, kept sorted, and a walk down them: which of them does a text begin with?
 *
 * The walk narrows a range of the list one byte at a time: a trie without its nodes, so that memory does not grow
 * with the texts' length. */
#ifndef TN_TEXT_PREFIXES_H
#define TN_TEXT_PREFIXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_prefix {
    const char *text; /* borrowed */
    uint32_t len, id; /* len >= 1 */
    bool control;     /* for the special tokens: control or unknown; else user-defined */
} tn_prefix;

typedef struct tn_prefixes {
    tn_prefix *list; /* sorted by text, then id */
    uint32_t n;
    uint32_t first[257]; /* list[first[b] .. first[b + 1]) begin with byte b */
} tn_prefixes;

/* Sorts the n entries of the list, which must outlive the set. */
void tn_prefixes_init(tn_prefixes *set, tn_prefix *list, uint32_t n);

/* After depth steps: list[low .. high) are longer than the bytes taken and begin with them, and the n_ending entries
 * at `ending` equal them. All zero but `set` at the start. */
typedef struct tn_prefix_walk {
    const tn_prefixes *set;
    uint32_t low, high, depth;
    const tn_prefix *ending; /* by id */
    uint32_t n_ending;
} tn_prefix_walk;

/* Takes one more byte; false if no entry begins with the bytes taken. */
bool tn_prefix_step(tn_prefix_walk *walk, uint8_t byte);

/* The entry of the lowest id among the longest that the n bytes begin with, or NULL. */
const tn_prefix *tn_prefixes_longest(const tn_prefixes *set, const char *text, size_t n);

#endif
