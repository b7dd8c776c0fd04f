/* Checkpoints in safetensors form, as Hugging Face stores them: a directory with model.safetensors, or with several such
 * files and model.safetensors.index.json, which names the one that holds each tensor.
 *
 *   n u64 | header, n bytes of JSON | data
 *   header: {"__metadata__": {KEY: TEXT, ...}, NAME: {"dtype": TYPE, "shape": [...], "data_offsets": [begin, end]}, ...}
 *
 * Offsets count from behind the header. The tensors cover the data: no two share a byte and none is left over. All is
 * validated at open. Tensors here have other types than model files and no vocabulary beside them, so this is no tn_format. */
#ifndef TN_FORMATS_SAFETENSORS_H
#define TN_FORMATS_SAFETENSORS_H

#include <stdint.h>

#include "../src/base/status.h"
#include "format.h"

typedef enum tn_st_type {
    TN_ST_F64,
    TN_ST_F32,
    TN_ST_F16,
    TN_ST_BF16,
    TN_ST_F8_E4M3,
    TN_ST_F8_E5M2,
    TN_ST_F8_E8M0,
    TN_ST_I64,
    TN_ST_I32,
    TN_ST_I16,
    TN_ST_I8,
    TN_ST_U64,
    TN_ST_U32,
    TN_ST_U16,
    TN_ST_U8,
    TN_ST_BOOL,
    TN_ST_COUNT
} tn_st_type;

enum { TN_ST_MAX_DIMS = 8 };

typedef struct tn_st_tensor {
    tn_str name;
    tn_st_type type;
    uint32_t n_dims;               /* 0: a scalar */
    uint64_t dims[TN_ST_MAX_DIMS]; /* outermost first; the last is contiguous */
    uint64_t n_elems, n_bytes;
    const uint8_t *data; /* in a map */
    uint32_t shard;
} tn_st_tensor;

typedef struct tn_checkpoint tn_checkpoint;

/* Maps all files of the directory. On failure *out is NULL. */
tn_status tn_checkpoint_open(const char *dir, tn_checkpoint **out, tn_error *err);
/* Joins the model.safetensors of another directory, whose tensors then are called `prefix` and their name. */
tn_status tn_checkpoint_add(tn_checkpoint *checkpoint, const char *dir, const char *prefix, tn_error *err);
void tn_checkpoint_close(tn_checkpoint *checkpoint); /* NULL is fine */

uint64_t tn_checkpoint_n_tensors(const tn_checkpoint *checkpoint);
const tn_st_tensor *tn_checkpoint_at(const tn_checkpoint *checkpoint,
                                     uint64_t i); /* in the order of the files */
const tn_st_tensor *tn_checkpoint_find(const tn_checkpoint *checkpoint, const char *name, uint64_t n);

/* The file that holds a tensor. */
const char *tn_checkpoint_path(const tn_checkpoint *checkpoint, const tn_st_tensor *tensor);

/* Fails where one of the files became shorter since it was opened (tn_fmap_is_whole). */
tn_status tn_checkpoint_check_whole(const tn_checkpoint *checkpoint, tn_error *err);

/* Whether the path leads to one of the files, by whatever name or link. */
bool tn_checkpoint_has_file(const tn_checkpoint *checkpoint, const char *path);

const char *tn_st_type_name(tn_st_type type);
uint32_t tn_st_type_bytes(tn_st_type type);

#endif
