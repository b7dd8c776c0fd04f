/* Facts about the machine and the share of it that this process may use, for reports. */
#ifndef TN_BASE_MACHINE_H
#define TN_BASE_MACHINE_H

#include <stdint.h>

#include "cpu.h"

typedef struct tn_machine {
    char cpu[128];      /* the processor's name, safe to print */
    char features[256]; /* those of its instruction sets that matter to kernels, as the system names them */
    char isas[128];     /* levels that can be chosen here, "ref, avx2" */
    tn_isa isa;         /* the level chosen */
    bool isa_forced;    /* by TERN_ISA */
    tn_cpu_counts cpus;
    int default_threads;
    uint64_t memory_bytes, available_bytes; /* 0 where the system does not say */
} tn_machine;

/* Fails where TERN_ISA names a level that cannot be chosen. */
tn_status tn_machine_get(tn_machine *out, tn_error *err);

#endif
