/* tern chat: a conversation at a terminal. Answers go to standard output, everything else to standard error. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "profile.h"
#include "sandbox.h"
#include "terminal.h"

static const char help[] =
    "usage: tern chat M.gguf [options]\n"
    "  -m, --model FILE      the model; it may be given without -m\n"
    "  --system TEXT         the system message\n"
    "  --template FILE       chat template (Jinja) to use, whatever the model's\n"
    "  --load FILE           go on with a conversation that /save wrote\n"
    "  -n, --predict N       most tokens of an answer (until it ends)\n"
    "  -c, --ctx N           positions in the context (the model's, at most 4096)\n"
    "  --full stop|drop      when that is full: say so, or drop the oldest turns\n"
    "  --reasoning show|hide  what the model thinks before it answers (show)\n"
    "  -s, --seed N          seed of the draws (a new one)\n"
    "  --temp X              temperature of the draws (0.8; 0: greedy)\n"
    "  --grammar FILE, --json-schema FILE  every answer must match it (GBNF; JSON)\n"
    "  --sandbox, --sandbox-dir DIR  no network, programs or files but /save's in DIR\n"
    "  --profile NAME        settings from ~/.config/tern/config.yaml (default)\n"
    "  --help-sampling       how tokens are drawn, and all options for that\n"
    "  --stop TEXT           end an answer before this text; up to 16 of them\n"
    "  --draft lookup|none|FILE  guess tokens: from the text, not, by a small model\n"
    "  -t, --threads N; --pin  threads (the cores allowed), each bound to one\n"
    "  -b, --batch N         tokens read at once (128)\n"
    "  --kv f16|q8_0|f32     type of the KV cache (f16)\n"
    "  --arch-file FILE, --pre NAME  YAML description; pre-tokenizer to use\n"
    "  -q, --quiet           no warnings, no remarks and no figures\n"
    "  -h, --help            this text\n"
    "Type /help there for what can be typed. NO_COLOR=1 leaves colours out.\n";

/* ---- Opening ---- */

static int open_template(tn_chat *chat) {
    const char *path = chat->options->template;
    tn_text file = {0};
    tern_template_options options;
    tern_error err;
    tern_template_options_defaults(&options);
    options.model = chat->model;
    const int failed = path ? tn_cli_read(path, &file) : TN_EXIT_DONE;
    if (failed) return failed;
    if (path) options.source = file.bytes ? file.bytes : "", options.n_source = file.n;
    const tern_status status = tern_template_open(&options, &chat->template, &err);
    free(file.bytes);
    if (status == TERN_OK) return TN_EXIT_DONE;
    return tn_cli_fail("%s%s%s%s", err.message, path ? " (" : "", path ? path : "",
                       path                             ? ")"
                       : status == TERN_ERR_UNSUPPORTED ? ": give one by --template FILE"
                                                        : "");
}

static int open_session(tn_chat *chat) {
    tern_session_options config;
    tern_error err;
    tn_cli_session_options(chat->options, &config);
    /* Smaller batches than where no one waits: the line that says how far it is moves. */
    if (!chat->options->n_batch) config.n_batch = 128;
    config.n_outputs = chat->draft.n_outputs;
    config.progress = tn_chat_show_reading;
    config.user = chat;
    if (tn_cli_session_new(chat->model, &config, &chat->session, &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    return TN_EXIT_DONE;
}

static int open_chat(tn_chat *chat) {
    tern_chat_options options;
    tern_error err;
    tern_chat_options_defaults(&options);
    options.when_full = chat->settings.drop ? TERN_WHEN_FULL_DROP : TERN_WHEN_FULL_STOP;
    options.chat_template = chat->template;
    if (tern_chat_new(chat->session, &options, &chat->chat, &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    const char *system = chat->options->system;
    if (system && tern_chat_set_system(chat->chat, system, strlen(system), &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    return TN_EXIT_DONE;
}

/* The input first: what is typed while the model is opened counts; and what it reads (descriptions of terminals, the history) is
 * the user's own, and not open to a confined process. */
static int open_input(tn_chat *chat) {
    char history[4096];
    chat->input = tn_input_new();
    if (!chat->input) return tn_cli_fail("cannot chat: out of memory");
    if (!chat->options->sandbox) return TN_EXIT_DONE;
    return tn_sandbox_enter(chat->options, tn_input_folder(chat->input, history, sizeof history));
}

static int open_all(tn_chat *chat) {
    int exit_code = open_input(chat);
    if (exit_code) return exit_code;
    chat->model = tn_cli_open_model(chat->options, TERN_OPEN_ALL, &exit_code);
    if (!exit_code) exit_code = tn_chat_settings_start(&chat->settings, chat->options, chat->model);
    if (!exit_code) exit_code = open_template(chat);
    if (!exit_code) exit_code = tn_draft_open(&chat->draft, chat->options);
    if (!exit_code) exit_code = open_session(chat);
    if (!exit_code) exit_code = open_chat(chat);
    if (!exit_code && chat->options->load) exit_code = tn_chat_load(chat, chat->options->load);
    return exit_code;
}

/* The generator's session before the draft's, the model last. */
static void close_all(tn_chat *chat) {
    tern_chat_free(chat->chat);
    tn_input_free(chat->input);
    tn_cli_session_free(chat->session);
    tn_draft_close(&chat->draft);
    tern_template_free(chat->template);
    tn_sampling_free(&chat->settings.sampling);
    tern_model_close(chat->model);
}

/* ---- Talking ---- */

static void greet(const tn_chat *chat) {
    tern_model_info info;
    tern_session_info session;
    tern_model_info_get(chat->model, &info);
    tern_session_info_get(chat->session, &session);
    if (!tn_input_is_interactive(chat->input)) return;
    tn_chat_note(chat, "%s, context %u; /help, Ctrl-D leaves", *info.name ? info.name : "a model",
                 (unsigned)session.n_ctx);
    if (chat->options->sandbox) {
        char text[400];
        tn_chat_note(chat, "in a sandbox: %s", tn_sandbox_describe(chat->options, text, sizeof text));
    }
}

static int say(tn_chat *chat, const char *text, size_t n) {
    const bool escaped = n > 1 && text[0] == '/' && text[1] == '/';
    return tn_chat_ask(chat, tern_chat_n_messages(chat->chat), text + escaped, n - escaped);
}

/* How full the context is stands where one types. */
static tn_input_result next_text(tn_chat *chat, const char **text, size_t *n) {
    char prompt[16];
    tern_session_info session;
    tern_session_info_get(chat->session, &session);
    snprintf(prompt, sizeof prompt, "%.0f%%> ", 100.0 * session.position / session.n_ctx);
    tn_input_result result = tn_input_read(chat->input, prompt, NULL, text, n);
    while (result == TN_INPUT_INTERRUPTED && tn_input_is_interactive(chat->input)) {
        tn_cli_forget_interrupt();
        if (tn_cli_interrupted()) break; /* by SIGTERM or SIGHUP */
        result = tn_input_read(chat->input, prompt, NULL, text, n);
    }
    return result;
}

static int talk(tn_chat *chat) {
    bool quit = false;
    int exit_code = TN_EXIT_DONE;
    while (!quit) {
        const char *text;
        size_t n;
        const tn_input_result result = next_text(chat, &text, &n);
        if (result == TN_INPUT_INTERRUPTED) return TN_EXIT_INTERRUPTED;
        if (result == TN_INPUT_FAILED) return tn_cli_fail("cannot read: standard input");
        if (result == TN_INPUT_END) break;
        if (n == 0) continue;
        const bool command = text[0] == '/' && text[1] != '/';
        const int failed = command ? tn_chat_command(chat, text, &quit) : say(chat, text, n);
        if (!tn_input_is_interactive(chat->input) && tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
        tn_cli_forget_interrupt();
        if (tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
        if (chat->output_failed) return failed;
        if (failed) exit_code = failed;
    }
    /* A person saw each error and went on; a script learns of it here. */
    return tn_input_is_interactive(chat->input) ? TN_EXIT_DONE : exit_code;
}

/* Without a locale of UTF-8 text is taken as UTF-8 all the same: it is what models know. */
static void set_locale(void) {
    const char *name = setlocale(LC_CTYPE, "");
    if (!name || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
}

static int chat_with(const tn_options *options) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    tn_chat chat = {.options = options, .is_terminal = isatty(STDOUT_FILENO) == 1};
    chat.colours = chat.is_terminal && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
    set_locale();
    tn_cli_survive_interrupts();
    int exit_code = open_all(&chat);
    if (!exit_code) {
        greet(&chat);
        exit_code = talk(&chat);
    }
    close_all(&chat);
    return exit_code;
}

static int run_command(const tn_options *options) {
    tn_options all = *options;
    tn_profile *profile;
    all.sandbox = all.sandbox || all.sandbox_dir;
    int exit_code = tn_profile_apply(&all, &profile);
    if (!exit_code) exit_code = chat_with(&all);
    tn_profile_free(profile);
    return exit_code;
}

const tn_command tn_command_chat = {
    .name = "chat",
    .summary = "talk with a model, by its chat template",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(SYSTEM) | TN_ACCEPT(TEMPLATE) | TN_ACCEPT(LOAD) |
                TN_ACCEPT(PREDICT) | TN_ACCEPT(CTX) | TN_ACCEPT(FULL) | TN_ACCEPT(REASONING) |
                TN_ACCEPT(DRAFT) | TN_ACCEPT(THREADS) | TN_ACCEPT(PIN) | TN_ACCEPT(BATCH) | TN_ACCEPT(KV) |
                TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET) | TN_ACCEPT(STOP) |
                TN_ACCEPT(SANDBOX) | TN_ACCEPT(SANDBOX_DIR) | TN_SAMPLING_OPTIONS,
    .required = TN_ACCEPT(MODEL),
    .model_operand = true,
    .run = run_command,
};
