/* References followed, and several schemas made one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema_impl.h"

bool tn_schema_is_annotation(const char *keyword) {
    static const char *const annotations[] = {
        "$schema", "$id",      "$comment",   "$defs",    "definitions", "title",  "description",
        "default", "examples", "deprecated", "readOnly", "writeOnly",   "$anchor"};
    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++)
        if (strcmp(keyword, annotations[i]) == 0) return true;
    return false;
}

/* ---- References ------------------------------------------------------------------------------------------------------ */

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One part of a JSON pointer in a URI, up to the next '/': %HH, ~0 and ~1 are undone. Returns the end, or NULL. */
static const char *read_part(const char *at, char *part, size_t cap) {
    size_t n = 0;
    for (; *at && *at != '/'; at++) {
        char ch = *at;
        if (n + 1 == cap) return NULL;
        if (ch == '%' && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0) {
            ch = (char)(hex_value(at[1]) << 4 | hex_value(at[2]));
            at += 2;
        }
        if (ch == '~' && (at[1] == '0' || at[1] == '1')) ch = *++at == '0' ? '~' : '/';
        part[n++] = ch;
    }
    part[n] = '\0';
    return at;
}

static const json_t *find(const json_t *root, const char *ref) {
    char part[512];
    const json_t *here = root;
    const char *at = ref[0] == '#' ? ref + 1 : NULL;
    while (at && here && *at) {
        if (*at != '/' || !(at = read_part(at + 1, part, sizeof part))) return NULL;
        if (json_is_array(here))
            here = part[0] && !part[strspn(part, "0123456789")]
                       ? json_array_get(here, strtoul(part, NULL, 10))
                       : NULL;
        else
            here = json_object_get(here, part);
    }
    return at ? here : NULL;
}

bool tn_schema_is_plain_ref(const json_t *schema) {
    const char *key;
    json_t *value;
    bool found = false;
    json_object_foreach((json_t *)schema, key, value) {
        if (strcmp(key, "$ref") == 0 && json_is_string(value))
            found = true;
        else if (!tn_schema_is_annotation(key))
            return false;
    }
    return found;
}

tn_status tn_schema_follow(const tn_schema *c, const char *ref, const json_t **target) {
    enum { MAX_REFS = 100 };
    for (int i = 0; i < MAX_REFS; i++) {
        *target = ref ? find(c->root, ref) : NULL;
        if (!*target)
            return tn_schema_bad(c, "keyword '$ref': nothing in this schema is '%.100s'",
                                 ref ? ref : "no text");
        if (!tn_schema_is_plain_ref(*target)) return TN_OK;
        ref = json_string_value(json_object_get(*target, "$ref"));
    }
    return tn_schema_bad(c, "keyword '$ref': '%.100s' leads back to itself", ref);
}

/* ---- Merging keyword by keyword ------------------------------------------------------------------------------------------- */

static tn_status conflict(const tn_schema *c, const char *key) {
    return tn_schema_unsupported(c, key,
                                 "two of them cannot be merged (allOf, $ref or what stands beside anyOf)");
}

/* Both schemas, to be merged when they are met. */
static json_t *both_of(const json_t *a, const json_t *b) {
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

static json_t *merge_properties(const json_t *a, const json_t *b) {
    json_t *all = json_copy((json_t *)a), *value;
    const char *key;
    json_object_foreach((json_t *)b, key, value) {
        const json_t *own = json_object_get(all, key);
        if (json_object_set_new(all, key, own ? both_of(own, value) : json_incref(value))) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static bool contains(const json_t *array, const json_t *value) {
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_equal(json_array_get(array, i), value)) return true;
    return false;
}

/* The union of two arrays, or what is in both. */
static json_t *merge_arrays(const json_t *a, const json_t *b, bool in_both) {
    json_t *all = in_both ? json_array() : json_copy((json_t *)a);
    for (size_t i = 0; all && i < json_array_size(b); i++)
        if (contains(a, json_array_get(b, i)) == in_both) json_array_append(all, json_array_get(b, i));
    return all;
}

/* Types as a list; "number" beside "integer" is "integer". */
static json_t *merge_types(const json_t *a, const json_t *b) {
    json_t *first = json_is_array(a) ? json_copy((json_t *)a) : json_pack("[O]", a);
    json_t *second = json_is_array(b) ? json_copy((json_t *)b) : json_pack("[O]", b),
           *integer = json_string("integer");
    json_t *number = json_string("number"), *common = merge_arrays(first, second, true);
    const bool whole = (contains(first, integer) && contains(second, number)) ||
                       (contains(second, integer) && contains(first, number));
    if (whole && !contains(common, integer)) json_array_append(common, integer);
    json_decref(first), json_decref(second), json_decref(integer), json_decref(number);
    return common;
}

static json_t *the_greater(const json_t *a, const json_t *b, bool greater) {
    if (!json_is_number(a) || !json_is_number(b)) return NULL;
    return json_incref((json_t *)((json_number_value(a) >= json_number_value(b)) == greater ? a : b));
}

/* The value of a keyword that both have; NULL if they cannot be merged. */
static json_t *merge_values(const char *key, const json_t *a, const json_t *b) {
    if (json_equal(a, b)) return json_incref((json_t *)a);
    if (!strcmp(key, "properties") && json_is_object(a) && json_is_object(b)) return merge_properties(a, b);
    if (!strcmp(key, "required") && json_is_array(a) && json_is_array(b)) return merge_arrays(a, b, false);
    if (!strcmp(key, "enum") && json_is_array(a) && json_is_array(b)) return merge_arrays(a, b, true);
    if (!strcmp(key, "type")) return merge_types(a, b);
    if (!strcmp(key, "items")) return both_of(a, b);
    if (!strcmp(key, "additionalProperties") && (json_is_false(a) || json_is_false(b))) return json_false();
    if (!strcmp(key, "additionalProperties")) return both_of(a, b);
    if (!strncmp(key, "min", 3) || !strcmp(key, "exclusiveMinimum")) return the_greater(a, b, true);
    if (!strncmp(key, "max", 3) || !strcmp(key, "exclusiveMaximum")) return the_greater(a, b, false);
    return NULL;
}

static tn_status add_keyword(tn_schema *c, json_t *all, const char *key, json_t *value) {
    const json_t *own = json_object_get(all, key);
    if (tn_schema_is_annotation(key)) return TN_OK;
    json_t *merged = own ? merge_values(key, own, value) : json_incref(value);
    if (!merged) return conflict(c, key);
    return json_object_set_new(all, key, merged) ? tn_schema_no_memory(c) : TN_OK;
}

/* A schema that allows only its own properties (or gives the others a schema) must know all of the other's. */
static tn_status check_others(const tn_schema *c, const json_t *a, const json_t *b) {
    const json_t *others = json_object_get(a, "additionalProperties"),
                 *known = json_object_get(a, "properties");
    json_t *value;
    const char *key;
    if (others && !json_is_true(others)) {
        json_object_foreach(json_object_get(b, "properties"), key, value) {
            if (!json_object_get(known, key)) return conflict(c, "additionalProperties");
        }
    }
    /* items speaks of those behind the prefixItems of its own schema */
    const json_t *own = json_object_get(a, "prefixItems"), *further = json_object_get(b, "prefixItems");
    return json_object_get(a, "items") && json_array_size(further) > json_array_size(own)
               ? conflict(c, "items")
               : TN_OK;
}

static tn_status add_schema(tn_schema *c, json_t *all, const json_t *schema);

static tn_status add_parts(tn_schema *c, json_t *all, const json_t *schema) {
    const json_t *ref = json_object_get(schema, "$ref"), *parts = json_object_get(schema, "allOf"), *target;
    tn_status s;
    if (ref &&
        ((s = tn_schema_follow(c, json_string_value(ref), &target)) || (s = add_schema(c, all, target))))
        return s;
    if (parts && !json_is_array(parts)) return tn_schema_unsupported(c, "allOf", "expected an array");
    for (size_t i = 0; i < json_array_size(parts); i++)
        if ((s = add_schema(c, all, json_array_get(parts, i)))) return s;
    return TN_OK;
}

/* Adds a schema to the merged one: its own keywords, then what it refers to and the parts of its allOf. */
static tn_status add_schema(tn_schema *c, json_t *all, const json_t *schema) {
    const char *key;
    json_t *value;
    if (json_is_true(schema)) return TN_OK;
    if (json_is_false(schema)) return tn_schema_bad(c, "no value is valid by 'false'");
    if (!json_is_object(schema)) return tn_schema_bad(c, "expected an object, true or false");
    tn_status s = tn_schema_deeper(c);
    if (!s) s = check_others(c, all, schema);
    if (!s) s = check_others(c, schema, all);
    json_object_foreach((json_t *)schema, key, value) {
        if (s) break;
        if (strcmp(key, "$ref") != 0 && strcmp(key, "allOf") != 0) s = add_keyword(c, all, key, value);
    }
    if (!s) s = add_parts(c, all, schema);
    c->depth--;
    return s;
}

tn_status tn_schema_merge(tn_schema *c, const json_t *a, const json_t *b, const json_t **both) {
    json_t *all = json_object();
    if (!all || json_array_append_new(c->made, all)) return tn_schema_no_memory(c);
    tn_status s = add_schema(c, all, a);
    if (!s) s = add_schema(c, all, b);
    if (!s && json_is_array(json_object_get(all, "type")) &&
        json_array_size(json_object_get(all, "type")) == 0)
        s = tn_schema_bad(c, "the schemas of allOf have no type in common");
    *both = all;
    return s;
}

tn_status tn_schema_flatten(tn_schema *c, const json_t *schema, const json_t **flat) {
    *flat = schema;
    if (!json_object_get(schema, "allOf") && !json_object_get(schema, "$ref")) return TN_OK;
    return tn_schema_merge(c, schema, json_true(), flat);
}

/* ---- Exclusion --------------------------------------------------------------------------------------------------------- */

static const json_t *behind_ref(const tn_schema *c, const json_t *schema) {
    if (!tn_schema_is_plain_ref(schema)) return schema;
    tn_schema quiet = {.root = c->root};
    const json_t *target;
    return tn_schema_follow(&quiet, json_string_value(json_object_get(schema, "$ref")), &target) ? schema
                                                                                                 : target;
}

/* The values of const or enum, as a new array; NULL where there are none. */
static json_t *values_of(const json_t *schema) {
    json_t *constant = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");
    return constant ? json_pack("[O]", constant) : json_is_array(values) ? json_incref(values) : NULL;
}

/* Equal numbers may be written differently: 1 and 1.0. */
static bool may_equal(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_is_object(a) || json_is_array(a)) return json_typeof(a) == json_typeof(b);
    return json_equal(a, b);
}

static bool values_exclude(const json_t *a, const json_t *b) {
    json_t *first = values_of(a), *second = values_of(b);
    bool exclude = first && second;
    for (size_t i = 0; exclude && i < json_array_size(first); i++)
        for (size_t j = 0; exclude && j < json_array_size(second); j++)
            exclude = !may_equal(json_array_get(first, i), json_array_get(second, j));
    json_decref(first);
    json_decref(second);
    return exclude;
}

static bool said_types(const tn_schema *c, const json_t *schema, unsigned *types) {
    tn_schema quiet = {.root = c->root};
    return json_object_get(schema, "type") && tn_schema_types(&quiet, schema, types) == TN_OK;
}

/* Whether a requires a property that b does not allow. */
static bool requires_forbidden(const json_t *a, const json_t *b) {
    const json_t *required = json_object_get(a, "required"), *of_b = json_object_get(b, "properties");
    if (!json_is_false(json_object_get(b, "additionalProperties"))) return false;
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *key = json_string_value(json_array_get(required, i));
        if (key && !json_object_get(of_b, key)) return true;
    }
    return false;
}

/* A property that both require, and of which no value is valid in both. */
static bool properties_exclude(tn_schema *c, const json_t *a, const json_t *b, int depth) {
    const json_t *of_b = json_object_get(b, "properties"), *required_b = json_object_get(b, "required");
    const json_t *required = json_object_get(a, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const json_t *name = json_array_get(required, i);
        const char *key = json_string_value(name);
        if (!key) continue;
        const json_t *own = json_object_get(json_object_get(a, "properties"), key),
                     *other = json_object_get(of_b, key);
        if (own && other && contains(required_b, name) && tn_schema_exclude(c, own, other, depth + 1))
            return true;
    }
    return false;
}

bool tn_schema_exclude(tn_schema *c, const json_t *a, const json_t *b, int depth) {
    unsigned types_a, types_b;
    a = behind_ref(c, a), b = behind_ref(c, b);
    if (c->n_compared++ >= TN_SCHEMA_COMPARISONS) return false; /* nor after so many */
    if (depth > 8 || !json_is_object(a) || !json_is_object(b)) return json_is_false(a) || json_is_false(b);
    if (values_exclude(a, b)) return true;
    const bool said = said_types(c, a, &types_a) && said_types(c, b, &types_b);
    if (said && !(types_a & types_b)) return true;
    return said && types_a == TN_JSON_OBJECT && types_b == TN_JSON_OBJECT &&
           (requires_forbidden(a, b) || requires_forbidden(b, a) || properties_exclude(c, a, b, depth));
}
