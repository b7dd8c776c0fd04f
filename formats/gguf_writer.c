#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/checked.h"
#include "gguf_writer_impl.h"

tn_gguf_writer *tn_gguf_writer_new(const char *path) {
    tn_gguf_writer *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->path = tn_arena_strdup(&w->arena, path, strlen(path));
    if (w->path) return w;
    tn_gguf_abort(w);
    return NULL;
}

void tn_gguf_abort(tn_gguf_writer *w) {
    if (!w) return;
    for (uint32_t i = 0; i < w->n_shards; i++) tn_outfile_discard(&w->shards[i].file);
    free(w->entries);
    free(w->tensors);
    free(w->shards);
    tn_arena_free(&w->arena);
    free(w);
}

/* A list of n items with room for one more; NULL, and the list as it was, when memory is out. */
static void *grow(tn_gguf_writer *w, void *items, uint64_t n, uint64_t *cap, size_t item_bytes) {
    if (n < *cap) return items;
    uint64_t more = *cap ? 2 * *cap : 64, bytes;
    void *grown = tn_mul_u64(more, item_bytes, &bytes) ? realloc(items, bytes) : NULL;
    w->no_memory |= grown == NULL;
    if (grown) *cap = more;
    return grown;
}

/* ---- Metadata ---- */

tn_gguf_entry *tn_gguf_find_entry(const tn_gguf_writer *w, const char *key, uint64_t n) {
    for (uint64_t i = 0; i < w->n_entries; i++) {
        tn_gguf_entry *e = &w->entries[i];
        if (e->key.len == n && memcmp(e->key.ptr, key, n) == 0) return e;
    }
    return NULL;
}

/* A new entry; NULL when memory is out. */
static tn_gguf_entry *new_entry(tn_gguf_writer *w, tn_str key) {
    char *copy = tn_arena_strdup(&w->arena, key.ptr, key.len);
    w->no_memory |= copy == NULL;
    tn_gguf_entry *entries = grow(w, w->entries, w->n_entries, &w->entries_cap, sizeof *entries);
    if (entries) w->entries = entries;
    if (!copy || !entries) return NULL;
    tn_gguf_entry *e = &w->entries[w->n_entries++];
    *e = (tn_gguf_entry){.key = {copy, key.len}};
    return e;
}

/* Gives an entry (that may be NULL) a value of n_bytes, to be filled; NULL when memory is out. */
static uint8_t *give_value(tn_gguf_writer *w, tn_gguf_entry *e, tn_meta_type type, tn_meta_type elem_type,
                           uint64_t count, uint64_t n_bytes) {
    uint8_t *data = e ? tn_arena_alloc(&w->arena, n_bytes, 1) : NULL;
    w->no_memory |= data == NULL;
    if (data) *e = (tn_gguf_entry){e->key, type, elem_type, count, data, n_bytes};
    return data;
}

/* The same for the entry of that key, old or new. */
static uint8_t *put(tn_gguf_writer *w, tn_str key, tn_meta_type type, tn_meta_type elem_type, uint64_t count,
                    uint64_t n_bytes) {
    tn_gguf_entry *e = tn_gguf_find_entry(w, key.ptr, key.len);
    return give_value(w, e ? e : new_entry(w, key), type, elem_type, count, n_bytes);
}

static tn_str key_of(const char *key) {
    return (tn_str){key, strlen(key)};
}

void tn_gguf_set(tn_gguf_writer *w, const char *key, tn_meta_type type, const void *value) {
    const uint32_t n_bytes = tn_meta_type_bytes(type);
    uint8_t *data = put(w, key_of(key), type, type, 1, n_bytes);
    if (data) memcpy(data, value, n_bytes);
}

void tn_gguf_set_array(tn_gguf_writer *w, const char *key, tn_meta_type elem_type, const void *values,
                       uint64_t count) {
    uint64_t n_bytes = count * tn_meta_type_bytes(elem_type); /* of memory that exists */
    uint8_t *data = put(w, key_of(key), TN_META_ARRAY, elem_type, count, n_bytes);
    if (data && n_bytes) memcpy(data, values, n_bytes);
}

static uint8_t *append_text(uint8_t *at, tn_str text) {
    memcpy(at, &text.len, sizeof text.len);
    if (text.len) memcpy(at + sizeof text.len, text.ptr, text.len);
    return at + sizeof text.len + text.len;
}

void tn_gguf_set_text(tn_gguf_writer *w, const char *key, const char *text, uint64_t n) {
    uint8_t *data = put(w, key_of(key), TN_META_STRING, TN_META_STRING, 1, sizeof n + n);
    if (data) append_text(data, (tn_str){text, n});
}

void tn_gguf_set_texts(tn_gguf_writer *w, const char *key, const tn_str *texts, uint64_t count) {
    uint64_t n_bytes = 0;
    for (uint64_t i = 0; i < count; i++) n_bytes += sizeof texts[i].len + texts[i].len;
    uint8_t *at = put(w, key_of(key), TN_META_ARRAY, TN_META_STRING, count, n_bytes);
    for (uint64_t i = 0; at && i < count; i++) at = append_text(at, texts[i]);
}

/* Bytes of a value that was checked when its file was opened. */
static uint64_t value_bytes(const tn_meta *meta) {
    if (meta->elem_type != TN_META_STRING) return meta->count * tn_meta_type_bytes(meta->elem_type);
    if (meta->count == 0) return 0;
    tn_str last;
    tn_meta_str(meta, meta->count - 1, &last);
    return meta->offsets[meta->count - 1] + sizeof last.len + last.len;
}

static void copy_meta(tn_gguf_writer *w, tn_gguf_entry *e, const tn_meta *meta) {
    const uint64_t n_bytes = value_bytes(meta);
    uint8_t *data = give_value(w, e, meta->type, meta->elem_type, meta->count, n_bytes);
    if (data && n_bytes) memcpy(data, meta->data, n_bytes);
}

void tn_gguf_set_meta(tn_gguf_writer *w, const tn_meta *meta) {
    tn_gguf_entry *e = tn_gguf_find_entry(w, meta->key.ptr, meta->key.len);
    copy_meta(w, e ? e : new_entry(w, meta->key), meta);
}

static bool is_split_key(tn_str key) {
    return key.len > 6 && memcmp(key.ptr, "split.", 6) == 0;
}

/* The keys of a file differ, so an empty writer need not look for any: a file may hold millions. */
void tn_gguf_set_all(tn_gguf_writer *w, const tn_file *file) {
    const bool empty = w->n_entries == 0;
    for (uint64_t i = 0; i < tn_file_n_meta(file); i++) {
        const tn_meta *meta = tn_file_meta_at(file, i);
        if (is_split_key(meta->key)) continue;
        if (empty)
            copy_meta(w, new_entry(w, meta->key), meta);
        else
            tn_gguf_set_meta(w, meta);
    }
}

/* ---- Tensors and shards ---- */

void tn_gguf_add_tensor(tn_gguf_writer *w, const char *name, tn_dtype dtype, uint32_t n_dims,
                        const uint64_t *dims) {
    char *copy = tn_arena_strdup(&w->arena, name, strlen(name));
    w->no_memory |= copy == NULL;
    tn_gguf_tensor *tensors = grow(w, w->tensors, w->n_tensors, &w->tensors_cap, sizeof *tensors);
    if (tensors) w->tensors = tensors;
    if (!copy || !tensors) return;
    tn_gguf_tensor t = {copy, dtype, n_dims, {1, 1, 1, 1}, 0, 0, w->split_next};
    assert(n_dims >= 1 && n_dims <= 4 && dims[0] % tn_dtypes[dtype].block_elems == 0);
    uint64_t rows = 1;
    bool fits = true;
    for (uint32_t i = 0; i < n_dims; i++) {
        t.dims[i] = dims[i];
        if (i > 0) fits = fits && tn_mul_u64(rows, dims[i], &rows);
    }
    fits =
        fits && tn_mul_u64(dims[0] / tn_dtypes[dtype].block_elems, tn_dtypes[dtype].block_bytes, &t.n_bytes);
    fits = fits && tn_mul_u64(t.n_bytes, rows, &t.n_bytes);
    w->too_large |= !fits;
    w->split_next = false;
    w->tensors[w->n_tensors++] = t;
}

void tn_gguf_new_shard(tn_gguf_writer *w) {
    w->split_next = true;
}

void tn_gguf_split_by_bytes(tn_gguf_writer *w, uint64_t bytes) {
    w->max_shard_bytes = bytes;
}
