/* What this processor can do, and how many threads it is worth starting. */
#ifndef TN_BASE_CPU_H
#define TN_BASE_CPU_H

#include <stdbool.h>

#include "status.h"

/* Instruction set levels that kernels are written for, in rising order of preference within an architecture.
 * TN_ISA_REF always works. */
typedef enum tn_isa {
    TN_ISA_REF,
    TN_ISA_AVX2,       /* x86-64 with AVX2, FMA, F16C */
    TN_ISA_AVXVNNI,    /* and AVX-VNNI: products of bytes summed in int32, 256 bits */
    TN_ISA_AVX512,     /* AVX2 and AVX-512 F, BW, VL, DQ, CD (Skylake-X) */
    TN_ISA_AVX512VNNI, /* and AVX-512 VNNI (Ice Lake, Sapphire Rapids, Zen 4) */
    TN_ISA_NEON,       /* ARMv8-A */
    TN_ISA_DOTPROD,    /* and SDOT (ARMv8.2) */
    TN_ISA_I8MM,       /* and SMMLA (ARMv8.6) */
    TN_ISA_COUNT
} tn_isa;

const char *tn_isa_name(tn_isa isa);

/* Whether processor and operating system support the level. */
bool tn_isa_supported(tn_isa isa);

/* For i = 0, 1, ...: the name, as Linux has it, of an instruction set that this process may use and that matters to kernels; "" for
 * one that it may not; NULL at the end. In rising order of use. The processor is asked, not /proc/cpuinfo: an emulator shows
 * programs another one than the system's. */
const char *tn_cpu_feature(int i);

/* The best supported level, or the one that the environment variable TERN_ISA names; an unknown or
 * unsupported name is an error that lists those possible here. */
tn_status tn_isa_choose(tn_isa *out, tn_error *err);

typedef struct tn_cpu_counts {
    int n_online;     /* processors of the machine that run */
    int n_allowed;    /* of those, within this process's affinity mask */
    int n_cores;      /* distinct physical cores among the allowed */
    int n_fast_cores; /* of those, the performance cores, where the processor has two kinds */
    int quota;        /* CPUs' worth of time that control groups allow, rounded up; 0: no limit */
} tn_cpu_counts;

/* What can be told; 1 where the system does not say. */
void tn_cpu_counts_get(tn_cpu_counts *out);

/* Threads to use by default: physical performance cores within the affinity mask, limited by the cgroup CPU quota; >= 1. */
int tn_default_threads(const tn_cpu_counts *counts);

/* The processor's model name for reports; writes at most cap bytes. */
void tn_cpu_name(char *dst, unsigned long cap);

#endif
