/* What every file format offers: typed metadata and tensors over a read-only map.
 *
 * Files are validated once, here, at open: every count, length, offset and string that the rest of the engine sees
 * is in bounds and consistent. A new format is one file with a tn_format and one line in format.c. */
#ifndef TN_FORMATS_FORMAT_H
#define TN_FORMATS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "../src/base/dtype.h"
#include "../src/base/status.h"

/* A byte string in the map; not NUL-terminated, may hold any bytes. */
typedef struct tn_str {
    const char *ptr;
    uint64_t len;
} tn_str;

typedef enum tn_meta_type {
    TN_META_U8,
    TN_META_I8,
    TN_META_U16,
    TN_META_I16,
    TN_META_U32,
    TN_META_I32,
    TN_META_F32,
    TN_META_BOOL,
    TN_META_STRING,
    TN_META_ARRAY,
    TN_META_U64,
    TN_META_I64,
    TN_META_F64,
    TN_META_TYPE_COUNT
} tn_meta_type; /* numbered as in GGUF */

typedef struct tn_meta {
    tn_str key;
    tn_meta_type type;
    tn_meta_type elem_type; /* of an array; else type */
    uint64_t count;         /* elements of an array; else 1 */
    const uint8_t *data;    /* the packed little-endian value(s), any alignment */
    const uint64_t
        *offsets; /* strings, single or array: element i is at data + offsets[i] (length u64 first) */
} tn_meta;

typedef struct tn_tensor {
    tn_str name;
    const char *cname; /* the same, NUL-terminated */
    tn_dtype dtype;
    uint32_t n_dims;  /* 1..4 */
    uint64_t dims[4]; /* dims[0] is the row length, contiguous; unused ones are 1 */
    uint64_t n_bytes;
    const uint8_t *data; /* in the map */
} tn_tensor;

typedef struct tn_file tn_file;

typedef struct tn_format {
    const char *name;
    bool (*probe)(const uint8_t *data, uint64_t size);
    tn_status (*open)(const char *path, tn_file **out, tn_error *err);
} tn_format;

extern const tn_format tn_format_gguf;

/* Opens a file of any known format. A split GGUF is opened by its first shard ("-00001-of-000NN.gguf"), the others are found
 * beside it. On failure *out is NULL. */
tn_status tn_file_open(const char *path, tn_file **out, tn_error *err);
void tn_file_close(tn_file *file); /* NULL is fine */

/* Fails when it shrank while it was open, so that what was read from it since may be wrong. */
tn_status tn_file_check(const tn_file *file, tn_error *err);

const char *tn_file_path(const tn_file *file);
const char *tn_file_format(const tn_file *file); /* "GGUF v3" */
uint64_t tn_file_bytes(const tn_file *file);     /* all shards */
uint32_t tn_file_shards(const tn_file *file);

uint64_t tn_file_n_meta(const tn_file *file);
const tn_meta *tn_file_meta_at(const tn_file *file, uint64_t i);
const tn_meta *tn_file_meta(const tn_file *file, const char *key); /* NULL if absent; hashed */

uint64_t tn_file_n_tensors(const tn_file *file);
const tn_tensor *tn_file_tensor_at(const tn_file *file, uint64_t i);
const tn_tensor *tn_file_tensor(const tn_file *file, const char *name);  /* NULL if absent; hashed */
uint32_t tn_file_shard_of(const tn_file *file, const tn_tensor *tensor); /* from 0 */

/* Element i of a value (0 for a scalar), by value whatever integer type stores it; false when it is of another
 * kind or does not fit. A float is accepted as f64 only from F32 and F64, an integer from any integer type. */
bool tn_meta_u64(const tn_meta *meta, uint64_t i, uint64_t *out);
bool tn_meta_i64(const tn_meta *meta, uint64_t i, int64_t *out);
bool tn_meta_f64(const tn_meta *meta, uint64_t i, double *out);
bool tn_meta_bool(const tn_meta *meta, uint64_t i, bool *out);
bool tn_meta_str(const tn_meta *meta, uint64_t i, tn_str *out);

const char *tn_meta_type_name(tn_meta_type type);

#endif
