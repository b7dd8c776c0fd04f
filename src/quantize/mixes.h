/* mixes.yaml, compiled in; the build makes the array. */
#ifndef TN_QUANTIZE_MIXES_H
#define TN_QUANTIZE_MIXES_H

#include <stddef.h>

typedef struct tn_mixes_source {
    const char *name, *text;
    size_t size;
} tn_mixes_source;

extern const tn_mixes_source tn_mixes[];

#endif
