/* JSON schemas (draft 2020-12) as grammars: every text that the grammar matches is valid by the schema.
 *
 * Held: type (lists too), enum, const, properties in their order with required, additionalProperties, items, prefixItems, minItems,
 * maxItems, minLength, maxLength, pattern (no look-around, no back references), format (date, time, date-time, uuid), minimum,
 * maximum and their exclusive forms, anyOf, oneOf where its alternatives exclude each other, allOf where it can be merged, and
 * $ref within the schema, recursion included. Annotations are passed over. Every other keyword is an error that names it.
 *
 * Not every valid text is matched: an object without additionalProperties has the named properties alone, numbers have at most 15
 * digits before and behind the point, white space is at most a space or a new line with indentation, and a schema that says
 * nothing of a type but has keywords of one is taken to mean that type. */
#ifndef TN_TEXT_SCHEMA_H
#define TN_TEXT_SCHEMA_H

#include <stddef.h>

#include "../base/status.h"

/* *grammar is GBNF, malloc'ed and NUL-terminated. Errors name the place by a JSON pointer. */
tn_status tn_schema_to_grammar(const char *schema, size_t n, char **grammar, tn_error *err);

#endif
