/* JSON text to jansson's values. jansson 2.14 goes on without a character that there was no memory for: it takes a good text for a
 * bad one, or for another one. Here that is an error of memory. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* As json_loadb, but NULL also when memory was out, and for a NUL byte, which jansson overlooks behind a number. */
json_t *tn_json_parse(const char *text, size_t n, size_t flags, json_error_t *error);

/* Whether a failure of it was one of memory. */
bool tn_json_no_memory(const json_error_t *error);

#endif
