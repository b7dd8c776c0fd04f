/* A host's whole way through the library while allocations fail, for a Python test.
 *
 *   allocations fail MODEL [STEP]   runs it once for each allocation (each STEP-th), which fails: an error must come out, and
 *                                   nothing be left
 *   allocations repeat MODEL COUNT  runs it again and again: nothing may be left, nor the process grow
 *
 * Allocations are malloc's family and mmap, of the library and those inside it; what the C library does itself is not counted. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tern.h"

/* The sanitizers bring an allocator of their own. */
#ifndef __SANITIZE_ADDRESS__

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

#pragma GCC visibility push(default) /* the C library must find these too */
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void *aligned_alloc(size_t alignment, size_t n);
void free(void *p);
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
int munmap(void *at, size_t n);
#pragma GCC visibility pop

static atomic_long n_made, n_live, live_bytes;
static atomic_long failing = -1; /* the number of the allocation that fails */

static bool fails(void) {
    return atomic_fetch_add(&n_made, 1) == failing;
}

static void *counted(void *p) {
    if (p) atomic_fetch_add(&n_live, 1);
    return p;
}

void *malloc(size_t n) {
    return fails() ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size) {
    return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n) {
    if (fails()) return NULL;
    void *q = __libc_realloc(p, n);
    return p ? q : counted(q);
}

void *aligned_alloc(size_t alignment, size_t n) {
    return fails() ? NULL : counted(__libc_memalign(alignment, n));
}

void free(void *p) {
    if (p) atomic_fetch_sub(&n_live, 1);
    __libc_free(p);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    if (fails()) return MAP_FAILED;
    void *p = (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
    if (p != MAP_FAILED) atomic_fetch_add(&live_bytes, (long)n);
    return p;
}

int munmap(void *at, size_t n) {
    atomic_fetch_sub(&live_bytes, (long)n);
    return (int)syscall(SYS_munmap, at, n);
}

/* What a way through makes; freed whatever was made. */
typedef struct host {
    tern_model *model;
    tern_session *session, *other;
    tern_template *chat_template;
    tern_chat *chat;
    tern_generator *generator;
    int32_t *ids;
    void *state;
    uint64_t tokens; /* a number made of all tokens generated */
} host;

static tern_status generate(host *h, const int32_t *ids, size_t n_ids, tern_error *err) {
    static const char grammar[] = "root ::= [a-z ]+ \".\"";
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.max_tokens = 6;
    options.grammar = grammar, options.n_grammar = strlen(grammar);
    tern_stop_reason stop = TERN_STOP_NONE;
    tern_status status = tern_generator_new(h->session, &options, ids, n_ids, &h->generator, err);
    while (status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(h->generator, &text, &n, &stop, err);
        h->tokens = h->tokens * 1000003 + (uint32_t)tern_generator_token(h->generator);
    }
    tern_generator_free(h->generator);
    h->generator = NULL;
    return status;
}

static tern_status chat(host *h, tern_error *err) {
    tern_template_options options;
    tern_chat_options chat_options;
    tern_chat_prompt prompt;
    tern_template_options_defaults(&options);
    options.model = h->model;
    tern_status status = tern_template_open(&options, &h->chat_template, err);
    tern_chat_options_defaults(&chat_options);
    chat_options.chat_template = h->chat_template;
    if (status == TERN_OK) status = tern_chat_new(h->session, &chat_options, &h->chat, err);
    if (status == TERN_OK) status = tern_chat_add(h->chat, "user", "in the sea", 10, err);
    if (status == TERN_OK) status = tern_chat_begin(h->chat, &prompt, err);
    return status == TERN_OK ? generate(h, prompt.ids, prompt.n_ids, err) : status;
}

static tern_status restore(host *h, const tern_session_options *options, tern_error *err) {
    size_t n;
    tern_status status = tern_session_save_memory(h->session, &h->state, &n, err);
    if (status == TERN_OK) status = tern_session_new(h->model, options, &h->other, err);
    if (status == TERN_OK) status = tern_session_load_memory(h->other, h->state, n, err);
    return status;
}

static tern_status go(host *h, const char *path, tern_error *err) {
    size_t n_ids;
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_threads = 1, options.n_ctx = 128;
    tern_status status = tern_model_open(path, NULL, &h->model, err);
    if (status == TERN_OK)
        status = tern_tokenize(h->model, "at the", 6, TERN_TOKENIZE_BOS, &h->ids, &n_ids, err);
    if (status == TERN_OK) status = tern_session_new(h->model, &options, &h->session, err);
    if (status == TERN_OK) status = tern_session_eval(h->session, h->ids, n_ids, 1, err);
    if (status == TERN_OK) status = generate(h, h->ids, n_ids, err);
    if (status == TERN_OK) status = chat(h, err);
    return status == TERN_OK ? restore(h, &options, err) : status;
}

static tern_status way(const char *path, uint64_t *tokens, tern_error *err) {
    host h = {0};
    const tern_status status = go(&h, path, err);
    tern_free(h.state);
    tern_generator_free(h.generator);
    tern_chat_free(h.chat);
    tern_template_free(h.chat_template);
    tern_session_free(h.other);
    tern_session_free(h.session);
    tern_free(h.ids);
    tern_model_close(h.model);
    *tokens = h.tokens;
    return status;
}

static int complain(const char *what, long n, const char *message) {
    fprintf(stderr, "allocation %ld: %s: %s\n", n, what, message);
    return 1;
}

/* libyaml 0.2.5 itself loses a node when memory runs out while it reads a document: that alone may be left. */
static int try_all(const char *path, long step) {
    tern_error err;
    long n_hit = 0, n_survived = 0, n_left = 0;
    uint64_t expected, tokens;
    if (way(path, &expected, &err) != TERN_OK) return complain("none failed", -1, err.message);
    for (long i = 0;; i += step) {
        const long live = n_live, bytes = live_bytes;
        memset(&err, 0, sizeof err);
        n_made = 0;
        failing = i;
        const tern_status status = way(path, &tokens, &err);
        failing = -1;
        const bool left = n_live != live || live_bytes != bytes;
        n_left += left;
        if (left && !strstr(err.message, "cannot read architecture"))
            return complain("not freed", i, err.message);
        if (n_made <= i) break; /* there are no more */
        if (status != TERN_OK && (!err.message[0] || err.code != status))
            return complain("no message", i, err.message);
        const bool jansson =
            strstr(err.message, "bad JSON") != NULL; /* takes a token without memory for a wrong one */
        if (status != TERN_OK && status != TERN_ERR_MEMORY && status != TERN_ERR_IO && !jansson)
            return complain("another error", i, err.message);
        if (status == TERN_OK && tokens != expected) return complain("survived with another text", i, "");
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

static int repeat(const char *path, long count) {
    tern_error err;
    uint64_t tokens;
    long live = 0, bytes = 0, pages = 0;
    for (long i = 0; i < count; i++) {
        if (way(path, &tokens, &err) != TERN_OK) return complain("failed", i, err.message);
        if (i == count / 10) live = n_live, bytes = live_bytes, pages = resident_pages();
    }
    const long more_pages = resident_pages() - pages;
    printf("left: %ld allocations, %ld mapped bytes, %ld pages\n", n_live - live, live_bytes - bytes,
           more_pages);
    return n_live != live || live_bytes != bytes || more_pages > 64;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stderr, NULL, _IONBF, 0);
    const long number = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    if (argc < 3 || number < 1) return 2;
    return strcmp(argv[1], "repeat") == 0 ? repeat(argv[2], number) : try_all(argv[2], number);
}

#else

int main(void) {
    return 77;
}

#endif
