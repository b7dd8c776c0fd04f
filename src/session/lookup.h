/* What followed when the end of a text stood in it before. */
#ifndef TN_SESSION_LOOKUP_H
#define TN_SESSION_LOOKUP_H

#include <stdint.h>

enum { TN_LOOKUP_MATCH = 32 }; /* matches are not told apart beyond this length */

/* Of the places in ids[0..n - 1] that end as the whole does, finds the one with the longest match, the last among equals, and
 * copies the max tokens behind it to draft; where those reach the end, the draft goes on with itself. Returns the length
 * of the match, 0 if there is none. Linear time. */
uint32_t tn_lookup(const int32_t *ids, uint32_t n, int32_t *draft, uint32_t max);

#endif
