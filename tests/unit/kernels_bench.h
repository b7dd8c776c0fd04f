/* Timing of one row of the kernel table in one shape, on every level. */
#ifndef TN_TESTS_KERNELS_BENCH_H
#define TN_TESTS_KERNELS_BENCH_H

#include "kernels_harness.h"

typedef struct bench_case {
    const char *row, *shape; /* "gemm.Q4_K", "64 tokens" */
    const char *unit;        /* of `work`, in thousand millions a second: "GMAC/s" */
    double work, bytes;      /* done and, of weights or cache, read by one call; 0 bytes: not shown */
    void (*call)(const tn_kernels *table, const void *args);
    const void *args;
    double ref_rate; /* work a second of the reference */
} bench_case;

/* Whether any level's row in this shape was asked for: data need not be made for others. */
bool bench_wants(const char *row, const char *shape);

/* Work a second of the reference, where `ref_rate` is to be measured by a smaller case. */
double bench_reference(const bench_case *c);

/* Times the case on the levels asked for, in turns, and prints a line for each. */
void bench_run(const bench_case *c);

/* The cases. */
void bench_products(void);
void bench_rows(void);
void bench_attention(void);

#endif
