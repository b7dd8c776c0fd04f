#include "terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

int tn_write_all(int fd, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0) {
        const ssize_t written = write(fd, at, n);
        if (written >= 0) {
            at += written;
            n -= (size_t)written;
        } else if (errno == EAGAIN) { /* a pipe that another process made non-blocking */
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            if (poll(&ready, 1, -1) < 0 && tn_cli_interrupted()) return EINTR;
        } else if (errno != EINTR) {
            return errno;
        } else if (tn_cli_interrupted()) {
            return EINTR;
        }
    }
    return 0;
}

/* Length of the control character at text, 0 if it is none: C0 and DEL, and C1, which UTF-8 writes as
 * C2 80..9F. */
static size_t control_length(const char *text, size_t n) {
    const unsigned char c = (unsigned char)text[0];
    if (c == '\n' || c == '\t') return 0;
    if (c < 0x20 || c == 0x7f) return 1;
    return c == 0xc2 && n > 1 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0 ? 2 : 0;
}

int tn_write_text(int fd, bool is_terminal, const char *text, size_t n) {
    size_t start = 0;
    for (size_t i = 0; is_terminal && i < n;) {
        const size_t control = control_length(text + i, n - i);
        if (!control) {
            i++;
            continue;
        }
        char shown[16];
        const size_t n_shown = tern_escape(shown, sizeof shown, text + i, control);
        int failed = tn_write_all(fd, text + start, i - start);
        if (!failed) failed = tn_write_all(fd, shown, n_shown);
        if (failed) return failed;
        i += control;
        start = i;
    }
    return tn_write_all(fd, text + start, n - start);
}

static int stdout_failed; /* the errno */

static ssize_t write_stdout(void *cookie, const char *bytes, size_t n) {
    (void)cookie;
    if (!stdout_failed) stdout_failed = tn_write_all(STDOUT_FILENO, bytes, n);
    return stdout_failed ? 0 : (ssize_t)n;
}

void tn_stdout_start(void) {
    const cookie_io_functions_t functions = {.write = write_stdout};
    FILE *whole = isatty(STDOUT_FILENO) ? NULL : fopencookie(NULL, "w", functions);
    if (whole) stdout = whole;
}

int tn_flush_stdout(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return stdout_failed;
    return stdout_failed ? stdout_failed : errno ? errno : EIO;
}

double tn_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool progress_shown; /* so that an error line does not begin in the middle of it */

unsigned tn_terminal_columns(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Cut to the terminal's width: what wraps could not be taken away again. */
void tn_progress_line(const char *text) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r%.*s\033[K", (int)tn_terminal_columns(STDERR_FILENO) - 1, text);
    fflush(stderr);
    progress_shown = true;
}

void tn_progress_show(const char *what, uint64_t done, uint64_t total) {
    char line[160];
    if (total == 0) return;
    snprintf(line, sizeof line, "%s %3.0f %% (%" PRIu64 " of %" PRIu64 ")", what,
             100.0 * (double)done / (double)total, done, total);
    tn_progress_line(line);
}

void tn_progress_clear(void) {
    if (progress_shown) fputs("\r\033[K", stderr);
    progress_shown = false;
}

const char *tn_format_bytes(char text[24], uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, 24, "%" PRIu64 " B", bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 24, "%.1f %s", value, units[unit]);
    return text;
}

uint64_t tn_peak_memory_bytes(void) {
    FILE *status = fopen("/proc/self/status", "re");
    if (!status) return 0;
    char line[256];
    uint64_t kib = 0;
    while (fgets(line, sizeof line, status)) {
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoull(line + 6, NULL, 10);
    }
    fclose(status);
    return kib * 1024;
}
