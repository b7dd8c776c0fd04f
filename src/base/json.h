/* JSON text to values, never to others than the text has: jansson 2.14 goes on without a character of a string that there was no
 * memory for. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* As json_loadb. NULL when the text is bad, and when memory is out. */
json_t *tn_json_parse(const char *text, size_t n, size_t flags, json_error_t *error);

/* Whether a failure of it was one of memory: nothing was found wrong. */
bool tn_json_no_memory(const json_error_t *error);

#endif
