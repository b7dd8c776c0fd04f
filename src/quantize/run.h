/* Makes the data of a quantized file, a chunk of rows at a time, rows divided over threads. */
#ifndef TN_QUANTIZE_RUN_H
#define TN_QUANTIZE_RUN_H

#include "../../formats/gguf_writer.h"
#include "imatrix.h"
#include "recipe.h"

typedef struct tn_quantize_run {
    const tn_file *file;
    const tn_plan_item *items; /* one a tensor of the file */
    const tn_imatrix *imatrix; /* may be NULL */
    uint32_t n_threads;        /* at least 1; changes no byte */
    bool (*progress)(void *user, uint64_t done_bytes,
                     uint64_t total_bytes); /* of the input's tensors; false cancels. May be NULL */
    void *user;
} tn_quantize_run;

/* Writes the tensors in order to a writer that has begun. Every number is looked at: one that is not finite is an error that
 * names its place. */
tn_status tn_quantize_tensors(const tn_quantize_run *run, tn_gguf_writer *writer, tn_error *err);

/* Makes the data of tensor `at`, whose type its item changes, in memory: `out` has room for the item's n_bytes. Of the run nothing is
 * told. */
tn_status tn_quantize_into(const tn_quantize_run *run, uint64_t at, uint8_t *out, tn_error *err);

/* Sets a metadata entry from "KEY=VALUE". An entry that is there keeps its type; a new one is a bool ("true", "false"), an integer
 * (u32, or i64 if it does not fit), a float (f32) or else a text. Arrays and the keys of a split cannot be set. */
tn_status tn_quantize_override(tn_gguf_writer *writer, const tn_file *file, const char *text, tn_error *err);

#endif
