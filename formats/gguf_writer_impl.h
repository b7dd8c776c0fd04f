/* What the two parts of the writer share: gguf_writer.c collects, gguf_writer_out.c lays out and writes. */
#ifndef TN_FORMATS_GGUF_WRITER_IMPL_H
#define TN_FORMATS_GGUF_WRITER_IMPL_H

#include "../src/base/arena.h"
#include "../src/base/outfile.h"
#include "file.h"
#include "gguf_writer.h"

typedef struct tn_gguf_entry {
    tn_str key;
    tn_meta_type type, elem_type;
    uint64_t count;
    const uint8_t *data;
    uint64_t n_bytes;
} tn_gguf_entry;

typedef struct tn_gguf_tensor {
    const char *name;
    tn_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[4], n_bytes, offset; /* the offset in its shard's data */
    bool new_shard;
} tn_gguf_tensor;

typedef struct tn_gguf_shard {
    uint64_t first, n_tensors, head_bytes, data_bytes;
    char *path;
    tn_outfile file;
} tn_gguf_shard;

struct tn_gguf_writer {
    tn_arena arena; /* keys, values, names, paths */
    char *path;
    tn_gguf_entry *entries;
    tn_gguf_tensor *tensors;
    tn_gguf_shard *shards;
    uint64_t n_entries, entries_cap, n_tensors, tensors_cap, max_shard_bytes, alignment;
    uint32_t n_shards, at_shard; /* the shard being written */
    uint64_t at_tensor, at_byte; /* the tensor being written, and its bytes so far */
    bool split_next, no_memory, too_large;
};

/* The entry of that key, or NULL. */
tn_gguf_entry *tn_gguf_find_entry(const tn_gguf_writer *writer, const char *key, uint64_t n);

#endif
