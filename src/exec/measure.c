#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/memory.h"
#include "pool.h"

enum { READ_AHEAD_BYTES = 2048, LINE_BYTES = 64 };

typedef struct measurement {
    tn_pool *pool;
    uint8_t *buffer;
    uint64_t buffer_bytes;
    const tn_multiply_loop *multiply;
    uint64_t n_rounds;
    uint64_t
        *results; /* one a thread, LINE_BYTES apart: results that nobody wants, so that the work is done */
} measurement;

/* A thread's share, in whole lines. */
static void share_of(const measurement *m, uint32_t thread, uint64_t *begin, uint64_t *end) {
    const uint64_t n_lines = m->buffer_bytes / LINE_BYTES, n_threads = tn_pool_n_threads(m->pool);
    *begin = n_lines * thread / n_threads * LINE_BYTES;
    *end = n_lines * (thread + 1) / n_threads * LINE_BYTES;
}

/* Each thread touches its share first, so that the memory is near it. */
static void fill_share(void *arg, uint32_t thread) {
    const measurement *m = arg;
    uint64_t begin, end;
    share_of(m, thread, &begin, &end);
    memset(m->buffer + begin, 0x5a, end - begin);
}

/* Reads as the kernels do: in order, whole lines, asking for lines ahead. */
static void read_share(void *arg, uint32_t thread) {
    const measurement *m = arg;
    uint64_t begin, end, a = 0, b = 0, c = 0, d = 0;
    share_of(m, thread, &begin, &end);
    for (uint64_t at = begin; at < end; at += LINE_BYTES) {
        const uint64_t *line = (const uint64_t *)(const void *)(m->buffer + at);
        __builtin_prefetch(m->buffer + at + (end - at > READ_AHEAD_BYTES ? READ_AHEAD_BYTES : 0));
        a += line[0] ^ line[4];
        b += line[1] ^ line[5];
        c += line[2] ^ line[6];
        d += line[3] ^ line[7];
    }
    m->results[thread * (LINE_BYTES / sizeof *m->results)] += a ^ b ^ c ^ d;
}

static void multiply_rounds(void *arg, uint32_t thread) {
    const measurement *m = arg;
    m->results[thread * (LINE_BYTES / sizeof *m->results)] += m->multiply->run(m->n_rounds);
}

/* Seconds of the fastest pass among those that fit in the time; at least three. */
static double best_pass(measurement *m, tn_pool_fn *pass, double seconds) {
    double best = 0;
    const double end = tn_clock_s() + seconds;
    for (int i = 0; i < 3 || tn_clock_s() < end; i++) {
        const double start = tn_clock_s();
        tn_pool_run(m->pool, pass, m);
        const double took = tn_clock_s() - start;
        if (i == 0 || took < best) best = took;
    }
    return best > 1e-9 ? best : 1e-9;
}

static void multiply_speed(measurement *m, double seconds, tn_machine_speed *out) {
    const double pass_seconds = seconds / 8;
    for (m->n_rounds = 1024; m->n_rounds < UINT64_C(1) << 40; m->n_rounds *= 2) {
        const double start = tn_clock_s();
        tn_pool_run(m->pool, multiply_rounds, m);
        if (tn_clock_s() - start > pass_seconds / 2) break;
    }
    const double best = best_pass(m, multiply_rounds, seconds - 2 * pass_seconds);
    out->macs_per_s = (double)m->n_rounds * m->multiply->macs * tn_pool_n_threads(m->pool) / best;
}

static uint64_t clamp_buffer(uint64_t bytes) {
    const uint64_t least = (uint64_t)1 << 20, most = tn_memory_available() / 4;
    if (bytes > most) bytes = most;
    return bytes < least ? least : bytes / LINE_BYTES * LINE_BYTES;
}

tn_status tn_measure_machine(uint32_t n_threads, uint64_t buffer_bytes, tn_isa isa, double seconds,
                             tn_machine_speed *out, tn_error *err) {
    measurement m = {.buffer_bytes = clamp_buffer(buffer_bytes), .multiply = tn_multiply_loop_for(isa)};
    *out = (tn_machine_speed){0};
    tn_status status = tn_pool_new(n_threads, false, &m.pool, err);
    if (status) return status;
    m.buffer = tn_reserve(m.buffer_bytes);
    m.results = aligned_alloc(LINE_BYTES, (size_t)n_threads * LINE_BYTES);
    if (m.buffer && m.results) {
        memset(m.results, 0, (size_t)n_threads * LINE_BYTES);
        tn_pool_run(m.pool, fill_share, &m);
        out->buffer_bytes = m.buffer_bytes;
        out->read_bytes_per_s = (double)m.buffer_bytes / best_pass(&m, read_share, seconds * 0.6);
        multiply_speed(&m, seconds * 0.4, out);
    } else {
        status = tn_fail(err, TN_ERR_MEMORY, "cannot measure the machine", NULL,
                         "a buffer of %llu MiB was refused", (unsigned long long)m.buffer_bytes >> 20);
    }
    free(m.results);
    if (m.buffer) tn_unreserve(m.buffer, m.buffer_bytes);
    tn_pool_free(m.pool);
    return status;
}
