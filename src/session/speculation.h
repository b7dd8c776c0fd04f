/* Guesses of the tokens that come next, so that one evaluation can make several: what was guessed right needs no evaluation of
 * its own. The text is the same with and without; what is decided here is a matter of time alone.
 *
 * A guess is a draft of a few tokens: what followed when the same tokens stood in the text before (prompt lookup, Saxena 2023),
 * or what a smaller model says (Leviathan et al. 2023, without their change of the sampling). How many of its tokens are worth
 * evaluating is computed from what was seen so far: how often drafts of this class were right, and what evaluations of n tokens
 * cost beside those of one. Where nothing pays, nothing is drafted. */
#ifndef TN_SESSION_SPECULATION_H
#define TN_SESSION_SPECULATION_H

#include <stdint.h>

#include "session.h"

enum { TN_MAX_DRAFT = 15, TN_DRAFT_CLASSES = 8 };

typedef struct tn_speculation {
    tn_session *model; /* the smaller one; NULL: lookup */
    int32_t draft[TN_MAX_DRAFT];
    uint8_t class[TN_MAX_DRAFT];
    uint32_t n_draft, n_checked;    /* drafted, evaluated or not; of those, found right */
    double right[TN_DRAFT_CLASSES]; /* share of tokens that were */
    double cost[TN_MAX_DRAFT + 2];  /* of evaluating n tokens, relative to one */
    uint32_t n_plain;         /* evaluations of one token before the first draft, to know what they take */
    double one_s, draft_s;    /* seconds of evaluating one token, here and by the smaller model; 0: unknown */
    uint32_t pause, n_paused; /* a model that does not pay is asked again after `pause` tokens */
    uint64_t n_evaluated, n_right; /* draft tokens that were evaluated; those of them that became text */
    uint32_t n_sent;               /* of this draft, evaluated */
} tn_speculation;

void tn_speculation_start(tn_speculation *spec, tn_session *model);

/* Drafts what may follow ids[0..n - 1], n >= 1. Returns how many tokens of spec->draft are worth evaluating, at most max. */
uint32_t tn_speculation_draft(tn_speculation *spec, const int32_t *ids, uint32_t n, uint32_t max);

/* Tells how long the evaluation took of one token and n_sent drafted ones behind it. */
void tn_speculation_timed(tn_speculation *spec, uint32_t n_sent, double seconds);

/* Tells the token that came next in truth. */
void tn_speculation_learn(tn_speculation *spec, int32_t token);

#endif
