/* Split GGUF files: opened by the first shard, every other one checked against it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gguf_expect.h"

enum { T_F32 = 0 };

typedef struct shard {
    int file_number; /* in the name, from 1 */
    uint16_t number, count;
    int32_t n_tensors; /* split.tensors.count */
    const char *tensor;
} shard;

static void write_shard(const char *stem, const shard *s, int name_count) {
    char name[64];
    gb b = {0};
    gb_header(&b, 3, 1, s->number == 0 ? 4 : 3);
    gb_key_u16(&b, "split.no", s->number);
    gb_key_u16(&b, "split.count", s->count);
    gb_key(&b, "split.tensors.count", I32);
    gb_u32(&b, (uint32_t)s->n_tensors);
    if (s->number == 0) gb_key_u32(&b, "main", 77);
    gb_tensor(&b, s->tensor, 8, 1, T_F32, 0);
    gb_align(&b, 32);
    gb_u8(&b, (uint8_t)s->file_number);
    gb_zeros(&b, 31);
    snprintf(name, sizeof name, "%s-%05d-of-%05d.gguf", stem, s->file_number, name_count);
    gb_write(&b, in_dir(name));
    gb_free(&b);
}

static const char *write_shards(const char *stem, const shard s[3]) {
    static char name[64];
    for (int i = 0; i < 3; i++) {
        if (s[i].tensor) write_shard(stem, &s[i], 3);
    }
    snprintf(name, sizeof name, "%s-00001-of-00003.gguf", stem);
    return in_dir(name);
}

static void a_split_model_is_opened_by_its_first_shard(void **state) {
    (void)state;
    const char *first =
        write_shards("good", (shard[]){{1, 0, 3, 3, "x"}, {2, 1, 3, 3, "y"}, {3, 2, 3, 3, "z"}});
    tn_file *file = expect_path_loads(first);
    assert_int_equal(tn_file_shards(file), 3);
    assert_int_equal(tn_file_n_tensors(file), 3);
    assert_int_equal(tn_file_n_meta(file), 4);
    assert_non_null(tn_file_meta(file, "main"));
    assert_int_equal(tn_file_tensor(file, "x")->data[0], 1);
    assert_int_equal(tn_file_tensor(file, "y")->data[0], 2);
    assert_int_equal(tn_file_tensor(file, "z")->data[0], 3);
    uint64_t bytes = 0;
    for (int i = 1; i <= 3; i++) {
        char name[32];
        struct stat st;
        snprintf(name, sizeof name, "good-%05d-of-00003.gguf", i);
        assert_int_equal(stat(in_dir(name), &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    assert_int_equal(tn_file_bytes(file), bytes);
    tn_file_close(file);
    EXPECT_PATH_FAILS(in_dir("good-00002-of-00003.gguf"), TN_ERR_ARG, "shard 2 of 3",
                      "open the first, 'good-00001-of-00003.gguf'");
}

static void wrong_shards_are_errors(void **state) {
    (void)state;
    static const struct {
        shard shards[3];
        const char *file, *word, *found;
    } bad[] = {
        {{{1, 0, 3, 3, "x"}, {2, 1, 3, 3, "y"}, {0}}, "-00003-of-00003.gguf", "No such file", ""},
        {{{1, 0, 3, 3, "x"}, {2, 1, 2, 3, "y"}, {3, 2, 3, 3, "z"}},
         "-00002-of",
         "split.count' is 2",
         "3 in the first"},
        {{{1, 0, 3, 3, "x"}, {2, 2, 3, 3, "y"}, {3, 1, 3, 3, "z"}},
         "-00002-of",
         "split.no' is 2",
         "expected 1"},
        {{{1, 0, 3, 3, "x"}, {2, 1, 3, 3, "y"}, {3, 2, 3, 3, "x"}},
         "-00003-of",
         "duplicate tensor 'x'",
         "in shard 1"},
        {{{1, 0, 3, 4, "x"}, {2, 1, 3, 4, "y"}, {3, 2, 3, 4, "z"}},
         "-00001-of",
         "split.tensors.count' is 4",
         "hold 3"},
        {{{1, 0, 3, 3, "x"}, {2, 1, 3, 5, "y"}, {3, 2, 3, 3, "z"}},
         "-00002-of",
         "split.tensors.count' is 5",
         "3 in the"},
        {{{1, 0, 3, -1, "x"}, {2, 1, 3, 3, "y"}, {3, 2, 3, 3, "z"}},
         "-00001-of",
         "split.tensors.count'",
         "integer"},
        {{{1, 3, 3, 3, "x"}, {2, 1, 3, 3, "y"}, {3, 2, 3, 3, "z"}},
         "-00001-of",
         "split.no' is 3",
         "less than"},
        {{{1, 0, 2, 3, "x"}, {2, 1, 3, 3, "y"}, {3, 2, 3, 3, "z"}},
         "-00001-of",
         "shard 1 of 2",
         "-00001-of-00002.gguf'"},
        {{{1, 0, 65535, 3, "x"}, {2, 1, 3, 3, "y"}, {0}},
         "-00001-of",
         "shard 1 of 65535",
         "-00001-of-65535.gguf'"},
        {{{1, 2, 3, 3, "x"}, {2, 1, 3, 3, "y"}, {3, 0, 3, 3, "z"}},
         "-00001-of",
         "shard 3 of 3",
         "*-00001-of-00003.gguf'"},
    };
    for (int i = 0; i < 11; i++) {
        char stem[8];
        snprintf(stem, sizeof stem, "s%d", i);
        EXPECT_PATH_FAILS(write_shards(stem, bad[i].shards), TN_OK, bad[i].file, bad[i].word, bad[i].found);
    }
    write_shard("bare", &(shard){1, 0, 3, 3, "x"}, 3);
    assert_int_equal(mkfifo(in_dir("bare-00002-of-00003.gguf"), 0600), 0);
    EXPECT_PATH_FAILS(in_dir("bare-00001-of-00003.gguf"), TN_ERR_IO, "bare-00002-of-00003.gguf", "FIFO");
}

static void one_shard_of_one_is_a_whole_file(void **state) {
    (void)state;
    for (uint16_t count = 0; count <= 1; count++) { /* 0 is what merging leaves */
        gb b = {0};
        gb_header(&b, 3, 0, 2);
        gb_key_u16(&b, "split.no", 0);
        gb_key_u16(&b, "split.count", count);
        tn_file_close(expect_loads(&b));
    }
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "split.count", STRING);
    gb_str(&b, "3");
    EXPECT_FAILS(&b, "'split.count'", "type string");
    gb_header(&b, 3, 0, 1);
    gb_key_u32(&b, "split.count", 65536);
    EXPECT_FAILS(&b, "'split.count' is 65536", "at most 65535");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_model_is_opened_by_its_first_shard),
        cmocka_unit_test(wrong_shards_are_errors),
        cmocka_unit_test(one_shard_of_one_is_a_whole_file),
    };
    return cmocka_run_group_tests(tests, expect_make_dir, expect_remove_dir);
}
