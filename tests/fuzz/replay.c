/* The fuzzers without libFuzzer: inputs of files, and such as are made of them with a seed.
 *
 *   fuzz_replay NAME [--runs N] [--seed S] [--sweep] PATH...
 *
 * Every file of the folders, or named, is run once; then N changed ones; with --sweep every truncation of the first 4 KiB of each
 * file and ten changes of every byte of them. What fails stands then in ./fault-NAME. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#ifdef TN_SANITIZED
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

static const fuzz_target *target;
static fuzz_edit input; /* that is being run */
static struct {
    fuzz_edit *v;
    size_t n, cap;
} files;

/* ---- Faults ---- */

static void keep_input(void) {
    char name[64], line[128];
    snprintf(name, sizeof name, "fault-%s", target->name);
    const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const bool good = fd >= 0 && write(fd, input.data, input.n) == (ssize_t)input.n;
    const int n = snprintf(line, sizeof line, "fuzz: %s: %s %s\n", target->name,
                           good ? "the input is in" : "cannot write", name);
    if (write(STDERR_FILENO, line, (size_t)n) != n) _exit(1);
}

static void on_signal(int number) {
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_faults(void) {
    static const int numbers[] = {SIGABRT, SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    size_t n = sizeof numbers / sizeof *numbers;
#ifdef TN_SANITIZED
    __sanitizer_set_death_callback(keep_input);
    n = 2; /* it takes the others */
#endif
    for (size_t i = 0; i < n; i++) signal(numbers[i], on_signal);
}

/* One that hangs is ended. */
static void run(void) {
    const struct itimerval limit = {.it_value.tv_sec = 60};
    setitimer(ITIMER_PROF, &limit, NULL);
    fuzz_run(target, input.data, input.n);
#ifdef TN_SANITIZED
    static size_t n_runs;
    if (++n_runs % 512 == 0 && __lsan_do_recoverable_leak_check()) {
        fprintf(stderr, "fuzz: %s: a leak in the last 512 inputs\n", target->name);
        abort();
    }
#endif
}

/* ---- Inputs ---- */

static void read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) perror(path), exit(2);
    fuzz_edit e = {malloc(target->max_bytes + 1), 0, target->max_bytes};
    if (!e.data) exit(3);
    e.n = fread(e.data, 1, target->max_bytes + 1, f);
    fclose(f);
    if (e.n > target->max_bytes) {
        free(e.data);
        return;
    }
    if (files.n == files.cap) {
        files.cap = files.cap ? 2 * files.cap : 64;
        files.v = realloc(files.v, files.cap * sizeof *files.v);
        if (!files.v) exit(3);
    }
    e.data = realloc(e.data, e.n + 1); /* so that reading behind it is seen; never of size 0 */
    files.v[files.n++] = e;
}

static void read_path(const char *path) {
    struct dirent **names;
    const int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) {
        read_file(path);
        return;
    }
    for (int i = 0; i < n; i++) {
        char file[4096];
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && !stat(file, &st) && S_ISREG(st.st_mode)) read_file(file);
        free(names[i]);
    }
    free(names);
}

static void set_input(const fuzz_edit *from, size_t n) {
    memcpy(input.data, from->data, n);
    input.n = n;
}

/* ---- Ways to run ---- */

static size_t replay(void) {
    for (size_t i = 0; i < files.n; i++) {
        set_input(&files.v[i], files.v[i].n);
        run();
    }
    return files.n;
}

static size_t run_changed(uint64_t n_runs, uint64_t seed) {
    fuzz_random r = {seed};
    for (uint64_t i = 0; i < n_runs; i++) {
        const fuzz_edit *from = files.n ? &files.v[fuzz_below(&r, files.n)] : NULL;
        input.n = 0;
        if (from) set_input(from, from->n);
        input.cap = target->max_bytes;
        fuzz_mutate(target, &input, &r, fuzz_mutate_plain);
        run();
    }
    return n_runs;
}

static size_t sweep(void) {
    static const uint8_t values[] = {0x00, 0xFF};
    size_t n_runs = 0;
    for (size_t i = 0; i < files.n; i++) {
        const fuzz_edit *f = &files.v[i];
        const size_t n = f->n < 4096 ? f->n : 4096;
        for (size_t cut = 0; cut < n; cut++, n_runs++) {
            set_input(f, cut);
            run();
        }
        for (size_t at = 0; at < n; at++) {
            for (size_t change = 0; change < 10; change++, n_runs++) {
                set_input(f, f->n);
                input.data[at] = (uint8_t)(change < 8 ? f->data[at] ^ 1u << change : values[change - 8]);
                run();
            }
        }
    }
    return n_runs;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    uint64_t n_runs = 0, seed = 1;
    bool sweeps = false;
    target = argc > 1 ? fuzz_find(argv[1]) : NULL;
    if (!target) {
        fprintf(stderr, "fuzz: error: expected: fuzz_replay NAME [--runs N] [--seed S] [--sweep] PATH...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--sweep"))
            sweeps = true;
        else if (!strcmp(argv[i], "--runs") && i + 1 < argc)
            n_runs = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else
            read_path(argv[i]);
    }
    input.data = malloc(target->max_bytes + 1);
    if (!input.data) return 3;
    catch_faults();
    const double begin = now();
    const size_t n_kept = replay(), n_made = (sweeps ? sweep() : 0) + run_changed(n_runs, seed);
    const double seconds = now() - begin;
    size_t which;
    const double slowest = fuzz_slowest(&which);
    printf("%-12s %6zu kept, %8zu made, %8.0f a second, slowest %.3f s (number %zu)\n", target->name, n_kept,
           n_made, (double)(n_kept + n_made) / seconds, slowest, which);
    free(input.data);
    for (size_t i = 0; i < files.n; i++) free(files.v[i].data);
    free(files.v);
    return 0;
}
