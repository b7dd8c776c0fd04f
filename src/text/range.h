/* Stretches of a text. */
#ifndef TN_TEXT_RANGE_H
#define TN_TEXT_RANGE_H

#include <stddef.h>

/* Bytes [begin, end). Lists of them are ascending, and no two touch. */
typedef struct tn_range_pair {
    size_t begin, end;
} tn_range_pair;

#endif
