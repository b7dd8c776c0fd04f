/* Matches a grammar byte by byte.
 *
 * A state is a set of places in rules, each with the set of places to return to; both kinds of set are kept once (equal sets
 * have equal numbers), so that ambiguity does not multiply them. All calls of a rule at one position share one set of returns:
 * as in Earley's parser (1970), whose items these are. The first step from a state by a byte is computed, every further one is
 * looked up. All memory is reserved when the matcher is made, and is touched only as it is used. */
#ifndef TN_TEXT_MATCHER_H
#define TN_TEXT_MATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/status.h"
#include "grammar.h"

typedef struct tn_matcher tn_matcher;

/* Numbers of states: what no text can reach, and what has no room. */
enum { TN_STATE_FULL = 0, TN_STATE_DEAD = 1, TN_MAX_STATES = 1 << 15 };

/* The grammar must outlive the matcher. *start is the state before any byte. */
tn_status tn_matcher_new(const tn_grammar *grammar, tn_matcher **out, uint32_t *start, tn_error *err);
void tn_matcher_free(tn_matcher *m); /* NULL is fine */

/* The state behind a byte; TN_STATE_FULL when memory is used up (tn_matcher_compact helps). */
uint32_t tn_matcher_step(tn_matcher *m, uint32_t state, uint8_t byte);

bool tn_matcher_may_end(const tn_matcher *m, uint32_t state);  /* what was read is whole */
bool tn_matcher_must_end(const tn_matcher *m, uint32_t state); /* ... and no byte can follow */

/* Forgets every state but this one, and returns its new number; TN_STATE_FULL if it alone takes most of the memory. */
uint32_t tn_matcher_compact(tn_matcher *m, uint32_t state);

#endif
