/* A text as chunks of tokens that are evaluated on their own. */
#ifndef TN_TOOLS_CHUNKS_H
#define TN_TOOLS_CHUNKS_H

#include <stdint.h>

#include "options.h"

typedef struct tn_chunks {
    uint32_t n_ctx, n_chunks;
    int32_t *ids; /* n_chunks * n_ctx */
} tn_chunks;

/* Reads options->file and cuts its tokens into chunks of -c (512); what is left over is dropped. Where the vocabulary asks for BOS
 * that is the first token of each chunk, in the place of the text's. Fails if the text is shorter than a chunk. Returns 0, or the
 * exit code after printing why; ids are freed with tern_free in any case. */
int tn_chunks_read(const tn_options *options, const tern_model *model, tn_chunks *out);

#endif
