/* What `tern doctor` finds out before it prints it, for people or as JSON. */
#ifndef TN_TOOLS_DOCTOR_H
#define TN_TOOLS_DOCTOR_H

#include "cli.h"

typedef struct tn_doctor_model {
    tern_model_info info;
    tern_memory memory;
    uint64_t weight_bytes, macs; /* of a token whose logits are wanted */
    uint64_t macs_inner;         /* of a token in the middle of a prefill */
    uint32_t long_context;       /* where decode is predicted too, */
    uint64_t long_kv_bytes;      /* and the cache read for a token there */
    tern_machine_speed machine;  /* over as many bytes as the weights, up to the machine's buffer */
    uint32_t decode_tokens, prefill_tokens; /* computed, */
    double decode_per_s, prefill_per_s;     /* and how fast */
    double memory_bound_per_s, multiply_bound_per_s,
        prefill_bound_per_s;               /* tokens/s that nothing can exceed */
    double bandwidth_share, prefill_share; /* of the bounds, reached */
    double long_decode_per_s;
    bool memory_is_nearer; /* the lower bound of decode */
} tn_doctor_model;

typedef struct tn_doctor {
    const tn_options *options;
    tern_machine machine;
    uint32_t n_threads;
    tern_machine_speed one, all; /* with one thread, with n_threads */
    bool has_model;
    tn_doctor_model model;
} tn_doctor;

/* Prints everything as one JSON object; returns the exit code. */
int tn_doctor_print_json(const tn_doctor *doctor);

#endif
