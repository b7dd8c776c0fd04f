/* test_kernels --bench: how long each row of the kernel table takes, on each level, beside the reference.
 *
 * A time is the best of many: what disturbs a measurement only ever adds to it. The levels take turns within a row,
 * so that a change of the clock meets them all. */
#include "kernels_bench.h"

static const double sample_seconds = 2e-4, row_seconds = 0.04;
enum { MIN_ROUNDS = 32 };

static const char *wanted = "";
static unsigned n_lines;

static bool wants_level(int isa, const char *row, const char *shape) {
    char label[128];
    snprintf(label, sizeof label, "%s %s %s", tn_isa_name((tn_isa)isa), row, shape);
    return supported[isa] && strstr(label, wanted);
}

bool bench_wants(const char *row, const char *shape) {
    FOR_EACH_VARIANT(isa)
    if (wants_level(isa, row, shape)) return true;
    return false;
}

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double sample(const bench_case *c, const tn_kernels *table, size_t calls) {
    double start = now_seconds();
    for (size_t i = 0; i < calls; i++) c->call(table, c->args);
    return (now_seconds() - start) / (double)calls;
}

/* How many calls one sample takes; the first ones warm the caches. */
static size_t calls_of(const bench_case *c, const tn_kernels *table) {
    size_t calls = 1;
    while (sample(c, table, calls) * (double)calls < sample_seconds) calls *= 2;
    return calls;
}

double bench_reference(const bench_case *c) {
    size_t calls = calls_of(c, &ref);
    double best = sample(c, &ref, calls);
    for (double spent = 0; spent < row_seconds / 4;) {
        double seconds = sample(c, &ref, calls);
        spent += seconds * (double)calls;
        if (seconds < best) best = seconds;
    }
    return c->work / best;
}

static void print_line(const bench_case *c, int isa, double seconds) {
    double rate = c->work / seconds;
    n_lines++;
    char bytes[32] = "-";
    if (c->bytes > 0) snprintf(bytes, sizeof bytes, "%.1f GB/s", c->bytes / seconds * 1e-9);
    printf("%-10s %-15s %-10s %12.3f us %8.2f %-8s %11s %7.1f x\n", tn_isa_name((tn_isa)isa), c->row,
           c->shape, seconds * 1e6, rate * 1e-9, c->unit, bytes, rate / c->ref_rate);
}

void bench_run(const bench_case *c) {
    size_t calls[TN_ISA_COUNT] = {0};
    double best[TN_ISA_COUNT], spent = 0;
    int levels = 0;
    FOR_EACH_VARIANT(isa) {
        if (!wants_level(isa, c->row, c->shape)) continue;
        calls[isa] = calls_of(c, &variant[isa]);
        best[isa] = INFINITY;
        levels++;
    }
    for (int round = 0; round < MIN_ROUNDS || spent < row_seconds * levels; round++) {
        FOR_EACH_VARIANT(isa) {
            if (!calls[isa]) continue;
            double seconds = sample(c, &variant[isa], calls[isa]);
            spent += seconds * (double)calls[isa];
            if (seconds < best[isa]) best[isa] = seconds;
        }
    }
    FOR_EACH_VARIANT(isa)
    if (calls[isa]) print_line(c, isa, best[isa]);
}

int bench_kernels(const char *filter) {
    wanted = filter;
    printf("%-10s %-15s %-10s %15s %17s %11s %9s\n", "level", "row", "shape", "a call", "work", "read",
           "reference");
    bench_products();
    bench_rows();
    bench_attention();
    if (n_lines) return 0;
    fprintf(stderr, "test_kernels: error: %s: no row of a level that this processor has\n", filter);
    return 2;
}
