/* Types but for numbers and objects. */
#include <stdio.h>
#include <string.h>

#include "schema_impl.h"

static const struct {
    const char *name;
    unsigned type;
} type_names[] = {{"null", TN_JSON_NULL},       {"boolean", TN_JSON_BOOLEAN},
                  {"integer", TN_JSON_INTEGER}, {"number", TN_JSON_NUMBER | TN_JSON_INTEGER},
                  {"string", TN_JSON_STRING},   {"array", TN_JSON_ARRAY},
                  {"object", TN_JSON_OBJECT}};

static const struct {
    const char *keyword;
    unsigned type;
} meant[] = {{"properties", TN_JSON_OBJECT},
             {"required", TN_JSON_OBJECT},
             {"additionalProperties", TN_JSON_OBJECT},
             {"items", TN_JSON_ARRAY},
             {"prefixItems", TN_JSON_ARRAY},
             {"minItems", TN_JSON_ARRAY},
             {"maxItems", TN_JSON_ARRAY},
             {"minLength", TN_JSON_STRING},
             {"maxLength", TN_JSON_STRING},
             {"pattern", TN_JSON_STRING},
             {"format", TN_JSON_STRING},
             {"minimum", TN_JSON_NUMBER},
             {"maximum", TN_JSON_NUMBER},
             {"exclusiveMinimum", TN_JSON_NUMBER},
             {"exclusiveMaximum", TN_JSON_NUMBER}};

static bool add_type(const json_t *name, unsigned *types) {
    const char *text = json_string_value(name);
    for (size_t i = 0; text && i < sizeof type_names / sizeof *type_names; i++)
        if (strcmp(text, type_names[i].name) == 0) {
            *types |= type_names[i].type;
            return true;
        }
    return false;
}

tn_status tn_schema_types(const tn_schema *c, const json_t *schema, unsigned *types) {
    const json_t *type = json_object_get(schema, "type");
    bool known = true;
    *types = 0;
    if (json_is_array(type)) {
        for (size_t i = 0; i < json_array_size(type); i++)
            known = known && add_type(json_array_get(type, i), types);
        known = known && json_array_size(type) > 0;
    } else if (type) {
        known = add_type(type, types);
    }
    if (!known) return tn_schema_unsupported(c, "type", "expected the name of a type, or an array of them");
    if (*types) return TN_OK;
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (json_object_get(schema, meant[i].keyword)) *types |= meant[i].type;
    if (!*types) *types = TN_JSON_ANY | TN_JSON_INTEGER;
    return TN_OK;
}

tn_status tn_schema_count(const tn_schema *c, const json_t *schema, const char *keyword, bool *given,
                          uint32_t *count) {
    enum { MOST = 10000 };
    const json_t *value = json_object_get(schema, keyword);
    *given = value != NULL;
    *count = 0;
    if (!value) return TN_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return tn_schema_unsupported(c, keyword, "expected a whole number >= 0");
    if (json_integer_value(value) > MOST) {
        if (keyword[1] == 'i') return tn_schema_unsupported(c, keyword, "expected at most 10000");
        *given = false; /* a greatest number above what is likely to be made */
        return TN_OK;
    }
    *count = (uint32_t)json_integer_value(value);
    return TN_OK;
}

/* ---- Strings -------------------------------------------------------------------------------------------------------- */

#define DATE                                                                                                 \
    "[12] [0-9]{3} \"-\" (\"02-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8]) | "                              \
    "(\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | "                                    \
    "(\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]))"
#define TIME                                                                                                 \
    "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\".\" [0-9]{1,6})? "                    \
    "(\"Z\" | [+-] ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9])"

static const struct {
    const char *name, *body;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE " \"T\" " TIME},
    {"uuid", "hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}"},
};

static tn_status put_format(const tn_schema *c, const json_t *format, tn_text_buffer *out) {
    const char *name = json_string_value(format);
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) != 0) continue;
        tn_put(out, "\"\\\"\" %s \"\\\"\"", formats[i].body);
        return TN_OK;
    }
    return tn_schema_bad(c, "keyword 'format': expected date, time, date-time or uuid, found '%.60s'",
                         name ? name : "no text");
}

static tn_status put_string(const tn_schema *c, const json_t *schema, tn_text_buffer *out) {
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    bool has_least, has_most;
    uint32_t least, most;
    tn_status s;
    if ((s = tn_schema_count(c, schema, "minLength", &has_least, &least)) ||
        (s = tn_schema_count(c, schema, "maxLength", &has_most, &most)))
        return s;
    if ((pattern != NULL) + (format != NULL) + (has_least || has_most) > 1)
        return tn_schema_bad(c, "keywords 'pattern', 'format' and lengths: not supported beside each other");
    if (format) return put_format(c, format, out);
    if (pattern) {
        if (!json_is_string(pattern)) return tn_schema_unsupported(c, "pattern", "expected a text");
        tn_put(out, "\"\\\"\" (");
        const char *why = tn_schema_put_pattern(json_string_value(pattern), json_string_length(pattern), out);
        tn_put(out, ") \"\\\"\"");
        return why ? tn_schema_unsupported(c, "pattern", why) : TN_OK;
    }
    if (has_most && most < least) return tn_schema_bad(c, "'maxLength' is below 'minLength'");
    if (has_most)
        tn_put(out, "\"\\\"\" char{%u,%u} \"\\\"\"", least, most);
    else if (least)
        tn_put(out, "\"\\\"\" char{%u,} \"\\\"\"", least);
    else
        tn_put(out, "string");
    return TN_OK;
}

/* ---- Arrays ----------------------------------------------------------------------------------------------------------- */

typedef struct tn_bounds {
    uint32_t least, most;
    bool bounded;
} tn_bounds;

/* The first items by their places, each with what parts it from the next; returns how many. */
static tn_status put_prefix(tn_schema *c, const json_t *prefix, const tn_bounds *b, tn_text_buffer *out,
                            uint32_t *n) {
    for (*n = 0; *n < json_array_size(prefix) && !(b->bounded && *n >= b->most); ++*n) {
        tn_rule_name name;
        char index[16];
        snprintf(index, sizeof index, "%u", *n);
        const size_t up = tn_schema_enter(c, "prefixItems", index);
        const tn_status s = tn_schema_rule(c, json_array_get(prefix, *n), &name);
        if (s) return s;
        tn_schema_leave(c, up);
        tn_put(out, "%s%s", *n ? " sep " : "", name.text);
    }
    return TN_OK;
}

/* From least to most further items, behind n others. */
static void put_rest(const char *item, tn_bounds b, bool first, tn_text_buffer *out) {
    const bool optional = b.least == 0;
    if (b.bounded && b.most == 0) return;
    if (first) {
        tn_put(out, "%s%s ", optional ? "(" : "", item);
        b.least -= b.least > 0;
        b.most -= b.bounded;
    }
    tn_put(out, b.bounded ? " (sep %s){%u,%u}" : " (sep %s){%u,}", item, b.least, b.most);
    if (first && optional) tn_put(out, ")?");
}

static tn_status put_array(tn_schema *c, const json_t *schema, tn_text_buffer *out) {
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    tn_bounds b = {0};
    bool given;
    uint32_t n = 0;
    tn_rule_name name = {"value"};
    tn_status s;
    if ((s = tn_schema_count(c, schema, "minItems", &given, &b.least)) ||
        (s = tn_schema_count(c, schema, "maxItems", &b.bounded, &b.most)))
        return s;
    if (b.bounded && b.most < b.least) return tn_schema_bad(c, "'maxItems' is below 'minItems'");
    if (prefix && !json_is_array(prefix)) return tn_schema_unsupported(c, "prefixItems", "expected an array");
    tn_put(out, "\"[\" ws ");
    if ((s = put_prefix(c, prefix, &b, out, &n))) return s;
    b.least = b.least > n ? b.least - n : 0;
    b.most = b.bounded ? b.most - n : 0;
    if (json_is_false(items) || (!items && prefix)) { /* no more than must be */
        if (json_is_false(items) && b.least)
            return tn_schema_bad(c, "'minItems' is above the number of 'prefixItems'");
        b.bounded = true;
        b.most = b.least;
    }
    if (items && !json_is_false(items)) {
        const size_t up = tn_schema_enter(c, "items", "");
        if ((s = tn_schema_rule(c, items, &name))) return s;
        tn_schema_leave(c, up);
    }
    put_rest(name.text, b, n == 0, out);
    tn_put(out, " ws \"]\"");
    return TN_OK;
}

tn_status tn_schema_put_type(tn_schema *c, const json_t *schema, unsigned type, tn_text_buffer *out) {
    switch (type) {
    case TN_JSON_NULL: tn_put(out, "\"null\""); return TN_OK;
    case TN_JSON_BOOLEAN: tn_put(out, "\"true\" | \"false\""); return TN_OK;
    case TN_JSON_INTEGER: return tn_schema_put_number(c, schema, true, out);
    case TN_JSON_NUMBER: return tn_schema_put_number(c, schema, false, out);
    case TN_JSON_STRING: return put_string(c, schema, out);
    case TN_JSON_ARRAY: return put_array(c, schema, out);
    default: return tn_schema_put_object(c, schema, out);
    }
}
