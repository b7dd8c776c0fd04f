/* Tokens that are cut out of the text before anything else: control and user-defined ones.
 *
 * They are kept sorted, and the longest one that the text begins with is found by narrowing a range of the
 * list one byte at a time: a trie without its nodes, so that memory does not grow with the tokens' length. */
#ifndef TN_TEXT_SPECIAL_H
#define TN_TEXT_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_special {
    const char *text; /* borrowed */
    uint32_t len, id;
    bool control; /* control or unknown; else user-defined */
} tn_special;

typedef struct tn_specials {
    tn_special *list; /* sorted by text, then id */
    uint32_t n;
    uint32_t first[257]; /* list[first[b] .. first[b + 1]) begin with byte b */
} tn_specials;

typedef enum tn_special_kinds { TN_SPECIAL_CONTROL = 1, TN_SPECIAL_USER = 2 } tn_special_kinds;

/* Sorts the n entries of list and takes them over. */
void tn_specials_init(tn_specials *specials, tn_special *list, uint32_t n);
void tn_specials_free(tn_specials *specials);

/* The first place in text[0 .. n) where a token of these kinds stands, the longest there; NULL if there is
 * none. *at is the place, n if there is none. */
const tn_special *tn_specials_next(const tn_specials *specials, unsigned kinds, const char *text, size_t n,
                                   size_t *at);

#endif
