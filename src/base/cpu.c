#include "cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "cgroup.h"

/* ---- Instruction sets ---- */

/* What processor and operating system offer together, as bits; each architecture detects its own. */
enum {
    HAS_AVX2 = 1 << 0, /* with FMA and F16C */
    HAS_NEON = 1 << 1,
    HAS_DOTPROD = 1 << 2,
    HAS_I8MM = 1 << 3,
    HAS_AVXVNNI = 1 << 4,
    HAS_AVX512 = 1 << 5, /* F, BW, VL, DQ, CD */
    HAS_AVX512VNNI = 1 << 6,
};

/* The levels and the bits that each needs. A new level is a line here, in cpu.h and in kernels/kernels.c. */
static const struct level {
    const char *name;
    unsigned needs;
} levels[TN_ISA_COUNT] = {
    [TN_ISA_REF] = {"ref", 0},
    [TN_ISA_AVX2] = {"avx2", HAS_AVX2},
    [TN_ISA_AVXVNNI] = {"avxvnni", HAS_AVX2 | HAS_AVXVNNI},
    [TN_ISA_AVX512] = {"avx512", HAS_AVX2 | HAS_AVX512},
    [TN_ISA_AVX512VNNI] = {"avx512vnni", HAS_AVX2 | HAS_AVX512 | HAS_AVX512VNNI},
    [TN_ISA_NEON] = {"neon", HAS_NEON},
    [TN_ISA_DOTPROD] = {"dotprod", HAS_NEON | HAS_DOTPROD},
    [TN_ISA_I8MM] = {"i8mm", HAS_NEON | HAS_DOTPROD | HAS_I8MM},
};

const char *tn_isa_name(tn_isa isa) {
    return levels[isa].name;
}

#if defined(__x86_64__)
#ifdef TERN_SIMDE /* a test build: the levels above AVX2 are compiled for AVX2 */
enum { EMULATED = HAS_AVXVNNI | HAS_AVX512 | HAS_AVX512VNNI };
#else
enum { EMULATED = 0 };
#endif

/* The operating system must save the wide registers too: where it does not (old hypervisors, XSAVE masked)
 * the instructions fault though cpuid lists them. */
static unsigned detect(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    const unsigned need = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    if ((c & need) != need) return 0;
    unsigned xcr0_low, xcr0_high;
    __asm__ volatile("xgetbv" : "=a"(xcr0_low), "=d"(xcr0_high) : "c"(0));
    if ((xcr0_low & 6) != 6) return 0; /* SSE and AVX state */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ | bit_AVX512CD;
    unsigned has = HAS_AVX2 | EMULATED;
    if ((b & avx512) == avx512 && (xcr0_low & 0xe6) == 0xe6) { /* and the state of masks and upper halves */
        has |= HAS_AVX512 | (c & bit_AVX512VNNI ? HAS_AVX512VNNI : 0u);
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVXVNNI)) has |= HAS_AVXVNNI;
    return has;
}
#elif defined(__aarch64__)
/* Bits of the auxiliary vector (Linux arm64 elf_hwcaps), which older headers lack. */
#define HWCAP_BIT_ASIMD   (1ul << 1)
#define HWCAP_BIT_ASIMDDP (1ul << 20)
#define HWCAP2_BIT_I8MM   (1ul << 13)

static unsigned detect(void) {
    const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    return (caps & HWCAP_BIT_ASIMD ? HAS_NEON : 0u) | (caps & HWCAP_BIT_ASIMDDP ? HAS_DOTPROD : 0u) |
           (caps2 & HWCAP2_BIT_I8MM ? HAS_I8MM : 0u);
}
#else
static unsigned detect(void) {
    return 0;
}
#endif

bool tn_isa_supported(tn_isa isa) {
    return (levels[isa].needs & ~detect()) == 0;
}

tn_status tn_isa_choose(tn_isa *out, tn_error *err) {
    char possible[128] = "";
    tn_isa best = TN_ISA_REF;
    const char *wanted = getenv("TERN_ISA");
    bool known = false;
    for (int i = 0; i < TN_ISA_COUNT; i++) {
        bool named = wanted && strcmp(wanted, levels[i].name) == 0;
        known |= named;
        if (!tn_isa_supported((tn_isa)i)) continue;
        best = (tn_isa)i;
        if (named) {
            *out = best;
            return TN_OK;
        }
        size_t n = strlen(possible);
        snprintf(possible + n, sizeof possible - n, "%s%s", n ? ", " : "", levels[i].name);
    }
    *out = best;
    if (!wanted || !*wanted) return TN_OK;
    *out = TN_ISA_REF;
    return tn_fail(err, known ? TN_ERR_UNSUPPORTED : TN_ERR_ARG, "cannot choose the instruction set",
                   "TERN_ISA", "'%.64s' is %s; possible here: %s", wanted,
                   known ? "not supported by this processor" : "not a known name", possible);
}

/* ---- Threads ---- */

/* The allowed CPUs, sized for machines beyond the 1,024 of a fixed cpu_set_t; NULL on failure. */
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

static bool read_topology(int cpu, const char *name, int *out) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fscanf(f, "%d", out) == 1;
    fclose(f);
    return ok;
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Distinct (package, core) pairs among the allowed CPUs; a CPU without topology files counts as a core. */
static int count_cores(const cpu_set_t *set, int n_cpus) {
    size_t set_bytes = CPU_ALLOC_SIZE((size_t)n_cpus);
    size_t n = (size_t)CPU_COUNT_S(set_bytes, set), found = 0;
    uint64_t *cores = malloc(n * sizeof *cores);
    if (!cores) return (int)n;
    for (int cpu = 0; cpu < n_cpus && found < n; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, set_bytes, set)) continue;
        int package = 0, core = 0;
        bool known =
            read_topology(cpu, "core_id", &core) && read_topology(cpu, "physical_package_id", &package);
        cores[found++] =
            known ? (uint64_t)(uint32_t)package << 32 | (uint32_t)core : UINT64_MAX - (uint64_t)(uint32_t)cpu;
    }
    qsort(cores, found, sizeof *cores, compare_u64);
    int distinct = 0;
    for (size_t i = 0; i < found; i++) distinct += i == 0 || cores[i] != cores[i - 1];
    free(cores);
    return distinct;
}

void tn_cpu_counts_get(tn_cpu_counts *out) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (tn_cpu_counts){online > 0 ? (int)online : 1, 1, 1, tn_cgroup_cpu_limit("")};
    int n_cpus = 0;
    cpu_set_t *set = affinity_mask(&n_cpus);
    if (!set) return;
    out->n_allowed = CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)n_cpus), set);
    const int cores = count_cores(set, n_cpus);
    out->n_cores = cores > 0 ? cores : 1;
    CPU_FREE(set);
}

int tn_default_threads(void) {
    tn_cpu_counts counts;
    tn_cpu_counts_get(&counts);
    return counts.quota > 0 && counts.quota < counts.n_cores ? counts.quota : counts.n_cores;
}

/* ---- Name ---- */

/* The value of the first "model name : VALUE" line; x86 and some others have one. */
static bool name_from_cpuinfo(char *dst, unsigned long cap) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        colon += 1 + strspn(colon + 1, " \t");
        size_t n = strcspn(colon, "\n");
        while (n > 0 && colon[n - 1] == ' ') n--;
        found = n > 0 && tn_escape(dst, cap, colon, n) > 0;
    }
    fclose(f);
    return found;
}

void tn_cpu_name(char *dst, unsigned long cap) {
    if (cap == 0 || name_from_cpuinfo(dst, cap)) return;
    struct utsname system;
    if (uname(&system) == 0) {
        tn_escape(dst, cap, system.machine, strlen(system.machine));
    } else {
        tn_escape(dst, cap, "unknown", 7);
    }
}
