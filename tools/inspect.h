/* What `tern inspect` gathers from a file before it prints it, for people or as JSON. */
#ifndef TN_TOOLS_INSPECT_H
#define TN_TOOLS_INSPECT_H

#include "cli.h"

enum { TN_MAX_TENSOR_TYPES = 64, TN_MAX_PLANS = 3 };

typedef struct tn_type_sum {
    const char *type; /* borrowed from the model */
    uint64_t n_tensors, n_elements, n_bytes;
    bool computable;
} tn_type_sum;

/* Memory for one size of context. */
typedef struct tn_plan {
    uint32_t n_ctx;
    const char *why; /* "default" */
    tern_memory memory;
} tn_plan;

typedef struct tn_inspection {
    const tn_options *options;
    tern_model *file;  /* opened for its metadata: any well-formed file */
    tern_model *model; /* opened whole, or for its vocabulary, or NULL */
    tern_model_info info;
    tern_error not_runnable; /* code is TERN_OK if the model can run */
    tn_type_sum types[TN_MAX_TENSOR_TYPES];
    size_t n_types;
    uint64_t tensor_bytes;
    tn_plan plans[TN_MAX_PLANS];
    size_t n_plans;
} tn_inspection;

/* Prints the inspection as one JSON object; returns the exit code. */
int tn_inspect_json(const tn_inspection *inspection);

#endif
