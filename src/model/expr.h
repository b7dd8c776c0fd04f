/* The expressions of architecture descriptions: numbers and names, + - * / %, comparisons, && || !, parentheses, and
 * the functions if(condition, a, b), sqrt(x), log(x), pow(x, y), floor(x), min(a, b), max(a, b). All values are doubles; truth is non-zero.
 * Both arms of `if` are evaluated. Nesting is limited. */
#ifndef TN_MODEL_EXPR_H
#define TN_MODEL_EXPR_H

#include <stdbool.h>
#include <stddef.h>

/* Looks up a name of n bytes (letters, digits, '_' and '.'); false if there is none. */
typedef bool tn_expr_lookup(const void *user, const char *name, size_t n, double *value);

/* Evaluates text. On failure returns false and *why (constant text or a pointer into `text`) says why. */
bool tn_expr_eval(const char *text, tn_expr_lookup *lookup, const void *user, double *value,
                  const char **why);

#endif
