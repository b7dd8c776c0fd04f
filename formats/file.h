/* What the readers of the formats share: the opened file that format.h keeps opaque. */
#ifndef TN_FORMATS_FILE_H
#define TN_FORMATS_FILE_H

#include "../src/base/arena.h"
#include "../src/base/fmap.h"
#include "format.h"
#include "names.h"

struct tn_file {
    tn_arena arena; /* everything below but the maps' memory */
    const char *path;
    bool has_path; /* else `path` is what messages call it */
    char format[16];
    tn_fmap *maps; /* one a shard */
    uint32_t n_maps;
    uint64_t n_bytes;
    tn_meta *meta;
    uint64_t n_meta;
    tn_names meta_names;
    tn_tensor *tensors;
    uint64_t n_tensors;
    tn_names tensor_names;
};

#define TN_OPEN_WHAT "cannot open model"

/* What a file may make us allocate, beside its map: opening stays below the file plus 64 MiB. */
#define TN_FILE_INDEX_BYTES ((uint64_t)58 << 20)

/* A new file of one map, which it takes over, with a copy of the path; NULL when memory is out, and then the map is closed. Freed by
 * tn_file_close in any state. */
tn_file *tn_file_new(const tn_fmap_source *source, tn_fmap *map);

/* From the file's arena, zeroed; fails, naming the purpose, beyond TN_FILE_INDEX_BYTES. */
tn_status tn_file_alloc(tn_file *file, uint64_t n, size_t size, const char *purpose, void **out,
                        tn_error *err);

/* Bytes of one packed value; 0 for strings and arrays. */
uint32_t tn_meta_type_bytes(tn_meta_type type);

/* A name as it may be printed in a message: escaped, and cut when very long. */
typedef struct tn_shown {
    char text[96];
} tn_shown;
tn_shown tn_show(tn_str name);

#endif
