/* What the files of the schema compiler share. */
#ifndef TN_TEXT_SCHEMA_IMPL_H
#define TN_TEXT_SCHEMA_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "schema.h"

/* A text that grows; `failed` once it is too long or memory is out. */
typedef struct tn_text_buffer {
    char *bytes;
    size_t n, cap;
    bool failed, no_memory;
} tn_text_buffer;

void tn_put(tn_text_buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As a literal of a grammar, quotes included; the text has no control characters. */
void tn_put_literal(tn_text_buffer *out, const char *text, size_t n);
/* One character of a class. */
void tn_put_class_char(tn_text_buffer *out, uint32_t ch);

enum { TN_MAX_REFS = 4096, TN_SCHEMA_DEPTH = 100, TN_SCHEMA_COMPARISONS = 100000 };

typedef struct tn_schema {
    json_t *root;
    json_t *made;                    /* an array that owns what merging made */
    tn_text_buffer rules;            /* finished rules */
    const json_t *refs[TN_MAX_REFS]; /* what rule "rN" is for */
    uint32_t n_refs, n_rules, n_steps, n_compared, depth;
    bool no_memory; /* for a value while merging */
    char path[256]; /* JSON pointer of the schema being read */
    size_t path_len;
    tn_error *err;
} tn_schema;

/* A rule's name. */
typedef struct tn_rule_name {
    char text[16];
} tn_rule_name;

tn_status tn_schema_bad(const tn_schema *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
tn_status tn_schema_unsupported(const tn_schema *c, const char *keyword, const char *why);
tn_status tn_schema_no_memory(const tn_schema *c);

/* Goes down to a member of the schema and comes back up. */
size_t tn_schema_enter(tn_schema *c, const char *key, const char *member);
void tn_schema_leave(tn_schema *c, size_t path_len);

/* Makes a rule of a schema (schema.c). */
tn_status tn_schema_rule(tn_schema *c, const json_t *schema, tn_rule_name *name);

/* Counts a schema within another; an error where there are too many, or too deep. c->depth is taken back by the caller. */
tn_status tn_schema_deeper(tn_schema *c);

/* Appends "NAME ::= BODY" and takes the body's memory (schema.c). */
void tn_schema_add_rule(tn_schema *c, const char *name, tn_text_buffer *body);
tn_rule_name tn_schema_new_name(tn_schema *c);

/* ---- Types (schema_types.c) -------------------------------------------------------------------------------------- */

enum {
    TN_JSON_NULL = 1,
    TN_JSON_BOOLEAN = 2,
    TN_JSON_INTEGER = 4,
    TN_JSON_NUMBER = 8, /* integers too */
    TN_JSON_STRING = 16,
    TN_JSON_ARRAY = 32,
    TN_JSON_OBJECT = 64,
    TN_JSON_ANY = 127 - 4,
};

/* The types that a schema is for: what it says, or what its keywords mean, or any. */
tn_status tn_schema_types(const tn_schema *c, const json_t *schema, unsigned *types);

/* Appends what values of one type look like. */
tn_status tn_schema_put_type(tn_schema *c, const json_t *schema, unsigned type, tn_text_buffer *out);

/* A keyword's value, a whole number >= 0; *given false where it is absent. */
tn_status tn_schema_count(const tn_schema *c, const json_t *schema, const char *keyword, bool *given,
                          uint32_t *count);

tn_status tn_schema_put_number(const tn_schema *c, const json_t *schema, bool whole,
                               tn_text_buffer *out);                                     /* schema_number.c */
tn_status tn_schema_put_object(tn_schema *c, const json_t *schema, tn_text_buffer *out); /* schema_object.c */

/* A pattern as what may stand between the quotes; returns NULL, or why it cannot be held (schema_pattern.c). */
const char *tn_schema_put_pattern(const char *pattern, size_t n, tn_text_buffer *out);

/* ---- Several schemas as one (schema_merge.c) ---------------------------------------------------------------------- */

bool tn_schema_is_annotation(const char *keyword);

/* An error for what is neither an object nor true. */
tn_status tn_schema_check_kind(const tn_schema *c, const json_t *schema);

/* What a $ref leads to, through further ones that stand alone. */
tn_status tn_schema_follow(const tn_schema *c, const char *ref, const json_t **target);

/* Whether the schema is a $ref with nothing beside it that counts. */
bool tn_schema_is_plain_ref(const json_t *schema);

/* The schema without allOf and $ref: the same one if it has neither, else a merged one that c owns. */
tn_status tn_schema_flatten(tn_schema *c, const json_t *schema, const json_t **flat);

/* A copy that lacks nothing, or NULL: json_copy leaves out what it has no memory for. */
json_t *tn_schema_copy(const json_t *value);

/* Both at once. */
tn_status tn_schema_merge(tn_schema *c, const json_t *a, const json_t *b, const json_t **both);

/* Whether no value is valid by both, as far as can be seen. */
bool tn_schema_exclude(tn_schema *c, const json_t *a, const json_t *b, int depth);

#endif
