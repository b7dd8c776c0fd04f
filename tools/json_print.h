/* JSON for programs that a person may look at too. */
#ifndef TN_TOOLS_JSON_PRINT_H
#define TN_TOOLS_JSON_PRINT_H

#include <stdio.h>

#include <jansson.h>

/* The value as text, for free(): what a terminal would obey, or show in another order than it stands, is written \uXXXX, which means the
 * same. NULL when memory is out. */
char *tn_json_text(const json_t *value, size_t flags);

/* Prints it with a newline behind it. Returns the exit code; a failed write is noticed when the stream is flushed. */
int tn_json_print(FILE *out, const json_t *value, size_t flags);

#endif
