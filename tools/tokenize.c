/* tern tokenize: text on standard input, token ids on standard output. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

static const char help[] = "usage: tern tokenize -m M.gguf [options] < TEXT\n"
                           "Prints the token ids of standard input, separated by one space, and a newline.\n"
                           "\n"
                           "  -m, --model FILE  the model, or a file with its vocabulary alone\n"
                           "  --no-bos          no BOS (nor EOS), even where the vocabulary asks for it\n"
                           "  --no-special      text of control tokens is plain text, not those tokens\n"
                           "  --pre NAME        pre-tokenizer to use, whatever the file says\n"
                           "  -q, --quiet       no warnings\n"
                           "  -h, --help        this text\n";

static void print_ids(const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) printf(i ? " %" PRId32 : "%" PRId32, ids[i]);
    putchar('\n');
}

static int tokenize_input(const tern_model *model, const tn_options *options) {
    tn_text text;
    const int failed = tn_cli_read("-", &text);
    if (failed) return failed;
    const unsigned flags =
        (options->no_bos ? 0u : TERN_TOKENIZE_BOS) | (options->no_special ? 0u : TERN_TOKENIZE_SPECIAL);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    tern_error err;
    const tern_status status = tern_tokenize(model, text.bytes, text.n, flags, &ids, &n_ids, &err);
    if (status == TERN_OK) print_ids(ids, n_ids);
    tern_free(ids);
    free(text.bytes);
    return status == TERN_OK ? TN_EXIT_DONE : tn_cli_fail_library(&err);
}

static int run(const tn_options *options) {
    int exit_code;
    tern_model *model = tn_cli_open_model(options, TERN_OPEN_VOCAB, &exit_code);
    if (!model) return exit_code;
    exit_code = tokenize_input(model, options);
    tern_model_close(model);
    return exit_code;
}

const tn_command tn_command_tokenize = {
    .name = "tokenize",
    .summary = "print the token ids of a text",
    .help = help,
    .accepted =
        TN_ACCEPT(MODEL) | TN_ACCEPT(NO_BOS) | TN_ACCEPT(NO_SPECIAL) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL),
    .run = run,
};
