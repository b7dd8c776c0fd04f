/* Text from a session: pick a token, evaluate it, turn it into whole characters, stop where asked. */
#ifndef TN_SESSION_GENERATOR_H
#define TN_SESSION_GENERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../text/constraint.h"
#include "../text/sampler.h"
#include "../text/tokenizer.h"
#include "session.h"
#include "speculation.h"

typedef struct tn_generator tn_generator;

typedef enum tn_stop {
    TN_STOP_NONE,
    TN_STOP_END,
    TN_STOP_STRING,
    TN_STOP_LIMIT,
    TN_STOP_FULL,
    TN_STOP_COMPLETE
} tn_stop;

typedef struct tn_generated {
    tn_stop stop;
    uint64_t n_tokens, n_guessed,
        n_right;             /* n_guessed: evaluated as drafts; n_right: those of them that became text */
    double first_s, seconds; /* in the call that made the first token; in all calls */
} tn_generated;

typedef struct tn_generator_config {
    tn_sampler_params sampling;
    uint64_t max_tokens;
    const char *const *stop; /* n_stop strings, copied; none may be empty */
    size_t n_stop;
    bool ignore_end, special;
    size_t
        n_begun; /* the last tokens of the prompt that are the beginning of the text: shown, and met by the constraint */
    tn_constraint *constraint; /* NULL: none; at its start, and must outlive the generator */
    uint32_t n_logprobs;       /* of how many tokens beside the one made; meant if want_logprobs */
    bool want_logprobs;
    bool plain; /* evaluate each token by itself; else several at once where that pays (speculation.h) */
    tn_session *draft; /* of a smaller model with the same vocabulary, NULL: drafts come from the text */
} tn_generator_config;

/* session, draft and tokenizer must outlive the generator; the session must hold logits. Drafts are evaluated ahead as far as the
 * session keeps rows of logits for them; those that did not become text are taken back at the end and when the generator is freed. */
tn_status tn_generator_new(tn_session *session, const tn_tokenizer *tok, const tn_generator_config *config,
                           const int32_t *prompt, size_t n_prompt, tn_generator **out, tn_error *err);
void tn_generator_free(tn_generator *generator); /* NULL is fine */

/* One token; (*text, *n) is what can be shown now, owned by the generator until its next call. */
tn_status tn_generator_next(tn_generator *generator, const char **text, size_t *n, tn_stop *stop,
                            tn_error *err);

tn_generated tn_generator_result(const tn_generator *generator); /* so far */
int32_t tn_generator_token(const tn_generator *generator);       /* the last one made, -1 before */

/* *n of them: of the last token made, then of the n_logprobs likeliest; NULL before the first or if not wanted. */
const tn_logprob *tn_generator_logprobs(const tn_generator *generator, size_t *n);

const tn_sampler *tn_generator_sampler(const tn_generator *generator);

#endif
