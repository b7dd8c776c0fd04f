/* What a grammar lets follow, in tokens.
 *
 * A constraint walks a grammar along with the text that is made. The tokens that may come next are a set of bits, found by one
 * walk over the vocabulary in the order of its bytes and kept for each state of the matcher, since states return. A token may
 * end inside a character. Control tokens are never allowed, but for those that end a turn: these where the grammar may end. */
#ifndef TN_TEXT_CONSTRAINT_H
#define TN_TEXT_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/status.h"
#include "grammar.h"
#include "tokenizer.h"

typedef struct tn_constraint tn_constraint;

/* Takes the grammar over, on failure too. tok must outlive the constraint; n_vocab: tokens in a mask, at least the tokenizer's.
 * allow_end: end tokens are allowed where the grammar may end. */
tn_status tn_constraint_new(tn_grammar *grammar, const tn_tokenizer *tok, uint32_t n_vocab, bool allow_end,
                            tn_constraint **out, tn_error *err);
void tn_constraint_free(tn_constraint *c); /* NULL is fine */

/* *mask: bit id of word id / 64 for each token that may come next, at least one; owned by the constraint, until its next
 * call. TN_ERR_UNSUPPORTED if no token can follow, or if the grammar is too ambiguous or too deep. No allocation. */
tn_status tn_constraint_mask(tn_constraint *c, const uint64_t **mask, tn_error *err);

/* Whether the mask would have this token; cheaper. */
bool tn_constraint_allows(tn_constraint *c, int32_t token);

/* Moves on by a token that is allowed and not an end token. */
tn_status tn_constraint_accept(tn_constraint *c, int32_t token, tn_error *err);

/* Whether the text so far is whole, and nothing can follow it. */
bool tn_constraint_is_complete(const tn_constraint *c);

/* Whether the text so far is whole. */
bool tn_constraint_may_end(const tn_constraint *c);

#endif
