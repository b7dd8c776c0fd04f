/* The GGUF reader's parts. A file is one part or, split, several:
 *
 *   "GGUF" | version u32 | n_tensors u64 | n_meta u64
 *   n_meta   x  key string | type u32 | value
 *   n_tensors x name string | n_dims u32 | dims u64[n_dims] | type u32 | offset u64
 *   padding to the alignment; tensor data, each tensor at its offset from here
 *
 * string: length u64, bytes. array: element type u32, count u64, packed elements. All little-endian.
 * Versions 2 and 3 differ only in that 3 allows big-endian files, which are refused. */
#ifndef TN_FORMATS_GGUF_H
#define TN_FORMATS_GGUF_H

#include "../src/base/reader.h"
#include "file.h"

typedef struct gguf_part {
    const char *path;
    tn_reader reader;
    uint32_t version;
    uint64_t n_tensors, n_meta; /* no more than the rest of the file can hold */
    tn_meta *meta;
    tn_names meta_names;
    uint64_t alignment;
} gguf_part;

/* Fails with "PATH: WHY", the status of a file that contradicts itself. */
#define GGUF_BAD(part, err, ...) tn_fail(err, TN_ERR_FORMAT, TN_OPEN_WHAT, (part)->path, __VA_ARGS__)

/* The error of reading `needed` bytes of `object` that are not there. */
tn_status gguf_truncated(const gguf_part *part, const char *object, uint64_t index, uint64_t needed,
                         tn_error *err);

/* Reads a key or tensor name: not empty, at most 65535 bytes, printable UTF-8. */
tn_status gguf_read_name(gguf_part *part, const char *object, uint64_t index, tn_str *out, tn_error *err);

/* From behind the header: fills meta, meta_names and alignment. */
tn_status gguf_read_meta(tn_file *file, gguf_part *part, tn_error *err);

/* From behind the metadata: fills part->n_tensors tensors and checks that their data is in the file, apart
 * from each other. */
tn_status gguf_read_tensors(tn_file *file, gguf_part *part, tn_tensor *tensors, tn_error *err);

#endif
