/* tern-speed: the time of prefills and decodes, without loading, for bench/peers.
 *
 *   tern-speed MODEL THREADS TEST...
 *   TEST: ppN, N tokens in one eval; tgN, N evals of one token from position 0
 *
 * Prints "isa avx2", "threads 2" and then "TEST SECONDS" for each test, in order; each has a warm-up first.
 * bench/llama_speed.py does the same with llama.cpp: same token ids, same calls, logits of the last token
 * computed. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tern.h"

#define TN_SPEED_MAX_TOKENS 4096
#define TN_SPEED_WARM_UP    8 /* steps before a timed decode */

typedef struct tn_speed_test {
    const char *name;
    bool decode;
    uint32_t n;
} tn_speed_test;

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

static bool parse_test(const char *text, tn_speed_test *test) {
    char *end;
    test->name = text;
    test->decode = strncmp(text, "tg", 2) == 0;
    if (!test->decode && strncmp(text, "pp", 2) != 0) return false;
    const unsigned long n = strtoul(text + 2, &end, 10);
    test->n = (uint32_t)n;
    return *end == '\0' && n >= 1 && n <= TN_SPEED_MAX_TOKENS;
}

/* Evaluates the test's tokens from an empty context; the time it took, or a negative number. */
static double time_once(tern_session *session, const int32_t *ids, const tn_speed_test *test, uint32_t n,
                        tern_error *err) {
    uint32_t kept;
    if (tern_session_truncate(session, 0, &kept, err) != TERN_OK) return -1;
    const uint32_t step = test->decode ? 1 : n;
    const double start = seconds();
    for (uint32_t at = 0; at < n; at += step)
        if (tern_session_eval(session, ids + at, step, 1, err) != TERN_OK) return -1;
    return seconds() - start;
}

static int run_tests(tern_session *session, uint32_t n_vocab, const tn_speed_test *tests, int n_tests) {
    static int32_t ids[TN_SPEED_MAX_TOKENS];
    for (uint32_t i = 0; i < TN_SPEED_MAX_TOKENS; i++) ids[i] = token_id(i, n_vocab);
    printf("isa %s\nthreads %" PRIu32 "\n", tern_session_isa(session), tern_session_n_threads(session));
    for (int i = 0; i < n_tests; i++) {
        const tn_speed_test *test = &tests[i];
        const uint32_t n_warm_up = test->decode && test->n > TN_SPEED_WARM_UP ? TN_SPEED_WARM_UP : test->n;
        tern_error err;
        double time = time_once(session, ids, test, n_warm_up, &err);
        if (time >= 0) time = time_once(session, ids, test, test->n, &err);
        if (time < 0) {
            fprintf(stderr, "tern-speed: error: %s\n", err.message);
            return 1;
        }
        printf("%s %.6f\n", test->name, time);
    }
    return 0;
}

int main(int argc, char **argv) {
    static tn_speed_test tests[16];
    const int n_tests = argc - 3;
    bool good = n_tests >= 1 && n_tests <= 16;
    uint32_t n_ctx = 1;
    for (int i = 0; good && i < n_tests; i++) {
        good = parse_test(argv[3 + i], &tests[i]);
        if (tests[i].n > n_ctx) n_ctx = tests[i].n;
    }
    if (!good) {
        fputs("usage: tern-speed MODEL THREADS TEST...   (TEST: pp512, tg64; up to 16)\n", stderr);
        return 2;
    }
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = n_ctx;
    options.n_threads = (uint32_t)strtoul(argv[2], NULL, 10);
    tern_model *model = NULL;
    tern_session *session = NULL;
    tern_error err;
    int exit_code = 1;
    if (tern_model_open(argv[1], NULL, &model, &err) == TERN_OK &&
        tern_session_new(model, &options, &session, &err) == TERN_OK) {
        tern_model_info info;
        tern_model_info_get(model, &info);
        exit_code = run_tests(session, info.n_vocab, tests, n_tests);
    } else {
        fprintf(stderr, "tern-speed: error: %s\n", err.message);
    }
    tern_session_free(session);
    tern_model_close(model);
    return exit_code;
}
