/* The table of `tern bench`, and the steps of an eval for -v. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "terminal.h"

const char *tn_bench_test_name(char name[48], const tn_bench_result *r) {
    const int n = snprintf(name, 48, "%s%" PRIu32, r->decode ? "tg" : "pp", r->n_tokens);
    if (r->depth) snprintf(name + n, 48 - (size_t)n, " @ d%" PRIu32, r->depth);
    return name;
}

void tn_bench_print_head(const tn_bench *b) {
    char bytes[24], path[512];
    const char *name = b->info.name;
    if (!*name) tern_escape(path, sizeof path, b->info.path, strlen(b->info.path));
    printf("model  %s, %s, %s\n", *name ? name : path, b->type, tn_format_bytes(bytes, b->info.file_bytes));
    printf("device %s, %" PRIu32 " cores, kernels %s\n\n", b->device.cpu, b->device.n_cores, b->device.isa);
    printf("%-15s %3s %5s %-3s %9s %7s %7s %7s  %s\n", "test", "t", "batch", "kv", "tokens/s", "P50 ms",
           "P90", "P99", "speed of peak");
}

void tn_bench_print_row(const tn_bench *b, const tn_bench_result *r) {
    char name[48];
    (void)b;
    const double speed = r->decode ? r->read_bytes_per_s : r->macs_per_s;
    const double peak = r->decode ? r->machine.read_bytes_per_s : r->machine.macs_per_s;
    printf("%-15s %3" PRIu32 " %5" PRIu32 " %-3s %9.1f", tn_bench_test_name(name, r), r->n_threads,
           r->n_batch, tn_kv_name((tern_kv_type)r->kv), r->tokens_per_s);
    for (int i = 0; i < 3; i++) printf(" %7.*f", r->token_ms[i] < 10 ? 3 : 2, r->token_ms[i]);
    printf("  %.*f %s %.0f%%\n", speed < 99.95e9 ? 1 : 0, speed * 1e-9, r->decode ? "GB/s" : "GMAC/s",
           100 * speed / peak);
    fflush(stdout);
}

/* One line for each count of threads, which are measured once. */
static bool first_with_threads(const tn_bench *b, size_t i) {
    for (size_t j = 0; j < i; j++) {
        if (b->results[j].n_threads == b->results[i].n_threads) return false;
    }
    return true;
}

void tn_bench_print_foot(const tn_bench *b) {
    char bytes[24];
    uint64_t peak = 0;
    printf("\nmedians of %" PRIu32 " run%s; pp: prefill, tg: decode; P50 P90 P99: ms a token\n",
           b->grid.n_runs, b->grid.n_runs == 1 ? "" : "s");
    for (size_t i = 0; i < b->n_results; i++) {
        const tn_bench_result *r = &b->results[i];
        if (r->peak_bytes > peak) peak = r->peak_bytes;
        if (!first_with_threads(b, i)) continue;
        printf("peak with %" PRIu32 " thread%s: reads %.1f GB/s (over %s), multiplies %.1f GMAC/s\n",
               r->n_threads, r->n_threads == 1 ? "" : "s", r->machine.read_bytes_per_s * 1e-9,
               tn_format_bytes(bytes, r->machine.buffer_bytes), r->machine.macs_per_s * 1e-9);
    }
    if (peak) printf("peak memory %s\n", tn_format_bytes(bytes, peak));
}

/* ---- Steps ---- */

/* Equal steps of several layers, as one line. */
typedef struct tn_step_group {
    tern_step_info step;
    uint32_t n;
    uint64_t weight_bytes, weight_macs;
} tn_step_group;

enum { MAX_GROUPS = 64 };

/* Steps past the last group's room are counted into the last group. */
static size_t group_steps(const tern_session *session, tn_step_group groups[MAX_GROUPS], uint32_t *n_steps) {
    size_t n = 0;
    tern_step_info step;
    for (*n_steps = 0; tern_session_step(session, *n_steps, &step); ++*n_steps) {
        size_t g = 0;
        while (g < n && (strcmp(groups[g].step.operations, step.operations) != 0 ||
                         groups[g].step.window != step.window))
            g++;
        if (g == n && n == MAX_GROUPS) g--;
        if (g == n) groups[n++] = (tn_step_group){.step = step};
        groups[g].n++;
        groups[g].weight_bytes += step.weight_bytes;
        groups[g].weight_macs += step.weight_macs;
    }
    return n;
}

void tn_bench_print_steps(const tn_bench *b, const tern_session *session) {
    tn_step_group groups[MAX_GROUPS];
    uint32_t n_steps;
    char bytes[24];
    const size_t n = group_steps(session, groups, &n_steps);
    fprintf(stderr,
            "%" PRIu32 " steps, %" PRIu32
            " layers; '|' parts what is done by rows from what is done by columns\n",
            n_steps, b->info.n_layers);
    fprintf(stderr, "%5s %10s %9s  %s\n", "times", "weights", "MMAC", "operations");
    for (size_t i = 0; i < n; i++) {
        const tn_step_group *g = &groups[i];
        fprintf(stderr, "%5" PRIu32 " %10s %9.1f  %s", g->n, tn_format_bytes(bytes, g->weight_bytes),
                (double)g->weight_macs * 1e-6, g->step.operations);
        if (g->step.kv_macs)
            fprintf(stderr, " (%s of cache a position", tn_format_bytes(bytes, g->step.kv_bytes));
        if (g->step.kv_macs && g->step.window) fprintf(stderr, ", window %" PRIu32, g->step.window);
        fputs(g->step.kv_macs ? ")\n" : "\n", stderr);
    }
}

void tn_bench_print_barriers(const tn_bench *b) {
    for (size_t i = 0; i < b->n_results; i++) {
        const tn_bench_result *r = &b->results[i];
        bool shown = !r->decode;
        for (size_t j = 0; j < i; j++)
            shown = shown || (b->results[j].decode && b->results[j].n_threads == r->n_threads);
        if (!shown)
            fprintf(stderr, "barriers in decode with %" PRIu32 " thread%s: %.2f a layer\n", r->n_threads,
                    r->n_threads == 1 ? "" : "s", r->barriers_per_layer);
    }
}
