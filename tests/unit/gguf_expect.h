/* Writes a built file and expects it to load, or to fail with words in its message. One directory holds all
 * of a test program's files. Include after cmocka.h. */
#ifndef TN_TESTS_GGUF_EXPECT_H
#define TN_TESTS_GGUF_EXPECT_H

#include <time.h>
#include <unistd.h>

#include "formats/format.h"
#include "gguf_builder.h"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static char dir[64]; /* made once, removed at the end */

static inline const char *in_dir(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Of this process: other programs may have the cores. */
static inline double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void expect_message(const tn_error *err, const char *const words[], int n_words) {
    size_t n = strlen(err->message);
    assert_true(tn_is_printable(err->message, n));
    assert_memory_equal(err->message, "cannot open ", 12);
    for (int i = 0; i < n_words; i++) {
        if (strstr(err->message, words[i])) continue;
        fail_msg("'%s' is not in: %s", words[i], err->message);
    }
}

static inline void expect_path_fails(const char *path, tn_status status, const char *const words[],
                                     int n_words) {
    tn_file *file = (tn_file *)dir;
    tn_error err = {0};
    double start = now_s();
    tn_status got = tn_file_open(path, &file, &err);
    if (got == TN_OK) fail_msg("%s opened, expected an error with '%s'", path, words[0]);
    assert_true(now_s() - start < 2);
    assert_int_equal(got, err.code);
    if (status != TN_OK) assert_int_equal(got, status);
    assert_null(file);
    expect_message(&err, words, n_words);
}

/* The words must be in the message; the builder is used up. */
#define EXPECT_FAILS(b, ...)                                                                                 \
    do {                                                                                                     \
        const char *const words_[] = {__VA_ARGS__, "/bad.gguf"};                                             \
        gb_write(b, in_dir("bad.gguf"));                                                                     \
        gb_free(b);                                                                                          \
        expect_path_fails(in_dir("bad.gguf"), TN_OK, words_, sizeof words_ / sizeof *words_);                \
    } while (0)

#define EXPECT_PATH_FAILS(path, status, ...)                                                                 \
    do {                                                                                                     \
        const char *const words_[] = {__VA_ARGS__};                                                          \
        expect_path_fails(path, status, words_, sizeof words_ / sizeof *words_);                             \
    } while (0)

static inline tn_file *expect_path_loads(const char *path) {
    tn_file *file = NULL;
    tn_error err = {0};
    if (tn_file_open(path, &file, &err) != TN_OK) fail_msg("%s", err.message);
    assert_non_null(file);
    return file;
}

static inline tn_file *expect_loads(gb *b) {
    gb_write(b, in_dir("good.gguf"));
    gb_free(b);
    return expect_path_loads(in_dir("good.gguf"));
}

static inline int expect_make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tern-test-gguf-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int expect_remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

#endif
