#include "chat_history.h"

#ifdef TERN_HAVE_EDIT
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "terminal.h"

enum { HISTORY_LINES = 1000, MAX_FILE_BYTES = 16 << 20, LOCK_TRIES = 50 };

/* A FIFO would block, and a link to /dev/null is a way to keep none. */
static bool is_ours(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size <= MAX_FILE_BYTES;
}

/* The folders of a path behind its first n bytes, which the user made. */
static void make_folders(char *path, size_t n) {
    for (char *slash = path + n; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

bool tn_history_folder(char *path, size_t cap) {
    const size_t n_made = tn_cli_user_path("XDG_STATE_HOME", "/.local/state", "/tern/history", path, cap);
    if (!n_made) return false;
    make_folders(path, n_made);
    *strrchr(path, '/') = 0;
    return true;
}

/* -1 where there is none. */
static int open_file(bool to_add) {
    char path[4096];
    const size_t n_made =
        tn_cli_user_path("XDG_STATE_HOME", "/.local/state", "/tern/history", path, sizeof path);
    if (!n_made) return -1;
    if (to_add) make_folders(path, n_made);
    const int fd =
        open(path, (to_add ? O_WRONLY | O_APPEND | O_CREAT : O_RDWR) | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || is_ours(fd)) return fd;
    close(fd);
    return -1;
}

/* A chat that was stopped in between, or a file system without locks, is not waited for. */
static bool lock(int fd) {
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* The bytes of the file; NULL when there are none. */
static char *read_file(int fd, size_t *n) {
    struct stat file;
    *n = 0;
    char *bytes = fstat(fd, &file) == 0 && file.st_size > 0 ? malloc((size_t)file.st_size) : NULL;
    while (bytes && *n < (size_t)file.st_size) {
        const ssize_t got = tn_read_some(fd, bytes + *n, (size_t)file.st_size - *n);
        if (got <= 0) break;
        *n += (size_t)got;
    }
    return bytes;
}

/* Where the last HISTORY_LINES lines begin. */
static size_t last_lines(const char *bytes, size_t n) {
    size_t at = n, n_lines = 0;
    while (at > 0 && (bytes[at - 1] != '\n' || at == n || ++n_lines < HISTORY_LINES)) at--;
    return at;
}

/* Moves the last lines to the start, and ends the file behind them: whenever that is cut short, they are still there. */
static void shorten(int fd, const char *bytes, size_t n) {
    size_t done = 0;
    while (done < n) {
        const ssize_t written = pwrite(fd, bytes + done, n - done, (off_t)done);
        if (written <= 0 && errno != EINTR) return;
        if (written > 0) done += (size_t)written;
    }
    const int failed = ftruncate(fd, (off_t)n);
    (void)failed; /* the lines are then there twice */
}

/* Line by line, as plain text: what libedit itself reads and writes is encoded, and it reads past its buffer where the code is bad. */
static void enter_lines(History *lines, char *bytes, size_t n) {
    HistEvent event;
    for (size_t at = 0, end; at < n; at = end + 1) {
        const char *newline = memchr(bytes + at, '\n', n - at);
        end = newline ? (size_t)(newline - bytes) : n - 1;
        char *line = strndup(bytes + at, end + 1 - at);
        if (line) history(lines, &event, H_ENTER, line);
        free(line);
    }
}

History *tn_history_open(void) {
    HistEvent event;
    History *lines = history_init();
    if (!lines) return NULL;
    history(lines, &event, H_SETSIZE, HISTORY_LINES);
    history(lines, &event, H_SETUNIQUE, 1);
    const int fd = open_file(false);
    if (fd < 0) return lines;
    const bool locked = lock(fd);
    size_t n;
    char *bytes = read_file(fd, &n);
    const size_t first = bytes ? last_lines(bytes, n) : 0;
    if (bytes) enter_lines(lines, bytes + first, n - first);
    if (first && locked) shorten(fd, bytes + first, n - first);
    free(bytes);
    close(fd);
    return lines;
}

void tn_history_add(History *lines, const char *line) {
    HistEvent event;
    if (history(lines, &event, H_FIRST) >= 0 && strcmp(event.str, line) == 0) return;
    history(lines, &event, H_ENTER, line);
    const int fd = open_file(true);
    if (fd < 0) return;
    const size_t n = strlen(line);
    char *whole;
    if (asprintf(&whole, "%s%s", line, n && line[n - 1] == '\n' ? "" : "\n") >= 0) {
        lock(fd); /* against one that shortens it; two that add do not meet, each line being one write */
        tn_write_all(fd, whole, strlen(whole));
        free(whole);
    }
    close(fd);
}

#endif
