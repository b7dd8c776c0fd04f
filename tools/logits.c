/* tern logits: the raw logits of given tokens, for scripts and tests. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "ids.h"
#include "output.h"

static const char help[] = "usage: tern logits -m M.gguf --ids \"1 2 3\" -o FILE [options]\n"
                           "Writes logits as little-endian float32: n_vocab values for the last token;\n"
                           "of an encoder the values that its embeddings are made of.\n"
                           "\n"
                           "  -m, --model FILE    the model\n"
                           "  --ids \"N N ...\"     the tokens, separated by spaces\n"
                           "  -o, --output FILE   where to; - is standard output\n"
                           "  --all               one row of values for each token\n"
                           "  -b, --batch N       tokens computed at once (default 512, fewer with --all)\n"
                           "  -t, --threads N     threads (default: the cores this process may use)\n"
                           "  --kv f16|q8_0|f32   type of the KV cache (default f16)\n"
                           "  --arch-file FILE    YAML description that adds or replaces an architecture\n"
                           "  --pre NAME          pre-tokenizer to use, whatever the file says\n"
                           "  -q, --quiet         no warnings\n"
                           "  -h, --help          this text\n";

/* Evaluates in pieces, so that with --all no more rows are held than one piece has. */
static int evaluate(tern_session *session, const tn_ids *ids, size_t piece, bool all, tn_output *output) {
    for (size_t at = 0; at < ids->n; at += piece) {
        const size_t n = ids->n - at < piece ? ids->n - at : piece;
        const uint32_t n_rows = all ? (uint32_t)n : 1;
        tern_error err;
        if (tern_session_eval(session, ids->ids + at, n, n_rows, &err) != TERN_OK)
            return tn_cli_fail_library(&err);
        for (uint32_t row = 0; row < n_rows; row++) {
            uint32_t width;
            const float *values = tern_session_row(session, row, &width);
            if (!values)
                return tn_cli_fail("no logits: row %" PRIu32 ": expected %" PRIu32 " rows", row, n_rows);
            const int failed = tn_output_write(output, values, width * sizeof *values);
            if (failed) return failed;
        }
    }
    return TN_EXIT_DONE;
}

static int write_logits(const tn_options *options, const tern_model *model, const tn_ids *ids,
                        const tern_model_info *info) {
    tern_session_options config;
    tn_cli_session_options(options, &config);
    config.n_ctx = (uint32_t)ids->n;
    if (options->all) {
        /* The rows of one batch are held at once: about 64 MiB of them unless -b says otherwise. */
        const uint32_t rows = (16u << 20) / (info->n_vocab ? info->n_vocab : 1) + 1;
        if (!options->n_batch && rows < config.n_batch) config.n_batch = rows;
        if (info->encoder) config.n_batch = (uint32_t)ids->n;
        config.n_outputs = config.n_batch;
    }
    tern_session *session = NULL;
    tern_error err;
    if (tn_cli_session_new(model, &config, &session, &err) != TERN_OK) return tn_cli_fail_library(&err);
    tn_output output;
    int exit_code = tn_output_open(&output, options->output, options);
    const size_t piece = options->all && !info->encoder ? config.n_batch : ids->n;
    if (!exit_code) exit_code = evaluate(session, ids, piece, options->all, &output);
    if (!exit_code) exit_code = tn_output_commit(&output);
    tn_output_discard(&output);
    tn_cli_session_free(session);
    return exit_code;
}

static int run(const tn_options *options) {
    tn_ids ids = {0};
    int exit_code = tn_ids_parse(options, &ids);
    tern_model *model = exit_code ? NULL : tn_cli_open_model(options, TERN_OPEN_ALL, &exit_code);
    if (model) {
        tern_model_info info;
        tern_model_info_get(model, &info);
        exit_code = tn_ids_check(options, &ids, info.n_vocab);
        if (!exit_code) exit_code = write_logits(options, model, &ids, &info);
    }
    tern_model_close(model);
    free(ids.ids);
    return exit_code;
}

const tn_command tn_command_logits = {
    .name = "logits",
    .summary = "write the raw logits of given tokens",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(IDS) | TN_ACCEPT(ALL) | TN_ACCEPT(OUTPUT) | TN_ACCEPT(BATCH) |
                TN_ACCEPT(THREADS) | TN_ACCEPT(KV) | TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL) | TN_ACCEPT(IDS) | TN_ACCEPT(OUTPUT),
    .run = run,
};
