/* tern logits: the raw logits of given tokens, for scripts and tests. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "output.h"

static const char help[] = "usage: tern logits -m M.gguf --ids \"1 2 3\" -o FILE [options]\n"
                           "Writes logits as little-endian float32: n_vocab values for the last token.\n"
                           "\n"
                           "  -m, --model FILE    the model\n"
                           "  --ids \"N N ...\"     the tokens, separated by spaces\n"
                           "  -o, --output FILE   where to; - is standard output\n"
                           "  --all               one row of n_vocab values for each token\n"
                           "  -b, --batch N       tokens computed at once (default 512, fewer with --all)\n"
                           "  -t, --threads N     threads (default: the cores this process may use)\n"
                           "  --kv f16|q8_0|f32   type of the KV cache (default f16)\n"
                           "  --arch-file FILE    YAML description that adds or replaces an architecture\n"
                           "  --pre NAME          pre-tokenizer to use, whatever the file says\n"
                           "  -q, --quiet         no warnings\n"
                           "  -h, --help          this text\n";

typedef struct tn_ids {
    int32_t *ids;
    size_t n;
} tn_ids;

/* Decimal numbers separated by white space; the vocabulary is not known yet. Returns the exit code. */
static int parse_ids(const tn_options *options, tn_ids *out) {
    static const char spaces[] = " \t\n";
    char *copy = strdup(options->ids);
    out->ids = calloc(strlen(options->ids) / 2 + 1, sizeof *out->ids);
    int exit_code = copy && out->ids ? TN_EXIT_DONE : tn_cli_fail("cannot read --ids: out of memory");
    char *rest = NULL;
    char *word = exit_code ? NULL : strtok_r(copy, spaces, &rest);
    for (; word && !exit_code; word = strtok_r(NULL, spaces, &rest)) {
        int64_t id;
        if (tn_parse_integer(word, 0, INT32_MAX, &id)) {
            out->ids[out->n++] = (int32_t)id;
        } else {
            exit_code = tn_cli_fail_usage(options->command,
                                          "--ids: expected token ids separated by spaces, found '%s'", word);
        }
    }
    if (!exit_code && out->n == 0) {
        exit_code = tn_cli_fail_usage(options->command, "--ids: expected at least one token id");
    }
    free(copy);
    return exit_code;
}

static int check_ids(const tn_options *options, const tn_ids *ids, uint32_t n_vocab) {
    for (size_t i = 0; i < ids->n; i++) {
        if ((uint32_t)ids->ids[i] < n_vocab) continue;
        return tn_cli_fail_usage(
            options->command, "--ids: expected ids below %" PRIu32 ", the vocabulary's size, found %" PRId32,
            n_vocab, ids->ids[i]);
    }
    return TN_EXIT_DONE;
}

static bool keep_going(void *user, uint32_t done, uint32_t total) {
    (void)user, (void)done, (void)total;
    return !tn_cli_interrupted();
}

/* Evaluates in pieces, so that with --all no more rows are held than one piece has. */
static int evaluate(tern_session *session, const tn_ids *ids, size_t piece, uint32_t n_vocab, bool all,
                    tn_output *output) {
    const size_t row_bytes = n_vocab * sizeof(float);
    for (size_t at = 0; at < ids->n; at += piece) {
        const size_t n = ids->n - at < piece ? ids->n - at : piece;
        const uint32_t n_rows = all ? (uint32_t)n : 1;
        tern_error err;
        if (tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
        if (tern_session_eval(session, ids->ids + at, n, n_rows, &err) != TERN_OK)
            return tn_cli_fail_library(&err);
        for (uint32_t row = 0; row < n_rows; row++) {
            const float *logits = tern_session_logits(session, row);
            if (!logits)
                return tn_cli_fail("no logits: row %" PRIu32 ": expected %" PRIu32 " rows", row, n_rows);
            const int failed = tn_output_write(output, logits, row_bytes);
            if (failed) return failed;
        }
    }
    return TN_EXIT_DONE;
}

static int write_logits(const tn_options *options, const tern_model *model, const tn_ids *ids,
                        uint32_t n_vocab) {
    tern_session_options config;
    tn_cli_session_options(options, &config);
    config.n_ctx = (uint32_t)ids->n;
    config.progress = keep_going;
    if (options->all) {
        /* The rows of one batch are held at once: about 64 MiB of them unless -b says otherwise. */
        const uint32_t rows = (16u << 20) / (n_vocab ? n_vocab : 1) + 1;
        if (!options->n_batch && rows < config.n_batch) config.n_batch = rows;
        config.n_outputs = config.n_batch;
    }
    tern_session *session = NULL;
    tern_error err;
    if (tern_session_new(model, &config, &session, &err) != TERN_OK) return tn_cli_fail_library(&err);
    tn_output output;
    int exit_code = tn_output_open(&output, options->output);
    if (!exit_code)
        exit_code =
            evaluate(session, ids, options->all ? config.n_batch : ids->n, n_vocab, options->all, &output);
    if (!exit_code) exit_code = tn_output_commit(&output);
    tn_output_discard(&output);
    tern_session_free(session);
    return exit_code;
}

static int run(const tn_options *options) {
    tn_ids ids = {0};
    int exit_code = parse_ids(options, &ids);
    tern_model *model = exit_code ? NULL : tn_cli_open_model(options, TERN_OPEN_ALL, &exit_code);
    if (model) {
        tern_model_info info;
        tern_model_info_get(model, &info);
        exit_code = check_ids(options, &ids, info.n_vocab);
        if (!exit_code) exit_code = write_logits(options, model, &ids, info.n_vocab);
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
