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

tn_status tn_schema_check_kind(const tn_schema *c, const json_t *schema) {
    switch (json_typeof(schema)) {
    case JSON_TRUE:
    case JSON_OBJECT: return TN_OK;
    case JSON_FALSE: return tn_schema_bad(c, "no value is valid by 'false'");
    default: return tn_schema_bad(c, "expected an object, true or false");
    }
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

json_t *tn_schema_copy(const json_t *value) {
    json_t *copy = json_copy((json_t *)(uintptr_t)value);
    const bool whole =
        json_array_size(copy) == json_array_size(value) && json_object_size(copy) == json_object_size(value);
    if (copy && whole) return copy;
    json_decref(copy);
    return NULL;
}

/* A new value, noted if there was no memory for it. */
static json_t *made(tn_schema *c, json_t *value) {
    c->no_memory |= !value;
    return value;
}

/* Both schemas, to be merged when they are met. */
static json_t *both_of(tn_schema *c, const json_t *a, const json_t *b) {
    return made(c, json_pack("{s:[O,O]}", "allOf", a, b));
}

static json_t *merge_properties(tn_schema *c, const json_t *a, const json_t *b) {
    json_t *all = made(c, tn_schema_copy(a)), *value;
    const char *key;
    json_object_foreach((json_t *)b, key, value) {
        const json_t *own = json_object_get(all, key);
        c->no_memory |= json_object_set_new(all, key, own ? both_of(c, own, value) : json_incref(value)) != 0;
    }
    return all;
}

static bool contains(const json_t *array, const json_t *value) {
    for (size_t i = 0; i < json_array_size(array); i++)
        if (json_equal(json_array_get(array, i), value)) return true;
    return false;
}

static void append(tn_schema *c, json_t *array, json_t *value) {
    c->no_memory |= json_array_append(array, value) != 0;
}

/* The union of two arrays, or what is in both. */
static json_t *merge_arrays(tn_schema *c, const json_t *a, const json_t *b, bool in_both) {
    json_t *all = made(c, in_both ? json_array() : tn_schema_copy(a));
    for (size_t i = 0; all && i < json_array_size(b); i++)
        if (contains(a, json_array_get(b, i)) == in_both) append(c, all, json_array_get(b, i));
    return all;
}

static json_t *as_list(tn_schema *c, const json_t *types) {
    return made(c, json_is_array(types) ? tn_schema_copy(types) : json_pack("[O]", types));
}

/* Types as a list; "number" beside "integer" is "integer". */
static json_t *merge_types(tn_schema *c, const json_t *a, const json_t *b) {
    json_t *first = as_list(c, a), *second = as_list(c, b), *integer = made(c, json_string("integer"));
    json_t *number = made(c, json_string("number")), *common = merge_arrays(c, first, second, true);
    const bool whole = (contains(first, integer) && contains(second, number)) ||
                       (contains(second, integer) && contains(first, number));
    if (whole && !contains(common, integer)) append(c, common, integer);
    json_decref(first), json_decref(second), json_decref(integer), json_decref(number);
    return common;
}

static bool are_numbers(const json_t *a, const json_t *b) {
    return json_is_number(a) && json_is_number(b);
}

static json_t *the_greater(const json_t *a, const json_t *b, bool greater) {
    if (!are_numbers(a, b)) return NULL;
    return json_incref((json_t *)((json_number_value(a) >= json_number_value(b)) == greater ? a : b));
}

/* The value of a keyword that both have; NULL if they cannot be merged, or there was no memory to. */
static json_t *merge_values(tn_schema *c, const char *key, const json_t *a, const json_t *b) {
    if (json_equal(a, b)) return json_incref((json_t *)a);
    const bool objects = json_is_object(a) && json_is_object(b);
    const bool arrays = json_is_array(a) && json_is_array(b);
    if (!strcmp(key, "properties") && objects) return merge_properties(c, a, b);
    if (!strcmp(key, "required") && arrays) return merge_arrays(c, a, b, false);
    if (!strcmp(key, "enum") && arrays) return merge_arrays(c, a, b, true);
    if (!strcmp(key, "type")) return merge_types(c, a, b);
    if (!strcmp(key, "items")) return both_of(c, a, b);
    if (!strcmp(key, "additionalProperties") && (json_is_false(a) || json_is_false(b))) return json_false();
    if (!strcmp(key, "additionalProperties")) return both_of(c, a, b);
    if (!strncmp(key, "min", 3) || !strcmp(key, "exclusiveMinimum")) return the_greater(a, b, true);
    if (!strncmp(key, "max", 3) || !strcmp(key, "exclusiveMaximum")) return the_greater(a, b, false);
    return NULL;
}

static tn_status add_keyword(tn_schema *c, json_t *all, const char *key, json_t *value) {
    const json_t *own = json_object_get(all, key);
    if (tn_schema_is_annotation(key)) return TN_OK;
    json_t *merged = own ? merge_values(c, key, own, value) : json_incref(value);
    if (!merged && !c->no_memory) return conflict(c, key);
    return json_object_set_new(all, key, merged) || c->no_memory ? tn_schema_no_memory(c) : TN_OK;
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
    tn_status s = tn_schema_check_kind(c, schema);
    if (s || json_is_true(schema)) return s;
    s = tn_schema_deeper(c);
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

/* How many values const or enum has; *values is NULL for neither. */
static size_t count_values(const json_t *schema, const json_t **values) {
    const json_t *constant = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    *values = constant ? constant : json_is_array(list) ? list : NULL;
    return constant ? 1 : json_array_size(list);
}

/* Equal numbers may be written differently: 1 and 1.0. */
static bool may_equal(const json_t *a, const json_t *b) {
    if (are_numbers(a, b)) return json_number_value(a) == json_number_value(b);
    if (json_is_object(a) || json_is_array(a)) return json_typeof(a) == json_typeof(b);
    return json_equal(a, b);
}

static bool values_exclude(const json_t *a, const json_t *b) {
    const json_t *first, *second;
    const size_t n_first = count_values(a, &first), n_second = count_values(b, &second);
    const bool one_first = json_object_get(a, "const"), one_second = json_object_get(b, "const");
    bool exclude = first && second;
    for (size_t i = 0; exclude && i < n_first; i++)
        for (size_t j = 0; exclude && j < n_second; j++)
            exclude = !may_equal(one_first ? first : json_array_get(first, i),
                                 one_second ? second : json_array_get(second, j));
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
