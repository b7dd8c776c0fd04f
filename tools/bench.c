/* tern bench: the speed of prefill and decode, at depths, batches and counts of threads. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "usage: tern bench -m M.gguf [options]\n"
                           "Measures the speed of prefill and decode. Every combination of the values given\n"
                           "is a test; a LIST is like 128,512 or 1-8 or 128-512+128.\n"
                           "\n"
                           "  -m, --model FILE    the model\n"
                           "  -p, --prompt LIST   prefills of N tokens: tests ppN (default 512)\n"
                           "  -n, --predict LIST  decodes of N tokens: tests tgN (default 128); with one of\n"
                           "                      -p and -n given, the other is left out\n"
                           "  -d, --depth LIST    tokens in the cache before a test (default 0)\n"
                           "  -b, --batch LIST    tokens of a prefill computed at once (default 512)\n"
                           "  -t, --threads LIST  threads (default: the cores this process may use)\n"
                           "  --pin               bind each thread to a processor\n"
                           "  --kv LIST           types of the KV cache: f16, q8_0, f32 (default f16)\n"
                           "  -r, --runs N        measured runs of each test, after a warm-up (default 5)\n"
                           "  --csv, --json       CSV, or the record of the run as JSON, instead of a table\n"
                           "  --yaml FILE         write the record as YAML ('-': instead of the table)\n"
                           "  --arch-file FILE    YAML description that adds or replaces an architecture\n"
                           "  --pre NAME          pre-tokenizer to use, whatever the file says\n"
                           "  -v, --verbose       the steps of an eval, and how often its threads meet\n"
                           "  -q, --quiet         no warnings\n"
                           "  -h, --help          this text\n";

typedef struct tn_type_share {
    const char *type; /* borrowed from the model */
    uint64_t n_elements;
} tn_type_share;

enum { MAX_TYPES = 32 };

static int compare_shares(const void *a, const void *b) {
    const uint64_t x = ((const tn_type_share *)a)->n_elements, y = ((const tn_type_share *)b)->n_elements;
    return (x < y) - (x > y);
}

static size_t sum_types(const tern_model *model, tn_type_share shares[MAX_TYPES], uint64_t *n_elements) {
    size_t n = 0;
    tern_tensor_info tensor;
    for (uint64_t i = *n_elements = 0; tern_model_tensor(model, i, &tensor); i++) {
        uint64_t size = 1;
        for (uint32_t d = 0; d < tensor.n_dims; d++) size *= tensor.dims[d];
        size_t t = 0;
        while (t < n && strcmp(shares[t].type, tensor.type) != 0) t++;
        if (t == MAX_TYPES) continue;
        if (t == n) shares[n++] = (tn_type_share){.type = tensor.type};
        shares[t].n_elements += size;
        *n_elements += size;
    }
    qsort(shares, n, sizeof *shares, compare_shares);
    return n;
}

/* "Q8_0+Q4_K+Q6_K": the types that hold a hundredth of the weights or more, those with the most first. */
static void find_type(tn_bench *b) {
    tn_type_share shares[MAX_TYPES];
    uint64_t n_elements;
    const size_t n = sum_types(b->model, shares, &n_elements);
    for (size_t i = 0; i < n && shares[i].n_elements >= n_elements / 100; i++) {
        const size_t used = strlen(b->type);
        snprintf(b->type + used, sizeof b->type - used, "%s%s", i ? "+" : "", shares[i].type);
    }
}

static int write_records(const tn_bench *b, tn_output *yaml) {
    const tn_options *o = b->options;
    int exit_code;
    json_t *record = tn_bench_record(b, &exit_code);
    if (!record) return exit_code;
    if (o->json) exit_code = tn_bench_write_json(record);
    if (o->csv) exit_code = tn_bench_write_csv(record);
    if (!exit_code && o->yaml) exit_code = tn_bench_write_yaml(record, yaml);
    json_decref(record);
    return exit_code;
}

/* The file for the record is opened first: a place that cannot be written should show before the work, not
 * after it. */
static int measure(tn_bench *b, tn_output *yaml) {
    const tn_options *o = b->options;
    const bool table = !o->json && !o->csv && !(o->yaml && strcmp(o->yaml, "-") == 0);
    tern_error err;
    if (tern_machine_get(&b->device, &err) != TERN_OK) return tn_cli_fail_library(&err);
    tern_model_info_get(b->model, &b->info);
    find_type(b);
    if (table) {
        tn_bench_print_head(b);
        b->show = tn_bench_print_row;
    }
    int failed = tn_bench_run(b);
    if (!failed && table) tn_bench_print_foot(b);
    if (!failed && o->verbose) tn_bench_print_barriers(b);
    if (!failed && (o->json || o->csv || o->yaml)) failed = write_records(b, yaml);
    return failed;
}

static int run(const tn_options *options) {
    tn_bench b = {.options = options};
    if (options->json + options->csv + (options->yaml && strcmp(options->yaml, "-") == 0) > 1)
        return tn_cli_fail_usage(options->command,
                                 "--json, --csv and --yaml -: expected one of them on standard output");
    int exit_code = tn_bench_grid_parse(options, &b.grid);
    if (exit_code) return exit_code;
    b.model = tn_cli_open_model(options, TERN_OPEN_ALL, &exit_code);
    if (!b.model) return exit_code;
    tn_output yaml = {.fd = -1};
    if (options->yaml) exit_code = tn_output_open(&yaml, options->yaml, options);
    if (!exit_code) exit_code = measure(&b, &yaml);
    tn_output_discard(&yaml);
    free(b.ids);
    free(b.samples);
    free(b.results);
    tern_model_close(b.model);
    return exit_code;
}

const tn_command tn_command_bench = {
    .name = "bench",
    .summary = "speed of prefill and decode",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(PROMPT) | TN_ACCEPT(PREDICT) | TN_ACCEPT(DEPTH) |
                TN_ACCEPT(BATCH) | TN_ACCEPT(THREADS) | TN_ACCEPT(PIN) | TN_ACCEPT(KV) | TN_ACCEPT(RUNS) |
                TN_ACCEPT(CSV) | TN_ACCEPT(JSON) | TN_ACCEPT(YAML) | TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) |
                TN_ACCEPT(VERBOSE) | TN_ACCEPT(QUIET),
    .lists = TN_ACCEPT(PROMPT) | TN_ACCEPT(PREDICT) | TN_ACCEPT(DEPTH) | TN_ACCEPT(BATCH) |
             TN_ACCEPT(THREADS) | TN_ACCEPT(KV),
    .required = TN_ACCEPT(MODEL),
    .model_operand = true,
    .run = run,
};
