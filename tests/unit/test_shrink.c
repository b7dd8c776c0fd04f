/* A model's file that becomes shorter while it is in use: by less than a page it reads as zeros, without a signal. What is
 * computed with it from then on is refused, and nothing is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/stat.h>

#include <cmocka.h>

#include "tern.h"
#include "tests/unit/tiny_model.h"

static char path[] = "/tmp/tern-shrink-XXXXXX";

static int make(void **state) {
    (void)state;
    strcpy(path, "/tmp/tern-shrink-XXXXXX");
    tiny_write(&tiny_llama, path);
    return 0;
}

static int drop(void **state) {
    (void)state;
    return unlink(path);
}

static void cut(off_t n) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - n), 0);
}

static void assert_shrank(tern_status status, const tern_error *err) {
    assert_int_equal(status, TERN_ERR_IO);
    assert_non_null(strstr(err->message, path));
    assert_non_null(strstr(err->message, "shrank while in use"));
}

static void what_is_computed_is_refused(void **state) {
    (void)state;
    static const int32_t ids[] = {1, 2, 3};
    tern_model *model;
    tern_session *session;
    tern_error err;
    assert_int_equal(tern_model_open(path, NULL, &model, &err), TERN_OK);
    assert_int_equal(tern_session_new(model, NULL, &session, &err), TERN_OK);
    assert_int_equal(tern_session_eval(session, ids, 3, 1, &err), TERN_OK);
    cut(1);
    assert_shrank(tern_session_eval(session, ids, 3, 1, &err), &err);
    assert_shrank(tern_session_sync(session, ids, 3, 1, NULL, &err), &err);
    tern_session_free(session);
    tern_model_close(model);
    assert_int_not_equal(tern_model_open(path, NULL, &model, &err), TERN_OK);
    assert_non_null(strstr(err.message, "past the end"));
}

static bool cut_once(void *user, uint64_t done, uint64_t total) {
    bool *is_cut = user;
    (void)done, (void)total;
    if (!*is_cut) cut(1);
    return *is_cut = true;
}

static void no_quantized_file_is_left(void **state) {
    (void)state;
    char out[sizeof path + 4];
    tern_error err;
    bool is_cut = false;
    tern_quantize_options options;
    tern_quantize_options_defaults(&options);
    options.type = "Q8_0", options.progress = cut_once, options.user = &is_cut;
    snprintf(out, sizeof out, "%s.out", path);
    assert_shrank(tern_quantize(path, out, &options, NULL, &err), &err);
    assert_true(is_cut);
    assert_int_equal(access(out, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_computed_is_refused, make, drop),
        cmocka_unit_test_setup_teardown(no_quantized_file_is_left, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
