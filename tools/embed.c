/* tern embed: vectors of texts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ids.h"
#include "output.h"

static const char help[] =
    "usage: tern embed -m M.gguf (-p TEXT | -f FILE | --ids \"N ...\") [options]\n"
    "Writes the vector of each text, a line of numbers for each.\n"
    "\n"
    "  -m, --model FILE      the model: an encoder, or any other\n"
    "  -p, --prompt TEXT     one text\n"
    "  -f, --file FILE       one text a line; - is standard input\n"
    "  --ids \"N N ...\"       one text's tokens\n"
    "  -o, --output FILE     where to (standard output)\n"
    "  --pooling NAME        mean, cls (the first token) or last; none: a vector for\n"
    "                        each token (what the file says, else mean for encoders\n"
    "                        and last for others)\n"
    "  --no-normalize        not scaled to length 1\n"
    "  --csv                 commas between the numbers\n"
    "  --json                one object: {\"width\": N, \"embeddings\": [[...], ...]}\n"
    "  --raw                 little-endian float32, one vector behind the other\n"
    "  -c, --ctx N           tokens of the longest text (the model's, at most 4096)\n"
    "  -t, --threads N       threads (the cores this process may use)\n"
    "  -b, --batch N         tokens computed at once (512; encoders: the text)\n"
    "  --kv f16|q8_0|f32     type of the KV cache (f16)\n"
    "  --no-special          text of control tokens is plain text\n"
    "  --arch-file FILE, --pre NAME, -q, --quiet, -h, --help   as for tern run\n";

typedef struct tn_embed {
    const tn_options *options;
    const tern_model *model;
    tern_session *session;
    tern_embed_options embed;
    tn_output output;
    size_t n_texts;
    char *line; /* of one vector */
    size_t cap;
} tn_embed;

static int choose_pooling(const tn_options *options, tern_pooling *out) {
    static const char *const names[] = {[TERN_POOLING_NONE] = "none",
                                        [TERN_POOLING_MEAN] = "mean",
                                        [TERN_POOLING_CLS] = "cls",
                                        [TERN_POOLING_LAST] = "last"};
    if (!options->pooling) return TN_EXIT_DONE;
    for (size_t i = TERN_POOLING_NONE; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], options->pooling) != 0) continue;
        *out = (tern_pooling)i;
        return TN_EXIT_DONE;
    }
    return tn_cli_fail_usage(options->command, "--pooling: expected none, mean, cls or last, found '%s'",
                             options->pooling);
}

static int check_format(const tn_options *options) {
    if (options->csv + options->json + options->raw > 1)
        return tn_cli_fail_usage(options->command, "expected one of --csv, --json and --raw");
    if (tn_option_given(options, TN_OPTION_PROMPT) + tn_option_given(options, TN_OPTION_FILE) +
            tn_option_given(options, TN_OPTION_IDS) !=
        1)
        return tn_cli_fail_usage(options->command, "expected one of -p, -f and --ids");
    return TN_EXIT_DONE;
}

/* ---- Output ---- */

static int write_text(tn_embed *e, const char *text) {
    return tn_output_write(&e->output, text, strlen(text));
}

static int write_numbers(tn_embed *e, const float *vector, uint32_t width) {
    enum { LONGEST = 24 }; /* of a number and what stands before it */
    const char *between = e->options->csv ? "," : e->options->json ? ", " : " ";
    const size_t needed = (size_t)width * LONGEST + 1;
    if (needed > e->cap) {
        char *grown = realloc(e->line, needed);
        if (!grown) return tn_cli_fail("cannot write: out of memory");
        e->line = grown, e->cap = needed;
    }
    size_t n = 0;
    for (uint32_t i = 0; i < width; i++)
        n += (size_t)snprintf(e->line + n, LONGEST, "%s%.9g", i ? between : "", (double)vector[i]);
    return tn_output_write(&e->output, e->line, n);
}

static int write_vector(tn_embed *e, const float *vector, uint32_t width, bool first) {
    if (e->options->raw) return tn_output_write(&e->output, vector, width * sizeof *vector);
    int failed = 0;
    if (e->options->json) failed = write_text(e, first ? "[" : ", [");
    if (!failed) failed = write_numbers(e, vector, width);
    return failed ? failed : write_text(e, e->options->json ? "]" : "\n");
}

/* The vectors of one text; in JSON those of its tokens are a list of their own. */
static int write_vectors(tn_embed *e, const float *vectors, size_t n, uint32_t width) {
    const bool json = e->options->json, list = json && e->embed.pooling == TERN_POOLING_NONE;
    char head[64];
    int failed = 0;
    if (json && e->n_texts == 0) {
        snprintf(head, sizeof head, "{\"width\": %" PRIu32 ", \"embeddings\": [", width);
        failed = write_text(e, head);
    }
    if (json && !failed) failed = write_text(e, e->n_texts == 0 ? "\n" : ",\n");
    if (list && !failed) failed = write_text(e, "[");
    for (size_t i = 0; i < n && !failed; i++) failed = write_vector(e, vectors + i * width, width, i == 0);
    if (list && !failed) failed = write_text(e, "]");
    return failed;
}

/* ---- Input ---- */

static int embed_ids(tn_embed *e) {
    tn_ids ids;
    tern_model_info info;
    tern_model_info_get(e->model, &info);
    int failed = tn_ids_parse(e->options, &ids);
    if (!failed) failed = tn_ids_check(e->options, &ids, info.n_vocab);
    float *vectors = NULL;
    size_t n;
    uint32_t width;
    tern_error err;
    if (!failed &&
        tern_embed_tokens(e->session, ids.ids, ids.n, &e->embed, &vectors, &n, &width, &err) != TERN_OK)
        failed = tn_cli_fail_library(&err);
    if (!failed) failed = write_vectors(e, vectors, n, width);
    e->n_texts++;
    tern_free(vectors);
    free(ids.ids);
    return failed;
}

static int embed_text(tn_embed *e, const char *text, size_t n) {
    float *vectors;
    size_t n_vectors;
    uint32_t width;
    tern_error err;
    if (tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
    if (tern_embed(e->session, text, n, &e->embed, &vectors, &n_vectors, &width, &err) != TERN_OK) {
        if (err.code == TERN_ERR_CANCELLED || !e->options->file) return tn_cli_fail_library(&err);
        return tn_cli_fail("%s (line %zu of %s)", err.message, e->n_texts + 1, e->options->file);
    }
    const int failed = write_vectors(e, vectors, n_vectors, width);
    tern_free(vectors);
    e->n_texts++;
    return failed;
}

static int embed_lines(tn_embed *e, const tn_text *file) {
    for (size_t at = 0; at < file->n;) {
        const char *line = file->bytes + at, *end = memchr(line, '\n', file->n - at);
        size_t n = end ? (size_t)(end - line) : file->n - at;
        at += n + 1;
        if (n && line[n - 1] == '\r') n--;
        const int failed = embed_text(e, line, n);
        if (failed) return failed;
    }
    return TN_EXIT_DONE;
}

static int embed_input(tn_embed *e) {
    tn_text file;
    if (e->options->ids) return embed_ids(e);
    if (!e->options->file) return embed_text(e, e->options->prompt, strlen(e->options->prompt));
    int failed = tn_cli_read(e->options->file, &file);
    if (failed) return failed;
    failed = embed_lines(e, &file);
    free(file.bytes);
    return failed;
}

/* ---- The command ---- */

static int embed_all(tn_embed *e) {
    int failed = tn_output_open(&e->output, e->options->output ? e->options->output : "-", e->options);
    if (failed) return failed;
    failed = embed_input(e);
    if (!failed && e->options->json)
        failed = write_text(e, e->n_texts ? "\n]}\n" : "{\"width\": 0, \"embeddings\": []}\n");
    if (!failed) failed = tn_output_commit(&e->output);
    tn_output_discard(&e->output);
    free(e->line);
    return failed;
}

static int run(const tn_options *options) {
    tn_embed e = {.options = options};
    tern_embed_options_defaults(&e.embed);
    int exit_code = check_format(options);
    if (!exit_code) exit_code = choose_pooling(options, &e.embed.pooling);
    if (exit_code) return exit_code;
    tern_model *model = tn_cli_open_model(options, TERN_OPEN_ALL, &exit_code);
    if (!model) return exit_code;
    tern_model_info info;
    tern_model_info_get(model, &info);
    if (e.embed.pooling == TERN_POOLING_MODEL) e.embed.pooling = info.pooling;
    e.model = model;
    e.embed.normalize = !options->no_normalize;
    if (options->no_special) e.embed.flags &= ~(unsigned)TERN_TOKENIZE_SPECIAL;
    tern_session_options config;
    tn_cli_session_options(options, &config);
    config.embeddings = true;
    tern_error err;
    exit_code = tn_cli_session_new(model, &config, &e.session, &err) == TERN_OK ? embed_all(&e)
                                                                                : tn_cli_fail_library(&err);
    tn_cli_session_free(e.session);
    tern_model_close(model);
    return exit_code;
}

const tn_command tn_command_embed = {
    .name = "embed",
    .summary = "write the vectors of texts",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(PROMPT) | TN_ACCEPT(FILE) | TN_ACCEPT(IDS) | TN_ACCEPT(OUTPUT) |
                TN_ACCEPT(POOLING) | TN_ACCEPT(NO_NORMALIZE) | TN_ACCEPT(CSV) | TN_ACCEPT(JSON) |
                TN_ACCEPT(RAW) | TN_ACCEPT(CTX) | TN_ACCEPT(THREADS) | TN_ACCEPT(BATCH) | TN_ACCEPT(KV) |
                TN_ACCEPT(NO_SPECIAL) | TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .required = TN_ACCEPT(MODEL),
    .run = run,
};
