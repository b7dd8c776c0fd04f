/* Chat templates: the Jinja that models ship, rendered as Python's jinja2 does in transformers' set-up: the immutable
 * sandbox, trim_blocks, lstrip_blocks, loop controls, the generation tag, a plain tojson, raise_exception, strftime_now.
 *
 * A template cannot reach anything but the variables it is given and the clock. Steps, depth, memory and output have
 * budgets; what would exceed one is an error. Integers are 64 bits; a result that needs more is an error.
 *
 * Missing, since no chat template uses them: the tags include, import, from, extends and autoescape; scoped and required
 * blocks; the filters pprint, random, urlize and wordwrap; lipsum, self and super; encode, maketrans and translate of
 * strings; attributes of numbers; %f of strftime_now. striptags knows the common character references alone.
 */
#ifndef TN_TEXT_TEMPLATE_H
#define TN_TEXT_TEMPLATE_H

#include <stddef.h>

#include <jansson.h>

#include "../base/status.h"
#include "range.h"

typedef struct tn_template tn_template; /* immutable after parse, shareable between threads */

/* The source is copied. Errors name the line. */
tn_status tn_template_parse(const char *source, size_t n, tn_template **out, tn_error *err);
void tn_template_free(tn_template *t); /* NULL is fine */

/* Free with tn_rendered_free. */
typedef struct tn_rendered {
    char *text; /* n bytes and a NUL */
    size_t n;
    /* Where the text came from the strings of `variables`, not from the template's own text or from `trusted`. Every filter
     * and method keeps it byte by byte. A `role` that is one word is no such string: templates make control tokens of it. */
    tn_range_pair *data;
    size_t n_data;
} tn_rendered;

/* Two objects, or NULL: variables of the caller, and variables whose text may hold control tokens (bos_token); where
 * both have a name, the first counts. The objects must not change meanwhile. */
tn_status tn_template_render(const tn_template *t, const json_t *variables, const json_t *trusted,
                             tn_rendered *out, tn_error *err);
void tn_rendered_free(tn_rendered *rendered);

#endif
