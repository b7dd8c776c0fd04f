/* Writes a GGUF file of version 3, or a split one, that appears whole or not at all.
 *
 *   new -> set_..., add_tensor, new_shard in any order -> begin -> write, the data in order -> commit
 *
 * and abort at any point instead. Data go to files without a name in the folder of the output (where the file system has none:
 * with a temporary name), which are synced and get their names at the commit: a process that ends before leaves what was there.
 * Not thread-safe. The drawing of a file is in gguf.h. */
#ifndef TN_FORMATS_GGUF_WRITER_H
#define TN_FORMATS_GGUF_WRITER_H

#include "format.h"

typedef struct tn_gguf_writer tn_gguf_writer;

/* `path` is copied; a symbolic link is followed at begin. NULL when memory is out. */
tn_gguf_writer *tn_gguf_writer_new(const char *path);

/* Frees the writer and removes what it wrote, unless it was committed. NULL is fine. */
void tn_gguf_abort(tn_gguf_writer *writer);

/* ---- Metadata, before begin ------------------------------------------------------------------------------
 *
 * Everything is copied. A key that was set before keeps its place and gets the new value. Keys are 1 to 65535 bytes; texts may
 * be any bytes. None of these fail: what goes wrong (memory) is the result of begin. */
void tn_gguf_set(tn_gguf_writer *writer, const char *key, tn_meta_type type,
                 const void *value); /* a number or bool */
void tn_gguf_set_text(tn_gguf_writer *writer, const char *key, const char *text, uint64_t n);
void tn_gguf_set_array(tn_gguf_writer *writer, const char *key, tn_meta_type elem_type, const void *values,
                       uint64_t count); /* packed numbers */
void tn_gguf_set_texts(tn_gguf_writer *writer, const char *key, const tn_str *texts, uint64_t count);

static inline void tn_gguf_set_u32(tn_gguf_writer *writer, const char *key, uint32_t value) {
    tn_gguf_set(writer, key, TN_META_U32, &value);
}
static inline void tn_gguf_set_f32(tn_gguf_writer *writer, const char *key, float value) {
    tn_gguf_set(writer, key, TN_META_F32, &value);
}
static inline void tn_gguf_set_bool(tn_gguf_writer *writer, const char *key, bool value) {
    const uint8_t byte = value;
    tn_gguf_set(writer, key, TN_META_BOOL, &byte);
}

/* The entry of an open file as it is, and all entries of one but those that describe its split. */
void tn_gguf_set_meta(tn_gguf_writer *writer, const tn_meta *meta);
void tn_gguf_set_all(tn_gguf_writer *writer, const tn_file *file);

/* ---- Tensors, before begin -------------------------------------------------------------------------------- */

/* The next tensor; dims[0], the row length, is a multiple of the type's block. The name is copied. */
void tn_gguf_add_tensor(tn_gguf_writer *writer, const char *name, tn_dtype dtype, uint32_t n_dims,
                        const uint64_t *dims);

/* The next tensor begins a shard of its own, unless it would begin one anyway. */
void tn_gguf_new_shard(tn_gguf_writer *writer);

/* Shards hold at most so many bytes of tensor data, but one tensor at least. */
void tn_gguf_split_by_bytes(tn_gguf_writer *writer, uint64_t bytes);

/* ---- Writing ------------------------------------------------------------------------------------------------ */

/* Lays the file out, asks the file system for its room and writes the head. With several shards the output "DIR/NAME.gguf"
 * becomes "DIR/NAME-00001-of-0000N.gguf" and so on; one shard is an ordinary file. Refuses to replace a file of `source`, the
 * file that is read from (may be NULL), by whatever path or link. */
tn_status tn_gguf_begin(tn_gguf_writer *writer, const tn_file *source, tn_error *err);

/* The next n bytes of tensor data, in the order of the tensors, in pieces of any size within a tensor. */
tn_status tn_gguf_write(tn_gguf_writer *writer, const void *bytes, uint64_t n, tn_error *err);

/* Syncs the last file; all data must have been written. *path, owned by the writer, is where the first shard can be read until the
 * commit. May be left out. */
tn_status tn_gguf_finish(tn_gguf_writer *writer, const char **path, tn_error *err);

/* Syncs and names the files; all data must have been written. Frees the writer, on failure too (then like abort). */
tn_status tn_gguf_commit(tn_gguf_writer *writer, tn_error *err);

/* After begin: shards, the path of one (owned by the writer), and bytes of all files. */
uint32_t tn_gguf_n_shards(const tn_gguf_writer *writer);
const char *tn_gguf_shard_path(const tn_gguf_writer *writer, uint32_t shard);
uint64_t tn_gguf_total_bytes(const tn_gguf_writer *writer);

#endif
