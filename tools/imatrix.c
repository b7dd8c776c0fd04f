/* tern imatrix: which columns of the weights matter for a text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "chunks.h"
#include "cli.h"
#include "terminal.h"

static const char help[] = "usage: tern imatrix -m M.gguf -f TEXT -o OUT.gguf [options]\n"
                           "Writes an importance matrix: for each column of the weights the sum of the\n"
                           "squares of what it is multiplied by. tern quantize reads it.\n"
                           "\n"
                           "  -m, --model FILE    the model, best in F16, BF16 or F32\n"
                           "  -f, --file FILE     the text; - is standard input\n"
                           "  -o, --output FILE   where to\n"
                           "  -c, --ctx N         tokens of a chunk, evaluated on its own (512)\n"
                           "  -b, --batch N       tokens computed at once (512)\n"
                           "  -t, --threads N     threads (the cores this process may use)\n"
                           "  --arch-file FILE    YAML description that adds or replaces an architecture\n"
                           "  --pre NAME          pre-tokenizer to use, whatever the file says\n"
                           "  -q, --quiet         no warnings, no summary\n"
                           "  -h, --help          this text\n";

static bool show_progress(void *user, uint64_t done, uint64_t total) {
    (void)user;
    tn_progress_show("chunks", done, total);
    return !tn_cli_interrupted();
}

static int measure(const tn_options *o, const tern_model *model, const tn_chunks *text) {
    tern_imatrix_options config;
    tern_error err;
    const double start = tn_seconds();
    tern_imatrix_options_defaults(&config);
    config.n_ctx = text->n_ctx;
    if (o->n_batch) config.n_batch = (uint32_t)o->n_batch;
    config.n_threads = (uint32_t)o->n_threads;
    config.dataset = o->file;
    config.progress = show_progress;
    const size_t n_ids = (size_t)text->n_chunks * text->n_ctx;
    const tern_status status = tern_imatrix(model, text->ids, n_ids, &config, o->output, &err);
    tn_progress_clear();
    if (status != TERN_OK) return tn_cli_fail_library(&err);
    if (!o->quiet)
        fprintf(stderr, "%" PRIu32 " chunks of %" PRIu32 " tokens in %.1f s\n", text->n_chunks, text->n_ctx,
                tn_seconds() - start);
    return TN_EXIT_DONE;
}

static int run(const tn_options *options) {
    int exit_code;
    tn_chunks text = {0};
    tern_model *model = tn_cli_open_model(options, TERN_OPEN_ALL, &exit_code);
    if (!model) return exit_code;
    exit_code = tn_chunks_read(options, model, &text);
    if (!exit_code) exit_code = measure(options, model, &text);
    tern_free(text.ids);
    tern_model_close(model);
    return exit_code;
}

const tn_command tn_command_imatrix = {
    .name = "imatrix",
    .summary = "measure which weights matter, for quantize --imatrix",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(FILE) | TN_ACCEPT(OUTPUT) | TN_ACCEPT(CTX) | TN_ACCEPT(BATCH) |
                TN_ACCEPT(THREADS) | TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL) | TN_ACCEPT(FILE) | TN_ACCEPT(OUTPUT),
    .run = run,
};
