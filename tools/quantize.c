/* tern quantize: a model file with other tensor types. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "terminal.h"

static const char help[] = "usage: tern quantize IN.gguf OUT.gguf --type TYPE [options]\n"
                           "Writes a model file with other tensor types.\n"
                           "\n"
                           "  -m, --model FILE    the input, if not given as IN.gguf\n"
                           "  -o, --output FILE   the output, if not given as OUT.gguf\n"
                           "  --type TYPE         Q4_K_M, Q8_0, ...: a wrong one lists all there are\n"
                           "  --recipe FILE       YAML rules instead, from tensor names to types\n"
                           "  --target-bpw N      instead of both: types that share N bits a weight\n"
                           "  --auto              choose types under a target (--target-bpw or a recipe's)\n"
                           "                      by how far the predictions for a text move; needs -f\n"
                           "  -f, --file FILE     that text; - is standard input\n"
                           "  --measures FILE     keep what --auto measures: for more targets, or to go on\n"
                           "  --imatrix FILE      importance matrix, of GGUF or the older .dat form\n"
                           "  --override KEY=VAL  set a metadata entry; up to 16 times\n"
                           "  --split-size N      shards of at most N bytes of data: 500M, 2G\n"
                           "  --keep-split        shards as the input has them\n"
                           "  --allow-requantize  of tensors that are quantized already\n"
                           "  --dry-run           print what would be done, and write nothing\n"
                           "  -t, --threads N     threads (default: the cores this process may use)\n"
                           "  -v, --verbose       print what becomes of each tensor, and the recipe\n"
                           "  -q, --quiet         no summary\n"
                           "  -h, --help          this text\n";

typedef struct tn_quantize_ui {
    FILE *table, *groups, *recipe; /* NULL: not printed */
    bool automatic;
    double start, start_of_bytes, shown;
} tn_quantize_ui;

static void print_tensor(void *user, const tern_quantized_tensor *t) {
    const tn_quantize_ui *ui = user;
    if (!ui->table) return;
    char name[512], bytes[24];
    tern_escape(name, sizeof name, t->name, strlen(t->name));
    fprintf(ui->table, "%-36s %12" PRIu64 "  %-7s %-7s %10s", name, t->n_elements, t->from, t->type,
            tn_format_bytes(bytes, t->n_bytes));
    fprintf(ui->table, t->why[0] ? "  %s\n" : "%s\n", t->why);
}

static void format_left(char text[64], double seconds) {
    if (seconds < 100) {
        snprintf(text, 64, "quantizing, %.0f s left, MiB:", seconds);
    } else {
        snprintf(text, 64, "quantizing, %.0f min left, MiB:", seconds / 60);
    }
}

static bool show_progress(void *user, uint64_t done, uint64_t total) {
    tn_quantize_ui *ui = user;
    const double now = tn_seconds();
    if (now - ui->shown > 0.1 && done > 0) {
        char what[64];
        format_left(what, (now - ui->start_of_bytes) * (double)(total - done) / (double)done);
        tn_progress_show(what, done >> 20, total >> 20);
        ui->shown = now;
    }
    return !tn_cli_interrupted();
}

static void print_summary(FILE *f, const tern_quantized *sum, double seconds, bool dry_run) {
    char from[24], to[24];
    const double elements = sum->n_elements ? (double)sum->n_elements : 1;
    fprintf(f, "%s of tensors at %.2f bits a weight -> %s at %.2f", tn_format_bytes(from, sum->from_bytes),
            8 * (double)sum->from_bytes / elements, tn_format_bytes(to, sum->n_bytes),
            8 * (double)sum->n_bytes / elements);
    if (!dry_run) fprintf(f, ", in %.1f s", seconds);
    fputs("\n", f);
    if (sum->n_fallbacks)
        fprintf(f, "%" PRIu32 " tensors have rows that do not fit the type wanted%s\n", sum->n_fallbacks,
                dry_run ? "" : " (--dry-run lists them)");
    if (sum->n_shards > 1) fprintf(f, "%" PRIu32 " files\n", sum->n_shards);
}

/* ---- Automatic recipes ---- */

static void print_group(void *user, const tern_quantize_group *g) {
    const tn_quantize_ui *ui = user;
    if (!ui->groups) return;
    char layers[32] = "";
    if (g->layered) snprintf(layers, sizeof layers, "%" PRIu32 "-%" PRIu32, g->first_layer, g->last_layer);
    fprintf(ui->groups, "%-26s %-6s", g->pattern, layers);
    for (size_t i = 0; i < g->n_candidates; i++)
        fprintf(ui->groups, " %c%-6s %-8.3g", i == g->chosen ? '*' : ' ', g->candidates[i].type,
                g->candidates[i].divergence);
    fputs("\n", ui->groups);
}

static void print_recipe(void *user, const tern_quantized *plan) {
    const tn_quantize_ui *ui = user;
    if (!ui->recipe) return;
    if (ui->automatic)
        fprintf(ui->recipe, "divergence expected %.4g (the sum of those marked)\n", plan->divergence);
    fputs(plan->recipe, ui->recipe);
}

static bool show_measuring(void *user, uint64_t done, uint64_t total) {
    tn_quantize_ui *ui = user;
    const double now = tn_seconds();
    char what[64] = "measuring types:";
    if (done)
        snprintf(what, sizeof what,
                 "measuring types, %.0f s left:", (now - ui->start) * (double)(total - done) / (double)done);
    if (total) tn_progress_show(what, done, total);
    if (done == total) {
        tn_progress_clear();
        ui->start_of_bytes = now;
    }
    return !tn_cli_interrupted();
}

static int check_auto(const tn_options *o) {
    if (!o->automatic) {
        if (o->file) return tn_cli_fail_usage(o->command, "-f is for --auto");
        return o->measures ? tn_cli_fail_usage(o->command, "--measures is for --auto") : TN_EXIT_DONE;
    }
    if (!o->file) return tn_cli_fail_usage(o->command, "--auto: missing the text, -f");
    return o->type ? tn_cli_fail_usage(o->command, "--auto: expected --target-bpw or --recipe, not --type")
                   : TN_EXIT_DONE;
}

static int check(const tn_options *o) {
    if (!!o->type + !!o->recipe + (o->target_bpw > 0) != 1)
        return tn_cli_fail_usage(o->command, "expected either --type or --recipe or --target-bpw");
    const int failed = check_auto(o);
    if (failed) return failed;
    if (!o->output && !o->dry_run) return tn_cli_fail_usage(o->command, "missing the output file");
    if (o->keep_split && o->split_size)
        return tn_cli_fail_usage(o->command, "expected --keep-split or --split-size, not both");
    return TN_EXIT_DONE;
}

static int quantize(const tn_options *o, const tn_text *text) {
    tn_quantize_ui ui = {.start = tn_seconds()};
    ui.start_of_bytes = ui.start;
    ui.table = o->dry_run ? stdout : o->verbose ? stderr : NULL;
    ui.groups = o->dry_run ? stdout : !o->quiet || o->verbose ? stderr : NULL;
    ui.automatic = o->automatic;
    ui.recipe = o->automatic ? ui.groups : o->verbose ? stderr : NULL;
    tern_quantize_options q;
    tern_quantize_options_defaults(&q);
    q.type = o->type;
    q.recipe = o->recipe;
    q.target_bpw = o->target_bpw;
    if (o->automatic) q.text = text->bytes ? text->bytes : "";
    q.n_text = text->n;
    q.group = print_group;
    q.measuring = show_measuring;
    q.measures = o->measures;
    q.applied = print_recipe;
    q.imatrix = o->imatrix;
    q.overrides = o->overrides.v;
    q.n_overrides = o->overrides.n;
    q.n_threads = (uint32_t)o->n_threads;
    q.split_bytes = (uint64_t)o->split_size;
    q.keep_split = o->keep_split;
    q.allow_requantize = o->allow_requantize;
    q.dry_run = o->dry_run;
    q.tensor = print_tensor;
    q.progress = show_progress;
    q.user = &ui;
    tn_cli_name_in_fault(o->model);
    tern_quantized sum;
    tern_error err;
    const tern_status status = tern_quantize(o->model, o->output, &q, &sum, &err);
    tn_progress_clear();
    if (status != TERN_OK) return tn_cli_fail_library(&err);
    if (o->dry_run || !o->quiet)
        print_summary(o->dry_run ? stdout : stderr, &sum, tn_seconds() - ui.start, o->dry_run);
    tern_free(sum.recipe);
    return TN_EXIT_DONE;
}

static int run(const tn_options *o) {
    tn_text text = {0};
    int exit_code = check(o);
    if (!exit_code && o->automatic) exit_code = tn_cli_read(o->file, &text);
    if (!exit_code) exit_code = quantize(o, &text);
    free(text.bytes);
    return exit_code;
}

const tn_command tn_command_quantize = {
    .name = "quantize",
    .summary = "a model file with other tensor types",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(OUTPUT) | TN_ACCEPT(TYPE) | TN_ACCEPT(RECIPE) |
                TN_ACCEPT(TARGET_BPW) | TN_ACCEPT(AUTO) | TN_ACCEPT(MEASURES) | TN_ACCEPT(FILE) |
                TN_ACCEPT(IMATRIX) | TN_ACCEPT(OVERRIDE) | TN_ACCEPT(SPLIT_SIZE) | TN_ACCEPT(KEEP_SPLIT) |
                TN_ACCEPT(ALLOW_REQUANTIZE) | TN_ACCEPT(DRY_RUN) | TN_ACCEPT(THREADS) | TN_ACCEPT(VERBOSE) |
                TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL),
    .model_operand = true,
    .output_operand = true,
    .run = run,
};
