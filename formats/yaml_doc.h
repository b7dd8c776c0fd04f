/* YAML documents from text that may be anything. libyaml's time grows with the square of the nesting, of the anchors and of the
 * keys of a mapping, which it does not bound: here they are, long before that matters. */
#ifndef TN_FORMATS_YAML_DOC_H
#define TN_FORMATS_YAML_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

/* Why a text is no document, and where, from 1. */
typedef struct tn_yaml_problem {
    const char *text; /* NULL: out of memory */
    size_t line, column;
} tn_yaml_problem;

/* The first document of the text, to be freed with yaml_document_delete if true is returned. */
bool tn_yaml_load(const char *text, size_t size, yaml_document_t *out, tn_yaml_problem *problem);

#endif
