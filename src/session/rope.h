/* Cosines and sines of the rotary angles of a batch, one table a rotary configuration of the graph. */
#ifndef TN_SESSION_ROPE_H
#define TN_SESSION_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/arena.h"
#include "../base/status.h"
#include "../graph/graph.h"

typedef struct tn_rope_tables {
    float **tables; /* for each token n_pairs cosines, then n_pairs sines */
    double **
        frequencies; /* radians a position (tn_rope_config says how), n_pairs; then n_pairs for long sequences */
} tn_rope_tables;

size_t tn_rope_tables_bytes(const tn_graph *graph, uint32_t n_batch);

/* For batches of up to n_batch tokens. memory: tn_rope_tables_bytes, 64-byte aligned, borrowed. */
tn_status tn_rope_tables_init(tn_rope_tables *out, const tn_graph *graph, uint32_t n_batch, uint8_t *memory,
                              tn_arena *arena, tn_error *err);

/* Fills every table for positions pos..pos + n - 1, of a sequence that counts as long or does not. */
void tn_rope_tables_fill(const tn_rope_tables *rope, const tn_graph *graph, uint32_t pos, uint32_t n,
                         bool is_long);

#endif
