#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the memory that each thread has from its start, since what is made at the first use is memory, too. */
static _Thread_local bool was_refused __attribute__((tls_model("initial-exec")));

static void *allocate(size_t n) {
    void *p = malloc(n);
    was_refused |= !p;
    return p;
}

/* jansson has its functions for all threads: they are set before there are others, and taken back for a library that is unloaded. */
__attribute__((constructor)) static void watch_memory(void) {
    json_set_alloc_funcs(allocate, free);
}

__attribute__((destructor)) static void leave_memory(void) {
    json_malloc_t its_malloc;
    json_free_t its_free;
    json_get_alloc_funcs(&its_malloc, &its_free);
    if (its_malloc == allocate) json_set_alloc_funcs(malloc, its_free);
}

static json_t *fail(json_t *value, json_error_t *error, int line, int column, const char *why) {
    json_decref(value);
    error->line = line, error->column = column;
    snprintf(error->text, sizeof error->text, "%s", why);
    return NULL;
}

json_t *tn_json_parse(const char *text, size_t n, size_t flags, json_error_t *error) {
    const char *nul = n ? memchr(text, '\0', n) : NULL;
    if (nul) {
        int line = 1, column = 1;
        for (const char *c = text; c < nul; c++) column = *c == '\n' ? line++, 1 : column + 1;
        return fail(NULL, error, line, column, "a zero byte");
    }
    was_refused = false;
    json_t *value = json_loadb(text, n, flags, error);
    return was_refused ? fail(value, error, -1, -1, "out of memory") : value;
}

bool tn_json_no_memory(const json_error_t *error) {
    return error->line == -1 && strcmp(error->text, "out of memory") == 0;
}
