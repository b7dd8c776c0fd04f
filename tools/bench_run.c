/* Runs the tests of `tern bench`. A session is made for each kind of cache, count of threads and batch size;
 * it is filled to a depth, measured there, and taken back to the depth between runs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "terminal.h"

enum { WARM_UP_TOKENS = 8 }; /* of a decode */

static const uint64_t max_buffer_bytes = (uint64_t)512 << 20;
static const double measure_seconds = 0.6;

/* ---- What a test reads and multiplies ---- */

static double positions_seen(uint32_t pos, uint32_t window) {
    return window && pos + 1 > window ? window : pos + 1;
}

/* Multiply-adds of n tokens from a depth on whose last one has its logits kept, and the bytes that are read
 * if they are computed one by one. */
static void count_work(const tern_session *session, uint32_t depth, uint32_t n, bool decode, double *macs,
                       double *bytes) {
    tern_step_info step;
    *macs = *bytes = 0;
    for (uint32_t i = 0; tern_session_step(session, i, &step); i++) {
        const uint32_t first = step.outputs_only && !decode ? n - 1 : 0;
        *macs += (double)step.weight_macs * (n - first);
        *bytes += (double)step.weight_bytes * n;
        for (uint32_t token = first; step.kv_macs && token < n; token++) {
            const double seen = positions_seen(depth + token, step.window);
            *macs += (double)step.kv_macs * seen;
            *bytes += (double)step.kv_bytes * seen;
        }
    }
}

/* ---- Timing ---- */

/* Leaves exactly `depth` tokens in the session. */
static tern_status set_depth(const tn_bench *b, tern_session *session, uint32_t depth, tern_error *err) {
    tern_session_info now;
    tern_session_info_get(session, &now);
    uint32_t position = now.position;
    if (position > depth) {
        const tern_status status = tern_session_truncate(session, depth, &position, err);
        if (status != TERN_OK) return status;
    }
    if (position == depth) return TERN_OK;
    return tern_session_eval(session, b->ids + position, depth - position, 0, err);
}

/* Times one run of n tokens; `each`, unless NULL, gets the seconds of every token of a decode. */
static tern_status time_run(const tn_bench *b, tern_session *session, const tn_bench_result *test, uint32_t n,
                            double *each, double *seconds, tern_error *err) {
    tern_status status = set_depth(b, session, test->depth, err);
    if (status != TERN_OK) return status;
    const int32_t *ids = b->ids + test->depth;
    const double start = tn_seconds();
    double before = start;
    if (!test->decode) status = tern_session_eval(session, ids, n, 1, err);
    for (uint32_t i = 0; test->decode && i < n && status == TERN_OK; i++) {
        status = tern_session_eval(session, ids + i, 1, 1, err);
        const double now = tn_seconds();
        if (each) each[i] = now - before;
        before = now;
        if (status == TERN_OK && tn_cli_interrupted()) {
            err->code = status = TERN_ERR_CANCELLED;
        }
    }
    *seconds = tn_seconds() - start;
    return status;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest sample that a share of the sorted samples does not exceed (nearest rank). */
static double percentile(const double *sorted, size_t n, double share) {
    const double rank = share * (double)n;
    size_t i = (size_t)rank;
    if ((double)i < rank) i++;
    return sorted[i > 0 ? i - 1 : 0];
}

static double median(const double *sorted, size_t n) {
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* From the seconds of the runs, and in a decode of each token, which are in samples; sorts both. */
static void summarize(tn_bench_result *r, double *runs, double *samples, size_t n_samples) {
    qsort(runs, r->n_runs, sizeof *runs, compare_doubles);
    const double middle = median(runs, r->n_runs);
    r->tokens_per_s = r->n_tokens / middle;
    r->tokens_per_s_max = r->n_tokens / runs[0];
    r->tokens_per_s_min = r->n_tokens / runs[r->n_runs - 1];
    if (r->decode) {
        r->next_ms = 1e3 * middle / r->n_tokens;
    } else {
        r->first_ms = 1e3 * middle;
        for (size_t i = 0; i < n_samples; i++) samples[i] = runs[i] / r->n_tokens;
    }
    qsort(samples, n_samples, sizeof *samples, compare_doubles);
    static const double shares[3] = {0.5, 0.9, 0.99};
    for (int i = 0; i < 3; i++) r->token_ms[i] = 1e3 * percentile(samples, n_samples, shares[i]);
}

static tern_status measure_test(tn_bench *b, tern_session *session, tn_bench_result *r, uint64_t n_done,
                                uint64_t n_total, tern_error *err) {
    double runs[TN_BENCH_MAX_RUNS], macs, bytes, seconds;
    char name[48], what[64];
    snprintf(what, sizeof what, "bench %s", tn_bench_test_name(name, r));
    tn_progress_show(what, n_done, n_total);
    tern_status status = time_run(b, session, r, r->warm_up_tokens, NULL, &seconds, err);
    uint32_t n_barriers = 0;
    for (uint32_t i = 0; i < r->n_runs && status == TERN_OK; i++) {
        tn_progress_show(what, n_done + i, n_total);
        status = set_depth(b, session, r->depth, err);
        tern_session_info before, after;
        tern_session_info_get(session, &before);
        if (status == TERN_OK)
            status = time_run(b, session, r, r->n_tokens,
                              r->decode ? b->samples + (size_t)i * r->n_tokens : NULL, &runs[i], err);
        tern_session_info_get(session, &after);
        n_barriers += after.n_barriers - before.n_barriers;
    }
    tn_progress_clear();
    if (status != TERN_OK) return status;
    count_work(session, r->depth, r->n_tokens, r->decode, &macs, &bytes);
    summarize(r, runs, b->samples, r->decode ? (size_t)r->n_runs * r->n_tokens : r->n_runs);
    r->macs_per_s = macs * r->tokens_per_s / r->n_tokens;
    if (r->decode) {
        r->bytes_per_token = bytes / r->n_tokens;
        r->read_bytes_per_s = r->bytes_per_token * r->tokens_per_s;
        r->barriers_per_layer = (double)n_barriers / r->n_runs / r->n_tokens / b->info.n_layers;
    }
    return TERN_OK;
}

/* ---- The grid ---- */

/* Makes the peak of resident memory count from now on; what measuring the machine took is no part of it. */
static bool reset_peak_memory(void) {
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool ok = write(fd, "5", 1) == 1;
    close(fd);
    return ok;
}

static uint64_t weight_bytes(const tern_session *session) {
    tern_step_info step;
    uint64_t bytes = 0;
    for (uint32_t i = 0; tern_session_step(session, i, &step); i++) bytes += step.weight_bytes;
    return bytes;
}

static tern_status run_tests(tn_bench *b, tern_session *session, tn_bench_result common, tern_error *err) {
    const tn_bench_grid *g = &b->grid;
    const size_t n_each = g->prefills.n + g->decodes.n;
    const uint64_t n_total =
        (uint64_t)g->kvs.n * g->threads.n * g->batches.n * g->depths.n * n_each * g->n_runs;
    for (size_t i = 0; i < g->depths.n * n_each; i++) {
        const size_t test = i % n_each;
        tn_bench_result *r = &b->results[b->n_results];
        *r = common;
        r->depth = g->depths.items[i / n_each];
        r->decode = test >= g->prefills.n;
        r->n_tokens = r->decode ? g->decodes.items[test - g->prefills.n] : g->prefills.items[test];
        r->n_runs = g->n_runs;
        r->warm_up_tokens = r->decode && r->n_tokens > WARM_UP_TOKENS ? WARM_UP_TOKENS : r->n_tokens;
        const tern_status status =
            measure_test(b, session, r, (uint64_t)b->n_results * g->n_runs, n_total, err);
        if (status != TERN_OK) return status;
        r->peak_bytes = r->peak_bytes ? tn_peak_memory_bytes() : 0;
        b->n_results++;
        if (b->show) b->show(b, r);
    }
    return TERN_OK;
}

static uint32_t largest(const tn_bench_list *list) {
    uint32_t most = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i] > most) most = list->items[i];
    }
    return most;
}

static uint32_t most_tokens(const tn_bench_grid *g) {
    const uint32_t prefill = largest(&g->prefills), decode = largest(&g->decodes);
    return largest(&g->depths) + (prefill > decode ? prefill : decode);
}

static tern_status run_session(tn_bench *b, uint32_t kv, uint32_t n_threads, uint32_t n_batch,
                               tern_machine_speed *speed, tern_error *err) {
    tern_session_options o;
    tern_session *session;
    tern_session_options_defaults(&o);
    o.kv = (tern_kv_type)kv;
    o.n_threads = n_threads;
    o.n_batch = n_batch;
    o.n_ctx = most_tokens(&b->grid);
    o.pin = b->grid.pin;
    tern_status status = tn_cli_session_new(b->model, &o, &session, err);
    if (status != TERN_OK) return status;
    tern_session_info info;
    tern_session_info_get(session, &info);
    tn_bench_result common = {.kv = kv, .n_batch = n_batch, .n_threads = info.n_threads};
    if (speed->read_bytes_per_s <= 0) {
        const uint64_t bytes = weight_bytes(session);
        status = tern_measure_machine(common.n_threads, bytes < max_buffer_bytes ? bytes : max_buffer_bytes,
                                      measure_seconds, speed, err);
    }
    common.machine = *speed;
    common.peak_bytes = reset_peak_memory() ? 1 : 0;
    snprintf(b->isa, sizeof b->isa, "%s", info.isa);
    if (b->options->verbose && b->n_results == 0) tn_bench_print_steps(b, session);
    if (status == TERN_OK) status = run_tests(b, session, common, err);
    tn_cli_session_free(session);
    return status;
}

/* Ids spread over the vocabulary, past its first 256 (control tokens and bytes). What they are does not
 * matter to the speed. */
static bool make_scratch(tn_bench *b) {
    const tn_bench_grid *g = &b->grid;
    const uint32_t n_ids = most_tokens(g), first = b->info.n_vocab > 512 ? 256 : 0;
    const size_t n_results =
        (g->prefills.n + g->decodes.n) * g->depths.n * g->batches.n * g->threads.n * g->kvs.n;
    const uint32_t longest = largest(&g->decodes) > 0 ? largest(&g->decodes) : 1;
    b->ids = malloc(n_ids * sizeof *b->ids);
    b->samples = malloc((size_t)g->n_runs * longest * sizeof *b->samples);
    b->results = calloc(n_results, sizeof *b->results);
    if (!b->ids || !b->samples || !b->results) return false;
    for (uint32_t i = 0; i < n_ids; i++)
        b->ids[i] = (int32_t)(first + (i * UINT32_C(2654435761) >> 8) % (b->info.n_vocab - first));
    return true;
}

int tn_bench_run(tn_bench *b) {
    const tn_bench_grid *g = &b->grid;
    tern_machine_speed speeds[TN_BENCH_MAX_ITEMS] = {{0}};
    tern_error err = {0};
    if (!make_scratch(b)) return tn_cli_fail("cannot measure: %s: out of memory", b->info.path);
    const size_t n_inner = g->threads.n * g->batches.n;
    for (size_t i = 0; i < g->kvs.n * n_inner; i++) {
        const size_t t = i % n_inner / g->batches.n;
        if (run_session(b, g->kvs.items[i / n_inner], g->threads.items[t], g->batches.items[i % g->batches.n],
                        &speeds[t], &err) != TERN_OK)
            return tn_cli_fail_library(&err);
    }
    return TN_EXIT_DONE;
}
