/* The second half of the GGUF writer: layout, heads and data of the shards. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../src/base/checked.h"
#include "gguf_writer_impl.h"

#define WHAT "cannot write model"

enum { MAX_SHARDS = 65535, DEFAULT_ALIGNMENT = 32 };

static bool begins_shard(const tn_gguf_writer *w, const tn_gguf_tensor *t, const tn_gguf_shard *s) {
    if (s->n_tensors == 0) return false;
    return t->new_shard || (w->max_shard_bytes && t->n_bytes > w->max_shard_bytes - s->data_bytes) ||
           (w->max_shard_bytes && s->data_bytes >= w->max_shard_bytes);
}

/* Gives every tensor its shard and offset. */
static tn_status divide(tn_gguf_writer *w, tn_error *err) {
    w->shards = calloc(w->n_tensors + 1, sizeof *w->shards);
    if (!w->shards) return tn_fail(err, TN_ERR_MEMORY, WHAT, w->path, "out of memory");
    w->n_shards = 1;
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        tn_gguf_tensor *t = &w->tensors[i];
        tn_gguf_shard *s = &w->shards[w->n_shards - 1];
        if (begins_shard(w, t, s)) {
            s = &w->shards[w->n_shards++];
            s->first = i;
        }
        s->n_tensors++;
        t->offset = s->data_bytes;
        uint64_t end;
        if (!tn_add_u64(s->data_bytes, t->n_bytes, &end) || !tn_align_u64(end, w->alignment, &s->data_bytes))
            return tn_fail(err, TN_ERR_ARG, WHAT, w->path, "tensor '%s' is too large", t->name);
    }
    for (uint32_t i = 0; i < w->n_shards; i++) w->shards[i].file.fd = -1;
    if (w->n_shards <= MAX_SHARDS) return TN_OK;
    return tn_fail(err, TN_ERR_ARG, WHAT, w->path, "%u shards, expected at most %d", w->n_shards, MAX_SHARDS);
}

static tn_status name_shards(tn_gguf_writer *w, tn_error *err) {
    static const char ending[] = ".gguf";
    const size_t n = strlen(w->path), n_ending = sizeof ending - 1;
    const size_t stem = n > n_ending && strcmp(w->path + n - n_ending, ending) == 0 ? n - n_ending : n;
    for (uint32_t i = 0; i < w->n_shards; i++) {
        char suffix[32] = "";
        if (w->n_shards > 1) snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", i + 1, w->n_shards);
        const size_t kept = w->n_shards > 1 ? stem : n, cap = kept + sizeof suffix;
        char *path = tn_arena_alloc(&w->arena, cap, 1);
        if (!path) return tn_fail(err, TN_ERR_MEMORY, WHAT, w->path, "out of memory");
        snprintf(path, cap, "%.*s%s", (int)kept, w->path, suffix);
        w->shards[i].path = path;
    }
    return TN_OK;
}

/* ---- The head of a shard ---- */

typedef struct head {
    uint8_t *bytes; /* NULL: only counted */
    uint64_t n;
} head;

static void append(head *h, const void *bytes, uint64_t n) {
    if (h->bytes && n) memcpy(h->bytes + h->n, bytes, n);
    h->n += n;
}

static tn_str text_of(const char *text) {
    return (tn_str){text, strlen(text)};
}

static void append_u32(head *h, uint32_t value) {
    append(h, &value, sizeof value);
}

static void append_u64(head *h, uint64_t value) {
    append(h, &value, sizeof value);
}

static void append_string(head *h, tn_str text) {
    append_u64(h, text.len);
    append(h, text.ptr, text.len);
}

static void append_entry(head *h, const tn_gguf_entry *e) {
    append_string(h, e->key);
    append_u32(h, e->type);
    if (e->type == TN_META_ARRAY) {
        append_u32(h, e->elem_type);
        append_u64(h, e->count);
    }
    append(h, e->data, e->n_bytes);
}

static void append_number(head *h, const char *key, tn_meta_type type, const void *value) {
    append_entry(h, &(tn_gguf_entry){text_of(key), type, type, 1, value, tn_meta_type_bytes(type)});
}

/* The first shard holds all metadata; the others what their own reading needs. */
static bool belongs(const tn_gguf_entry *e, uint32_t number) {
    static const char alignment[] = "general.alignment";
    return number == 0 ||
           (e->key.len == sizeof alignment - 1 && memcmp(e->key.ptr, alignment, e->key.len) == 0);
}

static void append_head(const tn_gguf_writer *w, uint32_t number, head *h) {
    const tn_gguf_shard *s = &w->shards[number];
    const bool split = w->n_shards > 1;
    uint64_t n_meta = split ? 3 : 0;
    for (uint64_t i = 0; i < w->n_entries; i++) n_meta += belongs(&w->entries[i], number);
    append(h, "GGUF", 4);
    append_u32(h, 3);
    append_u64(h, s->n_tensors);
    append_u64(h, n_meta);
    for (uint64_t i = 0; i < w->n_entries; i++) {
        if (belongs(&w->entries[i], number)) append_entry(h, &w->entries[i]);
    }
    if (split) {
        const uint16_t no = (uint16_t)number, count = (uint16_t)w->n_shards;
        const int32_t n_tensors = (int32_t)w->n_tensors;
        append_number(h, "split.no", TN_META_U16, &no);
        append_number(h, "split.count", TN_META_U16, &count);
        append_number(h, "split.tensors.count", TN_META_I32, &n_tensors);
    }
    for (uint64_t i = s->first; i < s->first + s->n_tensors; i++) {
        const tn_gguf_tensor *t = &w->tensors[i];
        append_string(h, text_of(t->name));
        append_u32(h, t->n_dims);
        append(h, t->dims, t->n_dims * sizeof *t->dims);
        append_u32(h, tn_dtypes[t->dtype].ggml_id);
        append_u64(h, t->offset);
    }
}

/* ---- Writing ---- */

static tn_status write_zeros(tn_gguf_shard *s, uint64_t n, tn_error *err) {
    static const uint8_t zeros[4096] = {0};
    tn_status status = TN_OK;
    for (uint64_t part; status == TN_OK && n > 0; n -= part) {
        part = n < sizeof zeros ? n : sizeof zeros;
        status = tn_outfile_write(&s->file, zeros, part, err);
    }
    return status;
}

static tn_status write_head(tn_gguf_writer *w, tn_error *err) {
    tn_gguf_shard *s = &w->shards[w->at_shard];
    head h = {malloc(s->head_bytes), 0};
    if (!h.bytes) return tn_fail(err, TN_ERR_MEMORY, WHAT, s->path, "out of memory");
    append_head(w, w->at_shard, &h);
    tn_status status = tn_outfile_write(&s->file, h.bytes, h.n, err);
    free(h.bytes);
    return status == TN_OK ? write_zeros(s, s->head_bytes - h.n, err) : status;
}

static tn_status open_shard(tn_gguf_writer *w, tn_error *err) {
    tn_gguf_shard *s = &w->shards[w->at_shard];
    tn_status status = tn_outfile_open(&s->file, s->path, err);
    if (status == TN_OK) status = tn_outfile_reserve(&s->file, s->head_bytes + s->data_bytes, err);
    return status == TN_OK ? write_head(w, err) : status;
}

/* Moves past tensors that are complete, and opens the next shard where one ends. */
static tn_status advance(tn_gguf_writer *w, tn_error *err) {
    tn_status status = TN_OK;
    while (status == TN_OK && w->at_tensor < w->n_tensors && w->at_byte == w->tensors[w->at_tensor].n_bytes) {
        tn_gguf_shard *s = &w->shards[w->at_shard];
        uint64_t padded = w->at_byte;
        tn_align_u64(w->at_byte, w->alignment, &padded);
        status = write_zeros(s, padded - w->at_byte, err);
        w->at_byte = 0;
        w->at_tensor++;
        if (status != TN_OK || w->at_tensor < s->first + s->n_tensors || w->at_tensor == w->n_tensors)
            continue;
        status = tn_outfile_finish(&s->file, err);
        w->at_shard++;
        if (status == TN_OK) status = open_shard(w, err);
    }
    return status;
}

static tn_status check_apart(const tn_gguf_writer *w, const tn_file *source, tn_error *err) {
    for (uint32_t i = 0; source && i < w->n_shards; i++) {
        struct stat st;
        const char *path = w->shards[i].path;
        if (stat(path, &st) != 0) {
            if (errno == ENOENT) continue;
            return tn_fail(err, TN_ERR_IO, WHAT, path, "%s", strerror(errno));
        }
        for (uint32_t m = 0; m < source->n_maps; m++) {
            if (source->maps[m].device != st.st_dev || source->maps[m].inode != st.st_ino) continue;
            return tn_fail(err, TN_ERR_ARG, WHAT, path, "is the same file as the input, %s", source->path);
        }
    }
    return TN_OK;
}

static void read_alignment(tn_gguf_writer *w) {
    const tn_gguf_entry *e = tn_gguf_find_entry(w, "general.alignment", 17);
    uint32_t value = DEFAULT_ALIGNMENT;
    if (e && e->type == TN_META_U32) memcpy(&value, e->data, sizeof value);
    w->alignment = value;
}

tn_status tn_gguf_begin(tn_gguf_writer *w, const tn_file *source, tn_error *err) {
    if (w->no_memory) return tn_fail(err, TN_ERR_MEMORY, WHAT, w->path, "out of memory");
    if (w->too_large) return tn_fail(err, TN_ERR_ARG, WHAT, w->path, "the size of a tensor overflows");
    read_alignment(w);
    if (w->alignment < 8 || w->alignment > 1 << 20 || (w->alignment & (w->alignment - 1)) != 0)
        return tn_fail(err, TN_ERR_ARG, WHAT, w->path,
                       "general.alignment is %llu, expected a power of two from 8 to 2^20",
                       (unsigned long long)w->alignment);
    tn_status status = divide(w, err);
    if (status == TN_OK) status = name_shards(w, err);
    if (status == TN_OK) status = check_apart(w, source, err);
    for (uint32_t i = 0; status == TN_OK && i < w->n_shards; i++) {
        head h = {0};
        append_head(w, i, &h);
        tn_align_u64(h.n, w->alignment, &w->shards[i].head_bytes);
    }
    if (status == TN_OK) status = open_shard(w, err);
    return status == TN_OK ? advance(w, err) : status;
}

tn_status tn_gguf_write(tn_gguf_writer *w, const void *bytes, uint64_t n, tn_error *err) {
    assert(w->at_tensor < w->n_tensors && n <= w->tensors[w->at_tensor].n_bytes - w->at_byte);
    tn_status status = tn_outfile_write(&w->shards[w->at_shard].file, bytes, n, err);
    if (status != TN_OK) return status;
    w->at_byte += n;
    return advance(w, err);
}

tn_status tn_gguf_finish(tn_gguf_writer *w, const char **path, tn_error *err) {
    assert(w->at_tensor == w->n_tensors);
    tn_status status = tn_outfile_finish(&w->shards[w->at_shard].file, err);
    *path = w->shards[0].file.temporary;
    return status;
}

/* The first shard gets its name last: what can be opened is complete. */
tn_status tn_gguf_commit(tn_gguf_writer *w, tn_error *err) {
    const char *path;
    const bool finished = w->shards[w->at_shard].file.fd < 0;
    tn_status status = finished ? TN_OK : tn_gguf_finish(w, &path, err);
    for (uint32_t i = w->n_shards; status == TN_OK && i-- > 0;)
        status = tn_outfile_place(&w->shards[i].file, err);
    tn_gguf_abort(w);
    return status;
}

uint32_t tn_gguf_n_shards(const tn_gguf_writer *w) {
    return w->n_shards;
}

const char *tn_gguf_shard_path(const tn_gguf_writer *w, uint32_t number) {
    return w->shards[number].path;
}

uint64_t tn_gguf_total_bytes(const tn_gguf_writer *w) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->n_shards; i++) n += w->shards[i].head_bytes + w->shards[i].data_bytes;
    return n;
}
