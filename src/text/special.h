/* Tokens that are cut out of the text before anything else: control and user-defined ones. */
#ifndef TN_TEXT_SPECIAL_H
#define TN_TEXT_SPECIAL_H

#include "prefixes.h"
#include "range.h"

typedef enum tn_special_kinds { TN_SPECIAL_CONTROL = 1, TN_SPECIAL_USER = 2 } tn_special_kinds;

/* The first place in text[0 .. n) where a token of these kinds stands, the longest there; NULL if there is
 * none. *at is the place, n if there is none. */
const tn_prefix *tn_special_next(const tn_prefixes *specials, unsigned kinds, const char *text, size_t n,
                                 size_t *at);

/* Texts that are only text: control tokens that have a byte in one of the ranges are none. */
typedef struct tn_plain_ranges {
    const tn_range_pair *ranges;
    size_t n;
} tn_plain_ranges;

/* The same in text[from .. n), with ranges of text; `plain` moves along: its ranges that end at or before `from` are dropped. */
const tn_prefix *tn_special_next_outside(const tn_prefixes *specials, unsigned kinds, const char *text,
                                         size_t n, size_t from, tn_plain_ranges *plain, size_t *at);

#endif
