/* Scales of 8-bit checkpoints: a tensor beside each weight, with one number for all of it, for each row, or for each block. */
#ifndef TN_CONVERT_SCALES_H
#define TN_CONVERT_SCALES_H

#include "convert_impl.h"

typedef struct tn_scales {
    tn_st_type type;
    const uint8_t *data;                /* [ceil(rows / block_rows)][n_columns]; NULL: no scales */
    uint64_t block_rows, block_columns; /* elements that share a scale */
    uint64_t n_columns;
} tn_scales;

/* Whether the way the checkpoint is quantized is one that can be read; marks the tensors that only quantized activations need. */
tn_status tn_scales_check(tn_converter *c);

/* Whether weights of the name have scales, which then are marked as used. */
tn_status tn_scales_find(const tn_converter *c, const tn_source *weight, tn_scales *out);

/* Multiplies n elements of a row, from a column on. */
void tn_scales_apply(const tn_scales *scales, uint64_t row, uint64_t column, uint64_t n, float *x);

#endif
