/* tern inspect: what is in a model file and what running it will need. A file that cannot run is described as
 * far as it goes: its metadata and tensors are read without asking for a known architecture. */
#include "inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

static const char help[] = "usage: tern inspect M.gguf [options]\n"
                           "Prints what a model file holds and what memory it will need.\n"
                           "\n"
                           "  -m, --model FILE    the model, if not given as M.gguf\n"
                           "  --tensors           list every tensor\n"
                           "  --json              one JSON object with everything, tensors too\n"
                           "  -c, --ctx N         memory for a context of N positions as well\n"
                           "  -b, --batch N       tokens of a prompt computed at once (default 512)\n"
                           "  -t, --threads N     threads (default: the cores this process may use)\n"
                           "  --kv f16|q8_0|f32   type of the KV cache (default f16)\n"
                           "  --arch-file FILE    YAML description that adds or replaces an architecture\n"
                           "  --pre NAME          pre-tokenizer to use, whatever the file says\n"
                           "  -q, --quiet         no warnings\n"
                           "  -h, --help          this text\n";

/* ---- Gathering ---- */

static void sum_types(tn_inspection *in) {
    tern_tensor_info tensor;
    for (uint64_t i = 0; tern_model_tensor(in->file, i, &tensor); i++) {
        uint64_t n_elements = 1;
        for (uint32_t d = 0; d < tensor.n_dims; d++) n_elements *= tensor.dims[d];
        size_t t = 0;
        while (t < in->n_types && strcmp(in->types[t].type, tensor.type) != 0) t++;
        in->tensor_bytes += tensor.n_bytes;
        if (t == TN_MAX_TENSOR_TYPES) continue;
        if (t == in->n_types)
            in->types[in->n_types++] = (tn_type_sum){.type = tensor.type, .computable = tensor.computable};
        in->types[t].n_tensors++;
        in->types[t].n_elements += n_elements;
        in->types[t].n_bytes += tensor.n_bytes;
    }
}

static int add_plan(tn_inspection *in, uint32_t n_ctx, const char *why) {
    for (size_t i = 0; i < in->n_plans; i++) {
        if (in->plans[i].n_ctx == n_ctx) return TN_EXIT_DONE;
    }
    tern_session_options config;
    tn_cli_session_options(in->options, &config);
    config.n_ctx = n_ctx;
    tn_plan *plan = &in->plans[in->n_plans];
    tern_error err;
    if (tern_session_memory(in->model, &config, &plan->memory, &err) != TERN_OK)
        return tn_cli_fail_library(&err);
    plan->n_ctx = n_ctx;
    plan->why = why;
    in->n_plans++;
    return TN_EXIT_DONE;
}

static int add_plans(tn_inspection *in) {
    const uint32_t trained = in->info.n_ctx_train;
    int failed = add_plan(in, trained < 4096 ? trained : 4096, "default");
    if (!failed) failed = add_plan(in, trained, "the model's longest");
    if (!failed && in->options->n_ctx) failed = add_plan(in, (uint32_t)in->options->n_ctx, "-c");
    return failed;
}

/* What a file lacks for running is a finding here, not a failure. */
static tern_error open_further(tn_inspection *in, tern_open_level level) {
    tern_model_options open;
    tn_cli_model_options(in->options, level, &open);
    tern_error err = {0};
    tern_model_open(in->options->model, &open, &in->model, &err);
    return err;
}

static int gather(tn_inspection *in) {
    int exit_code;
    in->file = tn_cli_open_model(in->options, TERN_OPEN_METADATA, &exit_code);
    if (!in->file) return exit_code;
    in->not_runnable = open_further(in, TERN_OPEN_ALL);
    if (in->not_runnable.code == TERN_ERR_IO || in->not_runnable.code == TERN_ERR_MEMORY)
        return tn_cli_fail_library(&in->not_runnable); /* which says nothing about the file */
    if (!in->model) open_further(in, TERN_OPEN_VOCAB);
    tern_model_info_get(in->model ? in->model : in->file, &in->info);
    sum_types(in);
    return in->not_runnable.code == TERN_OK ? add_plans(in) : TN_EXIT_DONE;
}

/* ---- Printing ---- */

static const char *escape(char safe[512], const char *text) {
    tern_escape(safe, 512, text ? text : "", text ? strlen(text) : 0);
    return safe;
}

static void print_count(const char *what, uint64_t n) {
    static const struct {
        double scale;
        const char *unit;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if ((double)n < units[i].scale) continue;
        printf("%-14s %.1f%s\n", what, (double)n / units[i].scale, units[i].unit);
        return;
    }
    printf("%-14s %" PRIu64 "\n", what, n);
}

static void print_summary(const tn_inspection *in) {
    const tern_model_info *info = &in->info;
    char safe[512], bytes[24];
    printf("%-14s %s\n", "file", escape(safe, info->path));
    printf("%-14s %s, %s", "format", escape(safe, info->format), tn_format_bytes(bytes, info->file_bytes));
    if (info->n_shards > 1) printf(" in %" PRIu32 " files", info->n_shards);
    printf("\n%-14s %s\n", "architecture", escape(safe, info->architecture));
    printf("%-14s %s\n", "name", escape(safe, info->name));
    print_count("parameters", info->n_params);
    if (info->n_params > 0) {
        printf("%-14s %.2f\n", "bits a weight", 8.0 * (double)in->tensor_bytes / (double)info->n_params);
    }
    if (info->n_vocab > 0) {
        printf("%-14s %" PRIu32 " tokens, %s\n", "vocabulary", info->n_vocab, escape(safe, info->tokenizer));
    }
    if (in->not_runnable.code != TERN_OK) {
        printf("%-14s %s\n", "not runnable:", in->not_runnable.message);
        return;
    }
    printf("%-14s %" PRIu32 " layers, width %" PRIu32 ", %" PRIu32 " heads of %" PRIu32 " (%" PRIu32
           " for K and V)\n",
           "shape", info->n_layers, info->n_embd, info->n_heads, info->head_dim, info->n_kv_heads);
    printf("%-14s %" PRIu32 " positions\n", "made for", info->n_ctx_train);
}

static void print_types(const tn_inspection *in) {
    char safe[512], bytes[24];
    printf("\n%-14s %8s %12s\n", "tensor type", "tensors", "size");
    for (size_t i = 0; i < in->n_types; i++) {
        const tn_type_sum *sum = &in->types[i];
        printf("%-14s %8" PRIu64 " %12s%s\n", escape(safe, sum->type), sum->n_tensors,
               tn_format_bytes(bytes, sum->n_bytes), sum->computable ? "" : "  (cannot be computed)");
    }
}

static void print_plans(const tn_inspection *in) {
    printf("\n%-14s %12s %12s %12s %12s\n", "memory for -c", "weights", "KV cache", "scratch", "total");
    for (size_t i = 0; i < in->n_plans; i++) {
        const tern_memory *memory = &in->plans[i].memory;
        char weights[24], kv[24], scratch[24], total[24];
        printf("%-14" PRIu32 " %12s %12s %12s %12s  (%s)\n", in->plans[i].n_ctx,
               tn_format_bytes(weights, memory->weights_bytes), tn_format_bytes(kv, memory->kv_bytes),
               tn_format_bytes(scratch, memory->scratch_bytes),
               tn_format_bytes(total, memory->weights_bytes + memory->kv_bytes + memory->scratch_bytes),
               in->plans[i].why);
    }
    printf("%-14" PRIu32 " is the largest context that fits the memory free now\n",
           in->plans[0].memory.n_ctx_fits);
}

static void print_metadata(const tn_inspection *in) {
    enum { SHOWN_ITEMS = 4 };
    char key[256], type[64], value[121];
    tern_model_info info;
    tern_model_info_get(in->file, &info);
    printf("\nmetadata (%" PRIu64 ")\n", info.n_metadata);
    for (uint64_t i = 0; tern_model_metadata(in->file, i, SHOWN_ITEMS, key, sizeof key, type, sizeof type,
                                             value, sizeof value);
         i++) {
        printf("  %s  %s  %s\n", key, type, value);
    }
}

static void print_tensors(const tn_inspection *in) {
    tern_tensor_info tensor;
    tern_model_info info;
    tern_model_info_get(in->file, &info);
    printf("\ntensors (%" PRIu64 ")\n", info.n_tensors);
    for (uint64_t i = 0; tern_model_tensor(in->file, i, &tensor); i++) {
        char safe[512], bytes[24], dims[96];
        int n = 0;
        for (uint32_t d = 0; d < tensor.n_dims; d++) {
            n += snprintf(dims + n, sizeof dims - (size_t)n, d ? " x %" PRIu64 : "%" PRIu64, tensor.dims[d]);
        }
        printf("  %-36s %-8s %-16s %s\n", escape(safe, tensor.name), tensor.type, dims,
               tn_format_bytes(bytes, tensor.n_bytes));
    }
}

static int run(const tn_options *options) {
    tn_inspection in = {.options = options};
    int exit_code = gather(&in);
    if (!exit_code && options->json) {
        exit_code = tn_inspect_json(&in);
    } else if (!exit_code) {
        print_summary(&in);
        if (in.n_types > 0) print_types(&in);
        if (in.n_plans > 0) print_plans(&in);
        print_metadata(&in);
        if (options->tensors) print_tensors(&in);
    }
    tern_model_close(in.model);
    tern_model_close(in.file);
    return exit_code;
}

const tn_command tn_command_inspect = {
    .name = "inspect",
    .summary = "what is in a model file, and the memory it will need",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(TENSORS) | TN_ACCEPT(JSON) | TN_ACCEPT(CTX) | TN_ACCEPT(BATCH) |
                TN_ACCEPT(THREADS) | TN_ACCEPT(KV) | TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL),
    .model_operand = true,
    .run = run,
};
