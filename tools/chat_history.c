#include "chat_history.h"

#ifdef TERN_HAVE_EDIT
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { HISTORY_LINES = 1000, MAX_FILE_BYTES = 16 << 20 };

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

static FILE *open_file(bool to_write) {
    char path[4096];
    const size_t n_made =
        tn_cli_user_path("XDG_STATE_HOME", "/.local/state", "/tern/history", path, sizeof path);
    if (!n_made) return NULL;
    if (to_write) make_folders(path, n_made);
    const int fd = open(path, (to_write ? O_RDWR | O_CREAT : O_RDONLY) | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) return NULL;
    FILE *file =
        is_ours(fd) && (!to_write || ftruncate(fd, 0) == 0) ? fdopen(fd, to_write ? "w" : "r") : NULL;
    if (!file) close(fd);
    return file;
}

/* Line by line, as plain text: what libedit itself reads and writes is encoded, and it reads past its buffer where the code is bad. */
static void read_lines(History *lines, FILE *file) {
    HistEvent event;
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, file) > 0) history(lines, &event, H_ENTER, line);
    free(line);
}

static void write_lines(History *lines, FILE *file) {
    HistEvent event;
    for (int more = history(lines, &event, H_LAST); more >= 0; more = history(lines, &event, H_PREV)) {
        const size_t n = strlen(event.str);
        fputs(event.str, file);
        if (n == 0 || event.str[n - 1] != '\n') fputc('\n', file);
    }
}

History *tn_history_open(void) {
    HistEvent event;
    History *lines = history_init();
    if (!lines) return NULL;
    history(lines, &event, H_SETSIZE, HISTORY_LINES);
    history(lines, &event, H_SETUNIQUE, 1);
    FILE *file = open_file(false);
    if (!file) return lines;
    read_lines(lines, file);
    fclose(file);
    return lines;
}

void tn_history_add(History *lines, const char *line) {
    HistEvent event;
    history(lines, &event, H_ENTER, line);
    FILE *file = open_file(true);
    if (!file) return;
    write_lines(lines, file);
    fclose(file);
}

#endif
