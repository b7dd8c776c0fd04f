/* Importance matrices: for each column of a weight matrix the sum of the squares of what it was multiplied by, over a text.
 * Quantization weighs the errors of a column by that (src/quantize/imatrix.h reads the file).
 *
 *   general.type = "imatrix", imatrix.chunk_count, imatrix.chunk_size, imatrix.datasets
 *   NAME.in_sum2  f32[matrices][columns]      NAME.counts  f32[matrices][1], rows that were summed
 *
 * which is llama.cpp's form. Matrices of the layers alone: not the output's. */
#ifndef TN_QUALITY_IMPORTANCE_H
#define TN_QUALITY_IMPORTANCE_H

#include "../model/model.h"

typedef struct tn_importance_config {
    const int32_t *ids; /* n_chunks of n_ctx tokens, each evaluated on its own */
    uint32_t n_ctx, n_chunks, n_batch, n_threads;
    const char *dataset;                                         /* the text's name, kept in the file */
    bool (*progress)(void *user, uint64_t done, uint64_t total); /* NULL, or told of chunks; false cancels */
    void *user;
} tn_importance_config;

/* Writes `out`, whole or not at all. The sums do not depend on batch and threads: each is added up in double precision, a row after
 * the other. */
tn_status tn_importance_write(const tn_model *model, const tn_importance_config *config, const char *out,
                              tn_error *err);

#endif
