/* Patterns of names. */
#ifndef TN_BASE_MATCH_H
#define TN_BASE_MATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the pattern matches all n bytes of the name: '*' any number of bytes, '?' one, every other itself. */
bool tn_match(const char *pattern, const char *name, size_t n);

#endif
