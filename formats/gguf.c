/* GGUF: opening a file and its shards. The format is drawn in gguf.h. */
#include "gguf.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

enum { HEADER_BYTES = 24, MIN_META_BYTES = 14, MIN_TENSOR_BYTES = 33, MAX_SHARDS = 65535 };

static bool probe(const uint8_t *data, uint64_t size) {
    return size >= 4 && memcmp(data, "GGUF", 4) == 0;
}

/* ---- One part ---- */

static tn_status check_version(const gguf_part *part, tn_error *err) {
    uint32_t version = part->version;
    if (version == 2 || version == 3) return TN_OK;
    if (version != 0 && (version & 0xffff) == 0) {
        return tn_fail(err, TN_ERR_UNSUPPORTED, TN_OPEN_WHAT, part->path,
                       "is a big-endian GGUF (version %u byte-swapped), expected little-endian",
                       __builtin_bswap32(version));
    }
    return tn_fail(err, TN_ERR_UNSUPPORTED, TN_OPEN_WHAT, part->path, "GGUF version %u%s, expected 2 or 3",
                   version, version == 1 ? " is no longer supported" : "");
}

/* Counts larger than the file could hold are refused here, so memory for them is never asked for. */
static tn_status read_header(gguf_part *part, tn_error *err) {
    tn_reader *reader = &part->reader;
    const uint8_t *magic;
    if (!probe(reader->base, reader->size)) return GGUF_BAD(part, err, "does not begin with 'GGUF'");
    if (tn_read_bytes(reader, 4, &magic) && tn_read_u32(reader, &part->version)) {
        tn_status status = check_version(part, err);
        if (status != TN_OK) return status;
    }
    if (!tn_read_u64(reader, &part->n_tensors) || !tn_read_u64(reader, &part->n_meta)) {
        return GGUF_BAD(part, err, "truncated in the header: size %llu, expected at least %d",
                        (ull)reader->size, HEADER_BYTES);
    }
    uint64_t left = tn_reader_left(reader);
    if (part->n_tensors > left / MIN_TENSOR_BYTES) {
        return GGUF_BAD(part, err, "tensor count %llu cannot be in a file of %llu bytes",
                        (ull)part->n_tensors, (ull)reader->size);
    }
    if (part->n_meta > left / MIN_META_BYTES) {
        return GGUF_BAD(part, err, "metadata count %llu cannot be in a file of %llu bytes", (ull)part->n_meta,
                        (ull)reader->size);
    }
    return TN_OK;
}

/* Reads the header and metadata of the last shard mapped. */
static tn_status open_part(tn_file *file, const char *path, gguf_part *part, tn_error *err) {
    const tn_fmap *map = &file->maps[file->n_maps - 1];
    file->n_bytes += map->size;
    *part = (gguf_part){.path = path, .reader = {.base = map->data, .size = map->size}};
    const tn_status status = read_header(part, err);
    return status == TN_OK ? gguf_read_meta(file, part, err) : status;
}

/* ---- Shards ---- */

typedef struct split {
    uint64_t number, count; /* of this shard, from 0; of all. A whole file is 0 of 1 */
    bool has_n_tensors;
    uint64_t n_tensors; /* of all shards */
} split;

/* An integer of at most `most`; *found tells whether the key is there. */
static tn_status read_split_key(const gguf_part *part, const char *key, uint64_t most, uint64_t *out,
                                bool *found, tn_error *err) {
    const tn_meta *meta = tn_names_find(&part->meta_names, key, strlen(key));
    *found = meta != NULL;
    if (!meta) return TN_OK;
    if (meta->type == TN_META_ARRAY || !tn_meta_u64(meta, 0, out)) {
        return GGUF_BAD(part, err, "key '%s' has type %s, expected an integer of at least 0", key,
                        tn_meta_type_name(meta->type));
    }
    if (*out <= most) return TN_OK;
    return GGUF_BAD(part, err, "key '%s' is %llu, expected at most %llu", key, (ull)*out, (ull)most);
}

static tn_status read_split(const gguf_part *part, split *out, tn_error *err) {
    *out = (split){.count = 1};
    bool found;
    tn_status status = read_split_key(part, "split.count", MAX_SHARDS, &out->count, &found, err);
    if (status == TN_OK) status = read_split_key(part, "split.no", MAX_SHARDS, &out->number, &found, err);
    if (status == TN_OK) {
        status = read_split_key(part, "split.tensors.count", UINT64_MAX, &out->n_tensors, &out->has_n_tensors,
                                err);
    }
    if (status != TN_OK) return status;
    if (out->count == 0) out->count = 1; /* what merging shards leaves behind */
    if (out->number < out->count) return TN_OK;
    return GGUF_BAD(part, err, "key 'split.no' is %llu, expected less than split.count, %llu",
                    (ull)out->number, (ull)out->count);
}

enum { SUFFIX_BYTES = 20 }; /* "-00001-of-00003.gguf" */

static void write_suffix(char suffix[SUFFIX_BYTES + 1], uint32_t number, uint32_t count) {
    snprintf(suffix, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", (number + 1) % 100000, count % 100000);
}

static bool is_named_as_shard(const tn_file *file, uint32_t number, uint32_t count) {
    char suffix[SUFFIX_BYTES + 1];
    const size_t n = strlen(file->path);
    write_suffix(suffix, number, count);
    return n >= SUFFIX_BYTES && strcmp(file->path + n - SUFFIX_BYTES, suffix) == 0;
}

/* The path of another shard, from that of shard `from`; NULL if that does not end as a shard's does, or
 * memory is out. */
static const char *sibling_path(tn_file *file, uint32_t from, uint32_t to, uint32_t count) {
    char suffix[SUFFIX_BYTES + 1];
    const size_t n = strlen(file->path);
    if (!is_named_as_shard(file, from, count)) return NULL;
    char *path = tn_arena_strdup(&file->arena, file->path, n);
    if (!path) return NULL;
    write_suffix(suffix, to, count);
    memcpy(path + n - SUFFIX_BYTES, suffix, SUFFIX_BYTES);
    return path;
}

/* The file that was named must be the first shard. */
static tn_status check_first(tn_file *file, const gguf_part *part, const split *s, tn_error *err) {
    if (s->count == 1) return TN_OK;
    uint32_t count = (uint32_t)s->count, number = (uint32_t)s->number;
    if (!file->has_path)
        return tn_fail(err, TN_ERR_ARG, TN_OPEN_WHAT, part->path,
                       "is shard %u of %u of a split model, which is opened by the path of the first",
                       number + 1, count);
    char suffix[SUFFIX_BYTES + 1];
    if (number != 0) {
        const char *first = sibling_path(file, number, 0, count), *slash = first ? strrchr(first, '/') : NULL;
        write_suffix(suffix, 0, count);
        return tn_fail(err, TN_ERR_ARG, TN_OPEN_WHAT, part->path,
                       "is shard %u of %u of a split model; open the first, '%s%.200s'", number + 1, count,
                       first ? "" : "*",
                       slash   ? slash + 1
                       : first ? first
                               : suffix);
    }
    if (is_named_as_shard(file, 0, count)) return TN_OK;
    write_suffix(suffix, 0, count);
    return GGUF_BAD(part, err, "is shard 1 of %u of a split model, expected a name that ends in '%s'", count,
                    suffix);
}

static tn_status check_later(const gguf_part *part, const split *first, uint64_t number, tn_error *err) {
    split s;
    tn_status status = read_split(part, &s, err);
    if (status != TN_OK) return status;
    if (s.count != first->count) {
        return GGUF_BAD(part, err, "key 'split.count' is %llu, but %llu in the first shard", (ull)s.count,
                        (ull)first->count);
    }
    if (s.number != number) {
        return GGUF_BAD(part, err, "key 'split.no' is %llu, expected %llu by the file's name", (ull)s.number,
                        (ull)number);
    }
    if (s.has_n_tensors && first->has_n_tensors && s.n_tensors != first->n_tensors) {
        return GGUF_BAD(part, err, "key 'split.tensors.count' is %llu, but %llu in the first shard",
                        (ull)s.n_tensors, (ull)first->n_tensors);
    }
    return TN_OK;
}

static tn_status open_later(tn_file *file, gguf_part *parts, const split *first, tn_error *err) {
    for (uint32_t i = 1; i < first->count; i++) {
        const char *path = sibling_path(file, 0, i, (uint32_t)first->count);
        if (!path)
            return tn_fail(err, TN_ERR_MEMORY, TN_OPEN_WHAT, file->path, "no memory for the path of a shard");
        tn_status status = tn_fmap_open(&file->maps[file->n_maps], path, err);
        if (status != TN_OK) return status;
        file->n_maps++;
        status = open_part(file, path, &parts[i], err);
        if (status == TN_OK) status = check_later(&parts[i], first, i, err);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* ---- Tensors of all parts ---- */

/* The part that holds tensor `index`, counted over all parts. */
static const gguf_part *part_of(const gguf_part *parts, uint64_t index) {
    while (index >= parts->n_tensors) index -= (parts++)->n_tensors;
    return parts;
}

static tn_status duplicate_tensor(const tn_file *file, const gguf_part *parts, uint64_t first,
                                  uint64_t second, tn_error *err) {
    tn_shown name = tn_show(file->tensors[second].name);
    const gguf_part *a = part_of(parts, first), *b = part_of(parts, second);
    if (a != b) {
        return GGUF_BAD(b, err, "duplicate tensor '%s', also in shard %u", name.text,
                        (unsigned)(a - parts) + 1);
    }
    return GGUF_BAD(b, err, "duplicate tensor '%s' (tensors %llu and %llu)", name.text, (ull)first,
                    (ull)second);
}

static tn_status index_tensors(tn_file *file, const gguf_part *parts, tn_error *err) {
    void *slots;
    tn_status status =
        tn_file_alloc(file, tn_names_slots(file->n_tensors), sizeof(uint32_t), "tensor names", &slots, err);
    if (status != TN_OK) return status;
    uint64_t first, second;
    if (tn_names_build(&file->tensor_names, slots, file->tensors, sizeof *file->tensors, file->n_tensors,
                       &first, &second)) {
        return TN_OK;
    }
    return duplicate_tensor(file, parts, first, second, err);
}

static tn_status read_all_tensors(tn_file *file, gguf_part *parts, const split *s, tn_error *err) {
    for (uint32_t i = 0; i < file->n_maps; i++)
        file->n_tensors += parts[i].n_tensors; /* each bounded by its file */
    if (file->n_maps > 1 && s->has_n_tensors && s->n_tensors != file->n_tensors) {
        return GGUF_BAD(&parts[0], err, "key 'split.tensors.count' is %llu, but the shards hold %llu tensors",
                        (ull)s->n_tensors, (ull)file->n_tensors);
    }
    void *memory;
    tn_status status = tn_file_alloc(file, file->n_tensors, sizeof *file->tensors, "tensors", &memory, err);
    if (status != TN_OK) return status;
    file->tensors = memory;
    tn_tensor *next = file->tensors;
    for (uint32_t i = 0; status == TN_OK && i < file->n_maps; i++) {
        status = gguf_read_tensors(file, &parts[i], next, err);
        next += parts[i].n_tensors;
    }
    return status == TN_OK ? index_tensors(file, parts, err) : status;
}

/* ---- The file ---- */

/* Gives `file` an array of `n` maps, the first of which stays. */
static tn_status grow_maps(tn_file *file, uint64_t n, tn_error *err) {
    void *memory;
    tn_status status = tn_file_alloc(file, n, sizeof *file->maps, "shards", &memory, err);
    if (status != TN_OK) return status;
    memcpy(memory, file->maps, sizeof *file->maps);
    file->maps = memory;
    return TN_OK;
}

static tn_status open_all(tn_file *file, tn_error *err) {
    gguf_part first;
    split s;
    void *memory;
    tn_status status = open_part(file, file->path, &first, err);
    if (status == TN_OK) status = read_split(&first, &s, err);
    if (status == TN_OK) status = check_first(file, &first, &s, err);
    if (status == TN_OK) status = grow_maps(file, s.count, err);
    if (status == TN_OK) status = tn_file_alloc(file, s.count, sizeof(gguf_part), "shards", &memory, err);
    if (status != TN_OK) return status;
    gguf_part *parts = memory;
    parts[0] = first;
    status = open_later(file, parts, &s, err);
    if (status == TN_OK) status = read_all_tensors(file, parts, &s, err);
    file->meta = first.meta;
    file->n_meta = first.n_meta;
    file->meta_names = first.meta_names;
    snprintf(file->format, sizeof file->format, "GGUF v%u", first.version);
    return status;
}

static tn_status open_gguf(const tn_fmap_source *source, tn_fmap *map, tn_file **out, tn_error *err) {
    *out = NULL;
    tn_file *file = tn_file_new(source, map);
    if (!file) return tn_fail(err, TN_ERR_MEMORY, TN_OPEN_WHAT, source->path, "no memory");
    tn_status status = open_all(file, err);
    if (status == TN_OK) {
        *out = file;
    } else {
        tn_file_close(file);
    }
    return status;
}

const tn_format tn_format_gguf = {.name = "GGUF", .probe = probe, .open = open_gguf};
