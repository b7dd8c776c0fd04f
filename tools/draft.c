#include "draft.h"

#include <string.h>

/* The smaller model, with a context as long as the other's. */
static int open_model(tn_draft *draft, const tn_options *options) {
    tern_model_options open;
    tern_session_options session;
    tern_error err;
    tern_model_options_defaults(&open);
    tn_cli_session_options(options, &session);
    if (tern_model_open(options->draft, &open, &draft->model, &err) != TERN_OK ||
        tern_session_new(draft->model, &session, &draft->session, &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    return TN_EXIT_DONE;
}

int tn_draft_open(tn_draft *draft, const tn_options *options) {
    const char *word = options->draft ? options->draft : "lookup";
    *draft = (tn_draft){.n_outputs = TERN_DRAFT_OUTPUTS};
    if (options->n_batch && draft->n_outputs > (uint32_t)options->n_batch)
        draft->n_outputs = (uint32_t)options->n_batch;
    if (strcmp(word, "none") == 0) draft->n_outputs = 1;
    return strcmp(word, "none") == 0 || strcmp(word, "lookup") == 0 ? TN_EXIT_DONE
                                                                    : open_model(draft, options);
}

void tn_draft_close(tn_draft *draft) {
    tern_session_free(draft->session);
    tern_model_close(draft->model);
}
