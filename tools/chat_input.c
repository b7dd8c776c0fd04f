#include "chat_input.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "chat_history.h"
#include "cli.h"

struct tn_input {
    bool interactive;
    struct termios modes; /* of the terminal, while it is hushed */
    bool hushed;
    char prompt[96];
    char *read; /* where lines are not edited: what was read, of which the first n_used bytes were returned */
    size_t n_read, n_used, cap_read;
    char *text;
    size_t n_text, cap_text;
#ifdef TERN_HAVE_EDIT
    EditLine *edit; /* NULL where lines are not edited */
    History *history;
    bool interrupted;
#endif
};

static const char block_mark[] = "\"\"\"", continued_prompt[] = "... ";

/* ---- Editing ---- */

#ifdef TERN_HAVE_EDIT

enum { SIGNAL_CHECK_MS = 200 };

static volatile sig_atomic_t redraw; /* a handler takes no argument */

static void on_redraw(int signal_number) {
    (void)signal_number;
    redraw = 1;
}

/* After another size of the terminal, or a stay in the background, from which a shell may hand it back changed. */
static void draw_again(EditLine *edit) {
    redraw = 0;
    fputs("\r\033[K", stdout); /* it draws the prompt once more */
    el_resize(edit);
    el_set(edit, EL_PREP_TERM, 1);
    el_set(edit, EL_REFRESH);
}

static char *show_prompt(EditLine *edit) {
    void *input = NULL;
    el_get(edit, EL_CLIENTDATA, &input);
    return ((tn_input *)input)->prompt;
}

/* Until there is something to read, or a signal: one that comes just before the wait does not end it, but is seen a moment later. */
static bool wait_for_key(void) {
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&keys, 1, SIGNAL_CHECK_MS) > 0;
}

/* One character, in the locale's encoding; a byte that begins none is U+FFFD. A signal that interrupts gives the line up. */
static int read_character(EditLine *edit, wchar_t *out) {
    void *client = NULL;
    mbstate_t state = {0};
    el_get(edit, EL_CLIENTDATA, &client);
    tn_input *input = client;
    for (;;) {
        char byte;
        const bool ready = wait_for_key();
        if (tn_cli_interrupted()) {
            input->interrupted = true;
            return -1;
        }
        if (redraw) draw_again(edit);
        const ssize_t n = ready ? read(STDIN_FILENO, &byte, 1) : -1;
        if (n == 0) return 0;
        if (n < 0 && ready && errno != EINTR) return -1;
        if (n < 0) continue;
        const size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-2) continue;
        if (used == (size_t)-1) *out = 0xFFFD;
        return 1;
    }
}

static void open_editor(tn_input *input) {
    struct sigaction action = {.sa_handler = on_redraw};
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    input->edit = el_init("tern", stdin, stdout, stderr);
    input->history = tn_history_open();
    if (!input->edit || !input->history) return;
    el_set(input->edit, EL_CLIENTDATA, input);
    el_set(input->edit, EL_PROMPT, show_prompt);
    el_set(input->edit, EL_EDITOR, "emacs");
    el_set(input->edit, EL_HIST, history, input->history);
    el_set(input->edit, EL_GETCFN, read_character);
    el_set(input->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(input->edit, NULL); /* the user's ~/.editrc */
    /* How libedit leaves the terminal between lines. With lines, a Ctrl-D then would be the kernel's, and lost. */
    input->hushed = tcgetattr(STDIN_FILENO, &input->modes) == 0;
    el_set(input->edit, EL_SETTY, "-x", "-icanon", "-echo", NULL);
}

static void close_editor(tn_input *input) {
    if (input->edit) el_end(input->edit);
    if (input->history) history_end(input->history);
}

static bool has_editor(const tn_input *input) {
    return input->edit && input->history;
}

static tn_input_result edit_line(tn_input *input, const char *initial, const char **line, size_t *n) {
    int count = 0;
    input->interrupted = false;
    if (redraw) el_resize(input->edit); /* since the last line; there is nothing to draw again yet */
    redraw = 0;
    if (initial) el_push(input->edit, initial);
    *line = el_gets(input->edit, &count);
    if (*line && count > 0) {
        *n = (size_t)count;
        return TN_INPUT_TEXT;
    }
    fputs(input->interrupted ? "^C\n" : "\n", stdout);
    fflush(stdout);
    return input->interrupted ? TN_INPUT_INTERRUPTED : TN_INPUT_END;
}

static void remember(tn_input *input, const char *line) {
    if (has_editor(input) && line[0] && line[0] != '\n') tn_history_add(input->history, line);
}

const char *tn_input_folder(const tn_input *input, char *path, size_t cap) {
    return has_editor(input) && tn_history_folder(path, cap) ? path : NULL;
}

#else

static void open_editor(tn_input *input) {
    (void)input;
}
static void close_editor(tn_input *input) {
    (void)input;
}
static bool has_editor(const tn_input *input) {
    (void)input;
    return false;
}
static tn_input_result edit_line(tn_input *input, const char *initial, const char **line, size_t *n) {
    (void)input, (void)initial, (void)line, (void)n;
    return TN_INPUT_FAILED;
}
static void remember(tn_input *input, const char *line) {
    (void)input, (void)line;
}
const char *tn_input_folder(const tn_input *input, char *path, size_t cap) {
    (void)input, (void)path, (void)cap;
    return NULL;
}

#endif

/* ---- Lines ---- */

tn_input *tn_input_new(void) {
    tn_input *input = calloc(1, sizeof *input);
    if (!input) return NULL;
    input->interactive = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    if (input->interactive) open_editor(input);
    return input;
}

static void leave_hush(tn_input *input) {
    if (input->hushed) input->hushed = tcsetattr(STDIN_FILENO, TCSANOW, &input->modes) != 0;
}

void tn_input_free(tn_input *input) {
    if (!input) return;
    close_editor(input);
    leave_hush(input);
    free(input->read);
    free(input->text);
    free(input);
}

bool tn_input_is_interactive(const tn_input *input) {
    return input->interactive;
}

void tn_input_hush(tn_input *input, bool hush) {
    struct termios modes;
    if (!input->interactive || has_editor(input) || hush == input->hushed) return;
    if (!hush) {
        leave_hush(input);
        return;
    }
    if (tcgetattr(STDIN_FILENO, &input->modes) != 0) return;
    modes = input->modes;
    modes.c_lflag &= ~(tcflag_t)ECHO;
    input->hushed = tcsetattr(STDIN_FILENO, TCSANOW, &modes) == 0;
}

/* Reads more behind what there is: bytes, 0 at the end, -1 and errno. */
static ssize_t read_more(tn_input *input) {
    if (input->n_used) {
        input->n_read -= input->n_used;
        memmove(input->read, input->read + input->n_used, input->n_read);
        input->n_used = 0;
    }
    if (input->cap_read - input->n_read < 2) {
        const size_t cap = input->cap_read * 2 + 4096;
        char *grown = realloc(input->read, cap);
        if (!grown) return -1;
        input->read = grown;
        input->cap_read = cap;
    }
    const ssize_t got =
        tn_read_some(STDIN_FILENO, input->read + input->n_read, input->cap_read - input->n_read - 1);
    if (got > 0) input->n_read += (size_t)got;
    return got;
}

/* Not the C library's: that takes a signal for the end of a line. */
static tn_input_result plain_line(tn_input *input, const char **line, size_t *n) {
    if (input->interactive) {
        fputs(input->prompt, stdout);
        fflush(stdout);
    }
    const char *newline = NULL;
    for (size_t seen = 0; !newline;) {
        const size_t n_left = input->n_read - input->n_used;
        if (n_left > seen) newline = memchr(input->read + input->n_used + seen, '\n', n_left - seen);
        seen = n_left;
        const ssize_t got = newline ? 1 : read_more(input);
        if (got < 0) return errno == EINTR ? TN_INPUT_INTERRUPTED : TN_INPUT_FAILED;
        if (got == 0 && n_left == 0) return TN_INPUT_END;
        if (got == 0) break;
    }
    const size_t at = input->n_used, end = newline ? (size_t)(newline - input->read) + 1 : input->n_read;
    *line = input->read + at;
    *n = end - at;
    input->n_used = end;
    return TN_INPUT_TEXT;
}

static tn_input_result read_line(tn_input *input, const char *prompt, const char *initial, const char **line,
                                 size_t *n) {
    snprintf(input->prompt, sizeof input->prompt, "%s", prompt);
    const tn_input_result result =
        has_editor(input) ? edit_line(input, initial, line, n) : plain_line(input, line, n);
    if (result == TN_INPUT_TEXT) remember(input, *line);
    if (result == TN_INPUT_TEXT && *n && (*line)[*n - 1] == '\n') --*n;
    return result;
}

static bool append(tn_input *input, const char *line, size_t n, bool newline) {
    if (input->cap_text - input->n_text < n + 2) {
        const size_t cap = (input->n_text + n + 2) * 2;
        char *grown = realloc(input->text, cap);
        if (!grown) return false;
        input->text = grown;
        input->cap_text = cap;
    }
    memcpy(input->text + input->n_text, line, n);
    input->n_text += n;
    if (newline) input->text[input->n_text++] = '\n';
    input->text[input->n_text] = 0;
    return true;
}

static bool is_block_mark(const char *line, size_t n) {
    return n == sizeof block_mark - 1 && memcmp(line, block_mark, n) == 0;
}

tn_input_result tn_input_read(tn_input *input, const char *prompt, const char *initial, const char **text,
                              size_t *n) {
    const char *line;
    size_t n_line;
    bool in_block = false;
    input->n_text = 0;
    *text = "", *n = 0;
    for (;;) {
        tn_input_result result = read_line(input, prompt, initial, &line, &n_line);
        const bool ended = result == TN_INPUT_END && input->n_text > 0; /* without a last newline, or mark */
        if (result != TN_INPUT_TEXT && !ended) return result;
        prompt = continued_prompt;
        initial = NULL;
        const bool mark = !ended && is_block_mark(line, n_line);
        if (mark && !in_block && input->n_text == 0) {
            in_block = true;
            continue;
        }
        const bool more = !ended && !mark && (in_block || (n_line && line[n_line - 1] == '\\'));
        if (!ended && !(mark && in_block) && !append(input, line, n_line - (more && !in_block), more))
            return TN_INPUT_FAILED;
        if (more) continue;
        if (in_block && input->n_text) input->n_text--; /* the newline before the mark */
        if (input->text) input->text[input->n_text] = 0;
        *text = input->text ? input->text : "";
        *n = input->n_text;
        return TN_INPUT_TEXT;
    }
}
