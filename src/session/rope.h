/* Cosines and sines of the rotary angles of a batch, one table a rotary configuration of the graph. */
#ifndef TN_SESSION_ROPE_H
#define TN_SESSION_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/arena.h"
#include "../graph/graph.h"

/* For each rope of the graph, radians a position (tn_rope_config says how): n_pairs, then n_pairs for long sequences. NULL when out of
 * memory. */
double **tn_rope_frequencies(const tn_graph *graph, tn_arena *arena);

/* One table a rope, for batches of up to n_batch tokens: for each token n_pairs cosines, then n_pairs sines. They stand in
 * tn_rope_tables_bytes of memory, on 64 bytes, behind the pointers to them. */
size_t tn_rope_tables_bytes(const tn_graph *graph, uint32_t n_batch);
float **tn_rope_tables_place(const tn_graph *graph, uint32_t n_batch, uint8_t *memory);

/* Fills every table for positions pos..pos + n - 1, of a sequence that counts as long or does not. */
void tn_rope_tables_fill(float *const *tables, double *const *frequencies, const tn_graph *graph,
                         uint32_t pos, uint32_t n, bool is_long);

#endif
