/* Lines that begin with '/'. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "terminal.h"

typedef struct chat_command {
    const char *name, *usage, *what;
    int (*run)(tn_chat *chat, const char *argument);
} chat_command;

/* ---- The last turn ---- */

/* Index of the user's last message; SIZE_MAX: none. */
static size_t last_question(const tn_chat *chat, tern_message *message) {
    for (size_t i = tern_chat_n_messages(chat->chat); i-- > 0;)
        if (tern_chat_message(chat->chat, i, message) && strcmp(message->role, "user") == 0) return i;
    return SIZE_MAX;
}

static int nothing_yet(const char *what) {
    return tn_cli_fail("cannot %s: nothing has been said yet", what);
}

static int regenerate(tn_chat *chat, const char *argument) {
    tern_message question;
    (void)argument;
    const size_t at = last_question(chat, &question);
    if (at == SIZE_MAX) return nothing_yet("answer again");
    return tn_chat_ask(chat, at, question.text, question.n);
}

/* Without a text, the old one is there to be changed; several lines of it are separated by backslashes, as they are typed. The editor
 * would take control characters for keys: they become blanks. */
static char *as_typed(const tern_message *message) {
    size_t n_lines = 0;
    for (size_t i = 0; i < message->n; i++) n_lines += message->text[i] == '\n';
    char *typed = malloc(message->n + n_lines + 1), *at = typed;
    if (!typed) return NULL;
    for (size_t i = 0; i < message->n; i++) {
        const unsigned char c = (unsigned char)message->text[i];
        const bool c1 = c == 0xC2 && (message->text[i + 1] & 0xE0) == 0x80; /* a text ends in a NUL */
        if (c == '\n') *at++ = '\\';
        *at++ = c != '\n' && (c < 0x20 || c == 0x7F || c1) ? ' ' : (char)c;
        i += c1;
    }
    *at = 0;
    return typed;
}

static int edit(tn_chat *chat, const char *argument) {
    tern_message question;
    const size_t at = last_question(chat, &question);
    if (at == SIZE_MAX) return nothing_yet("edit");
    if (*argument) return tn_chat_ask(chat, at, argument, strlen(argument));
    char *old = as_typed(&question);
    const char *text;
    size_t n;
    const tn_input_result result = tn_input_read(chat->input, "edit> ", old, &text, &n);
    free(old);
    if (result == TN_INPUT_FAILED) return tn_cli_fail("cannot edit: the input cannot be read");
    tn_cli_forget_interrupt();
    if (result == TN_INPUT_TEXT && n) return tn_chat_ask(chat, at, text, n);
    tn_chat_note(chat, "nothing is changed");
    return TN_EXIT_DONE;
}

static int undo(tn_chat *chat, const char *argument) {
    tern_message question;
    (void)argument;
    const size_t at = last_question(chat, &question);
    if (at == SIZE_MAX) return nothing_yet("undo");
    char start[64];
    snprintf(start, sizeof start, "%s", question.text);
    tern_chat_truncate(chat->chat, at);
    tn_chat_note(chat, "taken back: %s%s", start, question.n >= sizeof start ? "..." : "");
    return TN_EXIT_DONE;
}

/* ---- The conversation ---- */

static bool has_system(const tn_chat *chat, tern_message *message) {
    return tern_chat_message(chat->chat, 0, message) && strcmp(message->role, "system") == 0;
}

static int system_message(tn_chat *chat, const char *argument) {
    tern_message message;
    tern_error err;
    if (!*argument) {
        if (has_system(chat, &message))
            tn_chat_note(chat, "system: %s", message.text);
        else
            tn_chat_note(chat, "no system message; /system TEXT sets one, /system - removes it");
        return TN_EXIT_DONE;
    }
    const size_t n = strcmp(argument, "-") == 0 ? 0 : strlen(argument);
    const tern_status status = tern_chat_set_system(chat->chat, argument, n, &err);
    return status == TERN_OK ? TN_EXIT_DONE : tn_cli_fail_library(&err);
}

static int clear(tn_chat *chat, const char *argument) {
    tern_message message;
    (void)argument;
    tern_chat_truncate(chat->chat, has_system(chat, &message) ? 1 : 0);
    tn_chat_note(chat, "the conversation is empty");
    return TN_EXIT_DONE;
}

static int save(tn_chat *chat, const char *argument) {
    return *argument ? tn_chat_save(chat, argument)
                     : tn_cli_fail("cannot save: expected a file name: /save FILE");
}

static int load(tn_chat *chat, const char *argument) {
    return *argument ? tn_chat_load(chat, argument)
                     : tn_cli_fail("cannot load: expected a file name: /load FILE");
}

/* ---- Settings and figures ---- */

static void show_settings(const tn_chat *chat) {
    const char *name;
    char value[32];
    for (size_t i = 0; tn_chat_settings_get(&chat->settings, i, &name, value); i++)
        fprintf(stderr, "  %-16s %s\n", name, value);
}

static int set(tn_chat *chat, const char *argument) {
    char name[32] = "", value[64] = "";
    if (!*argument) {
        show_settings(chat);
        return TN_EXIT_DONE;
    }
    if (sscanf(argument, "%31s %63s", name, value) != 2)
        return tn_cli_fail("cannot set: expected a name and a value: /set NAME VALUE");
    const int failed = tn_chat_settings_set(&chat->settings, name, value);
    tern_chat_set_when_full(chat->chat, chat->settings.drop ? TERN_WHEN_FULL_DROP : TERN_WHEN_FULL_STOP);
    return failed;
}

static double per_second(uint64_t n, double seconds) {
    return seconds > 0 ? (double)n / seconds : 0;
}

static int stats(tn_chat *chat, const char *argument) {
    const tn_chat_totals *t = &chat->totals;
    tern_session_info session;
    tern_session_info_get(chat->session, &session);
    char memory[24];
    (void)argument;
    fprintf(stderr, "  %-16s %zu\n", "messages", tern_chat_n_messages(chat->chat));
    fprintf(stderr, "  %-16s %" PRIu32 " of %" PRIu32 " tokens, %.0f %%\n", "context", session.position,
            session.n_ctx, 100.0 * session.position / session.n_ctx);
    fprintf(stderr, "  %-16s %" PRIu64 " tokens, %.1f a second; %" PRIu64 " were there already\n", "read",
            t->n_prompt, per_second(t->n_prompt, t->prompt_s), t->n_reused);
    fprintf(stderr, "  %-16s %" PRIu64 " answers, %" PRIu64 " tokens, %.1f a second\n", "said", t->n_answers,
            t->n_generated, per_second(t->n_generated, t->generate_s));
    fprintf(stderr, "  %-16s %" PRIu64 " tokens, %" PRIu64 " of them right\n", "guessed", t->n_guessed,
            t->n_right);
    fprintf(stderr, "  %-16s %s at most\n", "memory", tn_format_bytes(memory, tn_peak_memory_bytes()));
    return TN_EXIT_DONE;
}

/* ---- Table ---- */

static int help(tn_chat *chat, const char *argument);

static const chat_command commands[] = {
    {"help", "", "this text", help},
    {"system", "[TEXT|-]", "show, set or remove the system message", system_message},
    {"regen", "", "answer again, with another seed", regenerate},
    {"edit", "[TEXT]", "change the last message and answer it", edit},
    {"undo", "", "take the last message and its answer back", undo},
    {"clear", "", "begin anew; the system message stays", clear},
    {"save", "FILE", "the conversation and its state; text only to .txt, .md", save},
    {"load", "FILE", "go on where a saved one ended", load},
    {"set", "[NAME VALUE]", "show the settings, or change one", set},
    {"stats", "", "figures of this conversation", stats},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int help(tn_chat *chat, const char *argument) {
    (void)chat, (void)argument;
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, "  /%-7s %-13s %s\n", commands[i].name, commands[i].usage, commands[i].what);
    fputs("  /quit                  leave, as Ctrl-D does\n"
          "Ctrl-C stops an answer. A line that ends in \\ goes on with the next; lines\n"
          "between two lines of \"\"\" are one message. // at its start is one /.\n",
          stderr);
    return TN_EXIT_DONE;
}

int tn_chat_command(tn_chat *chat, const char *line, bool *quit) {
    const char *name = line + 1;
    const size_t n = strcspn(name, " \t\n");
    const char *argument = name + n;
    while (isspace((unsigned char)*argument)) argument++;
    if (n == 4 && memcmp(name, "quit", 4) == 0) {
        *quit = true;
        return TN_EXIT_DONE;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, name, n) == 0)
            return commands[i].run(chat, argument);
    return tn_cli_fail("/%.*s: unknown command (/help lists them)", (int)n, name);
}
