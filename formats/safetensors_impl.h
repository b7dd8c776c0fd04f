/* What the parts of the safetensors reader share. */
#ifndef TN_FORMATS_SAFETENSORS_IMPL_H
#define TN_FORMATS_SAFETENSORS_IMPL_H

#include "../src/base/arena.h"
#include "../src/base/fmap.h"
#include "names.h"
#include "safetensors.h"

#define TN_ST_WHAT "cannot open checkpoint"

typedef struct tn_st_shard {
    const char *path;
    tn_fmap map;
} tn_st_shard;

struct tn_checkpoint {
    tn_arena arena; /* paths, index, names that had escapes */
    tn_st_shard *shards;
    uint32_t n_shards;
    tn_st_tensor *tensors; /* grows */
    uint64_t n_tensors, room;
    tn_names names;
};

/* Maps shard number `shard`, whose path is set, and appends its tensors. */
tn_status tn_st_read_shard(tn_checkpoint *c, uint32_t shard, tn_error *err);

#endif
