#include "json_read.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool memory_is_out; /* jansson 2.14 drops a character that there is no memory for, and goes on */

static void *allocate(size_t n) {
    void *p = malloc(n);
    if (!p) memory_is_out = true;
    return p;
}

static json_t *fail(json_t *value, json_error_t *error, const char *why) {
    json_decref(value);
    error->line = error->column = 1;
    snprintf(error->text, sizeof error->text, "%s", why);
    return NULL;
}

json_t *tn_json_read(const char *text, size_t n, size_t flags, json_error_t *error) {
    /* It would be taken for the end. */
    if (n && memchr(text, '\0', n)) return fail(NULL, error, "expected JSON, found a zero byte");
    json_malloc_t given_malloc;
    json_free_t given_free;
    json_get_alloc_funcs(&given_malloc, &given_free);
    json_set_alloc_funcs(allocate, given_free);
    memory_is_out = false;
    json_t *value = json_loadb(text, n, flags, error);
    json_set_alloc_funcs(given_malloc, given_free);
    return memory_is_out ? fail(value, error, "out of memory") : value;
}
