#include "memory.h"

#include <stdio.h>

#include "cgroup.h"

static uint64_t of_machine(void) {
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return UINT64_MAX;
    char line[128];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    return kib ? (uint64_t)kib << 10 : UINT64_MAX;
}

uint64_t tn_memory_available(void) {
    const uint64_t machine = of_machine(), group = tn_cgroup_memory_left("");
    return machine < group ? machine : group;
}
