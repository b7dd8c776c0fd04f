#include "processors.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- What the system says ---- */

/* The first number of a file under /sys/devices/system/cpu/cpuN. */
static bool read_number(const char *root, int cpu, const char *name, int *out) {
    char path[512];
    const int n = snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/%s", root, cpu, name);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (!f) return false;
    const bool found = fscanf(f, "%d", out) == 1;
    fclose(f);
    return found;
}

static uint64_t core_of(const char *root, int cpu) {
    int package, core;
    if (!read_number(root, cpu, "topology/core_id", &core) ||
        !read_number(root, cpu, "topology/physical_package_id", &package))
        return UINT64_MAX - (uint64_t)(uint32_t)cpu;
    return (uint64_t)(uint32_t)package << 32 | (uint32_t)core;
}

/* Marks those in a list "0-3,8" of efficiency cores, which Intel's hybrid processors alone have. */
static void mark_atoms(const char *root, tn_processor *list, size_t n) {
    char path[512];
    const int length = snprintf(path, sizeof path, "%s/sys/devices/cpu_atom/cpus", root);
    FILE *f = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    if (!f) return;
    int first, last;
    while (fscanf(f, "%d", &first) == 1) {
        if (fscanf(f, "-%d", &last) != 1) last = first;
        for (size_t i = 0; i < n; i++) list[i].slow |= list[i].cpu >= first && list[i].cpu <= last;
        if (fgetc(f) != ',') break;
    }
    fclose(f);
}

static void mark_low_capacity(const char *root, tn_processor *list, size_t n) {
    int largest = 0, capacity;
    for (size_t i = 0; i < n; i++)
        if (read_number(root, list[i].cpu, "cpu_capacity", &capacity) && capacity > largest)
            largest = capacity;
    for (size_t i = 0; i < n; i++)
        if (read_number(root, list[i].cpu, "cpu_capacity", &capacity) && capacity < largest - capacity)
            list[i].slow = true;
}

/* ---- Order ---- */

static int by_core(const void *a, const void *b) {
    const tn_processor *x = a, *y = b;
    if (x->core != y->core) return x->core < y->core ? -1 : 1;
    return x->cpu - y->cpu;
}

static int by_rank(const void *a, const void *b) {
    const tn_processor *x = a, *y = b;
    if (x->sibling != y->sibling) return x->sibling ? 1 : -1;
    if (x->slow != y->slow) return x->slow ? 1 : -1;
    return x->cpu - y->cpu;
}

void tn_processors_rank(const char *root, tn_processor *list, size_t n) {
    bool all_slow = true;
    for (size_t i = 0; i < n; i++)
        list[i] = (tn_processor){.cpu = list[i].cpu, .core = core_of(root, list[i].cpu)};
    mark_atoms(root, list, n);
    mark_low_capacity(root, list, n);
    for (size_t i = 0; i < n; i++) all_slow &= list[i].slow;
    qsort(list, n, sizeof *list, by_core);
    for (size_t i = 0; i < n; i++) {
        list[i].sibling = i > 0 && list[i].core == list[i - 1].core;
        if (all_slow) list[i].slow = false; /* slow beside none */
    }
    qsort(list, n, sizeof *list, by_rank);
}

/* The allowed processors, sized for machines beyond the 1,024 of a fixed cpu_set_t; NULL on failure. */
static cpu_set_t *affinity_mask(int *n_cpus) {
    for (int n = 1024; n <= 1 << 20; n *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        if (!set) return NULL;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)n), set) == 0) {
            *n_cpus = n;
            return set;
        }
        CPU_FREE(set);
        if (errno != EINVAL) return NULL; /* EINVAL: the kernel's mask is longer */
    }
    return NULL;
}

tn_processor *tn_processors_allowed(size_t *n) {
    int n_cpus = 0;
    *n = 0;
    cpu_set_t *set = affinity_mask(&n_cpus);
    if (!set) return NULL;
    const size_t set_bytes = CPU_ALLOC_SIZE((size_t)n_cpus), count = (size_t)CPU_COUNT_S(set_bytes, set);
    tn_processor *list = count ? malloc(count * sizeof *list) : NULL;
    for (int cpu = 0; list && cpu < n_cpus && *n < count; cpu++)
        if (CPU_ISSET_S((size_t)cpu, set_bytes, set)) list[(*n)++].cpu = cpu;
    CPU_FREE(set);
    if (list) tn_processors_rank("", list, *n);
    return list;
}
