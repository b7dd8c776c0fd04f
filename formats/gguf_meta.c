/* GGUF metadata: keys and typed values, left where they are in the map. */
#include "../src/base/checked.h"
#include "gguf.h"

typedef unsigned long long ull;

enum { KEY_MAX = 65535, MIN_STRING_BYTES = 8 };

/* Where a lone string lies relative to its value. */
static const uint64_t no_offset = 0;

tn_status gguf_truncated(const gguf_part *part, const char *object, uint64_t index, uint64_t needed,
                         tn_error *err) {
    return GGUF_BAD(part, err,
                    "truncated in %s %llu: %llu bytes needed at offset %llu, %llu left (size %llu)", object,
                    (ull)index, (ull)needed, (ull)part->reader.pos, (ull)tn_reader_left(&part->reader),
                    (ull)part->reader.size);
}

tn_status gguf_read_name(gguf_part *part, const char *object, uint64_t index, tn_str *out, tn_error *err) {
    uint64_t start = part->reader.pos;
    if (!tn_read_u64(&part->reader, &out->len)) return gguf_truncated(part, object, index, 8, err);
    const uint8_t *bytes;
    if (out->len == 0 || out->len > KEY_MAX) {
        return GGUF_BAD(part, err, "name of %s %llu at offset %llu has length %llu, expected 1 to %d", object,
                        (ull)index, (ull)start, (ull)out->len, KEY_MAX);
    }
    if (!tn_read_bytes(&part->reader, out->len, &bytes))
        return gguf_truncated(part, object, index, out->len, err);
    out->ptr = (const char *)bytes;
    if (tn_is_printable(out->ptr, out->len)) return TN_OK;
    return GGUF_BAD(part, err, "name of %s %llu, '%s', has control characters or bad UTF-8", object,
                    (ull)index, tn_show(*out).text);
}

/* ---- Values ---- */

static tn_status value_past_end(const gguf_part *part, const tn_meta *meta, uint64_t needed, tn_error *err) {
    return GGUF_BAD(part, err,
                    "key '%s': value truncated: %llu bytes needed at offset %llu, %llu left (size %llu)",
                    tn_show(meta->key).text, (ull)needed, (ull)part->reader.pos,
                    (ull)tn_reader_left(&part->reader), (ull)part->reader.size);
}

static tn_status read_string(gguf_part *part, const tn_meta *meta, tn_error *err) {
    uint64_t len;
    const uint8_t *bytes;
    if (!tn_read_u64(&part->reader, &len)) return value_past_end(part, meta, 8, err);
    if (!tn_read_bytes(&part->reader, len, &bytes)) return value_past_end(part, meta, len, err);
    return TN_OK;
}

/* The count is checked against what the file can hold before anything is allocated for it. */
static tn_status read_strings(tn_file *file, gguf_part *part, tn_meta *meta, tn_error *err) {
    if (meta->count > tn_reader_left(&part->reader) / MIN_STRING_BYTES) {
        return GGUF_BAD(part, err, "key '%s': %llu strings cannot be in the %llu bytes left",
                        tn_show(meta->key).text, (ull)meta->count, (ull)tn_reader_left(&part->reader));
    }
    void *memory;
    tn_status status =
        tn_file_alloc(file, meta->count, sizeof *meta->offsets, "an array of strings", &memory, err);
    uint64_t *offsets = memory;
    uint64_t start = part->reader.pos;
    for (uint64_t i = 0; status == TN_OK && i < meta->count; i++) {
        offsets[i] = part->reader.pos - start;
        status = read_string(part, meta, err);
    }
    if (status == TN_OK) meta->offsets = offsets;
    return status;
}

static tn_status read_packed(gguf_part *part, tn_meta *meta, tn_error *err) {
    uint64_t bytes;
    const uint8_t *values;
    if (!tn_mul_u64(meta->count, tn_meta_type_bytes(meta->elem_type), &bytes)) {
        return GGUF_BAD(part, err, "key '%s': array of %llu elements is too large", tn_show(meta->key).text,
                        (ull)meta->count);
    }
    if (!tn_read_bytes(&part->reader, bytes, &values)) return value_past_end(part, meta, bytes, err);
    if (meta->elem_type != TN_META_BOOL) return TN_OK;
    for (uint64_t i = 0; i < bytes; i++) {
        if (values[i] > 1) {
            return GGUF_BAD(part, err, "key '%s': bool has value %u, expected 0 or 1",
                            tn_show(meta->key).text, values[i]);
        }
    }
    return TN_OK;
}

static tn_status read_array_head(gguf_part *part, tn_meta *meta, tn_error *err) {
    uint32_t elem_type;
    if (!tn_read_u32(&part->reader, &elem_type)) return value_past_end(part, meta, 4, err);
    if (!tn_read_u64(&part->reader, &meta->count)) return value_past_end(part, meta, 8, err);
    if (elem_type == TN_META_ARRAY) {
        return GGUF_BAD(part, err, "key '%s': array of arrays, which is not supported",
                        tn_show(meta->key).text);
    }
    if (elem_type >= TN_META_TYPE_COUNT) {
        return GGUF_BAD(part, err, "key '%s': array of unknown element type %u, expected 0 to %d",
                        tn_show(meta->key).text, elem_type, TN_META_TYPE_COUNT - 1);
    }
    meta->elem_type = (tn_meta_type)elem_type;
    return TN_OK;
}

static tn_status read_entry(tn_file *file, gguf_part *part, uint64_t index, tn_error *err) {
    tn_meta *meta = &part->meta[index];
    tn_status status = gguf_read_name(part, "metadata key", index, &meta->key, err);
    if (status != TN_OK) return status;
    uint32_t type;
    if (!tn_read_u32(&part->reader, &type)) return value_past_end(part, meta, 4, err);
    if (type >= TN_META_TYPE_COUNT) {
        return GGUF_BAD(part, err, "key '%s': unknown value type %u, expected 0 to %d",
                        tn_show(meta->key).text, type, TN_META_TYPE_COUNT - 1);
    }
    meta->type = meta->elem_type = (tn_meta_type)type;
    meta->count = 1;
    if (meta->type == TN_META_ARRAY) status = read_array_head(part, meta, err);
    if (status != TN_OK) return status;
    meta->data = part->reader.base + part->reader.pos;
    if (meta->elem_type != TN_META_STRING) return read_packed(part, meta, err);
    if (meta->type == TN_META_ARRAY) return read_strings(file, part, meta, err);
    meta->offsets = &no_offset;
    return read_string(part, meta, err);
}

/* ---- The whole section ---- */

static tn_status index_keys(tn_file *file, gguf_part *part, tn_error *err) {
    void *slots;
    tn_status status =
        tn_file_alloc(file, tn_names_slots(part->n_meta), sizeof(uint32_t), "keys", &slots, err);
    if (status != TN_OK) return status;
    uint64_t first, second;
    if (tn_names_build(&part->meta_names, slots, part->meta, sizeof *part->meta, part->n_meta, &first,
                       &second)) {
        return TN_OK;
    }
    return GGUF_BAD(part, err, "duplicate key '%s' (entries %llu and %llu)",
                    tn_show(part->meta[first].key).text, (ull)first, (ull)second);
}

static tn_status read_alignment(gguf_part *part, tn_error *err) {
    enum { DEFAULT = 32, LEAST = 8, MOST = 1 << 20 };
    static const char key[] = "general.alignment";
    const tn_meta *meta = tn_names_find(&part->meta_names, key, sizeof key - 1);
    part->alignment = DEFAULT;
    if (!meta) return TN_OK;
    if (meta->type != TN_META_U32) {
        return GGUF_BAD(part, err, "key '%s' has type %s, expected u32", key, tn_meta_type_name(meta->type));
    }
    tn_meta_u64(meta, 0, &part->alignment);
    if (part->alignment >= LEAST && part->alignment <= MOST &&
        (part->alignment & (part->alignment - 1)) == 0) {
        return TN_OK;
    }
    return GGUF_BAD(part, err, "key '%s' is %llu, expected a power of two from %d to %d", key,
                    (ull)part->alignment, LEAST, MOST);
}

tn_status gguf_read_meta(tn_file *file, gguf_part *part, tn_error *err) {
    void *memory;
    tn_status status = tn_file_alloc(file, part->n_meta, sizeof *part->meta, "metadata", &memory, err);
    part->meta = memory;
    for (uint64_t i = 0; status == TN_OK && i < part->n_meta; i++) status = read_entry(file, part, i, err);
    if (status == TN_OK) status = index_keys(file, part, err);
    if (status == TN_OK) status = read_alignment(part, err);
    return status;
}
