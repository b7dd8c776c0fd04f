/* From floats to the blocks of tensor types.
 *
 * Every quantizer searches for the block that makes sum w_i (x_i - y_i)^2 small, y being what the block dequantizes to and w the
 * importance of the columns. The arithmetic is fixed, so that every machine makes the same bytes. */
#ifndef TN_QUANTIZE_QUANTIZE_H
#define TN_QUANTIZE_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/cpu.h"
#include "../base/dtype.h"

/* Writes n finite floats, a multiple of the type's block, as blocks. `weights` are n importances, finite and not negative, or NULL:
 * all alike. F32, F16, BF16 and Q8_0 take no notice of them, and write what Python's gguf package writes (infinity where the type
 * has nothing larger); in the others values beyond what the type can say become its largest. */
typedef void tn_quantize_row_fn(const float *x, size_t n, const float *weights, void *out);

typedef struct tn_quantizers {
    tn_quantize_row_fn *row[TN_DTYPE_COUNT]; /* NULL: cannot be made */
} tn_quantizers;

/* The fastest for an instruction set. All give the same bytes. */
const tn_quantizers *tn_quantizers_for(tn_isa isa);

bool tn_can_quantize(tn_dtype dtype);

/* One row, by the portable code: for callers with little to quantize. The type must be one that tn_can_quantize. */
void tn_quantize_row(tn_dtype dtype, const float *x, size_t n, const float *weights, void *out);

#endif
