/* Token ids given on the command line. */
#ifndef TN_TOOLS_IDS_H
#define TN_TOOLS_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"

typedef struct tn_ids {
    int32_t *ids; /* freed by the caller, whatever happened */
    size_t n;
} tn_ids;

/* Each returns 0, or the exit code after printing why. */

/* Reads options->ids: decimal numbers separated by white space; the vocabulary is not known yet. */
int tn_ids_parse(const tn_options *options, tn_ids *out);

/* Whether all are in a vocabulary. */
int tn_ids_check(const tn_options *options, const tn_ids *ids, uint32_t n_vocab);

#endif
