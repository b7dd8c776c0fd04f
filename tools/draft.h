/* --draft: where guesses of the next tokens come from. */
#ifndef TN_TOOLS_DRAFT_H
#define TN_TOOLS_DRAFT_H

#include "cli.h"

typedef struct tn_draft {
    uint32_t n_outputs; /* rows of logits that the session must keep for the guesses */
    tern_model *model;
    tern_session *session; /* NULL unless a smaller model guesses */
} tn_draft;

/* Returns the exit code. What is not said is guessed from the text. */
int tn_draft_open(tn_draft *draft, const tn_options *options);
void tn_draft_close(tn_draft *draft);

#endif
