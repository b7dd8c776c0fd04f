/* tern chat, in parts: the conversation's state (here), answers, commands, settings, files. */
#ifndef TN_TOOLS_CHAT_H
#define TN_TOOLS_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat_input.h"
#include "cli.h"
#include "draft.h"
#include "sampling.h"

typedef struct tn_chat_settings {
    tn_sampling sampling; /* its seed is that of the conversation: each answer has one of its own */
    uint64_t n_draws;     /* answers drawn so far */
    int64_t n_predict;    /* most tokens of an answer; 0: until it ends */
    bool hide_reasoning, drop;
} tn_chat_settings;

typedef struct tn_chat_totals {
    uint64_t n_answers, n_prompt, n_reused, n_generated, n_guessed, n_right;
    double prompt_s, generate_s;
} tn_chat_totals;

typedef struct tn_chat {
    const tn_options *options;
    tern_model *model;
    tn_draft draft;
    tern_session *session;
    tern_template *template;
    tern_chat *chat;
    tn_input *input;
    tn_chat_settings settings;
    tn_chat_totals totals;
    bool is_terminal, colours; /* of standard output */
    bool reading;              /* a prompt */
    bool output_failed;        /* nothing more can be said */
    double reading_start;
    unsigned spin;
} tn_chat;

/* ---- chat_answer.c ---- */

/* Asks `text` in place of the messages from `at` on, answers on standard output, and adds what was said to the conversation. Where
 * nothing was, the question is taken back and those messages are there again. `text` may be of one of them. Returns the exit code. */
int tn_chat_ask(tn_chat *chat, size_t at, const char *text, size_t n);

/* The callback of the session: a line on stderr while a prompt is read, and the end of it on Ctrl-C. */
bool tn_chat_show_reading(void *user, uint32_t done, uint32_t total);

/* A remark for the person, dimmed, on stderr; none with -q. */
void tn_chat_note(const tn_chat *chat, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- chat_commands.c ---- */

/* Obeys a line that begins with '/'; *quit is set by /quit. Returns the exit code. */
int tn_chat_command(tn_chat *chat, const char *line, bool *quit);

/* ---- chat_settings.c ---- */

/* The model's sampling, then what was given. Returns the exit code. */
int tn_chat_settings_start(tn_chat_settings *settings, const tn_options *options, const tern_model *model);

/* Sets by name and value, both words; fails with a line that says what is expected. */
int tn_chat_settings_set(tn_chat_settings *settings, const char *name, const char *value);

/* Name and value of setting i as words; false past the end. */
bool tn_chat_settings_get(const tn_chat_settings *settings, size_t i, const char **name, char value[32]);

/* ---- chat_store.c ---- */

/* Writes the conversation: as text to a name that ends in .txt or .md; else as JSON, and what the session holds beside it, to the
 * same name with .state behind it. Returns the exit code. */
int tn_chat_save(tn_chat *chat, const char *path);
int tn_chat_load(tn_chat *chat, const char *path);

#endif
