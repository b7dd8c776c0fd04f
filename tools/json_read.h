/* JSON text that a command reads. */
#ifndef TN_JSON_READ_H
#define TN_JSON_READ_H

#include <jansson.h>
#include <stddef.h>

/* As json_loadb, but never a value that lacks a character, nor a complaint of a good text, because memory was out: NULL then, and the
 * error's text says so. For one thread. */
json_t *tn_json_read(const char *text, size_t n, size_t flags, json_error_t *error);

#endif
