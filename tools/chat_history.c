#include "chat_history.h"

#ifdef TERN_HAVE_EDIT
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
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

History *tn_history_open(void) {
    HistEvent event;
    History *lines = history_init();
    if (!lines) return NULL;
    history(lines, &event, H_SETSIZE, HISTORY_LINES);
    history(lines, &event, H_SETUNIQUE, 1);
    FILE *file = open_file(false);
    if (!file) return lines;
    char name[32]; /* libedit reads by name alone */
    snprintf(name, sizeof name, "/proc/self/fd/%d", fileno(file));
    history(lines, &event, H_LOAD, name);
    fclose(file);
    return lines;
}

void tn_history_add(History *lines, const char *line) {
    HistEvent event;
    history(lines, &event, H_ENTER, line);
    FILE *file = open_file(true);
    if (!file) return;
    history(lines, &event, H_SAVE_FP, file);
    fclose(file);
}

#endif
