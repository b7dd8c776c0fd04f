/* Importance matrices: for each weight, the mean square of what each of its columns is multiplied with. */
#ifndef TN_QUANTIZE_IMATRIX_H
#define TN_QUANTIZE_IMATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "../base/status.h"

typedef struct tn_imatrix tn_imatrix;

/* Opens an importance matrix in GGUF form (tensors NAME.in_sum2 and NAME.counts) or in the older form of llama.cpp's .dat files.
 * Values that are not finite or negative, and counts that do not fit, are errors. */
tn_status tn_imatrix_open(const char *path, tn_imatrix **out, tn_error *err);
void tn_imatrix_close(tn_imatrix *imatrix); /* NULL is fine */

uint64_t tn_imatrix_n_entries(const tn_imatrix *imatrix);

/* The importances of a tensor, n_matrices times n_columns, owned by the matrix; NULL if it has none. Fails if there are some of
 * another length. A matrix that no calibration token met (an idle expert) is all ones. */
tn_status tn_imatrix_find(const tn_imatrix *imatrix, const char *tensor, uint64_t n_columns,
                          uint64_t n_matrices, const float **out, tn_error *err);

#endif
