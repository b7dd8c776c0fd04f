#include "chunks.h"

#include <stdlib.h>

#include "cli.h"

int tn_chunks_read(const tn_options *options, const tern_model *model, tn_chunks *out) {
    tn_text text;
    size_t n = 0;
    tern_error err;
    *out = (tn_chunks){.n_ctx = options->n_ctx ? (uint32_t)options->n_ctx : 512};
    if (out->n_ctx < 4) return tn_cli_fail_usage(options->command, "-c: expected at least 4");
    int failed = tn_cli_read(options->file, &text);
    if (failed) return failed;
    if (tern_tokenize_chunks(model, text.bytes, text.n, out->n_ctx, &out->ids, &n, &err) != TERN_OK)
        failed = tn_cli_fail_library(&err);
    free(text.bytes);
    if (failed) return failed;
    if (!n)
        return tn_cli_fail("the text is too short: %s: expected at least a chunk of %u tokens (-c)",
                           options->file, out->n_ctx);
    out->n_chunks = (uint32_t)(n / out->n_ctx);
    return TN_EXIT_DONE;
}
