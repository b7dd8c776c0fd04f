/* tern template: a conversation as the text that a model gets. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json_read.h"
#include "terminal.h"

static const char help[] =
    "usage: tern template (-m M.gguf | --file T.jinja) --messages FILE.json [options]\n"
    "Prints the conversation as the model's chat template writes it, nothing added.\n"
    "\n"
    "  -m, --model FILE        the model whose template it is\n"
    "  -f, --file FILE         a template instead of the model's\n"
    "  --bos TEXT, --eos TEXT  bos_token and eos_token (default: the model's)\n"
    "  --messages FILE         a JSON array of messages; - is standard input\n"
    "  --tools FILE            a JSON array of tools\n"
    "  --var NAME=JSON         one more variable; may be given 16 times\n"
    "  --no-generation-prompt  do not begin the answer\n"
    "  -q, --quiet             no warnings\n"
    "  -h, --help              this text\n";

/* {"NAME": JSON, ...} of the --var options; the exit code. */
static int read_variables(const tn_options *options, char **out) {
    json_t *all = json_object();
    int failed = 0;
    for (size_t i = 0; all && !failed && i < options->var.n; i++) {
        const char *text = options->var.v[i], *equals = strchr(text, '=');
        json_error_t bad = {.text = "no value"};
        json_t *value = equals && equals > text ? tn_json_read(equals + 1, strlen(equals + 1),
                                                               JSON_DECODE_ANY | JSON_ALLOW_NUL, &bad)
                                                : NULL;
        if (!value)
            failed = tn_cli_fail_usage(options->command, "--var: expected NAME=JSON, found '%s': %s", text,
                                       bad.text);
        else if (json_object_setn_new(all, text, (size_t)(equals - text), value))
            failed = tn_cli_fail_usage(options->command, "--var: not a name: '%s'", text);
    }
    *out = all && !failed ? json_dumps(all, 0) : NULL;
    json_decref(all);
    if (!failed && !*out) failed = tn_cli_fail("cannot read --var: out of memory");
    return failed;
}

/* A whole file with a NUL behind it, which must have none inside; the exit code. */
static int read_json(const char *path, char **out) {
    tn_text text;
    const int failed = tn_cli_read(path, &text);
    if (failed) return failed;
    *out = NULL;
    if (text.n && memchr(text.bytes, '\0', text.n)) {
        free(text.bytes);
        return tn_cli_fail("cannot read: %s: expected JSON, found a zero byte", path);
    }
    char *grown = realloc(text.bytes, text.n + 1);
    if (!grown) {
        free(text.bytes);
        return tn_cli_fail("cannot read: %s: out of memory", path);
    }
    grown[text.n] = '\0';
    *out = grown;
    return 0;
}

/* Byte for byte, but for a terminal: there it is untrusted text. */
static int print(const char *text, size_t n) {
    const int failed = tn_write_text(STDOUT_FILENO, isatty(STDOUT_FILENO) == 1, text, n);
    return failed ? tn_cli_fail_write("standard output", failed) : TN_EXIT_DONE;
}

static int render(const tn_options *options, const tern_template *template) {
    tern_conversation conversation;
    char *messages = NULL, *tools = NULL, *variables = NULL, *text = NULL;
    size_t n;
    tern_error err;
    tern_conversation_defaults(&conversation);
    int failed = read_json(options->messages, &messages);
    if (!failed && options->tools) failed = read_json(options->tools, &tools);
    if (!failed && options->var.n) failed = read_variables(options, &variables);
    if (!failed) {
        conversation.messages = messages, conversation.tools = tools, conversation.variables = variables;
        conversation.add_generation_prompt = !options->no_generation_prompt;
        if (tern_template_render(template, &conversation, &text, &n, &err) == TERN_OK)
            failed = print(text, n);
        else
            failed = tn_cli_fail_library(&err);
    }
    free(messages), free(tools), free(variables), tern_free(text);
    return failed;
}

static int open_and_render(const tn_options *options, const tern_model *model, const tn_text *source) {
    tern_template_options open;
    tern_template *template;
    tern_error err;
    tern_template_options_defaults(&open);
    open.model = model, open.bos = options->bos, open.eos = options->eos;
    open.source = options->file ? (source->bytes ? source->bytes : "") : NULL, open.n_source = source->n;
    if (tern_template_open(&open, &template, &err) != TERN_OK) return tn_cli_fail_library(&err);
    const int exit_code = render(options, template);
    tern_template_free(template);
    return exit_code;
}

static int run(const tn_options *options) {
    tn_text source = {0};
    tern_model *model = NULL;
    int exit_code = 0;
    if (!options->model && !options->file)
        return tn_cli_fail_usage(options->command, "expected -m or --file");
    if (options->file) exit_code = tn_cli_read(options->file, &source);
    if (!exit_code && options->model) model = tn_cli_open_model(options, TERN_OPEN_VOCAB, &exit_code);
    if (!exit_code) exit_code = open_and_render(options, model, &source);
    tern_model_close(model);
    free(source.bytes);
    return exit_code;
}

const tn_command tn_command_template = {
    .name = "template",
    .summary = "print a conversation as a model gets it",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(FILE) | TN_ACCEPT(BOS) | TN_ACCEPT(EOS) | TN_ACCEPT(MESSAGES) |
                TN_ACCEPT(TOOLS) | TN_ACCEPT(VAR) | TN_ACCEPT(NO_GENERATION_PROMPT) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MESSAGES),
    .run = run,
};
