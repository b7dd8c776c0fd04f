#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

/* Names of the "flags" (x86) and "Features" (ARM) lines of /proc/cpuinfo, in rising order of use to kernels.
 */
static const char *const wanted_features[] = {
    "sse4_2",   "avx",      "f16c",        "fma",         "avx2",     "avx_vnni", "avx512f",
    "avx512bw", "avx512vl", "avx512_vbmi", "avx512_vnni", "amx_int8", "asimd",    "asimdhp",
    "asimddp",  "i8mm",     "bf16",        "sve",         "sve2",
};

static void append(char *dst, size_t cap, const char *separator, const char *word) {
    const size_t n = strlen(dst);
    if (n + strlen(separator) + strlen(word) < cap)
        snprintf(dst + n, cap - n, "%s%s", n ? separator : "", word);
}

/* Whether a line of words separated by spaces has the word. */
static bool has_word(const char *line, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at += n) {
        const bool begins = at == line || strchr(" \t:", at[-1]);
        if (begins && strchr(" \t\n", at[n])) return true;
    }
    return false;
}

static void read_features(char *dst, size_t cap) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t line_cap = 0;
    dst[0] = '\0';
    if (!f) return;
    while (getline(&line, &line_cap, f) >= 0) {
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
        for (size_t i = 0; i < sizeof wanted_features / sizeof *wanted_features; i++) {
            if (has_word(line, wanted_features[i])) append(dst, cap, " ", wanted_features[i]);
        }
        break; /* the first processor stands for all */
    }
    free(line);
    fclose(f);
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
