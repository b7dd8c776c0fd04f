/* The GGUF reader against files made by hand: every row of bad container data ends in one clean error that
 * says what is wrong, and what is odd but right loads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "formats/format.h"
#include "formats/gguf.h"
#include "gguf_expect.h"

enum { T_F32 = 0, T_Q4_0 = 2, T_Q4_K = 12, T_I8 = 24 };

#define EXP2(n) (UINT64_C(1) << (n))

/* ---- A good file ---- */

/* Scalars, strings and arrays, two tensors out of order; no padding behind the last. */
static void build_sample(gb *b) {
    gb_header(b, 3, 2, 7);
    gb_key_u32(b, "general.alignment", 64);
    gb_key(b, "name", STRING);
    gb_strn(b, "any\0\xff", 5);
    gb_key_array(b, "words", STRING, 3);
    gb_str(b, "one");
    gb_str(b, "");
    gb_str(b, "three");
    gb_key_array(b, "numbers", I16, 2);
    gb_u16(b, 0x8000);
    gb_u16(b, 7);
    gb_key(b, "flag", BOOL);
    gb_u8(b, 1);
    gb_key(b, "pi", F64);
    gb_bytes(b, &(double){3.25}, 8);
    gb_key_array(b, "none", STRING, 0);
    gb_tensor(b, "b.weight", 8, 3, T_F32, 64);
    gb_tensor(b, "a.weight", 32, 2, T_Q4_0, 0);
    gb_align(b, 64);
    for (uint8_t i = 0; i < 64 + 96; i++) gb_u8(b, i);
}

static void what_a_good_file_holds_is_found_as_written(void **state) {
    (void)state;
    gb b = {0};
    build_sample(&b);
    size_t size = b.size;
    tn_file *file = expect_loads(&b);
    assert_string_equal(tn_file_format(file), "GGUF v3");
    assert_string_equal(tn_file_path(file), in_dir("good.gguf"));
    assert_int_equal(tn_file_bytes(file), size);
    assert_int_equal(tn_file_shards(file), 1);
    assert_int_equal(tn_file_n_meta(file), 7);
    tn_str s;
    assert_true(tn_meta_str(tn_file_meta(file, "name"), 0, &s));
    assert_true(s.len == 5 && memcmp(s.ptr, "any\0\xff", 5) == 0);
    const tn_meta *words = tn_file_meta(file, "words");
    assert_true(words->type == TN_META_ARRAY && words->elem_type == TN_META_STRING && words->count == 3);
    assert_true(tn_meta_str(words, 1, &s) && s.len == 0);
    assert_true(tn_meta_str(words, 2, &s) && s.len == 5 && memcmp(s.ptr, "three", 5) == 0);
    assert_false(tn_meta_str(words, 3, &s));
    assert_false(tn_meta_str(tn_file_meta(file, "none"), 0, &s));
    assert_ptr_equal(tn_file_meta_at(file, 2), words);
    assert_null(tn_file_meta(file, "word"));
    assert_null(tn_file_meta(file, ""));
    const tn_tensor *t = tn_file_tensor(file, "b.weight");
    assert_ptr_equal(t, tn_file_tensor_at(file, 0));
    assert_true(t->n_dims == 2 && t->dims[0] == 8 && t->dims[1] == 3 && t->dims[2] == 1 && t->dims[3] == 1);
    assert_true(t->dtype == TN_DTYPE_F32 && t->n_bytes == 96 && t->data[0] == 64 && t->data[95] == 159);
    assert_string_equal(t->cname, "b.weight");
    t = tn_file_tensor(file, "a.weight");
    assert_true(t->dtype == TN_DTYPE_Q4_0 && t->n_bytes == 36 && t->data[0] == 0 && t->data[35] == 35);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    assert_null(tn_file_tensor(file, "c.weight"));
    tn_file_close(file);
    tn_file_close(NULL);
}

static void numbers_are_read_by_value_from_any_integer_type(void **state) {
    (void)state;
    gb b = {0};
    static const uint32_t types[] = {U8, I8, U16, I16, U32, I32, U64, I64};
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8};
    gb_header(&b, 3, 0, 11);
    for (int i = 0; i < 8; i++) { /* 100 and all ones: the greatest, or -1 */
        gb_key_array(&b, (char[]){'k', (char)('0' + i), 0}, types[i], 2);
        gb_bytes(&b, &(uint64_t){100}, bytes[i]);
        gb_bytes(&b, &(uint64_t){UINT64_MAX}, bytes[i]);
    }
    gb_key(&b, "f32", F32);
    gb_bytes(&b, &(float){-1.5f}, 4);
    gb_key(&b, "f64", F64);
    gb_bytes(&b, &(double){1e300}, 8);
    gb_key(&b, "bool", BOOL);
    gb_u8(&b, 1);
    tn_file *file = expect_loads(&b);
    for (int i = 0; i < 8; i++) {
        const tn_meta *meta = tn_file_meta(file, (char[]){'k', (char)('0' + i), 0});
        uint64_t u = 0, greatest = bytes[i] == 8 ? UINT64_MAX : EXP2(8 * bytes[i]) - 1;
        int64_t s = 0;
        double f;
        assert_true(tn_meta_u64(meta, 0, &u) && u == 100 && tn_meta_i64(meta, 0, &s) && s == 100);
        if (i % 2 == 0) { /* unsigned */
            assert_true(tn_meta_u64(meta, 1, &u) && u == greatest);
            assert_int_equal(tn_meta_i64(meta, 1, &s), bytes[i] < 8);
            if (bytes[i] < 8) assert_true(s == (int64_t)greatest);
        } else {
            assert_true(tn_meta_i64(meta, 1, &s) && s == -1);
            assert_false(tn_meta_u64(meta, 1, &u));
        }
        assert_false(tn_meta_u64(meta, 2, &u) || tn_meta_i64(meta, 2, &s) || tn_meta_f64(meta, 0, &f));
    }
    double f = 0;
    uint64_t u;
    bool flag = false;
    assert_true(tn_meta_f64(tn_file_meta(file, "f32"), 0, &f) && f == -1.5);
    assert_true(tn_meta_f64(tn_file_meta(file, "f64"), 0, &f) && f == 1e300);
    assert_true(tn_meta_bool(tn_file_meta(file, "bool"), 0, &flag) && flag);
    assert_false(tn_meta_u64(tn_file_meta(file, "f32"), 0, &u) ||
                 tn_meta_u64(tn_file_meta(file, "bool"), 0, &u));
    assert_false(tn_meta_bool(tn_file_meta(file, "k0"), 0, &flag));
    assert_false(tn_meta_u64(NULL, 0, &u) || tn_meta_str(NULL, 0, NULL));
    assert_string_equal(tn_meta_type_name(TN_META_I16), "i16");
    tn_file_close(file);
}

/* ---- The whole file ---- */

static void a_file_truncated_at_any_byte_is_an_error(void **state) {
    (void)state;
    gb b = {0};
    build_sample(&b);
    size_t whole = b.size;
    for (size_t size = 0; size < whole; size++) {
        gb cut = {0};
        gb_bytes(&cut, b.data, size);
        EXPECT_FAILS(&cut, "cannot open model");
    }
    gb_zeros(&b, 100); /* more than is needed does no harm */
    tn_file_close(expect_loads(&b));
}

/* In memory of its exact size, where a sanitizer sees one byte too many. Also every single bit flipped. */
static void no_byte_behind_the_end_is_read(void **state) {
    (void)state;
    gb b = {0};
    build_sample(&b);
    size_t n_loaded = 0;
    for (size_t i = 0; i < b.size * 9; i++) {
        size_t size = i < b.size ? i : b.size, flip = i < b.size ? 0 : i - b.size;
        uint8_t *exact = malloc(size);
        memcpy(exact, b.data, size);
        if (i >= b.size) exact[flip / 8] ^= (uint8_t)(1 << flip % 8);
        const tn_fmap_source source = {.path = "x", .fd = -1, .data = exact, .n_bytes = size};
        tn_file *file;
        tn_error err;
        if (tn_file_open_source(&source, &file, &err) == TN_OK) {
            n_loaded++;
            for (uint64_t k = 0; k < tn_file_n_tensors(file); k++) {
                const tn_tensor *t = tn_file_tensor_at(file, k);
                assert_true(t->data >= exact && t->data + t->n_bytes <= exact + size);
            }
        }
        tn_file_close(file);
        free(exact);
    }
    assert_true(n_loaded >= 8 * 160); /* at least those in tensor data */
    gb_free(&b);
}

static void magic_version_and_byte_order_are_checked(void **state) {
    (void)state;
    static const struct {
        uint32_t version;
        const char *word;
    } bad[] = {{0, "version 0"},
               {1, "version 1 is no longer supported"},
               {4, "version 4, expected 2 or 3"},
               {UINT32_MAX, "version"},
               {0x03000000, "big-endian"},
               {0x02000000, "big-endian"}};
    gb b = {0};
    for (int i = 0; i < 6; i++) {
        gb_header(&b, bad[i].version, 0, 0);
        EXPECT_FAILS(&b, bad[i].word);
    }
    for (uint32_t version = 2; version <= 3; version++) {
        gb_header(&b, version, 0, 0);
        tn_file *file = expect_loads(&b);
        assert_string_equal(tn_file_format(file), version == 2 ? "GGUF v2" : "GGUF v3");
        tn_file_close(file);
    }
    gb_header(&b, 3, 0, 0);
    b.data[3] = 'g';
    EXPECT_FAILS(&b, "47 47 55 67", "known format (GGUF)");
    EXPECT_FAILS(&b, "the file is empty");
    gb_bytes(&b, "GGUF\3\0\0\0", 8);
    EXPECT_FAILS(&b, "truncated in the header", "size 8", "24");
}

static void counts_beyond_the_file_are_refused(void **state) {
    (void)state;
    static const uint64_t counts[] = {EXP2(63), EXP2(61), UINT64_MAX, EXP2(32), 200, 3};
    for (int i = 0; i < 6; i++) {
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)counts[i]);
        gb b = {0};
        gb_header(&b, 3, counts[i], 0);
        gb_zeros(&b, 40);
        EXPECT_FAILS(&b, "tensor count", number, "64 bytes");
        gb_header(&b, 3, 0, counts[i]);
        gb_zeros(&b, 40);
        EXPECT_FAILS(&b, "metadata count", number, "64 bytes");
    }
}

static void a_file_without_tensors_loads(void **state) {
    (void)state;
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key_u32(&b, "k", 5);
    tn_file *file = expect_loads(&b);
    assert_int_equal(tn_file_n_tensors(file), 0);
    assert_null(tn_file_tensor(file, "k"));
    tn_file_close(file);
}

/* ---- Metadata ---- */

static void key_lengths_and_string_lengths_are_bounded(void **state) {
    (void)state;
    enum { LEFT = 40 }; /* behind the length */
    static const uint64_t lengths[] = {0, LEFT + 1, 65536, EXP2(63), UINT64_MAX, UINT64_MAX - 7};
    for (int i = 0; i < 6; i++) {
        gb b = {0};
        gb_header(&b, 3, 0, 1);
        gb_u64(&b, lengths[i]);
        gb_zeros(&b, LEFT);
        EXPECT_FAILS(&b, "metadata key 0", i == 1 ? "41 bytes needed at offset 32, 40 left" : "length");
        if (i == 0) continue;
        gb_header(&b, 3, 0, 1);
        gb_key(&b, "text", STRING);
        gb_u64(&b, lengths[i]);
        gb_zeros(&b, LEFT);
        EXPECT_FAILS(&b, "key 'text'", "truncated", "40 left");
        gb_header(&b, 3, 0, 1);
        gb_key_array(&b, "texts", STRING, 2);
        gb_str(&b, "");
        gb_u64(&b, lengths[i]);
        gb_zeros(&b, LEFT);
        EXPECT_FAILS(&b, "key 'texts'", "truncated", "40 left");
    }
}

static void unknown_value_types_are_errors(void **state) {
    (void)state;
    static const uint32_t bad[] = {13, UINT32_MAX, 1u << 31};
    for (int i = 0; i < 3; i++) {
        char number[40];
        gb b = {0};
        gb_header(&b, 3, 0, 1);
        gb_key(&b, "k", bad[i]);
        gb_zeros(&b, 64);
        snprintf(number, sizeof number, "type %u, expected 0 to 12", bad[i]);
        EXPECT_FAILS(&b, "key 'k'", "unknown value", number);
        gb_header(&b, 3, 0, 1);
        gb_key_array(&b, "k", bad[i], 0);
        gb_zeros(&b, 64);
        EXPECT_FAILS(&b, "key 'k'", "unknown element", number);
    }
}

static void array_counts_and_nesting_are_bounded(void **state) {
    (void)state;
    static const uint64_t counts[] = {EXP2(60), EXP2(61), EXP2(63), UINT64_MAX, 13};
    for (int i = 0; i < 5; i++) {
        gb b = {0};
        gb_header(&b, 3, 0, 1);
        gb_key_array(&b, "k", STRING, counts[i]);
        gb_zeros(&b, 100);
        EXPECT_FAILS(&b, "key 'k'", "strings cannot be in the 100 bytes left");
        gb_header(&b, 3, 0, 1);
        gb_key_array(&b, "k", F64, counts[i]);
        gb_zeros(&b, 100);
        EXPECT_FAILS(&b, "key 'k'", i == 0 || i == 4 ? "truncated" : "too large");
    }
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "deep", ARRAY);
    for (int depth = 0; depth < 100000; depth++) {
        gb_u32(&b, ARRAY);
        gb_u64(&b, 1);
    }
    EXPECT_FAILS(&b, "key 'deep'", "array of arrays");
}

static void a_bool_is_0_or_1(void **state) {
    (void)state;
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "k", BOOL);
    gb_u8(&b, 2);
    EXPECT_FAILS(&b, "key 'k'", "value 2, expected 0 or 1");
    gb_header(&b, 3, 0, 1);
    gb_key_array(&b, "k", BOOL, 3);
    gb_bytes(&b, "\0\1\xff", 3);
    EXPECT_FAILS(&b, "key 'k'", "value 255, expected 0 or 1");
}

static void names_with_nul_controls_or_bad_utf8_are_errors_and_shown_escaped(void **state) {
    (void)state;
    static const struct {
        const char *name, *shown;
        size_t n;
    } bad[] = {{"a\0b", "'a\\x00b'", 3},
               {"\x1b[2Jx", "'\\x1b[2Jx'", 5},
               {"a\nb", "'a\\x0ab'", 3},
               {"\xff\xfe", "'\\xff\\xfe'", 2},
               {"caf\xc3", "'caf\\xc3'", 4},
               {"\xc2\x9b"
                "5m",
                "'\\xc2\\x9b5m'", 4}};
    for (int i = 0; i < 6; i++) {
        gb b = {0};
        gb_header(&b, 3, 0, 1);
        gb_strn(&b, bad[i].name, bad[i].n);
        gb_u32(&b, U8);
        gb_zeros(&b, 8);
        EXPECT_FAILS(&b, "metadata key 0", bad[i].shown);
        gb_header(&b, 3, 1, 0);
        gb_strn(&b, bad[i].name, bad[i].n);
        gb_zeros(&b, 64);
        EXPECT_FAILS(&b, "tensor 0", bad[i].shown);
    }
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "sch\xc3\xb6n.\xe6\xbc\xa2", U8);
    gb_u8(&b, 1);
    tn_file *file = expect_loads(&b);
    assert_non_null(tn_file_meta(file, "sch\xc3\xb6n.\xe6\xbc\xa2"));
    tn_file_close(file);
}

static void a_very_long_name_does_not_hide_the_reason(void **state) {
    (void)state;
    char name[60001];
    for (int i = 0; i < 60000; i += 3) memcpy(name + i, "\xe6\xbc\xa2", 3);
    name[60000] = '\0';
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key(&b, name, 77);
    gb_zeros(&b, 8);
    EXPECT_FAILS(&b, "\xe6\xbc\xa2...': unknown value type 77");
    memset(name, '\x01', 60000);
    gb_header(&b, 3, 0, 1);
    gb_key(&b, name, U8);
    gb_zeros(&b, 8);
    EXPECT_FAILS(&b, "\\x01...', has control characters");
}

static void duplicate_names_are_errors(void **state) {
    (void)state;
    gb b = {0};
    gb_header(&b, 3, 0, 3);
    gb_key_u32(&b, "a.b", 1);
    gb_key_u32(&b, "a", 1);
    gb_key_u16(&b, "a.b", 1);
    EXPECT_FAILS(&b, "duplicate key 'a.b'", "0 and 2");
    gb_header(&b, 3, 3, 0);
    gb_tensor(&b, "x", 8, 1, T_F32, 0);
    gb_tensor(&b, "w", 8, 1, T_F32, 32);
    gb_tensor(&b, "w", 8, 1, T_F32, 64);
    gb_align(&b, 32);
    gb_zeros(&b, 96);
    EXPECT_FAILS(&b, "duplicate tensor 'w'", "1 and 2");
}

static void the_alignment_is_a_power_of_two_of_type_u32(void **state) {
    (void)state;
    static const uint32_t bad[] = {0, 3, 1u << 31, 4, 48, 1u << 21, UINT32_MAX};
    gb b = {0};
    for (int i = 0; i < 7; i++) {
        gb_header(&b, 3, 0, 1);
        gb_key_u32(&b, "general.alignment", bad[i]);
        EXPECT_FAILS(&b, "'general.alignment'", "power of two from 8");
    }
    gb_header(&b, 3, 0, 1);
    gb_key_u16(&b, "general.alignment", 32);
    EXPECT_FAILS(&b, "'general.alignment'", "type u16, expected u32");
    gb_header(&b, 3, 0, 1);
    gb_key(&b, "general.alignment", STRING);
    gb_str(&b, "32");
    EXPECT_FAILS(&b, "'general.alignment'", "type string, expected u32");
    for (uint32_t align = 8; align <= 1u << 20; align *= 2) {
        gb_header(&b, 3, 1, 1);
        gb_key_u32(&b, "general.alignment", align);
        gb_tensor(&b, "w", 8, 1, T_F32, align);
        gb_align(&b, align);
        gb_zeros(&b, align);
        gb_u8(&b, 42);
        gb_zeros(&b, 31);
        tn_file *file = expect_loads(&b);
        assert_int_equal(tn_file_tensor(file, "w")->data[0], 42);
        tn_file_close(file);
    }
}

/* ---- Tensors ---- */

/* A file of one tensor described by hand, and then zeros. */
static void build_tensor(gb *b, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset) {
    gb_header(b, 3, 1, 0);
    gb_str(b, "blk.0.w");
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 8; i++) gb_u64(b, dims[i]);
    gb_u32(b, type);
    gb_u64(b, offset);
    gb_align(b, 32);
    gb_zeros(b, 256);
}

static void dimensions_are_counted_and_positive(void **state) {
    (void)state;
    static const uint64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const uint32_t bad_counts[] = {0, 5, UINT32_MAX};
    gb b = {0};
    for (int i = 0; i < 3; i++) {
        build_tensor(&b, bad_counts[i], ones, T_F32, 0);
        EXPECT_FAILS(&b, "tensor 'blk.0.w'", "dimensions, expected 1 to 4");
    }
    for (uint32_t n = 1; n <= 4; n++) {
        build_tensor(&b, n, ones, T_F32, 0);
        tn_file *file = expect_loads(&b);
        assert_int_equal(tn_file_tensor_at(file, 0)->n_dims, n);
        tn_file_close(file);
        for (uint32_t i = 0; i < n; i++) {
            static const uint64_t bad[] = {0, EXP2(63), UINT64_MAX};
            for (int k = 0; k < 3; k++) {
                uint64_t dims[4] = {1, 1, 1, 1};
                dims[i] = bad[k];
                build_tensor(&b, n, dims, T_F32, 0);
                EXPECT_FAILS(&b, "tensor 'blk.0.w'", "dimension", "expected at least 1");
            }
        }
    }
}

static void sizes_that_wrap_are_errors(void **state) {
    (void)state;
    static const struct {
        uint64_t dims[4];
        uint32_t type;
        const char *word;
    } bad[] = {
        {{EXP2(32), EXP2(32), 1, 1}, T_F32, "overflows"},
        {{EXP2(63) + 2, 2, 1, 1}, T_F32, "dimension 0"},
        {{EXP2(62), 4, 1, 1}, T_I8, "overflows"},
        {{EXP2(62), 1, 1, 1}, T_F32, "overflows"},
        {{32, EXP2(57), 1, 1}, T_Q4_0, "past the end"},
        {{EXP2(16), EXP2(16), EXP2(16), EXP2(16)}, T_F32, "overflows"},
        {{1, EXP2(32), EXP2(32), 1}, T_F32, "overflows"},
        {{1, 3, EXP2(62), EXP2(62)}, T_I8, "overflows"},
        {{EXP2(62), 1, 1, 1}, T_I8, "past the end"},
        {{256, EXP2(54), 1, 1}, T_Q4_K, "past the end"},
    };
    gb b = {0};
    for (int i = 0; i < 10; i++) {
        build_tensor(&b, 4, bad[i].dims, bad[i].type, 0);
        EXPECT_FAILS(&b, "tensor 'blk.0.w'", bad[i].word);
    }
    gb_header(&b, 3, 3, 0); /* three of 2^62 bytes */
    gb_tensor(&b, "x", EXP2(62), 1, T_I8, 0);
    gb_tensor(&b, "y", EXP2(62), 1, T_I8, EXP2(62));
    gb_tensor(&b, "z", EXP2(62), 2, T_I8, EXP2(63));
    gb_zeros(&b, 256);
    EXPECT_FAILS(&b, "tensor 'z'", "overflows");
}

static void types_are_known_and_rows_whole_blocks(void **state) {
    (void)state;
    static const uint32_t bad[] = {4, 5, 31, 32, 33, 36, 37, 38, 1000, UINT32_MAX, 1u << 31};
    gb b = {0};
    char number[24];
    for (int i = 0; i < 11; i++) {
        build_tensor(&b, 1, (uint64_t[]){256}, bad[i], 0);
        snprintf(number, sizeof number, "type %u ", bad[i]);
        EXPECT_FAILS(&b, "tensor 'blk.0.w'", number, "unknown or was removed");
    }
    build_tensor(&b, 2, (uint64_t[]){33, 32}, T_Q4_0, 0);
    EXPECT_FAILS(&b, "tensor 'blk.0.w'", "rows of 33", "multiple of 32", "Q4_0");
    build_tensor(&b, 2, (uint64_t[]){128, 2}, T_Q4_K, 0);
    EXPECT_FAILS(&b, "tensor 'blk.0.w'", "rows of 128", "multiple of 256", "Q4_K");
}

static void offsets_are_aligned_and_in_the_file(void **state) {
    (void)state;
    static const struct {
        uint64_t offset;
        const char *word;
    } bad[] = {{1, "not a multiple of the alignment 32"},
               {16, "not a multiple"},
               {256, "past the end of the file (size"},
               {EXP2(62), "past the end"},
               {UINT64_MAX - 31, "past the end"},
               {UINT64_MAX - 127, "past the end"},
               {EXP2(63), "past the end"},
               {224, "its 36 bytes at byte"}};
    gb b = {0};
    for (int i = 0; i < 8; i++) {
        build_tensor(&b, 2, (uint64_t[]){32, 2}, T_Q4_0, bad[i].offset);
        EXPECT_FAILS(&b, "tensor 'blk.0.w'", bad[i].word);
    }
    build_tensor(&b, 2, (uint64_t[]){32, 7}, T_Q4_0, 128);
    b.size -= 2; /* 256 - 128 - 7 * 18 */
    tn_file_close(expect_loads(&b));
    build_tensor(&b, 2, (uint64_t[]){32, 7}, T_Q4_0, 128);
    b.size -= 3;
    EXPECT_FAILS(&b, "tensor 'blk.0.w'", "its 126 bytes", "past the end");
}

static void overlapping_tensors_are_errors_and_gaps_are_not(void **state) {
    (void)state;
    static const uint64_t offsets[][3] = {{0, 32, 64},  {64, 0, 32},  {0, 0, 96},
                                          {96, 32, 96}, {0, 128, 96}, {160, 96, 0}};
    static const char *const words[] = {NULL, NULL, "overlaps tensor 'x'", "overlaps", NULL, NULL};
    for (int i = 0; i < 6; i++) {
        gb b = {0};
        gb_header(&b, 3, 3, 0);
        for (int t = 0; t < 3; t++) gb_tensor(&b, (char[]){(char)('x' + t), 0}, 8, 1, T_F32, offsets[i][t]);
        gb_align(&b, 32);
        gb_zeros(&b, 192);
        if (words[i]) {
            EXPECT_FAILS(&b, words[i]);
        } else {
            tn_file_close(expect_loads(&b));
        }
    }
    gb b = {0}; /* the first runs into the second's data by one byte */
    gb_header(&b, 3, 2, 0);
    gb_tensor(&b, "x", 33, 1, T_I8, 32);
    gb_tensor(&b, "y", 8, 1, T_I8, 64);
    gb_align(&b, 32);
    gb_zeros(&b, 192);
    EXPECT_FAILS(&b, "tensor 'y' at byte", "overlaps tensor 'x'");
}

/* ---- Size ---- */

static long peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}

static void build_million_keys(gb *b, uint64_t n) {
    gb_header(b, 3, 0, n);
    for (uint64_t i = 0; i < n; i++) {
        char key[8] = {0};
        for (uint64_t k = 0, v = i; k == 0 || v > 0; v /= 26) key[k++] = (char)('a' + v % 26);
        gb_key(b, key, U8);
        gb_u8(b, (uint8_t)i);
    }
}

static void a_million_keys_load_in_time_and_memory(void **state) {
    (void)state;
    enum { N = 1000000 };
    gb b = {0};
    build_million_keys(&b, N);
    size_t size = b.size;
    gb_write(&b, in_dir("good.gguf"));
    gb_free(&b);
    double start = now_s();
    long before = peak_bytes();
    tn_file *file = expect_path_loads(in_dir("good.gguf"));
    double seconds = now_s() - start;
    print_message("10^6 keys, %zu bytes: %.2f s\n", size, seconds);
#ifdef __OPTIMIZE__ /* tools/coverage does not */
    assert_true(seconds < 2);
#endif
#ifndef __SANITIZE_ADDRESS__
    assert_true(peak_bytes() - before < (long)size + (64 << 20));
#endif
    (void)before;
    assert_int_equal(tn_file_n_meta(file), N);
    uint64_t v;
    for (uint64_t i = 0; i < N; i += 997) {
        char key[8] = {0};
        for (uint64_t k = 0, rest = i; k == 0 || rest > 0; rest /= 26) key[k++] = (char)('a' + rest % 26);
        assert_true(tn_meta_u64(tn_file_meta(file, key), 0, &v) && v == i % 256);
    }
    assert_null(tn_file_meta(file, "A"));
    assert_null(tn_file_meta(file, "zzzzzzzz"));
    tn_file_close(file);
}

static void many_tensors_in_falling_order_load_in_time(void **state) {
    (void)state;
    enum { N = 100000 };
    gb b = {0};
    gb_header(&b, 3, N, 0);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        gb_tensor(&b, name, 32, 1, T_I8, 32 * (uint64_t)(N - 1 - i));
    }
    gb_align(&b, 32);
    gb_zeros(&b, 32 * N);
    double start = now_s();
    tn_file *file = expect_loads(&b);
    assert_true(now_s() - start < 2);
    assert_int_equal(tn_file_tensor(file, "t0")->data - tn_file_tensor(file, "t99999")->data, 32 * (N - 1));
    tn_file_close(file);
}

/* Eight million empty strings are 64 MiB of file, sparse, and would be 64 MiB of offsets. */
static void an_index_beyond_the_memory_limit_is_refused(void **state) {
    (void)state;
    gb b = {0};
    gb_header(&b, 3, 0, 1);
    gb_key_array(&b, "k", STRING, EXP2(23));
    size_t head = b.size;
    gb_write(&b, in_dir("sparse.gguf"));
    gb_free(&b);
    assert_int_equal(truncate(in_dir("sparse.gguf"), (off_t)(head + 8 * EXP2(23))), 0);
    EXPECT_PATH_FAILS(in_dir("sparse.gguf"), TN_ERR_MEMORY, "sparse.gguf", "array of strings",
                      "limit of 58 MiB");
}

/* ---- Not files ---- */

static void what_is_no_regular_file_is_refused_at_once(void **state) {
    (void)state;
    assert_int_equal(mkfifo(in_dir("fifo.gguf"), 0600), 0);
    EXPECT_PATH_FAILS(in_dir("fifo.gguf"), TN_ERR_IO, "fifo.gguf", "FIFO");
    EXPECT_PATH_FAILS(dir, TN_ERR_IO, dir, "directory");
    EXPECT_PATH_FAILS("/dev/zero", TN_ERR_IO, "/dev/zero", "character device");
    EXPECT_PATH_FAILS(in_dir("absent.gguf"), TN_ERR_IO, "absent.gguf", "No such file");
}

/* ---- Hash ---- */

/* Appendix A of Aumasson & Bernstein 2012: key 00..0f, input 00..0e. */
static void the_hash_gives_the_value_of_its_paper(void **state) {
    (void)state;
    uint8_t bytes[16];
    for (uint8_t i = 0; i < 16; i++) bytes[i] = i;
    uint64_t key[2];
    memcpy(key, bytes, sizeof key);
    assert_true(tn_siphash(key, bytes, 15) == 0xa129ca6149be45e5);
}

/* ---- */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_keys_load_in_time_and_memory), /* first: it measures the peak of memory */
        cmocka_unit_test(what_a_good_file_holds_is_found_as_written),
        cmocka_unit_test(numbers_are_read_by_value_from_any_integer_type),
        cmocka_unit_test(a_file_truncated_at_any_byte_is_an_error),
        cmocka_unit_test(no_byte_behind_the_end_is_read),
        cmocka_unit_test(magic_version_and_byte_order_are_checked),
        cmocka_unit_test(counts_beyond_the_file_are_refused),
        cmocka_unit_test(a_file_without_tensors_loads),
        cmocka_unit_test(key_lengths_and_string_lengths_are_bounded),
        cmocka_unit_test(unknown_value_types_are_errors),
        cmocka_unit_test(array_counts_and_nesting_are_bounded),
        cmocka_unit_test(a_bool_is_0_or_1),
        cmocka_unit_test(names_with_nul_controls_or_bad_utf8_are_errors_and_shown_escaped),
        cmocka_unit_test(a_very_long_name_does_not_hide_the_reason),
        cmocka_unit_test(duplicate_names_are_errors),
        cmocka_unit_test(the_alignment_is_a_power_of_two_of_type_u32),
        cmocka_unit_test(dimensions_are_counted_and_positive),
        cmocka_unit_test(sizes_that_wrap_are_errors),
        cmocka_unit_test(types_are_known_and_rows_whole_blocks),
        cmocka_unit_test(offsets_are_aligned_and_in_the_file),
        cmocka_unit_test(overlapping_tensors_are_errors_and_gaps_are_not),
        cmocka_unit_test(many_tensors_in_falling_order_load_in_time),
        cmocka_unit_test(an_index_beyond_the_memory_limit_is_refused),
        cmocka_unit_test(what_is_no_regular_file_is_refused_at_once),
        cmocka_unit_test(the_hash_gives_the_value_of_its_paper),
    };
    return cmocka_run_group_tests(tests, expect_make_dir, expect_remove_dir);
}
