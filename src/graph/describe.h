/* What the steps of a graph do and how much they read and multiply: for reports, and for speeds in bytes and
 * multiply-adds. */
#ifndef TN_GRAPH_DESCRIBE_H
#define TN_GRAPH_DESCRIBE_H

#include "graph.h"

typedef struct tn_step_summary {
    int32_t layer;     /* of its last operation; -1: before or after the layers */
    bool outputs_only; /* done for rows whose logits are asked for */
    char text[128]; /* "norm quantize | matmul matmul matmul": for each row | for each share of the columns */
    uint64_t
        weight_bytes; /* matrices read once, however many the rows; one row of an embedding table; of experts, those
                              that one row uses */
    uint64_t weight_macs; /* multiply-adds with weights, for each row */
    /* Attention, for each position that a row sees; 0 in other steps. */
    uint64_t kv_elements, kv_macs;
    uint32_t window; /* positions seen at most; 0: all */
} tn_step_summary;

/* Step i < g->n_steps of a fused graph. */
void tn_graph_describe_step(const tn_graph *g, int32_t i, tn_step_summary *out);

#endif
