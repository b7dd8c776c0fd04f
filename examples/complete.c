/* Text that follows a prompt, as it is made.
 *
 *     complete MODEL.gguf PROMPT [TOKENS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

static int fail(const tern_error *err) {
    fprintf(stderr, "complete: error: %s\n", err->message);
    return 1;
}

static int generate(tern_session *session, const int32_t *ids, size_t n_ids, uint64_t n_tokens) {
    tern_error err;
    tern_generator *generator;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.max_tokens = n_tokens;
    if (tern_generator_new(session, &options, ids, n_ids, &generator, &err) != TERN_OK) return fail(&err);

    tern_status status = TERN_OK;
    tern_stop_reason stop = TERN_STOP_NONE;
    while (status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(generator, &text, &n, &stop, &err);
        if (status == TERN_OK) fwrite(text, 1, n, stdout);
        fflush(stdout);
    }
    tern_generator_free(generator);
    putchar('\n');
    return status == TERN_OK ? 0 : fail(&err);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: complete MODEL.gguf PROMPT [TOKENS]\n");
        return 2;
    }
    const uint64_t n_tokens = argc > 3 ? strtoull(argv[3], NULL, 10) : 64;
    tern_error err;
    tern_model *model = NULL;
    tern_session *session = NULL;
    int32_t *ids = NULL;
    size_t n_ids;
    int exit_code = 0;

    /* What failed left nothing behind, so that all may be freed whatever was made. */
    if (tern_model_open(argv[1], NULL, &model, &err) != TERN_OK ||
        tern_tokenize(model, argv[2], strlen(argv[2]), TERN_TOKENIZE_BOS | TERN_TOKENIZE_OPEN, &ids, &n_ids,
                      &err) != TERN_OK ||
        tern_session_new(model, NULL, &session, &err) != TERN_OK ||
        tern_session_eval(session, ids, n_ids, 1, &err) != TERN_OK)
        exit_code = fail(&err);
    else
        exit_code = generate(session, ids, n_ids, n_tokens);
    tern_session_free(session);
    tern_free(ids);
    tern_model_close(model);
    return exit_code;
}
