/* What automatic recipes measured, kept in a file: other targets, and runs that were interrupted, go on from there.
 *
 *   tern measures 1
 *   KEY DIVERGENCE      a line each; KEY in 16 hexadecimal digits
 *
 * A key stands for everything that the figure depends on, so one file may hold those of several models and texts. */
#ifndef TN_QUANTIZE_MEASURES_H
#define TN_QUANTIZE_MEASURES_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/status.h"

typedef struct tn_measures tn_measures;

/* A file that is not there is empty; any other that is no file of measures is an error. `path` outlives the object. */
tn_status tn_measures_open(const char *path, tn_measures **out, tn_error *err);
void tn_measures_close(tn_measures *measures); /* NULL is fine */

bool tn_measures_find(const tn_measures *measures, uint64_t key, double *divergence);

/* Writes the file anew, whole. */
tn_status tn_measures_add(tn_measures *measures, uint64_t key, double divergence, tn_error *err);

#endif
