/* JSON text to jansson's values. jansson 2.14's own parser goes on without a character that there was no memory for: it takes a good
 * text for a bad one, or for another one. This one says what happened. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum { TN_JSON_DEPTH = 2048 }; /* values inside each other, as in jansson */

/* As json_loadb, with its flags JSON_DECODE_ANY, JSON_ALLOW_NUL and JSON_REJECT_DUPLICATES: NULL when the text is bad, and when memory
 * is out. error: text, line and column, both from 1 on, columns in characters. */
json_t *tn_json_parse(const char *text, size_t n, size_t flags, json_error_t *error);

/* Whether a failure of it was one of memory. */
bool tn_json_no_memory(const json_error_t *error);

#endif
