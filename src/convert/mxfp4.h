/* Matrices that a checkpoint has as MXFP4 (OCP Microscaling Formats 1.0, section 5.3): beside "NAME_blocks", the codes of
 * 32 weights in 16 bytes, low half first, stands "NAME_scales", a power of two for each block. gpt-oss is published so. */
#ifndef TN_CONVERT_MXFP4_H
#define TN_CONVERT_MXFP4_H

#include "convert_impl.h"

enum { TN_MXFP4_WEIGHTS = 32 }; /* of a block */

/* Gives each source that is such codes its block_scales, and the shape of the weights: [..., n, 16] becomes [..., 32 n]. */
tn_status tn_mxfp4_find(tn_converter *c);

/* n weights from the first on, both multiples of a block. Exact. */
void tn_mxfp4_read(const tn_source *source, uint64_t first, uint64_t n, float *x);

/* The same as blocks of TN_DTYPE_MXFP4, where the first half of a block stands in the low halves of its bytes. Nothing is
 * rounded. Returns false where a scale is no number. */
bool tn_mxfp4_repack(const tn_source *source, uint64_t first, uint64_t n, uint8_t *out);

#endif
