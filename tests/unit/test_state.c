/* Saved states: the bits of a session that never stopped, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/base/hash.h"
#include "src/model/model.h"
#include "src/session/session.h"
#include "src/session/state.h"
#include "tern.h"
#include "tests/unit/tiny_session.h"

/* ---- Helpers ---------------------------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *data;
    size_t n, cap, at;
} bytes;

static tn_status append(void *user, const void *data, size_t n, tn_error *err) {
    bytes *b = user;
    (void)err;
    if (b->n + n > b->cap) b->data = realloc(b->data, b->cap = (b->n + n) * 2);
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return TN_OK;
}

static tn_status take(void *user, void *data, size_t n, tn_error *err) {
    bytes *b = user;
    (void)err;
    assert_true(n <= b->n - b->at); /* never more than it was told there is */
    memcpy(data, b->data + b->at, n);
    b->at += n;
    return TN_OK;
}

static bytes save(const tn_session *s, uint64_t model) {
    bytes b = {0};
    assert_int_equal(tn_state_save(s, model, append, &b, NULL), TN_OK);
    assert_int_equal(b.n, tn_state_bytes(s));
    return b;
}

static void load(tn_session *s, uint64_t model, bytes *b) {
    tn_error err = {0};
    b->at = 0;
    if (tn_state_load(s, model, b->n, "a state", take, b, &err)) fail_msg("%s", err.message);
    assert_null(tn_session_logits(s, 0));
}

static void assert_same_logits(const tn_model *m, const tn_session *a, const tn_session *b) {
    assert_memory_equal(tn_session_logits(a, 0), tn_session_logits(b, 0), m->hparams.n_vocab * sizeof(float));
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

/* Published values (xxHash's specification and its Python package), the bytes added in pieces. */
static void the_checksum_is_xxh64(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint64_t expected;
    } cases[] = {{0, 0xef46db3751d8e999},  {4, 0x798a8b758de10b9c},  {31, 0x7d36fafd7e8f54d5},
                 {32, 0x8ca809248427ab85}, {33, 0x701316fef6f836d3}, {63, 0xabdc7bc152c8c7f4},
                 {64, 0x134758ba0f580486}, {999, 0xb0ccd904dd20ba53}};
    uint8_t data[999];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)((i * i + 7 * i) % 251);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t piece = 1; piece < 80; piece += 13) {
            tn_hash hash;
            tn_hash_start(&hash);
            for (size_t at = 0; at < cases[c].n; at += piece)
                tn_hash_add(&hash, data + at, cases[c].n - at < piece ? cases[c].n - at : piece);
            assert_true(tn_hash_value(&hash) == cases[c].expected);
        }
}

/* Saved at several lengths, before and behind the point where rings begin anew, and restored into sessions of the same and of
 * other shapes; then both go on, and are taken back. */
static void a_restored_session_goes_on_with_the_same_bits(void **state) {
    (void)state;
    static const struct {
        const tiny_shape *shape;
        tn_kv_type kv;
        uint32_t n, n_ctx, n_batch, to_ctx, to_batch;
    } cases[] = {
        {&tiny_llama, TN_KV_F16, 70, 256, 32, 256, 32},
        {&tiny_llama, TN_KV_F32, 200, 256, 32, 300, 7},
        {&tiny_llama, TN_KV_Q8_0, 129, 256, 16, 200, 64},
        {&tiny_gemma3, TN_KV_F16, 100, 1024, 32, 1024, 32},
        {&tiny_gemma3, TN_KV_F16, 900, 1024, 32, 1024, 32},
        {&tiny_gemma3, TN_KV_F32, 700, 1024, 200, 1024, 8},
        {&tiny_gemma3, TN_KV_Q8_0, 900, 2048, 8, 1024, 300},
        {&tiny_gemma3, TN_KV_F16, 300, 330, 32, 1024, 8},
        {&tiny_gemma3, TN_KV_F16, 700, 2048, 8, 740, 500},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_shape shape = *cases[i].shape;
        if (cases[i].kv == TN_KV_Q8_0) shape.head_dim = 32;
        tn_model *m = tiny_open(&shape);
        int32_t ids[1000];
        tiny_ids(ids, 1000, m->hparams.n_vocab, 11);
        tn_session *left = tiny_session(m, cases[i].n_ctx, cases[i].n_batch, 2, cases[i].kv);
        tn_session *back = tiny_session(m, cases[i].to_ctx, cases[i].to_batch, 1, cases[i].kv);
        tiny_eval(left, ids, cases[i].n);
        tiny_eval(back, ids + 50, 20); /* what it held before does not matter */
        bytes b = save(left, 5);
        load(back, 5, &b);
        assert_int_equal(tn_session_position(back), cases[i].n);
        assert_memory_equal(tn_session_tokens(back), ids, cases[i].n * sizeof *ids);
        for (uint32_t k = 0; k < 25; k++) {
            tiny_eval(left, ids + cases[i].n + k, 1);
            tiny_eval(back, ids + cases[i].n + k, 1);
            assert_same_logits(m, left, back);
        }
        const uint32_t to = cases[i].n - 30;
        assert_int_equal(tn_session_truncate(left, to), to);
        assert_int_equal(tn_session_truncate(back, to), to);
        tiny_eval(left, ids + 7, 40);
        tiny_eval(back, ids + 7, 40);
        assert_same_logits(m, left, back);
        free(b.data);
        tn_session_free(left);
        tn_session_free(back);
        tn_model_close(m);
    }
}

static void a_long_sequence_stays_one(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    float factors[64];
    for (int i = 0; i < 64; i++) factors[i] = 1.0f + (float)i;
    m->graph.ropes[0].long_factors = factors;
    m->graph.long_above = 40;
    int32_t ids[80];
    tiny_ids(ids, 80, m->hparams.n_vocab, 11);
    for (uint32_t n = 38; n < 44; n++) {
        tn_session *left = tiny_session(m, 128, 16, 1, TN_KV_F16),
                   *back = tiny_session(m, 128, 16, 1, TN_KV_F16);
        tiny_eval(left, ids, n);
        bytes b = save(left, 1);
        load(back, 1, &b);
        for (uint32_t at = n; at < 60; at++) {
            tiny_eval(left, ids + at, 1);
            tiny_eval(back, ids + at, 1);
            assert_same_logits(m, left, back);
        }
        free(b.data);
        tn_session_free(left);
        tn_session_free(back);
    }
    tn_model_close(m);
}

static void assert_refused(const tn_model *m, tn_session *s, const tn_session *fresh, uint64_t model,
                           bytes *b, const char *why) {
    static const int32_t ids[] = {1, 2, 3, 4, 5};
    tn_error err = {0};
    b->at = 0;
    assert_int_equal(tn_state_load(s, model, b->n, "a state", take, b, &err), TN_ERR_FORMAT);
    if (!strstr(err.message, why)) fail_msg("%s: expected %s", err.message, why);
    assert_int_equal(tn_session_position(s), 0);
    tiny_eval(s, ids, 5);
    assert_same_logits(m, s, fresh);
}

/* Puts `value` into the header and makes its checksum right again. */
static void forge(bytes *b, size_t offset, uint32_t value) {
    memcpy(b->data + offset, &value, sizeof value);
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add(&hash, b->data, 48);
    const uint64_t checksum = tn_hash_value(&hash);
    memcpy(b->data + 48, &checksum, 8);
}

static void forge_body(bytes *b, size_t offset, int32_t value) {
    memcpy(b->data + offset, &value, sizeof value);
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add(&hash, b->data + 56, b->n - 64);
    const uint64_t checksum = tn_hash_value(&hash);
    memcpy(b->data + b->n - 8, &checksum, 8);
}

static void what_is_not_whole_is_refused(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    int32_t ids[6];
    tiny_ids(ids, 6, m->hparams.n_vocab, 11);
    tn_session *s = tiny_session(m, 64, 8, 1, TN_KV_F16), *fresh = tiny_session(m, 64, 8, 1, TN_KV_F16);
    static const int32_t probe[] = {1, 2, 3, 4, 5};
    tiny_eval(fresh, probe, 5);
    tiny_eval(s, ids, 6);
    bytes whole = save(s, 9), b = {.data = malloc(whole.n + 8), .cap = whole.n + 8};
    for (size_t n = 0; n < whole.n; n += n < 100 || n + 100 > whole.n ? 1 : 13) {
        memcpy(b.data, whole.data, b.n = n);
        assert_refused(m, s, fresh, 9, &b, "truncated");
    }
    memcpy(b.data, whole.data, whole.n);
    memset(b.data + whole.n, 0, 8);
    b.n = whole.n + 8;
    assert_refused(m, s, fresh, 9, &b, "truncated or damaged");
    b.n = whole.n;
    for (size_t at = 0; at < whole.n; at += at < 100 || at + 20 > whole.n ? 1 : 29)
        for (int bit = 0; bit < 8; bit += 7) {
            memcpy(b.data, whole.data, whole.n);
            b.data[at] ^= (uint8_t)(1 << bit);
            assert_refused(m, s, fresh, 9, &b,
                           at < 8    ? "not a saved state"
                           : at < 12 ? "version"
                                     : "damaged");
        }
    free(whole.data);
    free(b.data);
    tn_session_free(s);
    tn_session_free(fresh);
    tn_model_close(m);
}

static void what_does_not_belong_is_refused(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_gemma3);
    int32_t ids[60];
    tiny_ids(ids, 60, m->hparams.n_vocab, 11);
    tn_session *s = tiny_session(m, 64, 8, 1, TN_KV_F16), *fresh = tiny_session(m, 64, 8, 1, TN_KV_F16),
               *f32 = tiny_session(m, 64, 8, 1, TN_KV_F32), *small = tiny_session(m, 59, 8, 1, TN_KV_F16);
    static const int32_t probe[] = {1, 2, 3, 4, 5};
    tiny_eval(fresh, probe, 5);
    tiny_eval(s, ids, 60);
    bytes whole = save(s, 9), b = {.data = malloc(whole.n), .n = whole.n, .cap = whole.n};
    memcpy(b.data, whole.data, b.n);
    assert_refused(m, s, fresh, 10, &b, "another model");
    tn_error err = {0};
    b.at = 0;
    assert_int_equal(tn_state_load(f32, 9, b.n, "a state", take, &b, &err), TN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "another type of cache than F32"));
    b.at = 0;
    assert_int_equal(tn_state_load(small, 9, b.n, "a state", take, &b, &err), TN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "it holds 60 positions, the context 59"));
    /* Offsets of the header: version 8, caches 24, position 28, oldest 32. */
    static const struct {
        size_t offset;
        uint32_t value;
        const char *why;
    } forged[] = {{8, 2, "version 2"},
                  {8, UINT32_C(1) << 31, "version"},
                  {24, UINT32_C(1) << 31, "sizes"},
                  {28, UINT32_C(1) << 31, "2147483648 positions"},
                  {28, 61, "sizes"},
                  {28, 0, "sizes"},
                  {32, 45, "sizes"},
                  {32, UINT32_C(1) << 31, "sizes"},
                  {36, 1, "damaged"},
                  {40, 1, "truncated or damaged"}};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        memcpy(b.data, whole.data, b.n);
        forge(&b, forged[i].offset, forged[i].value);
        assert_refused(m, s, fresh, 9, &b, forged[i].why);
    }
    memcpy(b.data, whole.data, b.n);
    forge_body(&b, 56 + 4 * 7, 50);
    assert_refused(m, s, fresh, 9, &b, "token 50 is not in the vocabulary");
    forge_body(&b, 56 + 4 * 7, -1);
    assert_refused(m, s, fresh, 9, &b, "token -1 is not in the vocabulary");
    free(whole.data);
    free(b.data);
    tn_session *const all[] = {s, fresh, f32, small};
    for (int i = 0; i < 4; i++) tn_session_free(all[i]);
    tn_model_close(m);
}

typedef struct failing {
    bytes *bytes;
    int n_good; /* calls before the one that fails */
} failing;

static tn_status append_some(void *user, const void *data, size_t n, tn_error *err) {
    failing *f = user;
    if (f->n_good-- == 0) return tn_fail(err, TN_ERR_IO, "cannot write", "a state", "no room");
    return append(f->bytes, data, n, err);
}

static tn_status take_some(void *user, void *data, size_t n, tn_error *err) {
    failing *f = user;
    if (f->n_good-- == 0) return tn_fail(err, TN_ERR_IO, "cannot read", "a state", "no disk");
    return take(f->bytes, data, n, err);
}

static void a_write_or_read_that_fails_is_told(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_gemma3);
    int32_t ids[60];
    tiny_ids(ids, 60, m->hparams.n_vocab, 11);
    tn_session *s = tiny_session(m, 64, 8, 1, TN_KV_F16), *back = tiny_session(m, 64, 8, 1, TN_KV_F16);
    tiny_eval(s, ids, 60);
    bytes whole = save(s, 9), part = {0};
    tn_status status = TN_ERR_IO;
    int n_calls = 0;
    for (; status; n_calls++) {
        tn_error err = {0};
        failing f = {&part, n_calls};
        part.n = 0;
        status = tn_state_save(s, 9, append_some, &f, &err);
        if (status) assert_non_null(strstr(err.message, "no room"));
        assert_int_equal(status, part.n < whole.n ? TN_ERR_IO : TN_OK);
    }
    assert_memory_equal(part.data, whole.data, whole.n);
    for (int n = 0; n < n_calls; n++) {
        tn_error err = {0};
        failing f = {&whole, n};
        whole.at = 0;
        status = tn_state_load(back, 9, whole.n, "a state", take_some, &f, &err);
        if (status) assert_non_null(strstr(err.message, "no disk"));
        assert_int_equal(status, n < n_calls - 1 ? TN_ERR_IO : TN_OK);
        assert_int_equal(tn_session_position(back), status ? 0 : 60);
    }
    free(whole.data);
    free(part.data);
    tn_session_free(s);
    tn_session_free(back);
    tn_model_close(m);
}

/* ---- By tern.h: files, and what tells models apart ---- */

static tern_model *open_tiny(const tiny_shape *shape, char *path, long flip_from_end) {
    strcpy(path, "/tmp/tern-tiny-XXXXXX");
    tiny_write(shape, path);
    if (flip_from_end) {
        FILE *f = fopen(path, "r+");
        fseek(f, -flip_from_end, SEEK_END);
        fputc(0x55, f);
        fclose(f);
    }
    tern_model *model = NULL;
    tern_error err = {0};
    if (tern_model_open(path, NULL, &model, &err)) fail_msg("%s", err.message);
    return model;
}

static tern_session *open_session(const tern_model *model) {
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = 64, options.n_threads = 1;
    tern_session *session = NULL;
    tern_error err = {0};
    if (tern_session_new(model, &options, &session, &err)) fail_msg("%s", err.message);
    return session;
}

static void files_and_memory_hold_the_same(void **state) {
    (void)state;
    char path[32], other_path[32], file[48], folder[] = "/tmp/tern-state-XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/s", folder);
    tern_model *model = open_tiny(&tiny_llama, path, 0);
    tern_session *a = open_session(model), *b = open_session(model);
    static const int32_t ids[] = {5, 6, 7, 8, 9, 10};
    tern_error err = {0};
    uint32_t reused;
    assert_int_equal(tern_session_eval(a, ids, 5, 1, &err), TERN_OK);
    for (int again = 0; again < 2; again++) assert_int_equal(tern_session_save(a, file, &err), TERN_OK);
    void *memory;
    size_t n;
    assert_int_equal(tern_session_save_memory(a, &memory, &n, &err), TERN_OK);
    uint8_t read[40000];
    FILE *f = fopen(file, "r");
    assert_int_equal(fread(read, 1, sizeof read, f), n);
    fclose(f);
    assert_memory_equal(read, memory, n);
    for (int from_file = 0; from_file < 2; from_file++) {
        assert_int_equal(from_file ? tern_session_load(b, file, &err)
                                   : tern_session_load_memory(b, memory, n, &err),
                         TERN_OK);
        assert_int_equal(tern_session_sync(b, ids, 6, 1, &reused, &err), TERN_OK);
        assert_int_equal(reused, 5);
        assert_int_equal(tern_session_sync(a, ids, 6, 1, NULL, &err), TERN_OK);
        assert_memory_equal(tern_session_row(a, 0, NULL), tern_session_row(b, 0, NULL), 50 * sizeof(float));
    }
    /* The same shapes and metadata, one weight another: the first element of the last tensor. */
    tern_model *other = open_tiny(&tiny_llama, other_path, (long)(64 * 96 * 4));
    tern_session *c = open_session(other);
    assert_int_equal(tern_session_load(c, file, &err), TERN_ERR_FORMAT);
    assert_non_null(strstr(err.message, "another model"));
    assert_non_null(strstr(err.message, file));
    assert_int_equal(tern_session_load(c, folder, &err), TERN_ERR_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(tern_session_load(c, "/dev/zero", &err), TERN_ERR_IO);
    assert_int_equal(tern_session_save(a, folder, &err), TERN_ERR_IO);
    assert_int_equal(tern_session_save(a, "/tmp/no/such/folder", &err), TERN_ERR_IO);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(tern_session_load(c, file, &err), TERN_ERR_IO);
    assert_int_equal(rmdir(folder), 0); /* nothing was left beside it */
    tern_free(memory);
    tern_session_free(a), tern_session_free(b), tern_session_free(c);
    tern_model_close(model), tern_model_close(other);
    unlink(path), unlink(other_path);
}

/* Nothing can go on behind a sequence that was computed at once. */
static void encoders_have_no_state(void **state) {
    (void)state;
    char path[32], folder[] = "/tmp/tern-state-XXXXXX", file[48];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/state", folder);
    tern_model *model = open_tiny(&tiny_encoder, path, 0);
    tern_session *s = open_session(model);
    tern_error err = {0};
    void *saved = &err;
    size_t n = 1;
    assert_int_equal(tern_session_save_memory(s, &saved, &n, &err), TERN_ERR_ARG);
    assert_true(!saved && n == 0);
    assert_non_null(strstr(err.message, "at once"));
    assert_int_equal(tern_session_save(s, file, &err), TERN_ERR_ARG);
    assert_int_equal(rmdir(folder), 0); /* nothing was left in it */
    tern_session_free(s);
    tern_model_close(model);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_xxh64),
        cmocka_unit_test(a_restored_session_goes_on_with_the_same_bits),
        cmocka_unit_test(a_long_sequence_stays_one),
        cmocka_unit_test(what_is_not_whole_is_refused),
        cmocka_unit_test(what_does_not_belong_is_refused),
        cmocka_unit_test(a_write_or_read_that_fails_is_told),
        cmocka_unit_test(files_and_memory_hold_the_same),
        cmocka_unit_test(encoders_have_no_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
