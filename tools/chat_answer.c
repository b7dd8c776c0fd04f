/* One answer: the prompt read, the tokens shown as they come, figures at the end. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "chat_style.h"
#include "terminal.h"

typedef struct answer {
    tn_chat *chat;
    tern_chat_prompt prompt;
    tern_generator *generator;
    tn_style style;
    char *text;
    size_t n_text, cap_text;
    tern_stop_reason stop;
    bool interrupted;
    uint64_t n_tokens; /* of generators that have ended */
    size_t n_begun;    /* tokens of the answer in the prompt */
    double first_s, end;
} answer;

void tn_chat_note(const tn_chat *chat, const char *format, ...) {
    char text[512], safe[1024];
    if (chat->options->quiet) return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tern_escape(safe, sizeof safe, text, strlen(text));
    const bool dim = chat->colours && isatty(STDERR_FILENO);
    tn_progress_clear();
    fprintf(stderr, "%s[%s]%s\n", dim ? "\033[2m" : "", safe, dim ? "\033[0m" : "");
}

/* A quarter of a second passes first: short prompts need no line. */
bool tn_chat_show_reading(void *user, uint32_t done, uint32_t total) {
    tn_chat *chat = user;
    const bool slow = chat->reading && done < total && tn_seconds() - chat->reading_start > 0.25;
    if (slow && !chat->options->quiet) {
        const char what[] = {"|/-\\"[chat->spin++ % 4], ' ', 'r', 'e', 'a', 'd', 'i', 'n', 'g', 0};
        tn_progress_show(what, done, total);
    }
    return true;
}

static void show_thinking(tn_chat *chat, uint64_t n_tokens) {
    char line[64];
    snprintf(line, sizeof line, "%c thinking, %" PRIu64 " tokens", "|/-\\"[chat->spin++ % 4], n_tokens);
    if (!chat->options->quiet) tn_progress_line(line);
}

/* ---- Prompt ---- */

/* Whether the prompt leaves a reasoning block open: some templates begin it for the model. */
static bool begins_reasoning(const answer *a) {
    char tail[512];
    size_t n_tail = 0;
    const size_t n = a->prompt.n_ids, first = n > 12 ? n - 12 : 0;
    for (size_t i = first; i < n; i++) {
        size_t length;
        const char *text = tern_token_text(a->chat->model, a->prompt.ids[i], true, &length);
        if (length >= sizeof tail - n_tail) return false;
        memcpy(tail + n_tail, text, length);
        n_tail += length;
    }
    const char *open = memmem(tail, n_tail, "<think>", 7);
    return open && !memmem(open, n_tail - (size_t)(open - tail), "</think>", 8);
}

/* `begun`: the tokens of an answer that goes on, NULL before it begins. */
static int read_prompt(answer *a, const int32_t *begun, size_t n_begun) {
    tn_chat *chat = a->chat;
    tern_error err;
    chat->reading = true;
    chat->reading_start = tn_seconds();
    const tern_status status = tern_chat_continue(chat->chat, begun, n_begun, &a->prompt, &err);
    chat->reading = false;
    tn_progress_clear();
    if (status == TERN_ERR_CANCELLED) {
        a->interrupted = true;
        return TN_EXIT_DONE;
    }
    a->n_begun = n_begun;
    if (status == TERN_ERR_FULL && begun) return TN_EXIT_DONE; /* no turn to drop: it stays cut */
    if (status == TERN_ERR_FULL) {
        tn_cli_fail("%s (/undo, /clear, or /set full drop)", err.message);
        return TN_EXIT_FAILED;
    }
    if (status != TERN_OK) return tn_cli_fail_library(&err);
    chat->totals.prompt_s += a->prompt.seconds;
    chat->totals.n_prompt += a->prompt.n_ids - a->prompt.n_reused;
    chat->totals.n_reused += a->prompt.n_reused;
    if (a->prompt.n_dropped && begun) tn_style_new_line(&a->style);
    if (a->prompt.n_dropped)
        tn_chat_note(chat, "the context is full: the oldest %zu messages are no longer seen by the model",
                     a->prompt.n_dropped);
    return TN_EXIT_DONE;
}

static int open_generator(answer *a) {
    tn_chat_settings *settings = &a->chat->settings;
    tn_sampling sampling = settings->sampling;
    sampling.s.seed += settings->n_draws++;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    tn_sampling_config(&sampling, a->chat->options, &options);
    options.draft = a->chat->draft.session;
    options.n_begun = a->n_begun;
    options.stop = a->chat->options->stop.v;
    options.n_stop = a->chat->options->stop.n;
    if (settings->n_predict) options.max_tokens = (uint64_t)settings->n_predict - a->n_tokens;
    tern_error err;
    const tern_status status =
        tern_generator_new(a->chat->session, &options, a->prompt.ids, a->prompt.n_ids, &a->generator, &err);
    return status == TERN_OK ? TN_EXIT_DONE : tn_cli_fail_library(&err);
}

/* ---- Tokens ---- */

static bool keep_text(answer *a, const char *text, size_t n) {
    if (a->cap_text - a->n_text < n) {
        const size_t cap = (a->n_text + n) * 2 + 256;
        char *grown = realloc(a->text, cap);
        if (!grown) return false;
        a->text = grown;
        a->cap_text = cap;
    }
    if (n) memcpy(a->text + a->n_text, text, n);
    a->n_text += n;
    return true;
}

/* n_made: tokens of the generator. */
static int show_piece(answer *a, const char *text, size_t n, uint64_t n_made) {
    const bool thought = a->style.look.reasoning && a->style.hide_reasoning;
    if (!keep_text(a, text, n)) return tn_cli_fail("cannot chat: out of memory");
    if (thought) tn_progress_clear();
    tn_style_text(&a->style, text, n);
    if (a->style.look.reasoning && a->style.hide_reasoning && a->chat->is_terminal)
        show_thinking(a->chat, a->n_tokens + n_made);
    const int failed = a->style.wrap.failed;
    return failed ? tn_cli_fail_write("standard output", failed) : TN_EXIT_DONE;
}

static int generate(answer *a) {
    int exit_code = TN_EXIT_DONE;
    tern_generated made = {0};
    while (exit_code == TN_EXIT_DONE && a->stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        tern_error err;
        const tern_status status = tern_generator_next(a->generator, &text, &n, &a->stop, &err);
        a->interrupted = status == TERN_ERR_CANCELLED;
        if (a->interrupted) break;
        if (status != TERN_OK) {
            tn_style_new_line(&a->style);
            exit_code = tn_cli_fail_library(&err);
            break;
        }
        if (a->first_s == 0) a->first_s = tn_seconds();
        const uint64_t n_before = made.n_tokens;
        tern_generator_result(a->generator, &made);
        exit_code = show_piece(a, text, n, made.n_tokens);
        if (!exit_code && made.n_tokens > n_before)
            exit_code = tn_logprobs_print(a->chat->model, a->generator);
    }
    tn_progress_clear();
    return exit_code;
}

/* The session then holds the text alone. */
static void end_generator(answer *a) {
    tn_chat_totals *totals = &a->chat->totals;
    tern_generated made;
    tern_generator_result(a->generator, &made);
    a->n_tokens += made.n_tokens;
    totals->n_guessed += made.n_guessed;
    totals->n_right += made.n_right;
    tern_generator_free(a->generator);
    a->generator = NULL;
}

/* Makes room for an answer that has filled the context: the prompt without its oldest turns, and the answer so far. */
static int make_room(answer *a) {
    tern_session_info session;
    tern_generated made;
    tern_session_info_get(a->chat->session, &session);
    tern_generator_result(a->generator, &made);
    const size_t start = a->prompt.n_ids - a->n_begun, n = session.position - start + 1;
    int32_t *begun = malloc(n * sizeof *begun);
    if (!begun) return tn_cli_fail("cannot chat: out of memory");
    memcpy(begun, session.tokens + start, (n - 1) * sizeof *begun);
    begun[n - 1] = made.token; /* for which there was no room */
    end_generator(a);
    const int exit_code = read_prompt(a, begun, n);
    free(begun);
    return exit_code;
}

static int answer_all(answer *a) {
    for (;;) {
        int exit_code = open_generator(a);
        if (!exit_code) exit_code = generate(a);
        if (exit_code || a->stop != TERN_STOP_FULL || !a->chat->settings.drop) return exit_code;
        exit_code = make_room(a);
        if (exit_code || a->interrupted || a->prompt.n_ids == 0) return exit_code;
        a->stop = TERN_STOP_NONE;
    }
}

/* ---- Figures ---- */

static void show_status(const answer *a) {
    const uint64_t n = a->n_tokens;
    tern_session_info session;
    tern_session_info_get(a->chat->session, &session);
    const double seconds = a->end - a->first_s;
    char speed[48] = "";
    if (n > 1 && seconds > 0) snprintf(speed, sizeof speed, ", %.1f a second", (double)(n - 1) / seconds);
    tn_chat_note(a->chat, "%" PRIu64 " tokens%s; context %" PRIu32 " of %" PRIu32 ", %.0f %%%s", n, speed,
                 session.position, session.n_ctx, 100.0 * session.position / session.n_ctx,
                 a->interrupted ? "; stopped" : "");
    if (a->stop == TERN_STOP_FULL) tn_chat_note(a->chat, "the context is full: the answer is cut short");
    if (a->stop == TERN_STOP_LIMIT) tn_chat_note(a->chat, "the answer is cut after %" PRIu64 " tokens", n);
}

/* ---- The whole ---- */

static int speak(answer *a) {
    tn_chat *chat = a->chat;
    tern_error err;
    int exit_code = read_prompt(a, NULL, 0);
    if (exit_code || a->interrupted) return exit_code;
    tn_style_start(&a->style, chat->is_terminal, chat->colours, chat->settings.hide_reasoning,
                   begins_reasoning(a));
    const double start = tn_seconds();
    exit_code = answer_all(a);
    a->end = tn_seconds();
    tn_style_end(&a->style);
    int failed = a->style.wrap.failed;
    if (!failed && a->style.wrote && !a->style.ends_in_newline) failed = tn_write_all(STDOUT_FILENO, "\n", 1);
    chat->output_failed = failed != 0;
    if (failed && !exit_code) exit_code = tn_cli_fail_write("standard output", failed);
    if (a->generator) end_generator(a);
    chat->totals.n_answers++;
    chat->totals.n_generated += a->n_tokens;
    chat->totals.generate_s += a->end - start;
    if (a->n_text && tern_chat_add(chat->chat, "assistant", a->text, a->n_text, &err) != TERN_OK)
        exit_code = tn_cli_fail_library(&err);
    if (!exit_code && a->n_text) show_status(a);
    return exit_code;
}

/* ---- What was said instead, until now ---- */

typedef struct kept_message {
    char *role, *text;
    size_t n;
} kept_message;

static void free_kept(kept_message *kept, size_t n) {
    for (size_t i = 0; kept && i < n; i++) free(kept[i].role), free(kept[i].text);
    free(kept);
}

/* Copies of the messages from `at` on; NULL when memory is out. */
static kept_message *keep(const tn_chat *chat, size_t at, size_t n) {
    kept_message *kept = calloc(n + 1, sizeof *kept);
    tern_message m;
    for (size_t i = 0; kept && i < n; i++) {
        tern_chat_message(chat->chat, at + i, &m);
        kept[i] = (kept_message){strdup(m.role), malloc(m.n + 1), m.n};
        if (!kept[i].role || !kept[i].text) {
            free_kept(kept, n);
            return NULL;
        }
        memcpy(kept[i].text, m.text, m.n);
    }
    return kept;
}

static int put_back(tn_chat *chat, size_t at, const kept_message *kept, size_t n) {
    tern_error err;
    tern_chat_truncate(chat->chat, at);
    for (size_t i = 0; i < n; i++)
        if (tern_chat_add(chat->chat, kept[i].role, kept[i].text, kept[i].n, &err) != TERN_OK)
            return tn_cli_fail_library(&err);
    return TN_EXIT_DONE;
}

static int answer_last(tn_chat *chat, bool *said, bool *interrupted) {
    answer a = {.chat = chat};
    tn_input_hush(chat->input, true);
    const int exit_code = speak(&a);
    tn_input_hush(chat->input, false);
    *said = a.n_text > 0;
    *interrupted = a.interrupted;
    free(a.text);
    return exit_code;
}

int tn_chat_ask(tn_chat *chat, size_t at, const char *text, size_t n) {
    const size_t n_kept = tern_chat_n_messages(chat->chat) - at;
    tern_error err;
    bool said = false, interrupted = false;
    kept_message *kept = keep(chat, at, n_kept);
    char *copy = kept ? malloc(n + 1) : NULL;
    if (!copy) {
        free_kept(kept, n_kept);
        return tn_cli_fail("cannot chat: out of memory");
    }
    memcpy(copy, text, n);
    tern_chat_truncate(chat->chat, at);
    int exit_code = tern_chat_add(chat->chat, "user", copy, n, &err) == TERN_OK
                        ? answer_last(chat, &said, &interrupted)
                        : tn_cli_fail_library(&err);
    if (!said) { /* roles must go on taking turns */
        const int failed = put_back(chat, at, kept, n_kept);
        if (!exit_code && !failed)
            tn_chat_note(chat, "%s; %s", interrupted ? "stopped" : "no answer",
                         n_kept ? "all is as it was" : "the message is taken back");
        if (!exit_code) exit_code = failed;
    }
    free(copy);
    free_kept(kept, n_kept);
    return exit_code;
}
