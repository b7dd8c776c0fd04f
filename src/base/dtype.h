/* The table of tensor types. A new weight type is one line in dtype.def, its kernels and a harness row. */
#ifndef TN_BASE_DTYPE_H
#define TN_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tn_dtype {
#define X(name, id, elems, bytes, act) TN_DTYPE_##name,
#include "dtype.def"
#undef X
    TN_DTYPE_COUNT
} tn_dtype;

/* How the activations that meet a weight type are stored. */
typedef enum tn_act { TN_ACT_NONE, TN_ACT_F32, TN_ACT_Q8_32, TN_ACT_Q8_256, TN_ACT_COUNT } tn_act;

typedef struct tn_dtype_info {
    const char *name;
    uint32_t ggml_id;     /* number in GGUF files */
    uint32_t block_elems; /* elements a block */
    uint32_t block_bytes; /* bytes a block */
    tn_act act;           /* TN_ACT_NONE: cannot be computed yet */
} tn_dtype_info;

extern const tn_dtype_info tn_dtypes[TN_DTYPE_COUNT];

/* The type with this number in GGUF files; false if there is none. */
bool tn_dtype_from_ggml(uint32_t ggml_id, tn_dtype *out);

/* Bytes of a row of k elements; k is a multiple of block_elems. */
static inline size_t tn_dtype_row_bytes(tn_dtype t, size_t k) {
    return k / tn_dtypes[t].block_elems * tn_dtypes[t].block_bytes;
}

#endif
