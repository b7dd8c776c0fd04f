/* tern-start: from the call that opens a model to the first piece of its text.
 *
 *   tern-start MODEL ROUNDS
 *
 * A process of its own for each measurement opens the model, makes a session and a generator for a prompt of some five tokens, and
 * takes tokens until there is text. In turn: "cold", when none of the file is in memory, "preload", the same with the option of
 * tern.h, and "warm", with all of it there. The kernel drops the file's pages on request (POSIX_FADV_DONTNEED), and mincore says
 * whether it did: a file that another program has mapped stays, so give it a copy. What the disk, or the host of a virtual machine,
 * keeps for itself is not seen here. Prints medians of milliseconds. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tern.h"

#define TN_START_MAX_ROUNDS 100
static const char prompt[] = "The capital of France is";

typedef struct tn_start_times {
    double open, session, prompt, text, all;
} tn_start_times;

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* Brings the file into memory, or out of it; false if it is not as asked for then. */
static bool place_file(const char *path, bool resident) {
    static char buffer[1 << 20];
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) return false;
    while (resident && read(fd, buffer, sizeof buffer) > 0) continue;
    if (!resident) fsync(fd), posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = ((size_t)st.st_size + page - 1) / page;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *there = malloc(n);
    size_t n_there = 0;
    const bool known = map != MAP_FAILED && there && mincore(map, (size_t)st.st_size, there) == 0;
    for (size_t i = 0; known && i < n; i++) n_there += there[i] & 1;
    free(there);
    if (map != MAP_FAILED) munmap(map, (size_t)st.st_size);
    close(fd);
    return known && n_there == (resident ? n : 0);
}

static tern_status start(const char *path, bool preload, tn_start_times *t, tern_error *err) {
    tern_model_options options;
    tern_model *model;
    tern_session *session = NULL;
    tern_generator *generator = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0, n = 0;
    tern_model_options_defaults(&options);
    options.preload = preload;
    const double t0 = milliseconds();
    tern_status s = tern_model_open(path, &options, &model, err);
    const double t1 = milliseconds();
    if (s == TERN_OK) s = tern_session_new(model, NULL, &session, err);
    const double t2 = milliseconds();
    if (s == TERN_OK) s = tern_tokenize(model, prompt, strlen(prompt), TERN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (s == TERN_OK) s = tern_session_eval(session, ids, n_ids, 1, err);
    const double t3 = milliseconds();
    if (s == TERN_OK) s = tern_generator_new(session, NULL, ids, n_ids, &generator, err);
    tern_stop_reason stop = TERN_STOP_NONE;
    for (const char *text; s == TERN_OK && n == 0 && stop == TERN_STOP_NONE;)
        s = tern_generator_next(generator, &text, &n, &stop, err);
    const double t4 = milliseconds();
    *t = (tn_start_times){t1 - t0, t2 - t1, t3 - t2, t4 - t3, t4 - t0};
    tern_generator_free(generator);
    tern_free(ids);
    tern_session_free(session);
    tern_model_close(model);
    return s;
}

/* In a child, which comes to it as a fresh program does. */
static bool measure(const char *path, bool preload, tn_start_times *t) {
    int ends[2], code = 1;
    tern_error err;
    if (pipe(ends)) return false;
    const pid_t child = fork();
    if (child == 0) {
        const tern_status s = start(path, preload, t, &err);
        if (s != TERN_OK) fprintf(stderr, "tern-start: error: %s\n", err.message);
        _exit(s == TERN_OK && write(ends[1], t, sizeof *t) == (ssize_t)sizeof *t ? 0 : 1);
    }
    close(ends[1]);
    const bool got = child > 0 && read(ends[0], t, sizeof *t) == (ssize_t)sizeof *t;
    close(ends[0]);
    if (child > 0) waitpid(child, &code, 0);
    return got && code == 0;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of one member of all rounds. */
static double median(const tn_start_times *times, int n, size_t offset) {
    double values[TN_START_MAX_ROUNDS];
    for (int i = 0; i < n; i++) memcpy(&values[i], (const char *)&times[i] + offset, sizeof *values);
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

int main(int argc, char **argv) {
    static tn_start_times times[3][TN_START_MAX_ROUNDS];
    static const char *const names[] = {"cold", "preload", "warm"};
    const int rounds = argc == 3 ? atoi(argv[2]) : 0;
    if (rounds < 1 || rounds > TN_START_MAX_ROUNDS) {
        fputs("usage: tern-start MODEL ROUNDS\n", stderr);
        return 2;
    }
    for (int i = 0; i < rounds; i++)
        for (int how = 0; how < 3; how++) {
            if (!place_file(argv[1], how == 2)) {
                fputs("tern-start: error: the file's pages do not come and go: is it in use?\n", stderr);
                return 1;
            }
            if (!measure(argv[1], how == 1, &times[how][i])) return 1;
        }
    printf("%-8s %8s %8s %8s %8s %8s\n", "", "open", "session", "prompt", "text", "all");
    for (int how = 0; how < 3; how++)
        printf("%-8s %8.1f %8.1f %8.1f %8.1f %8.1f\n", names[how],
               median(times[how], rounds, offsetof(tn_start_times, open)),
               median(times[how], rounds, offsetof(tn_start_times, session)),
               median(times[how], rounds, offsetof(tn_start_times, prompt)),
               median(times[how], rounds, offsetof(tn_start_times, text)),
               median(times[how], rounds, offsetof(tn_start_times, all)));
    return 0;
}
