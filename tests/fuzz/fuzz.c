/* Running an input within limits, and what targets need. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const fuzz_target *const targets[] = {
#define FUZZ_TARGET(name) &fuzz_##name,
#include "targets.def"
#undef FUZZ_TARGET
};

const fuzz_target *fuzz_find(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i]->name, name)) return targets[i];
    return NULL;
}

/* ---- Limits ---- */

/* Of processor time; the sanitizers take some five times as long. */
#ifdef TN_SANITIZED
#define LIMIT_SECONDS 10.0
#else
#define LIMIT_SECONDS 2.0
#endif

static const size_t limit_bytes = (size_t)64 << 20; /* beside the input's files */

static atomic_size_t live_bytes, most_bytes; /* of the heap; most_bytes 0: not watched */

#ifdef TN_SANITIZED
/* gcc comes without the header. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

static void on_malloc(const volatile void *p, size_t n) {
    const size_t live = atomic_fetch_add(&live_bytes, n) + n, most = atomic_load(&most_bytes);
    if (!p || !most || live <= most) return;
    atomic_store(&most_bytes, 0);
    fprintf(stderr, "fuzz: more than %zu MiB of memory beside the file\n", limit_bytes >> 20);
    abort();
}

static void on_free(const volatile void *p) {
    if (p) atomic_fetch_sub(&live_bytes, __sanitizer_get_allocated_size(p));
}

static void watch_memory(void) {
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#else
static void watch_memory(void) {}
#endif

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct {
    double seconds;
    size_t run, n_runs;
} slowest;

double fuzz_slowest(size_t *index) {
    *index = slowest.run;
    return slowest.seconds;
}

static void *kept[16]; /* memory of this run */
static size_t n_kept;

void fuzz_run(const fuzz_target *target, const uint8_t *data, size_t n) {
    static bool watching;
    if (!watching) watch_memory();
    watching = true;
    atomic_store(&most_bytes, atomic_load(&live_bytes) + limit_bytes + n);
    const double begin = cpu_seconds();
    target->run(data, n);
    const double seconds = cpu_seconds() - begin;
    atomic_store(&most_bytes, 0);
    while (n_kept) free(kept[--n_kept]);
    if (seconds > slowest.seconds) slowest.seconds = seconds, slowest.run = slowest.n_runs;
    slowest.n_runs++;
    if (seconds <= LIMIT_SECONDS) return;
    fprintf(stderr, "fuzz: %s: took %.1f s, expected at most %.0f\n", target->name, seconds, LIMIT_SECONDS);
    abort();
}

/* ---- Checks ---- */

void fuzz_check(bool condition, const char *text, const char *file, int line) {
    if (condition) return;
    dprintf(STDERR_FILENO, "fuzz: %s:%d: does not hold: %s\n", file, line,
            text); /* stderr may be listened to */
    abort();
}

void fuzz_check_status(int status, const void *err) {
    const tn_error *e = err;
    if (status == TN_OK) return;
    const size_t n = strnlen(e->message, sizeof e->message);
    FUZZ_CHECK(status > 0 && status <= TN_ERR_CANCELLED && (int)e->code == status);
    FUZZ_CHECK(n > 0 && n < sizeof e->message && tn_is_printable(e->message, n));
    FUZZ_CHECK(strstr(e->message, ": "));
}

void fuzz_listen(fuzz_said *said) {
    said->standard = stderr;
    stderr = open_memstream(&said->text, &said->n);
    if (!stderr) exit(3);
}

void fuzz_heard(fuzz_said *said, int exit_code) {
    static const char begin[] = "tern: error: ";
    fclose(stderr);
    stderr = said->standard;
    const char *text = said->text;
    size_t n = said->n;
    FUZZ_CHECK(exit_code == 0 ? n == 0 : n > sizeof begin && !memcmp(text, begin, sizeof begin - 1));
    if (n) FUZZ_CHECK(text[n - 1] == '\n' && tn_is_printable(text, n - 1));
    free(said->text);
}

void fuzz_touch(const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++) all ^= at[i];
    __asm__ volatile("" : : "r"(all)); /* so that it is read for something */
}

/* ---- Files ---- */

static char folder[256];

static void remove_folder(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command)) fprintf(stderr, "fuzz: %s stays\n", folder);
}

const char *fuzz_path(const char *name) {
    static char path[sizeof folder + 128];
    if (!folder[0]) {
        const char *base = getenv("TMPDIR");
        if (!base) base = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm"; /* much is written */
        snprintf(folder, sizeof folder, "%s/tern-fuzz-XXXXXX", base);
        if (!mkdtemp(folder)) perror(folder), exit(3);
        atexit(remove_folder);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

const char *fuzz_write(const char *name, fuzz_bytes contents, size_t n_zeros) {
    const char *path = fuzz_path(name);
    unlink(path);
    FILE *f = fopen(path, "wb");
    if (!f || (contents.n && fwrite(contents.data, 1, contents.n, f) != contents.n) || fflush(f) ||
        (n_zeros && ftruncate(fileno(f), (off_t)(contents.n + n_zeros))) || fclose(f))
        perror(path), exit(3);
    return path;
}

/* Most of the file stays as it was for the last input: much would have to be written. */
const char *fuzz_write_head(fuzz_bytes head) {
    enum { BYTES = 2 << 20 };
    static uint8_t pattern[65536];
    static size_t n_last;
    static int fd = -1;
    const char *path = fuzz_path("model.gguf");
    bool good = head.n <= sizeof pattern;
    if (fd < 0) {
        memset(pattern, 0x3C, sizeof pattern); /* F32 0.0115, F16 1.06, scales near 1 */
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        for (off_t at = 0; good && at < BYTES; at += (off_t)sizeof pattern)
            good = pwrite(fd, pattern, sizeof pattern, at) == (ssize_t)sizeof pattern;
    }
    good = good && pwrite(fd, head.data, head.n, 0) == (ssize_t)head.n;
    if (n_last > head.n)
        good = good && pwrite(fd, pattern, n_last - head.n, (off_t)head.n) == (ssize_t)(n_last - head.n);
    n_last = head.n;
    if (!good) perror(path), exit(3);
    return path;
}

/* ---- Parts of an input ---- */

size_t fuzz_split(const uint8_t *data, size_t n, fuzz_bytes parts[FUZZ_MAX_PARTS]) {
    static const char between[] = "\n%%%%%\n";
    const size_t n_between = sizeof between - 1;
    size_t count = 0;
    for (const uint8_t *at = data;;) {
        const size_t left = n - (size_t)(at - data);
        const uint8_t *end = count + 1 < FUZZ_MAX_PARTS && left ? memmem(at, left, between, n_between) : NULL;
        parts[count++] = (fuzz_bytes){at, end ? (size_t)(end - at) : left};
        if (!end) return count;
        at = end + n_between;
    }
}

char *fuzz_text(fuzz_bytes part) {
    char *text = malloc(part.n + 1);
    if (!text || n_kept == sizeof kept / sizeof *kept) exit(3);
    if (part.n) memcpy(text, part.data, part.n);
    text[part.n] = '\0';
    return kept[n_kept++] = text;
}

uint8_t fuzz_take(fuzz_bytes *from) {
    if (!from->n) return 0;
    from->n--;
    return *from->data++;
}

uint32_t fuzz_take_below(fuzz_bytes *from, uint32_t n) {
    uint32_t v = fuzz_take(from);
    if (n > 256) v = v << 8 | fuzz_take(from);
    return n ? v % n : 0;
}

fuzz_bytes fuzz_take_bytes(fuzz_bytes *from, size_t n) {
    const fuzz_bytes taken = {from->data, n < from->n ? n : from->n};
    from->data += taken.n;
    from->n -= taken.n;
    return taken;
}
