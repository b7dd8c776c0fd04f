/* Lists of numbers as the options of `tern bench` take them: 128,512 or 1-8 or 128-512+128. */
#include <inttypes.h>
#include <string.h>

#include "bench.h"

enum { DEFAULT_RUNS = 5, MAX_TOKENS = 1 << 18, MAX_DEPTH = 1 << 24, MAX_BATCH = 65536, MAX_THREADS = 1024 };

/* Copies the text up to a separator into word; the rest, or NULL if there is none or the word is too long. */
static const char *split(const char *text, size_t n, char separator, char word[24]) {
    const char *at = memchr(text, separator, n);
    const size_t n_word = at ? (size_t)(at - text) : n;
    word[0] = '\0';
    if (n_word >= 24) return NULL;
    memcpy(word, text, n_word);
    word[n_word] = '\0';
    return at ? at + 1 : NULL;
}

/* One item, "N", "N-M" or "N-M+STEP", of n bytes; false if it is none, or holds more than the list has room
 * for. */
static bool add_item(const char *text, size_t n, int64_t low, int64_t high, tn_bench_list *list) {
    char word[24];
    int64_t first, last, step = 1;
    const char *end = text + n, *rest = split(text, n, '-', word);
    if (!tn_parse_integer(word, low, high, &first)) return false;
    last = first;
    if (rest) {
        const char *more = split(rest, (size_t)(end - rest), '+', word);
        if (!tn_parse_integer(word, first, high, &last)) return false;
        if (more) {
            if (memchr(more, '+', (size_t)(end - more))) return false;
            split(more, (size_t)(end - more), '+', word);
            if (!tn_parse_integer(word, 1, high, &step)) return false;
        }
    }
    for (int64_t value = first; value <= last; value += step) {
        if (list->n == TN_BENCH_MAX_ITEMS) return false;
        list->items[list->n++] = (uint32_t)value;
    }
    return true;
}

static int parse_list(const tn_options *options, tn_option_id id, const char *word, int64_t low, int64_t high,
                      tn_bench_list *list) {
    if (!tn_option_given(options, id)) return 0;
    const char *text = options->list[id];
    list->n = 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        if (!add_item(at, n, low, high, list)) {
            return tn_cli_fail_usage(options->command,
                                     "%s: expected at most %d integers from %" PRId64 " to %" PRId64
                                     ", as 128,512 or 1-8 or 128-512+128, found '%s'",
                                     word, TN_BENCH_MAX_ITEMS, low, high, text);
        }
        at += n;
        if (!*at) return 0;
    }
}

static int parse_kvs(const tn_options *options, tn_bench_list *list) {
    if (!tn_option_given(options, TN_OPTION_KV)) return 0;
    const char *text = options->list[TN_OPTION_KV];
    list->n = 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        tern_kv_type kv;
        if (list->n == TN_BENCH_MAX_ITEMS || !tn_parse_kv(at, n, &kv))
            return tn_cli_fail_usage(
                options->command, "--kv: expected " TN_KV_WORDS ", or a list as f16,q8_0, found '%s'", text);
        list->items[list->n++] = kv;
        at += n;
        if (!*at) return 0;
    }
}

/* Takes the zeros out: -p 0 and -n 0 ask for no such test. */
static void drop_zeros(tn_bench_list *list) {
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i]) list->items[kept++] = list->items[i];
    }
    list->n = kept;
}

int tn_bench_grid_parse(const tn_options *options, tn_bench_grid *grid) {
    *grid = (tn_bench_grid){.prefills = {{512}, 1},
                            .decodes = {{128}, 1},
                            .depths = {{0}, 1},
                            .batches = {{512}, 1},
                            .threads = {{0}, 1},
                            .kvs = {{TERN_KV_F16}, 1},
                            .n_runs = DEFAULT_RUNS};
    const bool prefills = tn_option_given(options, TN_OPTION_PROMPT),
               decodes = tn_option_given(options, TN_OPTION_PREDICT);
    if (decodes && !prefills) grid->prefills.n = 0;
    if (prefills && !decodes) grid->decodes.n = 0;
    if (options->n_runs) grid->n_runs = (uint32_t)options->n_runs;
    int failed = parse_list(options, TN_OPTION_PROMPT, "-p", 0, MAX_TOKENS, &grid->prefills);
    if (!failed) failed = parse_list(options, TN_OPTION_PREDICT, "-n", 0, MAX_TOKENS, &grid->decodes);
    if (!failed) failed = parse_list(options, TN_OPTION_DEPTH, "-d", 0, MAX_DEPTH, &grid->depths);
    if (!failed) failed = parse_list(options, TN_OPTION_BATCH, "-b", 1, MAX_BATCH, &grid->batches);
    if (!failed) failed = parse_list(options, TN_OPTION_THREADS, "-t", 1, MAX_THREADS, &grid->threads);
    if (!failed) failed = parse_kvs(options, &grid->kvs);
    if (failed) return failed;
    drop_zeros(&grid->prefills);
    drop_zeros(&grid->decodes);
    const uint64_t n_tests = (uint64_t)(grid->prefills.n + grid->decodes.n) * grid->depths.n *
                             grid->batches.n * grid->threads.n * grid->kvs.n;
    if (n_tests == 0 || n_tests > TN_BENCH_MAX_TESTS)
        return tn_cli_fail_usage(options->command, "expected 1 to %d tests, found %" PRIu64,
                                 TN_BENCH_MAX_TESTS, n_tests);
    return 0;
}
