/* What this processor can do, and how many threads it is worth starting. */
#ifndef TN_BASE_CPU_H
#define TN_BASE_CPU_H

#include <stdbool.h>

#include "status.h"

/* Instruction set levels that kernels are written for, in rising order of preference. TN_ISA_REF always works. */
typedef enum tn_isa { TN_ISA_REF, TN_ISA_AVX2, TN_ISA_COUNT } tn_isa;

const char *tn_isa_name(tn_isa isa);

/* Whether processor and operating system support the level. */
bool tn_isa_supported(tn_isa isa);

/* The best supported level, or the one that the environment variable TERN_ISA names; an unknown or unsupported
 * name is an error that lists those possible here. */
tn_status tn_isa_choose(tn_isa *out, tn_error *err);

/* Threads to use by default: physical cores within the affinity mask, limited by the cgroup CPU quota; >= 1. */
int tn_default_threads(void);

/* The processor's model name for reports; writes at most cap bytes. */
void tn_cpu_name(char *dst, unsigned long cap);

#endif
