#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

static void append(char *dst, size_t cap, const char *separator, const char *word) {
    const size_t n = strlen(dst);
    if (n + strlen(separator) + strlen(word) < cap)
        snprintf(dst + n, cap - n, "%s%s", n ? separator : "", word);
}

static void read_features(char *dst, size_t cap) {
    const char *name;
    dst[0] = '\0';
    for (int i = 0; (name = tn_cpu_feature(i)); i++)
        if (*name) append(dst, cap, " ", name);
}

static uint64_t total_memory(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

tn_status tn_machine_get(tn_machine *out, tn_error *err) {
    memset(out, 0, sizeof *out);
    const tn_status status = tn_isa_choose(&out->isa, err);
    if (status) return status;
    const char *forced = getenv("TERN_ISA");
    out->isa_forced = forced && *forced;
    for (int isa = 0; isa < TN_ISA_COUNT; isa++) {
        if (tn_isa_supported((tn_isa)isa))
            append(out->isas, sizeof out->isas, ", ", tn_isa_name((tn_isa)isa));
    }
    tn_cpu_name(out->cpu, sizeof out->cpu);
    read_features(out->features, sizeof out->features);
    tn_cpu_counts_get(&out->cpus);
    out->default_threads = tn_default_threads(&out->cpus);
    out->memory_bytes = total_memory();
    const uint64_t available = tn_memory_available();
    out->available_bytes = available == UINT64_MAX ? 0 : available;
    return TN_OK;
}
