/* What the GGUF writer writes, the reader reads; and a file that cannot be finished leaves nothing and harms nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "formats/gguf_writer.h"
#include "gguf_expect.h"

enum { ROW = 40, N_TENSORS = 5 };

static const uint64_t tensor_dims[2] = {ROW, 3};

static float value_at(uint64_t tensor, uint64_t i) {
    return (float)(1000 * tensor + i);
}

static tn_gguf_writer *new_writer(const char *name, int n_tensors) {
    tn_gguf_writer *w = tn_gguf_writer_new(in_dir(name));
    assert_non_null(w);
    for (int i = 0; i < n_tensors; i++) {
        char tensor_name[16];
        snprintf(tensor_name, sizeof tensor_name, "t%d", i);
        tn_gguf_add_tensor(w, tensor_name, TN_DTYPE_F32, 2, tensor_dims);
    }
    return w;
}

/* In pieces that end anywhere. */
static tn_status write_data(tn_gguf_writer *w, uint64_t n_tensors, tn_error *err) {
    tn_status status = TN_OK;
    for (uint64_t t = 0; t < n_tensors; t++) {
        float row[ROW * 3];
        for (uint64_t i = 0; i < ROW * 3; i++) row[i] = value_at(t, i);
        const uint64_t cut = 1 + 97 * t;
        if (status == TN_OK) status = tn_gguf_write(w, row, cut, err);
        if (status == TN_OK) status = tn_gguf_write(w, (const char *)row + cut, sizeof row - cut, err);
    }
    return status;
}

static void expect_tensors(const tn_file *file, uint64_t n_tensors) {
    assert_int_equal(tn_file_n_tensors(file), n_tensors);
    for (uint64_t t = 0; t < n_tensors; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", (int)t);
        const tn_tensor *tensor = tn_file_tensor(file, name);
        assert_non_null(tensor);
        assert_int_equal(tensor->dims[0], ROW);
        assert_int_equal(tensor->dims[1], 3);
        for (uint64_t i = 0; i < ROW * 3; i++) {
            float x;
            memcpy(&x, tensor->data + 4 * i, sizeof x);
            assert_true(x == value_at(t, i));
        }
    }
}

static int count_files(void) {
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int remove_files(void **state) {
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'/* '%s'/.tern*", dir, dir);
    return system(command);
}

static tn_file *expect_committed(tn_gguf_writer *w, const char *name, int n_tensors) {
    tn_error err = {0};
    if (tn_gguf_begin(w, NULL, &err) || write_data(w, (uint64_t)n_tensors, &err) || tn_gguf_commit(w, &err))
        fail_msg("%s", err.message);
    return expect_path_loads(in_dir(name));
}

/* ---- Contents ---- */

static void set_every_type(tn_gguf_writer *w) {
    const int8_t i8 = -8;
    const uint16_t u16[3] = {1, 2, 65535};
    const double f64 = 0.1;
    const tn_str texts[3] = {{"a\0b", 3}, {"", 0}, {"third", 5}};
    tn_gguf_set_text(w, "general.architecture", "none", 4);
    tn_gguf_set_u32(w, "u32", 1);
    tn_gguf_set(w, "i8", TN_META_I8, &i8);
    tn_gguf_set(w, "f64", TN_META_F64, &f64);
    tn_gguf_set_f32(w, "f32", 0.5F);
    tn_gguf_set_bool(w, "bool", true);
    tn_gguf_set_array(w, "u16s", TN_META_U16, u16, 3);
    tn_gguf_set_array(w, "empty", TN_META_F32, NULL, 0);
    tn_gguf_set_texts(w, "texts", texts, 3);
    tn_gguf_set_u32(w, "u32", 77); /* again: in the same place */
}

static void expect_every_type(const tn_file *file) {
    uint64_t u;
    int64_t i;
    double f;
    bool b;
    tn_str s;
    assert_int_equal(tn_file_n_meta(file), 9);
    assert_true(tn_meta_u64(tn_file_meta(file, "u32"), 0, &u) && u == 77);
    assert_ptr_equal(tn_file_meta(file, "u32"), tn_file_meta_at(file, 1));
    assert_true(tn_meta_i64(tn_file_meta(file, "i8"), 0, &i) && i == -8);
    assert_true(tn_meta_f64(tn_file_meta(file, "f64"), 0, &f) && f == 0.1);
    assert_true(tn_meta_f64(tn_file_meta(file, "f32"), 0, &f) && f == 0.5);
    assert_true(tn_meta_bool(tn_file_meta(file, "bool"), 0, &b) && b);
    assert_int_equal(tn_file_meta(file, "u16s")->count, 3);
    assert_true(tn_meta_u64(tn_file_meta(file, "u16s"), 2, &u) && u == 65535);
    assert_int_equal(tn_file_meta(file, "empty")->count, 0);
    assert_true(tn_meta_str(tn_file_meta(file, "texts"), 0, &s) && s.len == 3 && !memcmp(s.ptr, "a\0b", 3));
    assert_true(tn_meta_str(tn_file_meta(file, "texts"), 1, &s) && s.len == 0);
    assert_true(tn_meta_str(tn_file_meta(file, "texts"), 2, &s) && s.len == 5 && !memcmp(s.ptr, "third", 5));
}

static void a_file_holds_what_was_set(void **state) {
    (void)state;
    tn_gguf_writer *w = new_writer("a.gguf", N_TENSORS);
    set_every_type(w);
    tn_file *file = expect_committed(w, "a.gguf", N_TENSORS);
    expect_every_type(file);
    expect_tensors(file, N_TENSORS);
    assert_string_equal(tn_file_format(file), "GGUF v3");
    /* Copied from the open file, entry by entry. */
    w = new_writer("b.gguf", N_TENSORS);
    tn_gguf_set_all(w, file);
    tn_file *copy = expect_committed(w, "b.gguf", N_TENSORS);
    expect_every_type(copy);
    assert_int_equal(tn_file_bytes(copy), tn_file_bytes(file));
    tn_file_close(copy);
    tn_file_close(file);
    assert_int_equal(count_files(), 2);
}

static void a_file_may_be_empty_of_tensors(void **state) {
    (void)state;
    tn_gguf_writer *w = new_writer("none.gguf", 0);
    tn_gguf_set_u32(w, "general.alignment", 64);
    tn_file_close(expect_committed(w, "none.gguf", 0));
}

static void shards_divide_by_bytes_and_by_hand(void **state) {
    (void)state;
    const uint64_t tensor_bytes = ROW * 3 * 4;
    tn_gguf_writer *w = new_writer("s.gguf", N_TENSORS);
    set_every_type(w);
    tn_gguf_set_u32(w, "general.alignment", 128);
    tn_gguf_split_by_bytes(w, 2 * tensor_bytes + 20); /* padding counts: two of 512 are too many */
    tn_file *file = expect_committed(w, "s-00001-of-00005.gguf", N_TENSORS);
    expect_tensors(file, N_TENSORS);
    assert_int_equal(tn_file_shards(file), 5);
    /* The split is not inherited by a copy. */
    w = new_writer("whole.gguf", 2);
    tn_gguf_set_all(w, file);
    tn_gguf_new_shard(w);
    tn_gguf_add_tensor(w, "t2", TN_DTYPE_F32, 2, tensor_dims);
    tn_file *two = expect_committed(w, "whole-00001-of-00002.gguf", 3);
    expect_tensors(two, 3);
    assert_int_equal(tn_file_shards(two), 2);
    tn_file_close(two);
    tn_file_close(file);
}

/* ---- Failure ---- */

static void an_aborted_file_leaves_nothing(void **state) {
    (void)state;
    tn_error err;
    for (int step = 0; step < 3; step++) {
        tn_gguf_writer *w = new_writer("gone.gguf", N_TENSORS);
        for (int i = 1; i < N_TENSORS && step == 2; i++) tn_gguf_split_by_bytes(w, 1);
        if (step > 0) assert_int_equal(tn_gguf_begin(w, NULL, &err), TN_OK);
        if (step > 1) assert_int_equal(write_data(w, 3, &err), TN_OK);
        tn_gguf_abort(w);
        assert_int_equal(count_files(), 0);
    }
}

static tn_status write_limited(const char *name, rlim_t bytes, bool limit_before, uint64_t split,
                               tn_error *err) {
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = bytes;
    tn_gguf_writer *w = new_writer(name, N_TENSORS);
    tn_gguf_split_by_bytes(w, split);
    if (limit_before) setrlimit(RLIMIT_FSIZE, &limit);
    tn_status status = tn_gguf_begin(w, NULL, err);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (status == TN_OK) status = write_data(w, N_TENSORS, err);
    if (status == TN_OK) {
        status = tn_gguf_commit(w, err);
    } else {
        tn_gguf_abort(w);
    }
    setrlimit(RLIMIT_FSIZE, &old);
    return status;
}

/* A limit on the size of files stands for a disk that is full at that byte. */
static void a_full_disk_is_an_error_and_leaves_the_old_file(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    tn_file_close(expect_committed(new_writer("full.gguf", 1), "full.gguf", 1));
    int n_failed = 0, n_written = 0;
    for (rlim_t bytes = 0; bytes < 3000; bytes += 41) {
        for (int mode = 0; mode < 3; mode++) {
            tn_error err = {0};
            const tn_status status = write_limited("full.gguf", bytes, mode == 0, mode == 2 ? 500 : 0, &err);
            const bool failed = status != TN_OK;
            n_failed += failed;
            n_written += !failed;
            if (failed) {
                assert_int_equal(status, TN_ERR_IO);
                assert_non_null(strstr(err.message, "cannot write: "));
                assert_non_null(strstr(err.message, "File too large"));
                assert_int_equal(count_files(), 1);
                tn_file *file = expect_path_loads(in_dir("full.gguf"));
                expect_tensors(file, 1);
                tn_file_close(file);
            } else {
                remove_files(NULL);
                tn_file_close(expect_committed(new_writer("full.gguf", 1), "full.gguf", 1));
            }
        }
    }
    assert_true(n_failed > 50 && n_written > 10);
}

static void expect_begin_fails(const char *name, const tn_file *source, const char *why) {
    tn_error err = {0};
    tn_gguf_writer *w = new_writer(name, 1);
    assert_int_not_equal(tn_gguf_begin(w, source, &err), TN_OK);
    if (!strstr(err.message, why)) fail_msg("'%s' is not in: %s", why, err.message);
    tn_gguf_abort(w);
}

static void the_source_is_not_replaced_by_any_name(void **state) {
    (void)state;
    tn_file *file = expect_committed(new_writer("source.gguf", 1), "source.gguf", 1);
    char other[256];
    snprintf(other, sizeof other, "%s", in_dir("hard.gguf"));
    assert_int_equal(link(in_dir("source.gguf"), other), 0);
    snprintf(other, sizeof other, "%s", in_dir("soft.gguf"));
    assert_int_equal(symlink(in_dir("source.gguf"), other), 0);
    expect_begin_fails("source.gguf", file, "is the same file as the input");
    expect_begin_fails("hard.gguf", file, "is the same file as the input");
    expect_begin_fails("soft.gguf", file, "is the same file as the input");
    assert_int_equal(count_files(), 3);
    expect_tensors(file, 1);
    tn_file_close(file);
}

static void odd_places_are_errors(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_dir("folder.gguf"), 0700), 0);
    expect_begin_fails("folder.gguf", NULL, "is a directory");
    expect_begin_fails("no/such.gguf", NULL, "No such file");
    tn_gguf_writer *w = new_writer("x.gguf", 1);
    tn_gguf_set_u32(w, "general.alignment", 24);
    tn_error err = {0};
    assert_int_equal(tn_gguf_begin(w, NULL, &err), TN_ERR_ARG);
    assert_non_null(strstr(err.message, "power of two"));
    tn_gguf_abort(w);
}

static void a_replaced_symbolic_link_stays_one(void **state) {
    (void)state;
    tn_file_close(expect_committed(new_writer("real.gguf", 1), "real.gguf", 1));
    char link_path[256];
    snprintf(link_path, sizeof link_path, "%s", in_dir("link.gguf"));
    assert_int_equal(symlink(in_dir("real.gguf"), link_path), 0);
    tn_file *file = expect_committed(new_writer("link.gguf", 2), "real.gguf", 2);
    expect_tensors(file, 2);
    tn_file_close(file);
    struct stat st;
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

int main(void) {
#define TEST(f) cmocka_unit_test_teardown(f, remove_files)
    const struct CMUnitTest tests[] = {
        TEST(a_file_holds_what_was_set),
        TEST(a_file_may_be_empty_of_tensors),
        TEST(shards_divide_by_bytes_and_by_hand),
        TEST(an_aborted_file_leaves_nothing),
        TEST(a_full_disk_is_an_error_and_leaves_the_old_file),
        TEST(the_source_is_not_replaced_by_any_name),
        TEST(odd_places_are_errors),
        TEST(a_replaced_symbolic_link_stays_one),
    };
    return cmocka_run_group_tests(tests, expect_make_dir, expect_remove_dir);
}
