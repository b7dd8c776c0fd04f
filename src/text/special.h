/* Tokens that are cut out of the text before anything else: control and user-defined ones. */
#ifndef TN_TEXT_SPECIAL_H
#define TN_TEXT_SPECIAL_H

#include "prefixes.h"

typedef enum tn_special_kinds { TN_SPECIAL_CONTROL = 1, TN_SPECIAL_USER = 2 } tn_special_kinds;

/* The first place in text[0 .. n) where a token of these kinds stands, the longest there; NULL if there is
 * none. *at is the place, n if there is none. */
const tn_prefix *tn_special_next(const tn_prefixes *specials, unsigned kinds, const char *text, size_t n,
                                 size_t *at);

#endif
