/* A host's whole way through the library while allocations fail, for a Python test.
 *
 *   allocations fail WAY SOURCE [STEP]   runs it once for each allocation (each STEP-th), which fails: an error must come out, and
 *                                        nothing be left; or the same result as else
 *   allocations repeat WAY SOURCE COUNT  runs it again and again: nothing may be left, nor the process grow
 *
 * SOURCE is the model, for convert the checkpoint's folder. What is written is the file "out" of the working folder; "old" is
 * what was there before.
 *
 * Allocations are malloc's family and mmap, of the library and those inside it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tern.h"
#include "tests/unit/failing_memory.h"

static atomic_long live_bytes; /* mapped */

#ifndef __SANITIZE_ADDRESS__
#pragma GCC visibility push(default)
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
int munmap(void *at, size_t n);
#pragma GCC visibility pop

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    if (allocation_fails()) return MAP_FAILED;
    void *p = (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
    if (p != MAP_FAILED) atomic_fetch_add(&live_bytes, (long)n);
    return p;
}

int munmap(void *at, size_t n) {
    atomic_fetch_sub(&live_bytes, (long)n);
    return (int)syscall(SYS_munmap, at, n);
}
#endif

/* ---- Ways through ---- */

/* What one makes; freed whatever was made. */
typedef struct host {
    tern_model *model;
    tern_session *session, *other, *draft;
    tern_template *chat_template;
    tern_chat *chat;
    tern_generator *generator;
    int32_t *ids;
    size_t n_ids;
    void *state;
    float *vectors;
    uint64_t result; /* a number made of all that comes out */
} host;

static const char out_path[] = "out", old_text[] = "old";

static tern_status generate_with(host *h, tern_session *session, const tern_generator_options *options,
                                 const int32_t *ids, size_t n_ids, tern_error *err) {
    tern_stop_reason stop = TERN_STOP_NONE;
    tern_status status = tern_generator_new(session, options, ids, n_ids, &h->generator, err);
    while (status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(h->generator, &text, &n, &stop, err);
        tern_generated made;
        tern_generator_result(h->generator, &made);
        h->result = h->result * 1000003 + (uint32_t)made.token;
    }
    tern_generator_free(h->generator);
    h->generator = NULL;
    return status;
}

static tern_status generate(host *h, const int32_t *ids, size_t n_ids, tern_error *err) {
    static const char grammar[] = "root ::= [a-z ]+ \".\"";
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.max_tokens = 6;
    options.grammar = grammar, options.n_grammar = strlen(grammar);
    return generate_with(h, h->session, &options, ids, n_ids, err);
}

static tern_status start(host *h, const char *path, const char *text, bool embeddings, tern_error *err) {
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_threads = 1, options.n_ctx = 128, options.embeddings = embeddings;
    tern_status status = tern_model_open(path, NULL, &h->model, err);
    if (status == TERN_OK)
        status = tern_tokenize(h->model, text, strlen(text), TERN_TOKENIZE_BOS, &h->ids, &h->n_ids, err);
    return status == TERN_OK ? tern_session_new(h->model, &options, &h->session, err) : status;
}

static tern_status start_chat(host *h, tern_when_full when_full, tern_error *err) {
    tern_template_options options;
    tern_chat_options chat_options;
    tern_template_options_defaults(&options);
    options.model = h->model;
    tern_status status = tern_template_open(&options, &h->chat_template, err);
    tern_chat_options_defaults(&chat_options);
    chat_options.chat_template = h->chat_template, chat_options.when_full = when_full;
    return status == TERN_OK ? tern_chat_new(h->session, &chat_options, &h->chat, err) : status;
}

static tern_status answer(host *h, const char *text, tern_error *err) {
    tern_chat_prompt prompt;
    tern_status status = tern_chat_add(h->chat, "user", text, strlen(text), err);
    if (status == TERN_OK) status = tern_chat_begin(h->chat, &prompt, err);
    if (status == TERN_OK) status = generate(h, prompt.ids, prompt.n_ids, err);
    return status == TERN_OK ? tern_chat_add(h->chat, "assistant", "in it", 5, err) : status;
}

static tern_status generation(host *h, const char *path, tern_error *err) {
    tern_status status = start(h, path, "at the", false, err);
    if (status == TERN_OK) status = tern_session_eval(h->session, h->ids, h->n_ids, 1, err);
    if (status == TERN_OK) status = generate(h, h->ids, h->n_ids, err);
    if (status == TERN_OK) status = start_chat(h, TERN_WHEN_FULL_STOP, err);
    return status == TERN_OK ? answer(h, "in the sea", err) : status;
}

static bool go_on(void *user, uint64_t done, uint64_t total) {
    (void)user;
    return done <= total;
}

/* The model of a descriptor, read before it is opened. */
static tern_status open_source(host *h, const char *path, tern_error *err) {
    tern_source source;
    tern_model_options options;
    tern_source_defaults(&source);
    tern_model_options_defaults(&options);
    options.preload = true, options.progress = go_on;
    source.fd = open(path, O_RDONLY);
    const tern_status status = tern_model_open_source(&source, &options, &h->model, err);
    close(source.fd);
    return status;
}

/* A fork answers by a schema, with the guesses of a draft; then the session that it came of. */
static tern_status forking(host *h, const char *path, tern_error *err) {
    static const char
        text[] = "at the sea at the sea at the",
        schema[] =
            "{\"type\": \"array\", \"items\": {\"allOf\": [{\"minLength\": 1}, {\"type\": \"string\"}]}}";
    static const char *const stop[] = {"zq"};
    tern_session_options options;
    tern_generator_options generator;
    tern_session_options_defaults(&options);
    tern_generator_options_defaults(&generator);
    options.n_threads = 1, options.n_ctx = 128, options.n_outputs = TERN_DRAFT_OUTPUTS;
    tern_status status = open_source(h, path, err);
    if (status == TERN_OK)
        status = tern_tokenize(h->model, text, strlen(text), TERN_TOKENIZE_BOS, &h->ids, &h->n_ids, err);
    if (status == TERN_OK) status = tern_session_new(h->model, &options, &h->session, err);
    if (status == TERN_OK) status = tern_session_new(h->model, &options, &h->draft, err);
    if (status == TERN_OK) status = tern_session_eval(h->session, h->ids, h->n_ids, 1, err);
    if (status == TERN_OK) status = tern_session_fork(h->session, &h->other, err);
    generator.max_tokens = 12, generator.want_logprobs = true, generator.n_logprobs = 3,
    generator.draft = h->draft;
    generator.stop = stop, generator.n_stop = 1, generator.json_schema = schema,
    generator.n_json_schema = strlen(schema);
    if (status == TERN_OK) status = generate_with(h, h->other, &generator, h->ids, h->n_ids, err);
    return status == TERN_OK ? generate(h, h->ids, h->n_ids, err) : status;
}

/* Through a file and through memory, into another session of the same model. */
static tern_status restoring(host *h, const char *path, tern_error *err) {
    size_t n;
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_threads = 1, options.n_ctx = 64;
    tern_status status = start(h, path, "at the", false, err);
    if (status == TERN_OK) status = tern_session_eval(h->session, h->ids, h->n_ids, 1, err);
    if (status == TERN_OK) status = tern_session_save_memory(h->session, &h->state, &n, err);
    if (status == TERN_OK) status = tern_session_new(h->model, &options, &h->other, err);
    if (status == TERN_OK) status = tern_session_load_memory(h->other, h->state, n, err);
    if (status == TERN_OK) status = tern_session_save(h->other, out_path, err);
    return status == TERN_OK ? tern_session_load(h->session, out_path, err) : status;
}

static tern_status dropping(host *h, const char *path, tern_error *err) {
    tern_status status = start(h, path, "at the", false, err);
    if (status == TERN_OK) status = start_chat(h, TERN_WHEN_FULL_DROP, err);
    for (int i = 0; i < 4 && status == TERN_OK; i++)
        status = answer(h, "the sea is in the rain, and on and on it rains", err);
    return status;
}

static tern_status embedding(host *h, const char *path, tern_error *err) {
    size_t n;
    uint32_t width;
    tern_status status = start(h, path, "at the", true, err);
    if (status == TERN_OK)
        status = tern_embed(h->session, "in the sea", 10, NULL, &h->vectors, &n, &width, err);
    for (uint32_t i = 0; i < width && status == TERN_OK; i++)
        h->result = h->result * 31 + (uint64_t)(int64_t)(h->vectors[i] * 1e6f);
    return status;
}

static tern_status quantizing(host *h, const char *path, tern_error *err) {
    tern_quantize_options options;
    tern_quantized sum;
    (void)h;
    tern_quantize_options_defaults(&options);
    options.type = "Q4_K_M", options.n_threads = 1;
    const tern_status status = tern_quantize(path, out_path, &options, &sum, err);
    if (status == TERN_OK) tern_free(sum.recipe);
    return status;
}

#define LINE "in the sea the rain is on the hat, and on the sea the hat is in the rain. "

static tern_status measuring(host *h, const char *path, tern_error *err) {
    tern_quantize_options options;
    static const char text[] = LINE LINE LINE LINE LINE; /* as many tokens as it wants at least: 128 */
    (void)h;
    tern_quantize_options_defaults(&options);
    options.target_bpw = 10, options.n_threads = 1, options.text = text, options.n_text = sizeof text - 1;
    return tern_quantize(path, out_path, &options, NULL, err);
}

static tern_status weighing(host *h, const char *path, tern_error *err) {
    tern_imatrix_options options;
    tern_imatrix_options_defaults(&options);
    options.n_ctx = 4, options.n_threads = 1;
    const tern_status status = start(h, path, "in the sea", false, err);
    return status == TERN_OK ? tern_imatrix(h->model, h->ids, h->n_ids, &options, out_path, err) : status;
}

static tern_status converting(host *h, const char *path, tern_error *err) {
    (void)h;
    return tern_convert(path, out_path, NULL, err);
}

typedef tern_status way(host *h, const char *source, tern_error *err);

static const struct {
    const char *name;
    way *run;
    bool writes;
} ways[] = {
    {"generate", generation, false}, {"restore", restoring, true},   {"drop", dropping, false},
    {"embed", embedding, false},     {"quantize", quantizing, true}, {"measure", measuring, true},
    {"fork", forking, false},        {"imatrix", weighing, true},    {"convert", converting, true},
};

/* ---- Files, with calls of the system alone ---- */

static bool put_old(void) {
    const int fd = open(out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return fd >= 0 && write(fd, old_text, sizeof old_text) == sizeof old_text && close(fd) == 0;
}

/* A number made of the file's bytes. */
static uint64_t read_out(void) {
    uint8_t bytes[4096];
    uint64_t sum = 0;
    const int fd = open(out_path, O_RDONLY);
    for (ssize_t n; fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n; i++) sum = sum * 1000003 + bytes[i];
    if (fd >= 0) close(fd);
    return sum;
}

static tern_status go(size_t number, const char *source, uint64_t *result, tern_error *err) {
    host h = {0};
    const tern_status status = ways[number].run(&h, source, err);
    tern_free(h.state);
    tern_free(h.vectors);
    tern_generator_free(h.generator);
    tern_chat_free(h.chat);
    tern_template_free(h.chat_template);
    tern_session_free(h.other);
    tern_session_free(h.draft);
    tern_session_free(h.session);
    tern_free(h.ids);
    tern_model_close(h.model);
    *result = h.result;
    return status;
}

static int complain(const char *what, long n, const char *message) {
    fprintf(stderr, "allocation %ld: %s: %s\n", n, what, message);
    return 1;
}

/* libyaml 0.2.5 itself loses a node when memory runs out while it reads a document: that alone may be left. */
static int try_all(size_t number, const char *source, long step) {
    tern_error err;
    long n_hit = 0, n_survived = 0, n_left = 0;
    uint64_t expected, result, expected_file = 0, old_file = 0;
    const bool writes = ways[number].writes;
    if (writes && put_old()) old_file = read_out();
    if (go(number, source, &expected, &err) != TERN_OK) return complain("none failed", -1, err.message);
    if (writes && (expected_file = read_out()) == old_file) return complain("nothing written", -1, "");
    for (long i = 0;; i += step) {
        const long live = live_allocations(), bytes = live_bytes;
        memset(&err, 0, sizeof err);
        if (writes && !put_old()) return complain("cannot write", i, "");
        n_allocations = 0;
        failing_allocation = i;
        const tern_status status = go(number, source, &result, &err);
        failing_allocation = -1;
        const bool left = live_allocations() != live || live_bytes != bytes;
        n_left += left;
        if (left && !strstr(err.message, "cannot read architecture"))
            return complain("not freed", i, err.message);
        if (n_allocations <= i) break; /* there are no more */
        if (status != TERN_OK && (!err.message[0] || err.code != status))
            return complain("no message", i, err.message);
        if (status != TERN_OK && status != TERN_ERR_MEMORY && status != TERN_ERR_IO)
            return complain("another error", i, err.message);
        if (status == TERN_OK && result != expected) return complain("survived with another result", i, "");
        if (writes && read_out() != (status == TERN_OK ? expected_file : old_file))
            return complain("another file", i, err.message);
        n_hit++, n_survived += status == TERN_OK;
    }
    printf("%ld allocations failed, %ld of them survived, %ld left memory of libyaml's\n", n_hit, n_survived,
           n_left);
    return 0;
}

static long resident_pages(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages;
}

static int repeat(size_t number, const char *source, long count) {
    tern_error err;
    uint64_t result;
    long live = 0, bytes = 0, pages = 0;
    for (long i = 0; i < count; i++) {
        if (go(number, source, &result, &err) != TERN_OK) return complain("failed", i, err.message);
        if (i == count / 10) live = live_allocations(), bytes = live_bytes, pages = resident_pages();
    }
    const long more_pages = resident_pages() - pages;
    printf("left: %ld allocations, %ld mapped bytes, %ld pages\n", live_allocations() - live,
           live_bytes - bytes, more_pages);
    return live_allocations() != live || live_bytes != bytes || more_pages > 64;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stderr, NULL, _IONBF, 0);
    const long number = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    if (!memory_can_fail) return 77;
    if (argc < 4 || number < 1) return 2;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(argv[2], ways[i].name) != 0) continue;
        return strcmp(argv[1], "repeat") == 0 ? repeat(i, argv[3], number) : try_all(i, argv[3], number);
    }
    return 2;
}
