#include "yaml_doc.h"

#include <string.h>

enum { MAX_DEPTH = 64, MAX_KEYS = 4096, MAX_ANCHORS = 1024 };

/* What one pass over the events counts. */
typedef struct counts {
    size_t depth, n_anchors;
    size_t n_nodes[MAX_DEPTH + 1]; /* in the open collection of each depth */
    bool is_mapping[MAX_DEPTH + 1];
} counts;

/* What is too much, or NULL. */
static const char *open_collection(counts *c, const yaml_char_t *anchor, bool is_mapping) {
    if (++c->depth > MAX_DEPTH) return "nested deeper than 64";
    c->n_nodes[c->depth] = 0;
    c->is_mapping[c->depth] = is_mapping;
    return anchor && ++c->n_anchors > MAX_ANCHORS ? "more than 1024 anchors" : NULL;
}

static const char *count_event(counts *c, const yaml_event_t *e) {
    switch (e->type) {
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_ALIAS_EVENT:
        if (++c->n_nodes[c->depth] > 2 * MAX_KEYS && c->is_mapping[c->depth])
            return "more than 4096 keys in a mapping";
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: c->depth--; break;
    default: break;
    }
    if (e->type == YAML_SEQUENCE_START_EVENT) return open_collection(c, e->data.sequence_start.anchor, false);
    if (e->type == YAML_MAPPING_START_EVENT) return open_collection(c, e->data.mapping_start.anchor, true);
    if (e->type == YAML_SCALAR_EVENT && e->data.scalar.anchor && ++c->n_anchors > MAX_ANCHORS)
        return "more than 1024 anchors";
    return NULL;
}

static void parser_problem(const yaml_parser_t *parser, tn_yaml_problem *out) {
    *out = (tn_yaml_problem){parser->problem, parser->problem_mark.line + 1, parser->problem_mark.column + 1};
}

/* Directives are compared with each other too; no text of ours has one. */
static bool has_directive(const char *text, size_t size, tn_yaml_problem *out) {
    size_t line = 1;
    for (const char *at = text, *end = text + size; at && at < end; line++) {
        if (*at == '%') {
            *out = (tn_yaml_problem){"expected no directive", line, 1};
            return true;
        }
        at = memchr(at, '\n', (size_t)(end - at));
        if (at) at++;
    }
    return false;
}

/* Whether the first document can be loaded in good time; the parser is read up to its end. */
static bool within_bounds(yaml_parser_t *parser, tn_yaml_problem *out) {
    counts c = {0};
    for (bool ended = false; !ended;) {
        yaml_event_t e;
        if (!yaml_parser_parse(parser, &e)) {
            parser_problem(parser, out);
            return false;
        }
        ended = e.type == YAML_DOCUMENT_END_EVENT || e.type == YAML_STREAM_END_EVENT;
        const char *why = count_event(&c, &e);
        if (why) *out = (tn_yaml_problem){why, e.start_mark.line + 1, e.start_mark.column + 1};
        yaml_event_delete(&e);
        if (why) return false;
    }
    return true;
}

bool tn_yaml_load(const char *text, size_t size, yaml_document_t *out, tn_yaml_problem *problem) {
    bool good = !has_directive(text, size, problem);
    for (int pass = 0; good && pass < 2; pass++) {
        yaml_parser_t parser;
        *problem = (tn_yaml_problem){0};
        if (!yaml_parser_initialize(&parser)) return false;
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
        good = pass == 0 ? within_bounds(&parser, problem) : yaml_parser_load(&parser, out);
        if (!good && pass == 1) parser_problem(&parser, problem);
        yaml_parser_delete(&parser);
    }
    return good;
}
