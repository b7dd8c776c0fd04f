/* The GGUF reader: whatever opens has only what lies in the file. Several files are the shards of one. */
#include <stdio.h>
#include <string.h>

#include "formats/format.h"
#include "fuzz.h"

static void use_meta(const tn_file *file, const tn_meta *meta) {
    uint64_t whole;
    int64_t number;
    double real;
    bool flag;
    tn_str text;
    char key[256];
    for (uint64_t i = 0; i < meta->count; i++) {
        tn_meta_u64(meta, i, &whole), tn_meta_i64(meta, i, &number), tn_meta_f64(meta, i, &real);
        tn_meta_bool(meta, i, &flag);
        if (tn_meta_str(meta, i, &text)) fuzz_touch(text.ptr, text.len);
    }
    if (meta->key.len >= sizeof key || memchr(meta->key.ptr, 0, meta->key.len)) return;
    memcpy(key, meta->key.ptr, meta->key.len);
    key[meta->key.len] = '\0';
    FUZZ_CHECK(tn_file_meta(file, key) == meta);
}

static void use_tensor(const tn_file *file, uint64_t i) {
    const tn_tensor *t = tn_file_tensor_at(file, i);
    FUZZ_CHECK(t->n_dims >= 1 && t->n_dims <= 4);
    FUZZ_CHECK(t->n_bytes > 0 && t->n_bytes <= tn_file_bytes(file));
    FUZZ_CHECK(t->data[0] + t->data[t->n_bytes - 1] >= 0);
    FUZZ_CHECK(tn_file_tensor(file, t->cname) == t);
    FUZZ_CHECK(tn_file_shard_of(file, t) < tn_file_shards(file));
    const uint64_t blocks = t->dims[0] / tn_dtypes[t->dtype].block_elems;
    FUZZ_CHECK(blocks * t->dims[1] * t->dims[2] * t->dims[3] * tn_dtypes[t->dtype].block_bytes == t->n_bytes);
    for (uint64_t j = 0; j < i && j < 32; j++) {
        const tn_tensor *other = tn_file_tensor_at(file, j);
        FUZZ_CHECK(t->data + t->n_bytes <= other->data || other->data + other->n_bytes <= t->data);
    }
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    char name[64];
    for (size_t i = n_parts; i-- > 0;) {
        snprintf(name, sizeof name, "shard-%05zu-of-%05zu.gguf", i + 1, n_parts);
        fuzz_write(n_parts == 1 ? "whole.gguf" : name, parts[i], 0);
    }
    tn_file *file;
    tn_error err;
    const tn_status s = tn_file_open(fuzz_path(n_parts == 1 ? "whole.gguf" : name), &file, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (file != NULL));
    if (s) return;
    for (uint64_t i = 0; i < tn_file_n_meta(file); i++) use_meta(file, tn_file_meta_at(file, i));
    for (uint64_t i = 0; i < tn_file_n_tensors(file); i++) use_tensor(file, i);
    tn_file_close(file);
}

const fuzz_target fuzz_gguf = {"gguf", run, fuzz_mutate_gguf, fuzz_gguf_words, 65536};
