/* Opening a file of whatever format, and access by value to what is in it. */
#include "format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/checked.h"
#include "file.h"

static const tn_format *const formats[] = {&tn_format_gguf};

enum { N_FORMATS = sizeof formats / sizeof *formats };

static tn_status unknown_format(const char *path, const tn_fmap *map, tn_error *err) {
    if (map->size == 0) return tn_fail(err, TN_ERR_FORMAT, TN_OPEN_WHAT, path, "the file is empty");
    char found[24] = "", known[64] = "";
    for (uint64_t i = 0; i < 4 && i < map->size; i++) {
        snprintf(found + 3 * i, sizeof found - 3 * i, " %02x", map->data[i]);
    }
    for (int i = 0; i < N_FORMATS; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", formats[i]->name);
    }
    return tn_fail(err, TN_ERR_FORMAT, TN_OPEN_WHAT, path,
                   "begins with bytes%s, not those of a known format (%s)", found, known);
}

tn_status tn_file_open(const char *path, tn_file **out, tn_error *err) {
    *out = NULL;
    tn_fmap map;
    tn_status status = tn_fmap_open(&map, path, err);
    if (status != TN_OK) return status;
    const tn_format *format = NULL;
    for (int i = 0; i < N_FORMATS && !format; i++) {
        if (formats[i]->probe(map.data, map.size)) format = formats[i];
    }
    if (!format) status = unknown_format(path, &map, err);
    tn_fmap_close(&map);
    return format ? format->open(path, out, err) : status;
}

/* ---- For the readers ---- */

tn_file *tn_file_new(const char *path) {
    tn_file *file = calloc(1, sizeof *file);
    if (!file) return NULL;
    file->path = tn_arena_strdup(&file->arena, path, strlen(path));
    if (file->path) return file;
    tn_file_close(file);
    return NULL;
}

tn_status tn_file_alloc(tn_file *file, uint64_t n, size_t size, const char *purpose, void **out,
                        tn_error *err) {
    uint64_t bytes, total;
    if (!tn_mul_u64(n, size, &bytes) || !tn_add_u64(bytes, file->arena.total_bytes, &total) ||
        total > TN_FILE_INDEX_BYTES) {
        return tn_fail(err, TN_ERR_MEMORY, TN_OPEN_WHAT, file->path,
                       "%llu items of %zu bytes for %s exceed the limit of %llu MiB for the index of a file",
                       (unsigned long long)n, size, purpose, (unsigned long long)(TN_FILE_INDEX_BYTES >> 20));
    }
    *out = tn_arena_alloc(&file->arena, (size_t)n, size);
    if (*out) return TN_OK;
    return tn_fail(err, TN_ERR_MEMORY, TN_OPEN_WHAT, file->path, "no memory for %s (%llu bytes)", purpose,
                   (unsigned long long)bytes);
}

tn_shown tn_show(tn_str name) {
    enum { LONGEST = 80 };
    tn_shown shown;
    char whole[4 * LONGEST + 1]; /* an escape takes four characters a byte */
    uint64_t n = name.len;
    if (n > LONGEST) {
        n = LONGEST;
        while (n > 0 && ((unsigned char)name.ptr[n] & 0xc0) == 0x80) n--;
    }
    if (n == name.len && tn_escape(whole, sizeof whole, name.ptr, n) < sizeof shown.text) {
        memcpy(shown.text, whole, strlen(whole) + 1);
        return shown;
    }
    size_t len = tn_escape(shown.text, sizeof shown.text - 3, name.ptr, n);
    memcpy(shown.text + len, "...", 4);
    return shown;
}

/* ---- Access ---- */

void tn_file_close(tn_file *file) {
    if (!file) return;
    for (uint32_t i = 0; i < file->n_maps; i++) tn_fmap_close(&file->maps[i]);
    tn_arena_free(&file->arena);
    free(file);
}

tn_status tn_file_check(const tn_file *file, tn_error *err) {
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && i < file->n_maps; i++)
        status = tn_fmap_check(&file->maps[i], err);
    return status;
}

const char *tn_file_path(const tn_file *file) {
    return file->path;
}
const char *tn_file_format(const tn_file *file) {
    return file->format;
}
uint64_t tn_file_bytes(const tn_file *file) {
    return file->n_bytes;
}
uint32_t tn_file_shards(const tn_file *file) {
    return file->n_maps;
}

uint64_t tn_file_n_meta(const tn_file *file) {
    return file->n_meta;
}
const tn_meta *tn_file_meta_at(const tn_file *file, uint64_t i) {
    return &file->meta[i];
}
const tn_meta *tn_file_meta(const tn_file *file, const char *key) {
    return tn_names_find(&file->meta_names, key, strlen(key));
}

uint64_t tn_file_n_tensors(const tn_file *file) {
    return file->n_tensors;
}
const tn_tensor *tn_file_tensor_at(const tn_file *file, uint64_t i) {
    return &file->tensors[i];
}
const tn_tensor *tn_file_tensor(const tn_file *file, const char *name) {
    return tn_names_find(&file->tensor_names, name, strlen(name));
}

uint32_t tn_file_shard_of(const tn_file *file, const tn_tensor *tensor) {
    uint32_t i = 0;
    while ((uintptr_t)tensor->data - (uintptr_t)file->maps[i].data >= file->maps[i].size) i++;
    return i;
}

/* ---- Values ---- */

typedef enum value_kind { UNSIGNED, SIGNED, FLOATING, BOOLEAN, TEXT, LIST } value_kind;

static const struct {
    const char *name;
    value_kind kind;
    uint8_t bytes;
} value_types[TN_META_TYPE_COUNT] = {
    [TN_META_U8] = {"u8", UNSIGNED, 1},     [TN_META_I8] = {"i8", SIGNED, 1},
    [TN_META_U16] = {"u16", UNSIGNED, 2},   [TN_META_I16] = {"i16", SIGNED, 2},
    [TN_META_U32] = {"u32", UNSIGNED, 4},   [TN_META_I32] = {"i32", SIGNED, 4},
    [TN_META_F32] = {"f32", FLOATING, 4},   [TN_META_BOOL] = {"bool", BOOLEAN, 1},
    [TN_META_STRING] = {"string", TEXT, 0}, [TN_META_ARRAY] = {"array", LIST, 0},
    [TN_META_U64] = {"u64", UNSIGNED, 8},   [TN_META_I64] = {"i64", SIGNED, 8},
    [TN_META_F64] = {"f64", FLOATING, 8},
};

uint32_t tn_meta_type_bytes(tn_meta_type type) {
    return value_types[type].bytes;
}

const char *tn_meta_type_name(tn_meta_type type) {
    return value_types[type].name;
}

/* The bytes of element i, zero-extended; false if there is none or the kind differs. */
static bool load(const tn_meta *meta, uint64_t i, value_kind kind, uint64_t *bits) {
    if (!meta || i >= meta->count || value_types[meta->elem_type].kind != kind) return false;
    *bits = 0;
    memcpy(bits, meta->data + i * value_types[meta->elem_type].bytes, value_types[meta->elem_type].bytes);
    return true;
}

static bool load_signed(const tn_meta *meta, uint64_t i, int64_t *out) {
    uint64_t bits;
    if (!load(meta, i, SIGNED, &bits)) return false;
    uint64_t sign = (uint64_t)1 << (8 * value_types[meta->elem_type].bytes - 1);
    *out = (int64_t)((bits ^ sign) - sign);
    return true;
}

bool tn_meta_u64(const tn_meta *meta, uint64_t i, uint64_t *out) {
    int64_t value;
    if (load(meta, i, UNSIGNED, out)) return true;
    if (!load_signed(meta, i, &value) || value < 0) return false;
    *out = (uint64_t)value;
    return true;
}

bool tn_meta_i64(const tn_meta *meta, uint64_t i, int64_t *out) {
    uint64_t value;
    if (load_signed(meta, i, out)) return true;
    if (!load(meta, i, UNSIGNED, &value) || value > INT64_MAX) return false;
    *out = (int64_t)value;
    return true;
}

bool tn_meta_f64(const tn_meta *meta, uint64_t i, double *out) {
    uint64_t bits;
    if (!load(meta, i, FLOATING, &bits)) return false;
    if (meta->elem_type == TN_META_F64) {
        memcpy(out, &bits, sizeof *out);
    } else {
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        *out = narrow;
    }
    return true;
}

bool tn_meta_bool(const tn_meta *meta, uint64_t i, bool *out) {
    uint64_t bits;
    if (!load(meta, i, BOOLEAN, &bits)) return false;
    *out = bits != 0;
    return true;
}

bool tn_meta_str(const tn_meta *meta, uint64_t i, tn_str *out) {
    if (!meta || i >= meta->count || meta->elem_type != TN_META_STRING) return false;
    const uint8_t *element = meta->data + meta->offsets[i];
    memcpy(&out->len, element, sizeof out->len);
    out->ptr = (const char *)element + sizeof out->len;
    return true;
}
