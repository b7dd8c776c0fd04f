/* The two speeds of a machine that bound a model's: reading memory, and multiplying small integers. */
#ifndef TN_EXEC_MEASURE_H
#define TN_EXEC_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "../base/cpu.h"

typedef struct tn_machine_speed {
    uint64_t buffer_bytes;   /* what was read again and again */
    double read_bytes_per_s; /* by all threads, each in order through its own share */
    double macs_per_s;       /* 8-bit integer multiply-adds of all threads, operands in registers */
} tn_machine_speed;

/* Takes about `seconds` in all. Each figure is the best of several passes, since what slows a pass is other
 * work. The buffer is cut to a quarter of the memory available. Allocates it, and starts n_threads >= 1. */
tn_status tn_measure_machine(uint32_t n_threads, uint64_t buffer_bytes, tn_isa isa, double seconds,
                             tn_machine_speed *out, tn_error *err);

/* One instruction set's way to multiply: does n rounds of `macs` multiply-adds each and returns a number that
 * depends on all of them. */
typedef struct tn_multiply_loop {
    uint32_t macs;
    uint32_t (*run)(uint64_t n);
} tn_multiply_loop;

/* The loop for a level, or for the highest below it that has one. */
const tn_multiply_loop *tn_multiply_loop_for(tn_isa isa);

#endif
