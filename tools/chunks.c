#include "chunks.h"

#include <stdlib.h>

#include "cli.h"

/* The token that tokenizing puts before a text, -1 if none. */
static int32_t first_token(const tern_model *model) {
    int32_t *with = NULL, *without = NULL, bos = -1;
    size_t n_with, n_without;
    if (tern_tokenize(model, "a", 1, TERN_TOKENIZE_BOS, &with, &n_with, NULL) == TERN_OK &&
        tern_tokenize(model, "a", 1, 0, &without, &n_without, NULL) == TERN_OK && n_with && n_without &&
        with[0] != without[0])
        bos = with[0];
    tern_free(with), tern_free(without);
    return bos;
}

int tn_chunks_read(const tn_options *options, const tern_model *model, tn_chunks *out) {
    tn_text text;
    size_t n = 0;
    tern_error err;
    *out = (tn_chunks){.n_ctx = options->n_ctx ? (uint32_t)options->n_ctx : 512};
    if (out->n_ctx < 4) return tn_cli_fail_usage(options->command, "-c: expected at least 4");
    int failed = tn_cli_read(options->file, &text);
    if (failed) return failed;
    if (tern_tokenize(model, text.bytes, text.n, TERN_TOKENIZE_BOS, &out->ids, &n, &err) != TERN_OK)
        failed = tn_cli_fail_library(&err);
    free(text.bytes);
    if (failed) return failed;
    if (n < out->n_ctx)
        return tn_cli_fail(
            "the text is too short: %s: expected at least a chunk of %u tokens (-c), found %zu",
            options->file, out->n_ctx, n);
    out->n_chunks = (uint32_t)(n / out->n_ctx);
    const int32_t bos = first_token(model);
    for (uint32_t chunk = 0; chunk < out->n_chunks && bos >= 0; chunk++)
        out->ids[(size_t)chunk * out->n_ctx] = bos;
    return TN_EXIT_DONE;
}
