/* tern run: a prompt in, the text that follows out. Standard output gets the generated text and nothing else.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "draft.h"
#include "profile.h"
#include "sampling.h"
#include "sandbox.h"
#include "terminal.h"

static const char help[] = "usage: tern run -m M.gguf (-p TEXT | -f FILE) [options]\n"
                           "  -m, --model FILE      the model\n"
                           "  -p, --prompt TEXT     the prompt; text of control tokens is those tokens\n"
                           "  -f, --file FILE       the prompt from a file as it is; - is standard input\n"
                           "  -n, --predict N       tokens to generate (until the end, or -c is full)\n"
                           "  -c, --ctx N           positions in the context (the model's, at most 4096)\n"
                           "  -t, --threads N       threads (the cores allowed here); --pin binds them\n"
                           "  -b, --batch N         tokens of the prompt computed at once (512)\n"
                           "  -s, --seed N          seed of the draws (a new one, printed at the end)\n"
                           "  --temp X              temperature of the draws (0.8; 0: greedy)\n"
                           "  --grammar FILE        the text must match this grammar (GBNF)\n"
                           "  --json-schema FILE    the text must be valid by it; also the schema itself\n"
                           "  --profile NAME        settings from ~/.config/tern/config.yaml (default)\n"
                           "  --help-sampling       how tokens are drawn, and all options for that\n"
                           "  --stop TEXT           end before this text appears; up to 16 of them\n"
                           "  --ignore-eos          go on past end tokens\n"
                           "  --no-special, --no-bos  control tokens in the prompt are plain text; no BOS\n"
                           "  --kv f16|q8_0|f32     type of the KV cache (f16)\n"
                           "  --state FILE          what the prompt shares with the last run is not redone\n"
                           "  --draft lookup|none|FILE  guess tokens: from the text, not, by a small model\n"
                           "  --arch-file FILE, --pre NAME  YAML description; pre-tokenizer to use\n"
                           "  --sandbox             no network, programs or other files while it runs\n"
                           "  -v, --verbose; -q, --quiet  more said of the model; no warnings, no figures\n"
                           "  -h, --help            this text\n";

/* One run, filled from top to bottom. */
typedef struct tn_run {
    const tn_options *options;
    tern_model *model;
    tern_session *session;
    tern_generator *generator;
    tn_draft draft;
    tn_sampling sampling;
    int32_t *ids; /* the prompt */
    size_t n_ids;
    uint32_t n_reused; /* tokens of the prompt that the saved state had */
    double open_s, prefill_start, prefill_s;
    tern_generated generated;
    tern_stop_reason stop;
    bool stdout_terminal, ends_in_newline;
} tn_run;

/* ---- Prompt ---- */

static int tokenize_prompt(tn_run *run) {
    const tn_options *options = run->options;
    tn_text file = {0};
    if (options->file) {
        const int failed = tn_cli_read(options->file, &file);
        if (failed) return failed;
    }
    const char *text = options->file ? file.bytes : options->prompt;
    const size_t n = options->file ? file.n : strlen(options->prompt);
    const unsigned flags = TERN_TOKENIZE_OPEN | (options->no_bos ? 0u : TERN_TOKENIZE_BOS) |
                           (options->no_special ? 0u : TERN_TOKENIZE_SPECIAL);
    tern_error err;
    const tern_status status = tern_tokenize(run->model, text, n, flags, &run->ids, &run->n_ids, &err);
    free(file.bytes);
    if (status != TERN_OK) return tn_cli_fail_library(&err);
    if (run->n_ids == 0)
        return tn_cli_fail("cannot generate: prompt: it is empty and the model has no BOS token");
    return TN_EXIT_DONE;
}

/* ---- Prefill ---- */

static bool show_prefill(void *user, uint32_t done, uint32_t total) {
    const tn_run *run = user;
    if (!run->options->quiet && tn_seconds() - run->prefill_start > 1)
        tn_progress_show("prompt", done, total);
    return true;
}

/* A state that is not there yet is no error; one that does not fit is, and stays as it is. */
static int load_state(tn_run *run) {
    const char *path = run->options->state;
    if (!path || (access(path, F_OK) != 0 && errno == ENOENT)) return TN_EXIT_DONE;
    tern_error err;
    return tern_session_load(run->session, path, &err) == TERN_OK ? TN_EXIT_DONE : tn_cli_fail_library(&err);
}

static int save_state(const tn_run *run) {
    tern_error err;
    if (!run->options->state) return TN_EXIT_DONE;
    const tern_status status = tern_session_save(run->session, run->options->state, &err);
    return status == TERN_OK ? TN_EXIT_DONE : tn_cli_fail_library(&err);
}

static int prefill(tn_run *run) {
    tern_session_info session;
    tern_session_info_get(run->session, &session);
    if (run->n_ids > session.n_ctx) {
        return tn_cli_fail("prompt too long: %s: %zu tokens, and the context holds %" PRIu32 " (-c sets it)",
                           run->options->file ? run->options->file : "-p", run->n_ids, session.n_ctx);
    }
    run->prefill_start = tn_seconds();
    tern_error err;
    const tern_status status = tern_session_sync(run->session, run->ids, run->n_ids, 1, &run->n_reused, &err);
    run->prefill_s = tn_seconds() - run->prefill_start;
    tn_progress_clear();
    return status == TERN_OK ? TN_EXIT_DONE : tn_cli_fail_library(&err);
}

static int open_session(tn_run *run) {
    tern_session_options config;
    tn_cli_session_options(run->options, &config);
    config.progress = show_prefill;
    config.user = run;
    config.n_outputs = run->draft.n_outputs;
    tern_error err;
    if (tn_cli_session_new(run->model, &config, &run->session, &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    return TN_EXIT_DONE;
}

/* ---- Generation ---- */

static int open_generator(tn_run *run) {
    const tn_options *options = run->options;
    const int failed = tn_sampling_read(options, run->model, &run->sampling);
    if (failed) return failed;
    tern_generator_options config;
    tern_generator_options_defaults(&config);
    tn_sampling_config(&run->sampling, options, &config);
    if (tn_option_given(options, TN_OPTION_PREDICT)) config.max_tokens = (uint64_t)options->n_predict;
    config.stop = options->stop.v;
    config.n_stop = options->stop.n;
    config.ignore_end = options->ignore_eos;
    config.draft = run->draft.session;
    tern_error err;
    if (tern_generator_new(run->session, &config, run->ids, run->n_ids, &run->generator, &err) != TERN_OK) {
        return tn_cli_fail_library(&err);
    }
    if (options->verbose) tn_sampling_print(run->generator);
    return TN_EXIT_DONE;
}

static int write_piece(tn_run *run, const char *text, size_t n) {
    if (n == 0) return TN_EXIT_DONE;
    const int failed = tn_write_text(STDOUT_FILENO, run->stdout_terminal, text, n);
    run->ends_in_newline = text[n - 1] == '\n';
    return failed ? tn_cli_fail_write("standard output", failed) : TN_EXIT_DONE;
}

static int generate(tn_run *run) {
    int exit_code = TN_EXIT_DONE;
    if (tn_option_given(run->options, TN_OPTION_PREDICT) && run->options->n_predict == 0)
        run->stop = TERN_STOP_LIMIT;
    while (exit_code == TN_EXIT_DONE && run->stop == TERN_STOP_NONE) {
        const char *text = NULL;
        const uint64_t n_before = run->generated.n_tokens;
        size_t n = 0;
        tern_error err;
        if (tern_generator_next(run->generator, &text, &n, &run->stop, &err) != TERN_OK) {
            exit_code = tn_cli_fail_library(&err);
            break;
        }
        tern_generator_result(run->generator, &run->generated);
        exit_code = write_piece(run, text, n);
        if (!exit_code && run->generated.n_tokens > n_before)
            exit_code = tn_logprobs_print(run->model, run->generator);
    }
    /* The prompt of the shell begins on a line of its own; a file or pipe gets the text as it is. */
    const int failed =
        run->stdout_terminal && !run->ends_in_newline ? tn_write_all(STDOUT_FILENO, "\n", 1) : 0;
    return failed && !exit_code ? tn_cli_fail_write("standard output", failed) : exit_code;
}

/* ---- Figures ---- */

static void print_rate(const char *what, uint64_t n, uint64_t n_timed, double seconds) {
    fprintf(stderr, "%-12s %" PRIu64 " tokens", what, n);
    if (n_timed > 0 && seconds > 0)
        fprintf(stderr, " in %.2f s, %.1f tokens/s", seconds, (double)n_timed / seconds);
    fputc('\n', stderr);
}

static void print_stop(const tn_run *run, int exit_code, uint32_t n_ctx) {
    fprintf(stderr, "%-12s ", "stopped");
    if (exit_code == TN_EXIT_INTERRUPTED) {
        fputs("interrupted\n", stderr);
        return;
    }
    switch (run->stop) {
    case TERN_STOP_NONE: fputs("an error\n", stderr); break;
    case TERN_STOP_END: fputs("the model ended its text\n", stderr); break;
    case TERN_STOP_COMPLETE: fputs("the text is complete by its grammar or schema\n", stderr); break;
    case TERN_STOP_STRING: fputs("a stop string (--stop)\n", stderr); break;
    case TERN_STOP_LIMIT: fprintf(stderr, "after %" PRId64 " tokens (-n)\n", run->options->n_predict); break;
    case TERN_STOP_FULL:
        fprintf(stderr, "the context of %" PRIu32 " tokens is full (-c sets it): the text may be cut short\n",
                n_ctx);
        break;
    }
}

/* The whole prompt is counted, but only what was not there already took time. */
static void print_prompt(const tn_run *run, uint32_t n_prompt) {
    print_rate("prompt", n_prompt - run->n_reused, n_prompt - run->n_reused, run->prefill_s);
    if (run->n_reused)
        fprintf(stderr, "%-12s %" PRIu32 " tokens of the prompt\n", "from state", run->n_reused);
}

static void print_figures(const tn_run *run, int exit_code) {
    char memory[24];
    const tern_generated *made = &run->generated;
    tern_session_info session;
    tern_session_info_get(run->session, &session);
    const uint32_t n_prompt =
        exit_code == TN_EXIT_INTERRUPTED && !run->generator ? session.position : (uint32_t)run->n_ids;
    if (run->stdout_terminal) fputc('\n', stderr);
    print_prompt(run, n_prompt);
    /* The first token comes out of the prompt's logits; only the others cost a step each. */
    print_rate("generated", made->n_tokens, made->n_tokens ? made->n_tokens - 1 : 0,
               made->seconds - made->first_s);
    if (made->n_guessed)
        fprintf(stderr, "%-12s %" PRIu64 " tokens, %" PRIu64 " of them right\n", "guessed", made->n_guessed,
                made->n_right);
    if (made->n_tokens > 0) {
        fprintf(stderr, "%-12s %.2f s after the prompt (model opened in %.2f s)\n", "first token",
                run->prefill_s + made->first_s, run->open_s);
    }
    fprintf(stderr, "%-12s %s at most, context %" PRIu32 "\n", "memory",
            tn_format_bytes(memory, tn_peak_memory_bytes()), session.n_ctx);
    fprintf(stderr, "%-12s %" PRIu32 ", %s\n", "threads", session.n_threads, session.isa);
    if (run->sampling.s.temperature > 0) fprintf(stderr, "%-12s %" PRIu64 "\n", "seed", run->sampling.s.seed);
    print_stop(run, exit_code, session.n_ctx);
}

static int print_plan(const tn_run *run) {
    tern_session_options config;
    tn_cli_session_options(run->options, &config);
    config.n_outputs = run->draft.n_outputs;
    tern_memory memory;
    tern_error err;
    if (tern_session_memory(run->model, &config, &memory, &err) != TERN_OK) return tn_cli_fail_library(&err);
    tern_model_info info;
    tern_model_info_get(run->model, &info);
    char safe[256], weights[24], kv[24], scratch[24];
    tern_escape(safe, sizeof safe, info.name, strlen(info.name));
    fprintf(stderr, "%-12s %s, %s, %" PRIu32 " layers, vocabulary of %" PRIu32 "\n", "model", safe,
            info.architecture, info.n_layers, info.n_vocab);
    fprintf(stderr, "%-12s %s of weights, up to %s of KV cache, %s of scratch\n", "needs",
            tn_format_bytes(weights, memory.weights_bytes), tn_format_bytes(kv, memory.kv_bytes),
            tn_format_bytes(scratch, memory.scratch_bytes));
    if (run->options->sandbox) {
        char text[400];
        tern_escape(safe, sizeof safe, text, strlen(tn_sandbox_describe(run->options, text, sizeof text)));
        fprintf(stderr, "%-12s %s\n", "sandbox", safe);
    }
    return TN_EXIT_DONE;
}

/* ---- The whole ---- */

static int run_model(tn_run *run) {
    int exit_code;
    const double start = tn_seconds();
    run->model = tn_cli_open_model(run->options, TERN_OPEN_ALL, &exit_code);
    run->open_s = tn_seconds() - start;
    if (!exit_code) exit_code = tn_draft_open(&run->draft, run->options);
    if (!exit_code && run->options->verbose) exit_code = print_plan(run);
    if (!exit_code) exit_code = tokenize_prompt(run);
    if (!exit_code && tn_cli_interrupted()) exit_code = TN_EXIT_INTERRUPTED;
    if (!exit_code) exit_code = open_session(run);
    if (!exit_code) exit_code = load_state(run);
    if (!exit_code) exit_code = prefill(run);
    if (!exit_code) exit_code = open_generator(run);
    if (!exit_code) exit_code = generate(run);
    const bool made = run->session && (exit_code == TN_EXIT_DONE || exit_code == TN_EXIT_INTERRUPTED);
    if (made && !run->options->quiet) print_figures(run, exit_code);
    tern_generator_free(run->generator); /* the session holds the text alone then */
    if (made && save_state(run)) return TN_EXIT_FAILED;
    return exit_code;
}

static int run_command(const tn_options *options) {
    const bool prompt = tn_option_given(options, TN_OPTION_PROMPT),
               file = tn_option_given(options, TN_OPTION_FILE);
    if (prompt == file) {
        return tn_cli_fail_usage(options->command, prompt ? "-p and -f: expected one of them, found both"
                                                          : "-p or -f: missing prompt");
    }
    tn_options all = *options;
    tn_profile *profile;
    tn_run run = {.options = &all, .stdout_terminal = isatty(STDOUT_FILENO) == 1};
    int exit_code = tn_profile_apply(&all, &profile);
    if (!exit_code && all.sandbox) exit_code = tn_sandbox_enter(&all, NULL);
    if (!exit_code) exit_code = run_model(&run);
    tn_cli_session_free(run.session);
    tn_draft_close(&run.draft);
    tern_free(run.ids);
    tn_sampling_free(&run.sampling);
    tn_profile_free(profile);
    tern_model_close(run.model);
    return exit_code;
}

const tn_command tn_command_run = {
    .name = "run",
    .summary = "generate text that follows a prompt",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(PROMPT) | TN_ACCEPT(FILE) | TN_ACCEPT(PREDICT) | TN_ACCEPT(CTX) |
                TN_ACCEPT(THREADS) | TN_ACCEPT(PIN) | TN_ACCEPT(BATCH) | TN_ACCEPT(STOP) | TN_ACCEPT(KV) |
                TN_ACCEPT(IGNORE_EOS) | TN_ACCEPT(NO_SPECIAL) | TN_ACCEPT(NO_BOS) | TN_ACCEPT(PRE) |
                TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(VERBOSE) | TN_ACCEPT(QUIET) | TN_SAMPLING_OPTIONS |
                TN_ACCEPT(STATE) | TN_ACCEPT(DRAFT) | TN_ACCEPT(SANDBOX),
    .required = TN_ACCEPT(MODEL),
    .run = run_command,
};
