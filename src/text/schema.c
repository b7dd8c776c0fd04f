/* From a schema to rules: what is common to all types, references, alternatives. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "schema_impl.h"

enum { MAX_GRAMMAR_BYTES = 8 << 20 };

/* What every schema may use. A surrogate by itself is no character, so \uD800 to \uDFFF are left out. */
static const char common_rules[] =
    "ws ::= (\" \" | \"\\n\" [ \\t]{0,24})?\n"
    "sep ::= \",\" ws\n"
    "colon ::= \":\" ws\n"
    "hex ::= [0-9a-fA-F]\n"
    "char ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9A-Ca-cE-Fe-f] hex hex hex | "
    "[Dd] [0-7] hex hex))\n"
    "plain ::= [^\"\\\\\\x00-\\x1F\\x7F]\n"
    "any-char ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\\\"\" | \"\\\\\\\\\"\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14})\n"
    "number ::= integer (\".\" [0-9]{1,15})? ([eE] [+-]? [0-9]{1,2})?\n"
    "member ::= string colon value\n"
    "object ::= \"{\" ws (member (sep member)*)? ws \"}\"\n"
    "array ::= \"[\" ws (value (sep value)*)? ws \"]\"\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n";

/* ---- Text ------------------------------------------------------------------------------------------------------ */

static bool reserve(tn_text_buffer *out, size_t more) {
    if (out->failed || out->n + more > MAX_GRAMMAR_BYTES) {
        out->failed = true;
        return false;
    }
    if (out->n + more < out->cap) return true;
    const size_t cap = 2 * out->cap + more + 64;
    char *bytes = realloc(out->bytes, cap);
    if (!bytes) {
        out->failed = out->no_memory = true;
        return false;
    }
    out->bytes = bytes;
    out->cap = cap;
    return true;
}

void tn_put(tn_text_buffer *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) out->failed = out->no_memory = true;
    if (n < 0 || !reserve(out, (size_t)n + 1)) return;
    va_start(args, format);
    vsnprintf(out->bytes + out->n, (size_t)n + 1, format, args);
    va_end(args);
    out->n += (size_t)n;
}

void tn_put_literal(tn_text_buffer *out, const char *text, size_t n) {
    if (!reserve(out, 2 * n + 3)) return;
    char *at = out->bytes + out->n;
    *at++ = '"';
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\') *at++ = '\\';
        *at++ = text[i];
    }
    *at++ = '"';
    *at = '\0';
    out->n = (size_t)(at - out->bytes);
}

void tn_put_class_char(tn_text_buffer *out, uint32_t ch) {
    tn_put(out, ch < 0x10000 ? "\\u%04X" : "\\U%08X", ch);
}

/* ---- Errors and places ------------------------------------------------------------------------------------------ */

tn_status tn_schema_bad(const tn_schema *c, const char *format, ...) {
    char why[300];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return tn_fail(c->err, TN_ERR_UNSUPPORTED, "bad JSON schema", c->path_len ? c->path : "#", "%s", why);
}

tn_status tn_schema_unsupported(const tn_schema *c, const char *keyword, const char *why) {
    return tn_schema_bad(c, "keyword '%.60s': %s", keyword, why);
}

tn_status tn_schema_no_memory(const tn_schema *c) {
    return tn_fail(c->err, TN_ERR_MEMORY, "bad JSON schema", NULL, "out of memory");
}

size_t tn_schema_enter(tn_schema *c, const char *key, const char *member) {
    const size_t before = c->path_len, left = sizeof c->path - before;
    const int n =
        snprintf(c->path + before, left, "%s/%s%s%s", before ? "" : "#", key, *member ? "/" : "", member);
    c->path_len = n > 0 && (size_t)n < left ? before + (size_t)n : sizeof c->path - 1;
    return before;
}

void tn_schema_leave(tn_schema *c, size_t path_len) {
    c->path_len = path_len;
    c->path[path_len] = '\0';
}

tn_rule_name tn_schema_new_name(tn_schema *c) {
    tn_rule_name name;
    snprintf(name.text, sizeof name.text, "s%u", c->n_rules++);
    return name;
}

void tn_schema_add_rule(tn_schema *c, const char *name, tn_text_buffer *body) {
    c->rules.failed |= body->failed, c->rules.no_memory |= body->no_memory;
    tn_put(&c->rules, "%s ::= %s\n", name, body->n ? body->bytes : "\"\"");
    free(body->bytes);
    *body = (tn_text_buffer){0};
}

/* ---- Keywords ---------------------------------------------------------------------------------------------------- */

static const char *const keywords[] = {"type",
                                       "enum",
                                       "const",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "items",
                                       "prefixItems",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       "minimum",
                                       "maximum",
                                       "anyOf",
                                       "oneOf",
                                       "allOf",
                                       "$ref",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "uniqueItems",
                                       NULL};

static tn_status check_keywords(const tn_schema *c, const json_t *schema) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)schema, key, value) {
        bool known = tn_schema_is_annotation(key);
        for (size_t i = 0; keywords[i] && !known; i++) known = strcmp(key, keywords[i]) == 0;
        if (!known) return tn_schema_unsupported(c, key, "not supported");
        if (strcmp(key, "uniqueItems") == 0 && !json_is_false(value))
            return tn_schema_unsupported(c, key, "not supported");
    }
    return TN_OK;
}

/* ---- Values and alternatives --------------------------------------------------------------------------------------- */

static unsigned type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return TN_JSON_OBJECT;
    case JSON_ARRAY: return TN_JSON_ARRAY;
    case JSON_STRING: return TN_JSON_STRING;
    case JSON_INTEGER: return TN_JSON_INTEGER | TN_JSON_NUMBER;
    case JSON_REAL: return TN_JSON_NUMBER;
    case JSON_NULL: return TN_JSON_NULL;
    default: return TN_JSON_BOOLEAN;
    }
}

static tn_status put_value(const tn_schema *c, const json_t *value, tn_text_buffer *out) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!text) return tn_schema_no_memory(c);
    tn_put_literal(out, text, strlen(text));
    free(text);
    return TN_OK;
}

/* The values of enum or const that are of the schema's types. Of further keywords nothing is checked: they are refused. */
static tn_status put_values(const tn_schema *c, const json_t *schema, const json_t *values,
                            tn_text_buffer *out) {
    unsigned types;
    size_t i;
    const json_t *value;
    const char *key;
    json_t *other;
    tn_status s = tn_schema_types(c, schema, &types);
    if (s) return s;
    json_object_foreach((json_t *)schema, key, other) {
        if (strcmp(key, "type") && strcmp(key, "enum") && strcmp(key, "const") &&
            !tn_schema_is_annotation(key))
            return tn_schema_unsupported(c, key, "not supported beside 'enum' or 'const'");
    }
    bool any = false;
    for (i = 0; i < json_array_size(values); i++) {
        value = json_array_get(values, i);
        if (!(type_of(value) & types)) continue;
        if (any) tn_put(out, " | ");
        if ((s = put_value(c, value, out))) return s;
        any = true;
    }
    return any ? TN_OK : tn_schema_bad(c, "no value of 'enum' or 'const' is valid");
}

static tn_status put_types(tn_schema *c, const json_t *schema, tn_text_buffer *out) {
    unsigned types;
    tn_status s = tn_schema_types(c, schema, &types);
    if (s) return s;
    if (types & TN_JSON_NUMBER) types &= ~(unsigned)TN_JSON_INTEGER;
    if (types == TN_JSON_ANY && !json_object_get(schema, "type")) {
        tn_put(out, "value");
        return TN_OK;
    }
    bool any = false;
    for (unsigned type = 1; type <= TN_JSON_OBJECT; type <<= 1) {
        if (!(types & type)) continue;
        if (any) tn_put(out, " | ");
        if ((s = tn_schema_put_type(c, schema, type, out))) return s;
        any = true;
    }
    return TN_OK;
}

/* Whether any two alternatives of a oneOf may hold at once: then one alone cannot be promised. */
static tn_status check_exclusion(tn_schema *c, const json_t *alternatives) {
    for (size_t i = 0; i < json_array_size(alternatives); i++)
        for (size_t j = 0; j < i; j++)
            if (!tn_schema_exclude(c, json_array_get(alternatives, j), json_array_get(alternatives, i), 0))
                return tn_schema_bad(
                    c, "keyword 'oneOf': alternatives %zu and %zu may hold at once (anyOf may be meant)", j,
                    i);
    return TN_OK;
}

/* Each alternative together with what stands beside anyOf or oneOf. */
static tn_status put_alternatives(tn_schema *c, const json_t *schema, const char *keyword,
                                  tn_text_buffer *out) {
    const json_t *alternatives = json_object_get(schema, keyword);
    tn_status s;
    if (json_array_size(alternatives) == 0)
        return tn_schema_unsupported(c, keyword, "expected an array with at least one schema");
    if (keyword[0] == 'o' && (s = check_exclusion(c, alternatives))) return s;
    json_t *beside = tn_schema_copy(schema);
    if (!beside || json_array_append_new(c->made, beside)) return tn_schema_no_memory(c);
    json_object_del(beside, keyword);
    bool alone = true;
    const char *key;
    json_t *value;
    json_object_foreach(beside, key, value) alone = alone && tn_schema_is_annotation(key);
    for (size_t i = 0; i < json_array_size(alternatives); i++) {
        const json_t *one = json_array_get(alternatives, i);
        tn_rule_name name;
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        const size_t up = tn_schema_enter(c, keyword, index);
        if (!alone && (s = tn_schema_merge(c, beside, one, &one))) return s;
        if ((s = tn_schema_rule(c, one, &name))) return s;
        tn_schema_leave(c, up);
        tn_put(out, "%s%s", i ? " | " : "", name.text);
    }
    return TN_OK;
}

/* ---- Schemas -------------------------------------------------------------------------------------------------------- */

static tn_status ref_rule(tn_schema *c, const char *ref, tn_rule_name *name) {
    const json_t *target;
    tn_status s = tn_schema_follow(c, ref, &target);
    if (s) return s;
    uint32_t i = 0;
    while (i < c->n_refs && c->refs[i] != target) i++;
    if (i == TN_MAX_REFS)
        return tn_schema_bad(c, "keyword '$ref': more than %d schemas are referred to", TN_MAX_REFS);
    if (i == c->n_refs) c->refs[c->n_refs++] = target;
    snprintf(name->text, sizeof name->text, "r%u", i);
    return TN_OK;
}

static tn_status put_schema(tn_schema *c, const json_t *schema, tn_text_buffer *out) {
    const json_t *values = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    tn_status s;
    if (json_object_get(schema, "anyOf") && json_object_get(schema, "oneOf"))
        return tn_schema_bad(c, "keyword 'oneOf': not supported beside 'anyOf'");
    if (json_object_get(schema, "anyOf")) return put_alternatives(c, schema, "anyOf", out);
    if (json_object_get(schema, "oneOf")) return put_alternatives(c, schema, "oneOf", out);
    if (values && !json_is_array(values)) return tn_schema_unsupported(c, "enum", "expected an array");
    if (values && constant) return tn_schema_unsupported(c, "enum", "not supported beside 'const'");
    if (values) return put_values(c, schema, values, out);
    if (!constant) return put_types(c, schema, out);
    json_t *one = json_pack("[O]", constant);
    if (!one) return tn_schema_no_memory(c);
    s = put_values(c, schema, one, out);
    json_decref(one);
    return s;
}

static tn_status put_any_schema(tn_schema *c, const json_t *schema, tn_text_buffer *out) {
    tn_status s;
    if (json_is_true(schema)) {
        tn_put(out, "value");
        return TN_OK;
    }
    if ((s = tn_schema_check_kind(c, schema)) || (s = check_keywords(c, schema)) ||
        (s = tn_schema_flatten(c, schema, &schema)) || (s = check_keywords(c, schema)))
        return s;
    return put_schema(c, schema, out);
}

tn_status tn_schema_deeper(tn_schema *c) {
    enum { MAX_STEPS = 20000 };
    if (++c->depth > TN_SCHEMA_DEPTH)
        return tn_schema_bad(c, "nested deeper than %d, or a $ref that leads back to itself",
                             TN_SCHEMA_DEPTH);
    return ++c->n_steps > MAX_STEPS ? tn_schema_bad(c, "more than %d schemas in it", MAX_STEPS) : TN_OK;
}

tn_status tn_schema_rule(tn_schema *c, const json_t *schema, tn_rule_name *name) {
    if (tn_schema_is_plain_ref(schema))
        return ref_rule(c, json_string_value(json_object_get(schema, "$ref")), name);
    tn_text_buffer body = {0};
    *name = tn_schema_new_name(c);
    tn_status s = tn_schema_deeper(c);
    if (!s) s = put_any_schema(c, schema, &body);
    c->depth--;
    if (s) {
        free(body.bytes);
        return s;
    }
    tn_schema_add_rule(c, name->text, &body);
    return TN_OK;
}

static tn_status compile(tn_schema *c) {
    tn_rule_name name;
    tn_put(&c->rules, "%s", common_rules);
    tn_status s = tn_schema_rule(c, c->root, &name);
    if (s) return s;
    tn_put(&c->rules, "root ::= %s\n", name.text);
    for (uint32_t i = 0; i < c->n_refs; i++) { /* which may refer to more */
        if ((s = tn_schema_rule(c, c->refs[i], &name))) return s;
        tn_put(&c->rules, "r%u ::= %s\n", i, name.text);
    }
    if (c->rules.no_memory) return tn_schema_no_memory(c);
    return c->rules.failed ? tn_schema_bad(c, "too large: the grammar would have more than 8 MiB") : TN_OK;
}

tn_status tn_schema_to_grammar(const char *text, size_t n, char **grammar, tn_error *err) {
    json_error_t bad;
    *grammar = NULL;
    tn_schema *c = calloc(1, sizeof *c);
    if (!c) return tn_fail(err, TN_ERR_MEMORY, "bad JSON schema", NULL, "out of memory");
    c->err = err;
    c->made = json_array();
    c->root = tn_json_parse(text, n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &bad);
    tn_status s = c->made ? TN_OK : tn_schema_no_memory(c);
    if (!s && !c->root && tn_json_no_memory(&bad)) s = tn_schema_no_memory(c);
    if (!s && !c->root) {
        char where[64];
        snprintf(where, sizeof where, "line %d, column %d", bad.line, bad.column);
        s = tn_fail(err, TN_ERR_FORMAT, "bad JSON schema", where, "%s", bad.text);
    }
    if (!s) s = compile(c);
    if (!s)
        *grammar = c->rules.bytes;
    else
        free(c->rules.bytes);
    json_decref(c->made);
    json_decref(c->root);
    free(c);
    return s;
}
