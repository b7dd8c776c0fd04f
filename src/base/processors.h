/* The processors that this process may run on, in the order in which threads should take them. */
#ifndef TN_BASE_PROCESSORS_H
#define TN_BASE_PROCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_processor {
    int cpu;       /* the system's number */
    uint64_t core; /* its physical core, by a number that only this core has */
    bool sibling;  /* another processor of that core stands before it */
    bool slow;     /* an efficiency core beside performance cores */
} tn_processor;

/* Those within the affinity mask, ranked as below; *n >= 1. Freed by the caller with free; NULL where the system does not say. */
tn_processor *tn_processors_allowed(size_t *n);

/* Fills in n processors of which `cpu` is given, and sorts them: a processor of each performance core, of each efficiency core,
 * then the siblings; by number among equals. A core is of the slower kind if the system lists it so (Intel's hybrid
 * processors) or gives it less than half the capacity of the largest here (Arm's). A processor without topology files is a
 * core. `root` stands before /sys: "" but for tests. */
void tn_processors_rank(const char *root, tn_processor *list, size_t n);

#endif
