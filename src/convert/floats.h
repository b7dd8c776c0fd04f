/* Elements of checkpoints as floats. */
#ifndef TN_CONVERT_FLOATS_H
#define TN_CONVERT_FLOATS_H

#include <stdbool.h>
#include <stddef.h>

#include "../../formats/safetensors.h"

/* Whether elements of the type are numbers that a weight may be stored as. */
bool tn_floats_known(tn_st_type type);

/* Converts n elements; src has any alignment. F64 is rounded, all else is exact. */
void tn_floats_read(tn_st_type type, const uint8_t *src, size_t n, float *dst);

/* The only type that takes the elements as they are; TN_DTYPE_COUNT if there is none. */
tn_dtype tn_floats_same(tn_st_type type);

#endif
