#include "cpu.h"

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
#include "processors.h"

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

/* What of the registers' state the operating system saves: where it does not save the wide ones (old hypervisors, XSAVE masked)
 * their instructions fault though cpuid lists them. */
enum { STATE_AVX = 6, STATE_AVX512 = 0xe6 /* and of masks and upper halves */, STATE_AMX = 0x60000 };

static unsigned states_saved(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static unsigned detect(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    const unsigned need = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    if ((c & need) != need) return 0;
    const unsigned states = states_saved();
    if ((states & STATE_AVX) != STATE_AVX) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ | bit_AVX512CD;
    unsigned has = HAS_AVX2 | EMULATED;
    if ((b & avx512) == avx512 && (states & STATE_AVX512) == STATE_AVX512) {
        has |= HAS_AVX512 | (c & bit_AVX512VNNI ? HAS_AVX512VNNI : 0u);
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVXVNNI)) has |= HAS_AVXVNNI;
    return has;
}

/* Where cpuid lists each: leaf, subleaf, register (eax 0 ... edx 3) and bit. */
static const struct feature {
    const char *name;
    unsigned leaf, subleaf, place, bit, state;
} features[] = {
    {"sse4_2", 1, 0, 2, bit_SSE4_2, 0},
    {"avx", 1, 0, 2, bit_AVX, STATE_AVX},
    {"f16c", 1, 0, 2, bit_F16C, STATE_AVX},
    {"fma", 1, 0, 2, bit_FMA, STATE_AVX},
    {"avx2", 7, 0, 1, bit_AVX2, STATE_AVX},
    {"avx_vnni", 7, 1, 0, bit_AVXVNNI, STATE_AVX},
    {"avx512f", 7, 0, 1, bit_AVX512F, STATE_AVX512},
    {"avx512bw", 7, 0, 1, bit_AVX512BW, STATE_AVX512},
    {"avx512vl", 7, 0, 1, bit_AVX512VL, STATE_AVX512},
    {"avx512vbmi", 7, 0, 2, bit_AVX512VBMI, STATE_AVX512},
    {"avx512_vnni", 7, 0, 2, bit_AVX512VNNI, STATE_AVX512},
    {"amx_int8", 7, 0, 3, 1 << 25, STATE_AMX},
};

static bool has_feature(const struct feature *f) {
    unsigned r[4];
    return __get_cpuid_count(f->leaf, f->subleaf, &r[0], &r[1], &r[2], &r[3]) && (r[f->place] & f->bit) &&
           (states_saved() & f->state) == f->state;
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

static const struct feature {
    const char *name;
    unsigned long caps, caps2;
} features[] = {
    {"asimd", HWCAP_BIT_ASIMD, 0}, {"asimdhp", 1ul << 10, 0}, {"asimddp", HWCAP_BIT_ASIMDDP, 0},
    {"i8mm", 0, HWCAP2_BIT_I8MM},  {"bf16", 0, 1ul << 14},    {"sve", 1ul << 22, 0},
    {"sve2", 0, 1ul << 1},
};

static bool has_feature(const struct feature *f) {
    return (getauxval(AT_HWCAP) & f->caps) == f->caps && (getauxval(AT_HWCAP2) & f->caps2) == f->caps2;
}
#else
static unsigned detect(void) {
    return 0;
}

static const struct feature { const char *name; } features[] = {{""}};

static bool has_feature(const struct feature *f) {
    (void)f;
    return false;
}
#endif

const char *tn_cpu_feature(int i) {
    if (i < 0 || (size_t)i >= sizeof features / sizeof *features) return NULL;
    return has_feature(&features[i]) ? features[i].name : "";
}

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

void tn_cpu_counts_get(tn_cpu_counts *out) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n;
    tn_processor *list = tn_processors_allowed(&n);
    *out = (tn_cpu_counts){.n_online = online > 0 ? (int)online : 1, .quota = tn_cgroup_cpu_limit("")};
    for (size_t i = 0; list && i < n; i++) {
        out->n_allowed++;
        out->n_cores += !list[i].sibling;
        out->n_fast_cores += !list[i].sibling && !list[i].slow;
    }
    free(list);
    if (!out->n_allowed) out->n_allowed = out->n_cores = out->n_fast_cores = 1;
}

int tn_default_threads(const tn_cpu_counts *counts) {
    return counts->quota > 0 && counts->quota < counts->n_fast_cores ? counts->quota : counts->n_fast_cores;
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
