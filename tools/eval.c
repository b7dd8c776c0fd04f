/* tern eval: how good a model is, or how near a quantized one is to what it was made of. */
#include "eval.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "terminal.h"

static const char help[] = "usage: tern eval perplexity -m M.gguf -f TEXT [options]\n"
                           "       tern eval kld -m M.gguf --base FILE [options]\n"
                           "       tern eval choice -m M.gguf -f FILE.jsonl [options]\n"
                           "Measures how well a model predicts a text, how far its predictions are from\n"
                           "those that another model saved, or how many questions it answers.\n"
                           "\n"
                           "  -m, --model FILE   the model\n"
                           "  -f, --file FILE    the text; for choice one object a line, with question,\n"
                           "                     choices and answer, the number of the right one from 0\n"
                           "  --save-base FILE   of perplexity: keep the predictions, for kld\n"
                           "  --base FILE        of kld: predictions kept so, with the text's tokens\n"
                           "  -c, --ctx N        tokens a chunk, the second half of which counts (512);\n"
                           "                     of choice: of the longest question\n"
                           "  --json             the results as JSON on standard output\n"
                           "  --yaml FILE        and as YAML to a file\n"
                           "  -b, --batch N      tokens computed at once (512)\n"
                           "  -t, --threads N    threads (the cores this process may use)\n"
                           "  --kv f16|q8_0|f32  type of the KV cache (f16)\n"
                           "  --arch-file FILE, --pre NAME, -q, --quiet, -h, --help   as for tern run\n";

static const char *const kinds[] = {"perplexity", "kld", "choice", NULL};

/* ---- Scoring ---- */

int tn_eval_start(tn_eval *e, uint32_t n_ctx) {
    tern_session_options config;
    tern_error err;
    tn_cli_session_options(e->options, &config);
    config.n_ctx = n_ctx;
    if (config.n_batch > n_ctx) config.n_batch = n_ctx;
    const uint32_t rows = (16u << 20) / e->info.n_vocab + 1; /* about 64 MiB of them */
    config.n_outputs = rows < config.n_batch ? rows : config.n_batch;
    e->log_probs = malloc(e->info.n_vocab * sizeof *e->log_probs);
    if (!e->log_probs) return tn_cli_fail("cannot evaluate: %s: out of memory", e->info.path);
    if (tn_cli_session_new(e->model, &config, &e->session, &err) != TERN_OK) return tn_cli_fail_library(&err);
    e->n_ctx = n_ctx;
    e->n_rows = config.n_outputs;
    return TN_EXIT_DONE;
}

/* Evaluates n tokens, fewer than fit in the rows or no rows of which are looked at. */
static int evaluate(tn_eval *e, const int32_t *ids, size_t n, uint32_t n_outputs) {
    tern_error err;
    return tern_session_eval(e->session, ids, n, n_outputs, &err) == TERN_OK ? TN_EXIT_DONE
                                                                             : tn_cli_fail_library(&err);
}

int tn_eval_rows(tn_eval *e, const int32_t *ids, size_t *n_kept, size_t first, size_t n, tn_eval_row_fn *fn,
                 void *user) {
    tern_error err;
    uint32_t at;
    if (tern_session_truncate(e->session, (uint32_t)*n_kept, &at, &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    int failed = TN_EXIT_DONE;
    if (at < first - 1) failed = evaluate(e, ids + at, first - 1 - at, 1);
    for (size_t t = first; t < n && !failed;) {
        const uint32_t rows = n - t < e->n_rows ? (uint32_t)(n - t) : e->n_rows;
        failed = evaluate(e, ids + t - 1, rows, rows);
        for (uint32_t row = 0; row < rows && !failed; row++)
            failed = fn(user, tern_session_row(e->session, row, NULL), ids[t + row]);
        t += rows;
    }
    tern_session_info session;
    tern_session_info_get(e->session, &session);
    *n_kept = session.position;
    return failed;
}

void tn_mean_add(tn_mean *m, double x) {
    const double before = x - m->mean;
    m->n++;
    m->mean += before / (double)m->n;
    m->squares += before * (x - m->mean);
}

double tn_mean_error(const tn_mean *m) {
    return m->n < 2 ? 0 : sqrt(m->squares / (double)m->n / (double)(m->n - 1));
}

/* ---- Results ---- */

static void put(tn_eval *e, const char *key, json_t *value) {
    if (json_object_set_new(e->results, key, value) != 0) e->incomplete = true;
}

void tn_eval_put_text(tn_eval *e, const char *key, const char *text) {
    char safe[1024];
    tern_escape(safe, sizeof safe, text, strlen(text));
    put(e, key, json_string(safe));
}

void tn_eval_put_count(tn_eval *e, const char *key, uint64_t n) {
    put(e, key, json_integer((json_int_t)n));
}

void tn_eval_put(tn_eval *e, const char *key, double value) {
    put(e, key, json_real(value));
}

void tn_eval_put_with_error(tn_eval *e, const char *key, double value, double error) {
    char error_key[64];
    snprintf(error_key, sizeof error_key, "%s_error", key);
    tn_eval_put(e, key, value);
    tn_eval_put(e, error_key, error);
}

static void print_value(const json_t *value, const json_t *error) {
    if (json_is_string(value)) {
        char text[4200]; /* a path */
        tern_escape(text, sizeof text, json_string_value(value), json_string_length(value));
        fputs(text, stdout);
    }
    if (json_is_integer(value)) printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    if (json_is_real(value)) printf("%.6g", json_real_value(value));
    if (error) printf(" +/- %.4g", json_real_value(error));
    putchar('\n');
}

/* A line a result; an error stands beside its value. */
static int print_table(json_t *results) {
    const char *key;
    json_t *value;
    json_object_foreach(results, key, value) {
        char error_key[64];
        snprintf(error_key, sizeof error_key, "%s_error", key);
        const size_t n = strlen(key);
        if (n > 6 && strcmp(key + n - 6, "_error") == 0) continue;
        char words[64];
        size_t i = 0;
        for (; key[i] && i + 1 < sizeof words; i++) words[i] = (char)(key[i] == '_' ? ' ' : key[i]);
        words[i] = '\0';
        printf("%-28s", words);
        print_value(value, json_object_get(results, error_key));
    }
    return TN_EXIT_DONE;
}

static int print_results(const tn_eval *e, tn_output *yaml) {
    if (e->incomplete) return tn_cli_fail("cannot write the results: out of memory");
    const int failed = e->options->json ? tn_bench_write_json(e->results) : print_table(e->results);
    return failed || !e->options->yaml ? failed : tn_bench_write_yaml(e->results, yaml);
}

/* ---- The command ---- */

static int check(const tn_options *o) {
    const bool perplexity = o->kind == kinds[0], kld = o->kind == kinds[1];
    if (kld ? !o->base : !o->file)
        return tn_cli_fail_usage(o->command, "%s: missing %s", o->kind, kld ? "--base" : "-f");
    if (kld && (o->file || o->n_ctx))
        return tn_cli_fail_usage(o->command, "kld: %s: the base has the text's chunks",
                                 o->file ? "-f" : "-c");
    if (!kld && o->base) return tn_cli_fail_usage(o->command, "%s: --base is for kld", o->kind);
    if (!perplexity && o->save_base)
        return tn_cli_fail_usage(o->command, "%s: --save-base is for perplexity", o->kind);
    return TN_EXIT_DONE;
}

static int evaluate_kind(tn_eval *e) {
    if (e->info.encoder || !e->info.n_vocab)
        return tn_cli_fail("cannot evaluate: %s: the model does not predict tokens", e->info.path);
    e->results = json_object();
    tn_eval_put_text(e, "kind", e->options->kind);
    tn_eval_put_text(e, "model", e->info.name);
    tn_eval_put_text(e, "file", e->info.path);
    if (e->options->kind == kinds[0]) return tn_eval_perplexity(e);
    return e->options->kind == kinds[1] ? tn_eval_kld(e) : tn_eval_choice(e);
}

static int run(const tn_options *options) {
    tn_eval e = {.options = options};
    int exit_code = check(options);
    if (exit_code) return exit_code;
    e.model = tn_cli_open_model(options, TERN_OPEN_ALL, &exit_code);
    if (!e.model) return exit_code;
    tern_model_info_get(e.model, &e.info);
    tn_output yaml = {.fd = -1};
    if (options->yaml) exit_code = tn_output_open(&yaml, options->yaml, options);
    if (!exit_code) exit_code = evaluate_kind(&e);
    tn_progress_clear();
    if (!exit_code) exit_code = print_results(&e, &yaml);
    tn_output_discard(&yaml);
    json_decref(e.results);
    free(e.log_probs);
    tn_cli_session_free(e.session);
    tern_model_close(e.model);
    return exit_code;
}

const tn_command tn_command_eval = {
    .name = "eval",
    .summary = "perplexity, divergence from a base model, multiple choice",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(FILE) | TN_ACCEPT(SAVE_BASE) | TN_ACCEPT(BASE) | TN_ACCEPT(CTX) |
                TN_ACCEPT(JSON) | TN_ACCEPT(YAML) | TN_ACCEPT(BATCH) | TN_ACCEPT(THREADS) | TN_ACCEPT(KV) |
                TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL),
    .kinds = kinds,
    .run = run,
};
