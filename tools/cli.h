/* What the subcommands share: exit codes, error lines, interruption, opening a model, reading input. */
#ifndef TN_TOOLS_CLI_H
#define TN_TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "options.h"
#include "tern.h"

enum { TN_EXIT_DONE = 0, TN_EXIT_FAILED = 1, TN_EXIT_USAGE = 2, TN_EXIT_INTERRUPTED = 130 };

struct tn_command {
    const char *name, *summary;
    const char *help;                 /* the whole text of --help; at most 24 lines of 80 columns */
    tn_option_set accepted, required; /* TN_OPTION_BIT of options */
    tn_option_set lists;              /* options whose values are lists, which the command itself reads */
    const char *const *kinds;         /* NULL, or what the first operand may be; NULL ends them */
    bool model_operand;               /* the model may be given without -m */
    bool output_operand;              /* and behind it the output without -o */
    int (*run)(const tn_options *options);
};

extern const tn_command tn_command_run, tn_command_inspect, tn_command_tokenize, tn_command_logits,
    tn_command_bench, tn_command_doctor, tn_command_embed, tn_command_quantize, tn_command_convert,
    tn_command_template, tn_command_chat, tn_command_eval, tn_command_imatrix, tn_command_completion;

extern const tn_command *const tn_commands[]; /* in the order of the help; NULL ends them */

/* ---- Errors: one line `tern: error: WHAT: WHERE: WHY` on stderr ---- */

/* The formatted text may hold untrusted bytes: they are escaped. Returns TN_EXIT_FAILED. */
int tn_cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for wrong usage, with a hint to the help. `command` may be NULL. Returns TN_EXIT_USAGE. */
int tn_cli_fail_usage(const tn_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a failure of the library and returns the exit code: a cancellation is an interruption and prints
 * nothing. */
int tn_cli_fail_library(const tern_error *err);

/* A failed write to a named place; TN_EXIT_INTERRUPTED and nothing printed if an interruption ended it. */
int tn_cli_fail_write(const char *where, int error_number);

/* ---- Signals ---- */

/* SIGINT, SIGTERM and SIGHUP set a flag (a second one ends the process at once), SIGPIPE and SIGXFSZ are ignored, and SIGBUS, which a read of
 * a mapped file raises when the file has shrunk, prints one error line and exits with 1. */
void tn_cli_install_signals(void);
bool tn_cli_interrupted(void);

/* What TN_EXIT_INTERRUPTED becomes: 128 and the signal. */
int tn_cli_interrupted_code(void);

/* The file that SIGBUS's error line will name. */
void tn_cli_name_in_fault(const char *path);
/* tern_session_new for a session that the signals cancel too, and its end. One at a time. */
tern_status tn_cli_session_new(const tern_model *model, const tern_session_options *options,
                               tern_session **session, tern_error *err);
void tn_cli_session_free(tern_session *session); /* NULL is fine */

/* For a command that goes on after an interruption: SIGINT sets the flag each time, until it is taken down. That of SIGTERM and
 * SIGHUP stays. */
void tn_cli_survive_interrupts(void);
void tn_cli_forget_interrupt(void);

/* A file to remove should SIGBUS end the process; NULL: none. The string must stay until the next call. */
void tn_cli_remove_on_fault(const char *path);

/* ---- Model and input ---- */

/* Opens options->model; NULL after printing why, with *exit_code set. */
tern_model *tn_cli_open_model(const tn_options *options, tern_open_level level, int *exit_code);

/* Fills model options from --pre --arch-file -q; warnings go to stderr. */
void tn_cli_model_options(const tn_options *options, tern_open_level level, tern_model_options *model);

/* Fills session options from -c -b -t --kv. */
void tn_cli_session_options(const tn_options *options, tern_session_options *session);

typedef struct tn_text {
    char *bytes; /* freed by the caller */
    size_t n;
} tn_text;

/* The path of a file of the user's: `name` behind the folder that the variable names, else behind `folder` in the home. Returns how much
 * of it the user made, so that what follows may be made, and 0 where there is no home or it is too long. */
size_t tn_cli_user_path(const char *variable, const char *folder, const char *name, char *path, size_t cap);

/* open() and read() that no signal ends but an interruption: -1 with EINTR then. Files are closed when another program is run. */
int tn_open_file(const char *path, int flags);
ssize_t tn_read_some(int fd, void *bytes, size_t n);

/* Reads a whole file, '-' for standard input; at most 256 MiB. Returns the exit code. */
int tn_cli_read(const char *path, tn_text *out);

#endif
