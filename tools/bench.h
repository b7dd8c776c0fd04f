/* What the parts of `tern bench` share: the grid of tests, and what was measured. */
#ifndef TN_TOOLS_BENCH_H
#define TN_TOOLS_BENCH_H

#include <jansson.h>

#include "cli.h"
#include "output.h"

enum { TN_BENCH_MAX_ITEMS = 64, TN_BENCH_MAX_TESTS = 4096, TN_BENCH_MAX_RUNS = 100 };

/* ---- The grid (bench_grid.c) ---- */

typedef struct tn_bench_list {
    uint32_t items[TN_BENCH_MAX_ITEMS];
    size_t n;
} tn_bench_list;

typedef struct tn_bench_grid {
    tn_bench_list prefills, decodes, depths, batches, threads,
        kvs; /* tokens; threads 0: default; tern_kv_type */
    uint32_t n_runs;
} tn_bench_grid;

/* Reads the lists of -p -n -d -b -t --kv and -r. Returns 0, or the exit code after printing what is wrong. */
int tn_bench_grid_parse(const tn_options *options, tn_bench_grid *grid);

/* ---- Results (bench_run.c) ---- */

typedef struct tn_bench_result {
    bool decode;
    uint32_t n_tokens, depth, n_batch, n_threads, kv;
    uint32_t warm_up_tokens, n_runs;
    double tokens_per_s, tokens_per_s_min, tokens_per_s_max; /* median and extremes of the runs */
    double token_ms[3]; /* P50, P90, P99 of the time a token: over the tokens of a decode, the runs of a
                           prefill */
    double first_ms;    /* prefill: until the first logits (TTFT), median of the runs */
    double next_ms;     /* decode: a run's time over its tokens (TPOT), median of the runs */
    double read_bytes_per_s, bytes_per_token; /* decode: weights and cache */
    double macs_per_s;                        /* weights and attention */
    double barriers_per_layer;                /* decode */
    uint64_t peak_bytes;                      /* 0: unknown */
    tern_machine_speed machine;               /* measured in the same run, with the same threads */
} tn_bench_result;

typedef struct tn_bench {
    const tn_options *options;
    tn_bench_grid grid;
    tern_model *model;
    tern_model_info info;
    tern_machine device;
    char type[64]; /* those of the weights: "Q4_K+Q6_K" */
    char isa[16];  /* of the kernels that ran */
    tn_bench_result *results;
    size_t n_results;
    int32_t *ids;    /* one a position */
    double *samples; /* scratch: one a token of a decode and run */
    /* Told of each result. */
    void (*show)(const struct tn_bench *bench, const tn_bench_result *result);
} tn_bench;

/* Runs every test. Returns the exit code. */
int tn_bench_run(tn_bench *bench);

/* ---- Output ---- */

/* "pp512 @ d4096" */
const char *tn_bench_test_name(char name[48], const tn_bench_result *result);

/* The table (bench_print.c). */
void tn_bench_print_head(const tn_bench *bench);
void tn_bench_print_row(const tn_bench *bench, const tn_bench_result *result);
void tn_bench_print_foot(const tn_bench *bench);

/* The steps of an eval, and how often the threads met in the decodes; on standard error. */
void tn_bench_print_steps(const tn_bench *bench, const tern_session *session);
void tn_bench_print_barriers(const tn_bench *bench);

/* The record of the run (bench_record.c); NULL after printing why, with *exit_code set. */
json_t *tn_bench_record(const tn_bench *bench, int *exit_code);

/* Writers of a record; each returns the exit code. */
int tn_bench_write_json(const json_t *record);
int tn_bench_write_csv(const json_t *record);
int tn_bench_write_yaml(const json_t *record, tn_output *output); /* commits or discards the output */

#endif
