/* tern-speed: the time of prefills and decodes, without loading, for bench/peers.
 *
 *   tern-speed MODEL THREADS KV TEST...
 *   KV    f32, f16 or q8_0
 *   TEST  ppN: N tokens in one eval; tgN: N evals of one token; tgNxB: N tokens, B an eval, the logits of all
 *         computed. With @D behind it: after D positions, which are filled untimed.
 *
 * Prints lines of a name and a value: "isa", "threads", "read" (bytes/s of plain reads, measured here), "weights" and
 * "position" (bytes of weights and, for each position seen, of cache that a decoded token reads), the tests in order, in
 * seconds, and last "resident" and "cache" (bytes: memory resident at the end, and what of it a full KV cache is). A test
 * from position 0 has a warm-up. bench/llama_speed.py does the same with llama.cpp: same token ids, same calls. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tern.h"

#define TN_SPEED_MAX_TOKENS 65536
#define TN_SPEED_MAX_STEP   64 /* tokens of one eval in a decode */
#define TN_SPEED_WARM_UP    8  /* tokens before a timed decode */
#define TN_SPEED_READ_BYTES ((uint64_t)512 << 20)
#define TN_SPEED_READ_TIME  1.0 /* seconds */

typedef struct tn_speed_test {
    const char *name;
    uint32_t n, step, depth;
    bool decode;
} tn_speed_test;

static const char *const kv_names[] = {[TERN_KV_F32] = "f32", [TERN_KV_F16] = "f16", [TERN_KV_Q8_0] = "q8_0"};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Ids spread over the vocabulary, past its first 256 (control tokens and bytes): what they are does not
 * matter, that both engines get the same ones does. */
static int32_t token_id(uint32_t i, uint32_t n_vocab) {
    return (int32_t)(256 + (i * UINT32_C(2654435761) >> 8) % (n_vocab - 256));
}

static bool parse_count(const char **at, unsigned long high, uint32_t *out) {
    char *end;
    const unsigned long n = strtoul(*at, &end, 10);
    const bool good = end != *at && n >= 1 && n <= high;
    *at = end;
    *out = (uint32_t)n;
    return good;
}

static bool parse_test(const char *text, tn_speed_test *test) {
    const char *at = text + 2;
    *test = (tn_speed_test){.name = text, .decode = strncmp(text, "tg", 2) == 0, .step = 1};
    if (!test->decode && strncmp(text, "pp", 2) != 0) return false;
    if (!parse_count(&at, TN_SPEED_MAX_TOKENS / 2, &test->n)) return false;
    if (!test->decode) test->step = test->n;
    if (test->decode && *at == 'x' && (at++, !parse_count(&at, TN_SPEED_MAX_STEP, &test->step))) return false;
    if (*at == '@' && (at++, !parse_count(&at, TN_SPEED_MAX_TOKENS / 2, &test->depth))) return false;
    return *at == '\0' && test->n % test->step == 0;
}

/* Evaluates ids[at .. at + n - 1], step by step. */
static tern_status eval(tern_session *session, const int32_t *ids, uint32_t at, uint32_t n, uint32_t step,
                        uint32_t n_outputs, tern_error *err) {
    for (uint32_t end = at + n; at < end; at += step) {
        const tern_status status = tern_session_eval(session, ids + at, step, n_outputs, err);
        if (status != TERN_OK) return status;
    }
    return TERN_OK;
}

/* Empties the context down to the depth, or fills it up to there. */
static tern_status go_to(tern_session *session, const int32_t *ids, uint32_t depth, tern_error *err) {
    tern_session_info now;
    tern_session_info_get(session, &now);
    uint32_t at = now.position;
    tern_status status = at > depth ? tern_session_truncate(session, depth, &at, err) : TERN_OK;
    return status == TERN_OK && at < depth ? eval(session, ids, at, depth - at, depth - at, 1, err) : status;
}

/* The time of the test's first n tokens behind its depth, in steps, or a negative number. */
static double time_once(tern_session *session, const int32_t *ids, const tn_speed_test *test, uint32_t n,
                        uint32_t step, tern_error *err) {
    if (go_to(session, ids, test->depth, err) != TERN_OK) return -1;
    const double start = seconds();
    if (eval(session, ids, test->depth, n, step, test->decode ? step : 1, err) != TERN_OK) return -1;
    return seconds() - start;
}

static double time_test(tern_session *session, const int32_t *ids, const tn_speed_test *test,
                        tern_error *err) {
    const bool brief = test->decode || test->depth; /* filling the depth has warmed a prefill up */
    const uint32_t steps = test->decode ? (TN_SPEED_WARM_UP + test->step - 1) / test->step : 1;
    const uint32_t step =
        test->decode || !brief || test->n < TN_SPEED_WARM_UP ? test->step : TN_SPEED_WARM_UP;
    const uint32_t warm_up = steps * step < test->n ? steps * step : test->n;
    if (time_once(session, ids, test, warm_up, step, err) < 0) return -1;
    return time_once(session, ids, test, test->n, test->step, err);
}

/* What a token of decode reads, of layers without a sliding window. */
static void print_bytes(const tern_session *session) {
    uint64_t weights = 0, position = 0;
    tern_step_info step;
    for (uint32_t i = 0; tern_session_step(session, i, &step); i++) {
        weights += step.weight_bytes;
        if (!step.window) position += step.kv_bytes;
    }
    printf("weights %" PRIu64 "\nposition %" PRIu64 "\n", weights, position);
}

static int run_tests(tern_session *session, uint32_t n_vocab, const tn_speed_test *tests, int n_tests) {
    static int32_t ids[TN_SPEED_MAX_TOKENS];
    for (uint32_t i = 0; i < TN_SPEED_MAX_TOKENS; i++) ids[i] = token_id(i, n_vocab);
    tern_session_info info;
    tern_session_info_get(session, &info);
    tern_error err;
    tern_machine_speed machine;
    if (tern_measure_machine(info.n_threads, TN_SPEED_READ_BYTES, TN_SPEED_READ_TIME, &machine, &err) !=
        TERN_OK) {
        fprintf(stderr, "tern-speed: error: %s\n", err.message);
        return 1;
    }
    printf("isa %s\nthreads %" PRIu32 "\nread %.0f\n", info.isa, info.n_threads, machine.read_bytes_per_s);
    print_bytes(session);
    for (int i = 0; i < n_tests; i++) {
        const double time = time_test(session, ids, &tests[i], &err);
        if (time < 0) {
            fprintf(stderr, "tern-speed: error: %s\n", err.message);
            return 1;
        }
        printf("%s %.6f\n", tests[i].name, time);
        fflush(stdout);
    }
    return 0;
}

/* ru_maxrss would count the buffer that the reads were measured on. */
static uint64_t resident_bytes(void) {
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%llu %llu", &all, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int parse_options(char **argv, tern_session_options *options) {
    tern_session_options_defaults(options);
    options->n_threads = (uint32_t)strtoul(argv[2], NULL, 10);
    options->n_outputs = TN_SPEED_MAX_STEP;
    for (size_t kv = 0; kv < sizeof kv_names / sizeof *kv_names; kv++) {
        if (strcmp(kv_names[kv], argv[3]) != 0) continue;
        options->kv = (tern_kv_type)kv;
        return 1;
    }
    return 0;
}

static int usage(void) {
    fputs("usage: tern-speed MODEL THREADS KV TEST...   (KV: f16, q8_0, f32; TEST: pp512, tg64, tg64x4, "
          "tg64@4096; up to 16)\n",
          stderr);
    return 2;
}

int main(int argc, char **argv) {
    static tn_speed_test tests[16];
    const int n_tests = argc - 4;
    tern_session_options options;
    if (n_tests < 1 || n_tests > 16 || !parse_options(argv, &options)) return usage();
    for (int i = 0; i < n_tests; i++) {
        if (!parse_test(argv[4 + i], &tests[i])) return usage();
        if (tests[i].depth + tests[i].n > options.n_ctx) options.n_ctx = tests[i].depth + tests[i].n;
    }
    tern_model *model = NULL;
    tern_session *session = NULL;
    tern_memory memory;
    tern_error err;
    int exit_code = 1;
    if (tern_model_open(argv[1], NULL, &model, &err) == TERN_OK &&
        tern_session_memory(model, &options, &memory, &err) == TERN_OK &&
        tern_session_new(model, &options, &session, &err) == TERN_OK) {
        tern_model_info info;
        tern_model_info_get(model, &info);
        exit_code = run_tests(session, info.n_vocab, tests, n_tests);
        printf("resident %" PRIu64 "\ncache %" PRIu64 "\n", resident_bytes(), memory.kv_bytes);
    } else {
        fprintf(stderr, "tern-speed: error: %s\n", err.message);
    }
    tern_session_free(session);
    tern_model_close(model);
    return exit_code;
}
