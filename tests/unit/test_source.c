/* A model from a path, from a part of an open file and from memory: the same bits, the same checks. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tern.h"
#include "tests/unit/tiny_model.h"

enum { N_IDS = 40 };

/* The bytes of a model, and a folder for files that hold them. */
typedef struct fixture {
    uint8_t *bytes;
    size_t n;
    float logits[50];
    char path[32], other[32];
} fixture;

static tern_status open_source(const tern_source *source, tern_model **model, tern_error *err) {
    *err = (tern_error){0};
    return tern_model_open_source(source, NULL, model, err);
}

/* Computes with the model and closes it. */
static void compute(tern_model *model, float logits[50]) {
    int32_t ids[N_IDS];
    tern_error err;
    tern_session *session;
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = 64, options.n_threads = 2;
    for (int i = 0; i < N_IDS; i++) ids[i] = i * 7 % 50;
    if (tern_session_new(model, &options, &session, &err)) fail_msg("%s", err.message);
    if (tern_session_eval(session, ids, N_IDS, 1, &err)) fail_msg("%s", err.message);
    memcpy(logits, tern_session_row(session, 0, NULL), 50 * sizeof *logits);
    tern_session_free(session);
    tern_model_close(model);
}

static void assert_same(const fixture *f, const tern_source *source) {
    tern_model *model;
    tern_error err;
    float logits[50];
    if (open_source(source, &model, &err)) fail_msg("%s", err.message);
    tern_model_info info;
    tern_model_info_get(model, &info);
    assert_true(info.file_bytes >= f->n);
    compute(model, logits);
    assert_memory_equal(logits, f->logits, sizeof logits);
}

static void assert_refused(const tern_source *source, tern_status status, const char *message) {
    tern_model *model = (tern_model *)(uintptr_t)source;
    tern_error err;
    assert_int_equal(open_source(source, &model, &err), status);
    assert_null(model);
    if (!strstr(err.message, message)) fail_msg("'%s' is not in: %s", message, err.message);
}

static int setup(void **state) {
    static fixture f;
    strcpy(f.path, "/tmp/tern-tiny-XXXXXX");
    strcpy(f.other, "/tmp/tern-part-XXXXXX");
    tiny_write(&tiny_mixtral, f.path);
    FILE *file = fopen(f.path, "rb");
    struct stat st;
    if (!file || fstat(fileno(file), &st)) return -1;
    f.n = (size_t)st.st_size;
    f.bytes = malloc(f.n);
    if (fread(f.bytes, 1, f.n, file) != f.n || fclose(file)) return -1;
    close(mkstemp(f.other));
    tern_model *model;
    tern_error err;
    if (tern_model_open(f.path, NULL, &model, &err)) fail_msg("%s", err.message);
    compute(model, f.logits);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    unlink(f->path);
    unlink(f->other);
    free(f->bytes);
    return 0;
}

/* A descriptor of a file that holds the model behind `before` bytes and before `behind` others. */
static int file_with(const fixture *f, size_t before, size_t behind) {
    const int fd = open(f->other, O_RDWR | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, f->bytes, f->n, (off_t)before), f->n);
    assert_int_equal(ftruncate(fd, (off_t)(before + f->n + behind)), 0);
    return fd;
}

static tern_source from_fd(int fd, uint64_t offset, uint64_t n_bytes) {
    tern_source source;
    tern_source_defaults(&source);
    source.fd = fd, source.offset = offset, source.n_bytes = n_bytes;
    return source;
}

static tern_source from_memory(const void *data, uint64_t n_bytes) {
    tern_source source;
    tern_source_defaults(&source);
    source.data = data, source.n_bytes = n_bytes;
    return source;
}

static void a_part_of_a_file_is_a_model(void **state) {
    const fixture *f = *state;
    static const size_t offsets[] = {0, 4, 64, 4092, 4096, 70004};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        for (size_t behind = 0; behind <= 9000; behind += 3000) {
            const int fd = file_with(f, offsets[i], behind);
            tern_source source = from_fd(fd, offsets[i], f->n);
            assert_same(f, &source);
            source.n_bytes = 0; /* to the end: what lies behind a model does no harm */
            assert_same(f, &source);
            close(fd);
        }
    }
}

static void a_descriptor_is_not_needed_once_open(void **state) {
    const fixture *f = *state;
    const int fd = file_with(f, 100, 0);
    tern_source source = from_fd(fd, 100, 0);
    source.path = "the package's model";
    tern_model *model;
    tern_error err;
    assert_int_equal(open_source(&source, &model, &err), TERN_OK);
    close(fd);
    tern_model_info info;
    tern_model_info_get(model, &info);
    assert_string_equal(info.path, "the package's model");
    float logits[50];
    compute(model, logits);
    assert_memory_equal(logits, f->logits, sizeof logits);
}

static void memory_is_a_model_and_stays_the_caller_s(void **state) {
    const fixture *f = *state;
    uint8_t *copy = malloc(f->n + 64);
    for (size_t at = 0; at < 64; at += 4) {
        memcpy(copy + at, f->bytes, f->n);
        const tern_source source = from_memory(copy + at, f->n);
        assert_same(f, &source);
        assert_memory_equal(copy + at, f->bytes, f->n);
    }
    free(copy);
}

static void what_is_no_source_is_refused(void **state) {
    const fixture *f = *state;
    const int fd = file_with(f, 4096, 0);
    tern_source source = from_fd(fd, 4098, 0);
    assert_refused(&source, TERN_ERR_ARG, "descriptor");
    assert_refused(&source, TERN_ERR_ARG, "offset 4098 is not a multiple of 4");
    source.offset = 4100; /* in the middle of the model */
    assert_refused(&source, TERN_ERR_FORMAT, "not those of a known format");
    source.offset = 4096 + f->n;
    assert_refused(&source, TERN_ERR_FORMAT, "the file is empty");
    source.offset = UINT64_MAX - 3;
    assert_refused(&source, TERN_ERR_ARG, "are not in a file of");
    source = from_fd(fd, 4096, f->n + 1);
    assert_refused(&source, TERN_ERR_ARG, "are not in a file of");
    source.n_bytes = UINT64_MAX;
    assert_refused(&source, TERN_ERR_ARG, "are not in a file of");
    source.n_bytes = f->n - 1;
    assert_refused(&source, TERN_ERR_FORMAT, "past the end of the file");
    source.data = f->bytes;
    assert_refused(&source, TERN_ERR_ARG, "expected a path, a part of a descriptor's file, or memory");
    close(fd);
    source = from_fd(1000000, 0, 0);
    assert_refused(&source, TERN_ERR_IO, "descriptor 1000000: Bad file descriptor");
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    source.fd = ends[0];
    assert_refused(&source, TERN_ERR_IO, "FIFO");
    close(ends[0]), close(ends[1]);
    tern_source_defaults(&source);
    assert_refused(&source, TERN_ERR_ARG, "NULL");
    source.path = f->path;
    source.offset = 4;
    assert_refused(&source, TERN_ERR_ARG, "expected a path, a part");
    source.offset = 0;
    assert_same(f, &source);
}

static void memory_of_a_wrong_size_or_place_is_refused(void **state) {
    const fixture *f = *state;
    uint8_t *copy = malloc(f->n + 2);
    memcpy(copy + 2, f->bytes, f->n);
    tern_source source = from_memory(copy + 2, f->n);
    assert_refused(&source, TERN_ERR_ARG, "memory: its address is not a multiple of 4");
    source = from_memory(f->bytes, f->n - 1);
    assert_refused(&source, TERN_ERR_FORMAT, "memory: ");
    source.n_bytes = 0;
    assert_refused(&source, TERN_ERR_FORMAT, "memory: the file is empty");
    source.n_bytes = UINT64_MAX;
    assert_refused(&source, TERN_ERR_ARG, "exceed the address space");
    source = from_memory(f->bytes, f->n);
    source.offset = 4;
    assert_refused(&source, TERN_ERR_ARG, "expected a path, a part");
    free(copy);
}

static void a_shard_needs_its_path(void **state) {
    (void)state;
    gb b = {0};
    gb_header(&b, 3, 0, 2);
    gb_key(&b, "split.count", 2);
    gb_u16(&b, 3);
    gb_key(&b, "split.no", 2);
    gb_u16(&b, 0);
    const tern_source source = from_memory(b.data, b.size);
    assert_refused(&source, TERN_ERR_ARG,
                   "memory: is shard 1 of 3 of a split model, which is opened by the path of the first");
    gb_free(&b);
}

/* ---- Preloading ---- */

typedef struct seen {
    uint64_t n_calls, last, total;
    bool in_order;
    uint64_t cancel_at; /* the call that says no, from 1; 0: none */
} seen;

static bool see(void *user, uint64_t done, uint64_t total) {
    seen *s = user;
    s->in_order = (!s->n_calls || done > s->last) && done <= total;
    s->last = done, s->total = total;
    return ++s->n_calls != s->cancel_at;
}

/* A model of 20 MiB, most of it behind the tensors. */
static void preloading_reads_all_and_can_be_cancelled(void **state) {
    const fixture *f = *state;
    const int fd = file_with(f, 4, (size_t)20 << 20);
    tern_source source = from_fd(fd, 4, 0);
    for (uint64_t cancel_at = 0; cancel_at <= 3; cancel_at++) {
        seen s = {.cancel_at = cancel_at};
        tern_model_options options;
        tern_model_options_defaults(&options);
        options.preload = true, options.progress = see, options.user = &s;
        tern_model *model;
        tern_error err;
        const tern_status status = tern_model_open_source(&source, &options, &model, &err);
        assert_int_equal(status, cancel_at ? TERN_ERR_CANCELLED : TERN_OK);
        assert_true(s.in_order && s.total == f->n + ((uint64_t)20 << 20));
        if (cancel_at) {
            assert_null(model);
            assert_int_equal(s.n_calls, cancel_at);
        } else {
            assert_int_equal(s.n_calls, 4); /* of 8 MiB each, and the end */
            assert_int_equal(s.last, s.total);
        }
        tern_model_close(model);
    }
    close(fd);
}

static bool cut(void *user, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    return ftruncate(*(int *)user, 4096) == 0;
}

/* Where the system can say so (Linux from 5.14): no signal. */
static void a_file_that_shrinks_while_it_is_read_is_an_error(void **state) {
    const fixture *f = *state;
    int fd = file_with(f, 0, (size_t)1 << 20);
    if (madvise(f->bytes - (uintptr_t)f->bytes % 4096, 4096, MADV_POPULATE_READ) != 0) skip();
    const tern_source source = from_fd(fd, 0, 0);
    tern_model_options options;
    tern_model_options_defaults(&options);
    options.preload = true, options.progress = cut, options.user = &fd;
    tern_model *model;
    tern_error err;
    assert_int_equal(tern_model_open_source(&source, &options, &model, &err), TERN_ERR_IO);
    assert_null(model);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_file_is_a_model),
        cmocka_unit_test(a_descriptor_is_not_needed_once_open),
        cmocka_unit_test(memory_is_a_model_and_stays_the_caller_s),
        cmocka_unit_test(what_is_no_source_is_refused),
        cmocka_unit_test(memory_of_a_wrong_size_or_place_is_refused),
        cmocka_unit_test(a_shard_needs_its_path),
        cmocka_unit_test(preloading_reads_all_and_can_be_cancelled),
        cmocka_unit_test(a_file_that_shrinks_while_it_is_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
