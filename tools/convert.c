/* tern convert: a Hugging Face checkpoint directory to a GGUF file. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "terminal.h"

static const char help[] = "usage: tern convert DIR OUT.gguf [options]\n"
                           "Makes a model file of a checkpoint directory in Hugging Face's form: it holds\n"
                           "config.json, model.safetensors or its parts and tokenizer.json or .model.\n"
                           "\n"
                           "  -m, --model DIR   the checkpoint, if not given as DIR\n"
                           "  -o, --output FILE the output, if not given as OUT.gguf\n"
                           "  --type TYPE       of matrices: f32, f16, bf16, q8_0, or auto (default): the\n"
                           "                    checkpoint's if that is f16 or bf16, else f16\n"
                           "  --pre NAME        pre-tokenizer, where tokenizer.json has one without a name\n"
                           "  --arch-file FILE  a description that adds or replaces an architecture\n"
                           "  -q, --quiet       no warnings, no summary\n"
                           "  -h, --help        this text\n";

static bool keep_going(void *user, uint64_t done, uint64_t total) {
    (void)user;
    tn_progress_show("convert", done, total);
    return !tn_cli_interrupted();
}

/* What was written, by opening it. */
static int report(const tn_options *options, double seconds) {
    tern_model_options o;
    tern_model *model;
    tern_error err;
    tn_cli_model_options(options, TERN_OPEN_METADATA, &o);
    if (tern_model_open(options->output, &o, &model, &err) != TERN_OK) return tn_cli_fail_library(&err);
    tern_model_info info;
    char bytes[24], name[256];
    tern_model_info_get(model, &info);
    tern_escape(name, sizeof name, options->output, strlen(options->output));
    fprintf(stderr, "%s: %s, %.1f M parameters, %s in %.1f s\n", name, info.architecture,
            (double)info.n_params / 1e6, tn_format_bytes(bytes, info.file_bytes), seconds);
    tern_model_close(model);
    return TN_EXIT_DONE;
}

static int run(const tn_options *options) {
    tern_convert_options o;
    tern_model_options model;
    tern_error err;
    tern_convert_options_defaults(&o);
    tn_cli_model_options(options, TERN_OPEN_ALL, &model);
    if (options->type) o.type = options->type;
    o.pre_tokenizer = options->pre;
    o.arch_file = options->arch_file;
    o.progress = keep_going;
    o.warn = model.warn;
    o.user = model.user;
    const double start = tn_seconds();
    const tern_status status = tern_convert(options->model, options->output, &o, &err);
    tn_progress_clear();
    if (status == TERN_ERR_ARG) return tn_cli_fail_usage(options->command, "%s", err.message);
    if (status != TERN_OK) return tn_cli_fail_library(&err);
    return options->quiet ? TN_EXIT_DONE : report(options, tn_seconds() - start);
}

const tn_command tn_command_convert = {
    .name = "convert",
    .summary = "make a model file of a Hugging Face checkpoint",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(OUTPUT) | TN_ACCEPT(TYPE) | TN_ACCEPT(PRE) |
                TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL) | TN_ACCEPT(OUTPUT),
    .model_operand = true,
    .output_operand = true,
    .run = run,
};
