/* Error lines, signals, and the steps that several subcommands begin with. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "terminal.h"

/* ---- Errors ---- */

static void print_line(const char *kind, const char *text, const char *hint) {
    char safe[2048];
    tern_escape(safe, sizeof safe, text, strlen(text));
    tn_progress_clear();
    fprintf(stderr, "tern: %s: %s%s\n", kind, safe, hint);
}

int tn_cli_fail(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_line("error", text, "");
    return TN_EXIT_FAILED;
}

int tn_cli_fail_usage(const tn_command *command, const char *format, ...) {
    char text[1024], hint[64];
    const char *name = command ? command->name : "";
    int n = command ? snprintf(text, sizeof text, "%s: ", name) : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    snprintf(hint, sizeof hint, " (see 'tern %s%s--help')", name, command ? " " : "");
    print_line("error", text, hint);
    return TN_EXIT_USAGE;
}

int tn_cli_fail_library(const tern_error *err) {
    if (err->code == TERN_ERR_CANCELLED && tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
    return tn_cli_fail("%s", err->message);
}

int tn_cli_fail_write(const char *where, int error_number) {
    if (error_number == EINTR && tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
    return tn_cli_fail("cannot write: %s: %s", where, strerror(error_number));
}

/* ---- Signals: the only global state of the command, since handlers take no argument ---- */

static volatile sig_atomic_t interrupted; /* the signal; 0: none */
static tern_session *volatile cancelled_session;
static char fault_line[1200] = "tern: error: a mapped file could not be read\n";
static volatile size_t fault_line_bytes = 45;
static const char *volatile fault_remove;

static void on_interrupt(int signal_number) {
    if (interrupted == 0 || interrupted == SIGINT) interrupted = signal_number;
    tern_session_cancel(cancelled_session);
}

/* Several threads may fault at once: the first ends the process, the others wait for that. */
static void on_fault(int signal_number) {
    static atomic_flag is_ending = ATOMIC_FLAG_INIT;
    (void)signal_number;
    while (atomic_flag_test_and_set(&is_ending)) continue;
    if (fault_remove) unlink(fault_remove);
    ssize_t written = write(STDERR_FILENO, fault_line, fault_line_bytes);
    (void)written;
    _exit(TN_EXIT_FAILED);
}

/* The line must be ready before the fault: nothing may be formatted in a handler. */
void tn_cli_name_in_fault(const char *path) {
    char safe[1000];
    tern_escape(safe, sizeof safe, path, strlen(path));
    const int n = snprintf(
        fault_line, sizeof fault_line,
        "tern: error: cannot read model: %s: the file shrank while in use, or its disk failed\n", safe);
    fault_line_bytes = (size_t)n;
}

void tn_cli_install_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESETHAND;
    static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction inherited;
    /* A shell's background job comes with SIGINT ignored, what nohup runs with SIGHUP; that stays. */
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++)
        if (sigaction(interrupts[i], NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
            sigaction(interrupts[i], &action, NULL);
    action.sa_flags = 0;
    action.sa_handler = on_fault;
    sigaction(SIGBUS, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL); /* the write then fails, and what is half written is removed */
}

bool tn_cli_interrupted(void) {
    return interrupted != 0;
}

int tn_cli_interrupted_code(void) {
    return 128 + (interrupted ? interrupted : SIGINT);
}

void tn_cli_survive_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void tn_cli_forget_interrupt(void) {
    if (interrupted != 0 && interrupted != SIGINT) return;
    tern_session_resume(cancelled_session); /* first: a signal that comes between the two is not lost */
    if (interrupted == SIGINT) interrupted = 0;
}

tern_status tn_cli_session_new(const tern_model *model, const tern_session_options *options,
                               tern_session **session, tern_error *err) {
    const tern_status status = tern_session_new(model, options, session, err);
    cancelled_session = *session;
    if (interrupted) tern_session_cancel(*session);
    return status;
}

void tn_cli_session_free(tern_session *session) {
    cancelled_session = NULL;
    tern_session_free(session);
}

void tn_cli_remove_on_fault(const char *path) {
    fault_remove = path;
}

/* ---- Model and input ---- */

static void print_warning(void *user, const char *line) {
    (void)user;
    print_line("warning", line, "");
}

void tn_cli_model_options(const tn_options *options, tern_open_level level, tern_model_options *model) {
    tern_model_options_defaults(model);
    model->level = level;
    model->pre_tokenizer = options->pre;
    model->arch_file = options->arch_file;
    if (!options->quiet) model->warn = print_warning;
}

tern_model *tn_cli_open_model(const tn_options *options, tern_open_level level, int *exit_code) {
    tern_model_options open;
    tn_cli_model_options(options, level, &open);
    tn_cli_name_in_fault(options->model);
    tern_model *model = NULL;
    tern_error err;
    if (tern_model_open(options->model, &open, &model, &err) != TERN_OK) {
        *exit_code = tn_cli_fail_library(&err);
        return NULL;
    }
    *exit_code = TN_EXIT_DONE;
    return model;
}

void tn_cli_session_options(const tn_options *options, tern_session_options *session) {
    tern_session_options_defaults(session);
    if (options->n_ctx) session->n_ctx = (uint32_t)options->n_ctx;
    if (options->n_batch) session->n_batch = (uint32_t)options->n_batch;
    if (options->n_threads) session->n_threads = (uint32_t)options->n_threads;
    if (tn_option_given(options, TN_OPTION_KV)) session->kv = options->kv;
    session->pin = options->pin;
}

int tn_open_file(const char *path, int flags) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC);
    while (fd < 0 && errno == EINTR && !tn_cli_interrupted());
    return fd;
}

ssize_t tn_read_some(int fd, void *bytes, size_t n) {
    ssize_t got;
    do got = read(fd, bytes, n);
    while (got < 0 && errno == EINTR && !tn_cli_interrupted());
    return got;
}

static int fail_read(const char *name) {
    if (errno == EINTR) return TN_EXIT_INTERRUPTED;
    return tn_cli_fail("cannot read: %s: %s", name, strerror(errno));
}

static int read_all(int fd, const char *name, tn_text *out) {
    const size_t limit = (size_t)256 << 20;
    size_t cap = 0;
    for (;;) {
        if (out->n == cap) {
            if (cap > limit)
                return tn_cli_fail("cannot read: %s: expected at most 256 MiB, found more", name);
            cap = cap ? cap * 2 : 65536;
            char *grown = realloc(out->bytes, cap);
            if (!grown) return tn_cli_fail("cannot read: %s: out of memory at %zu bytes", name, cap);
            out->bytes = grown;
        }
        const ssize_t n = tn_read_some(fd, out->bytes + out->n, cap - out->n);
        if (n == 0)
            return out->n > limit ? tn_cli_fail("cannot read: %s: expected at most 256 MiB, found more", name)
                                  : 0;
        if (n < 0) return fail_read(name);
        out->n += (size_t)n;
    }
}

int tn_cli_read(const char *path, tn_text *out) {
    const bool is_stdin = strcmp(path, "-") == 0;
    *out = (tn_text){0};
    const int fd = is_stdin ? STDIN_FILENO : tn_open_file(path, O_RDONLY);
    if (fd < 0) return fail_read(path);
    const int exit_code = read_all(fd, is_stdin ? "standard input" : path, out);
    if (!is_stdin) close(fd);
    if (exit_code) {
        free(out->bytes);
        *out = (tn_text){0};
    }
    return exit_code;
}

size_t tn_cli_user_path(const char *variable, const char *folder, const char *name, char *path, size_t cap) {
    const char *base = getenv(variable), *home = getenv("HOME");
    const bool given = base && base[0] == '/'; /* others are to be passed over, says the specification */
    *path = 0;
    if (!given && (!home || !*home)) return 0;
    const int n = snprintf(path, cap, "%s%s%s", given ? base : home, given ? "" : folder, name);
    if (n <= 0 || (size_t)n >= cap) return 0;
    return given ? strlen(base) : strlen(home) + 1;
}
