/* Objects: the named properties in their order, each there or not, then others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema_impl.h"

typedef struct tn_property {
    const char *key;
    const json_t *schema;
    bool required;
} tn_property;

typedef struct tn_object {
    tn_property *properties;
    size_t n;
    const json_t *others; /* the schema of properties without a name; NULL: there are none */
    tn_rule_name name;    /* rules are NAME-aI: from property I on with none before it; NAME-bI: with some */
} tn_object;

static bool is_required(const json_t *required, const char *key) {
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name && strcmp(name, key) == 0) return true;
    }
    return false;
}

/* The properties with names: those with a schema, then those only required. */
static tn_status list_properties(const tn_schema *c, const json_t *schema, tn_object *o) {
    json_t *properties = json_object_get(schema, "properties"),
           *required = json_object_get(schema, "required"), *value;
    const char *key;
    const json_t *others = json_object_get(schema, "additionalProperties");
    if (properties && !json_is_object(properties))
        return tn_schema_unsupported(c, "properties", "expected an object");
    if (required && !json_is_array(required))
        return tn_schema_unsupported(c, "required", "expected an array");
    o->properties =
        calloc(json_object_size(properties) + json_array_size(required) + 1, sizeof *o->properties);
    if (!o->properties) return tn_schema_no_memory(c);
    json_object_foreach(properties, key, value) {
        const bool must = is_required(required, key);
        const bool barred = json_is_false(value);
        if (barred && must) return tn_schema_bad(c, "'%.60s' is required, and no value of it is valid", key);
        if (!barred) o->properties[o->n++] = (tn_property){key, value, must};
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        key = json_string_value(json_array_get(required, i));
        if (!key) return tn_schema_unsupported(c, "required", "expected texts");
        if (json_object_get(properties, key)) continue;
        if (json_is_false(others))
            return tn_schema_bad(c, "'%.60s' is required, and not among the properties", key);
        for (size_t j = 0; j < o->n && key; j++)
            if (strcmp(o->properties[j].key, key) == 0) key = NULL; /* required twice */
        if (key) o->properties[o->n++] = (tn_property){key, others, true};
    }
    return TN_OK;
}

static tn_status put_key(const tn_schema *c, const char *key, tn_text_buffer *out) {
    json_t *text = json_string(key);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    json_decref(text);
    if (!quoted) return tn_schema_no_memory(c);
    tn_put_literal(out, quoted, strlen(quoted));
    free(quoted);
    return TN_OK;
}

/* ---- Other keys ------------------------------------------------------------------------------------------------------ */

static size_t char_length(const char *text) {
    const unsigned char lead = (unsigned char)text[0];
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; /* jansson gives valid UTF-8 */
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What may follow a beginning that the sorted keys share up to `at`, so that none of them comes out. Keys are made without
 * escapes, so a key cannot come out in another spelling. */
static void put_other_key(const char *const *keys, size_t n, size_t at, unsigned depth, tn_text_buffer *out) {
    enum { MAX_KEY_DEPTH = 60 };
    const bool ends_here = n && keys[0][at] == '\0';
    const size_t from = ends_here ? 1 : 0;
    if (from == n) {
        tn_put(out, ends_here ? "plain plain*" : "plain*");
        return;
    }
    tn_put(out, "([^\"\\\\\\x00-\\x1F\\x7F");
    for (size_t i = from; i < n; i++) {
        const unsigned char lead = (unsigned char)keys[i][at];
        if (lead >= 0x80)
            tn_put(out, "%.*s", (int)char_length(keys[i] + at), keys[i] + at);
        else if (lead >= 0x20 && lead != '"' && lead != '\\' && lead != 0x7F)
            tn_put_class_char(out, lead);
    }
    tn_put(out, "] plain*");
    for (size_t i = from, end; i < n && depth < MAX_KEY_DEPTH; i = end) {
        const size_t len = char_length(keys[i] + at);
        const unsigned char lead = (unsigned char)keys[i][at];
        for (end = i + 1; end < n && strncmp(keys[end] + at, keys[i] + at, len) == 0;) end++;
        if (lead < 0x20 || lead == '"' || lead == '\\' || lead == 0x7F) continue;
        tn_put(out, " | ");
        tn_put_literal(out, keys[i] + at, len);
        tn_put(out, " ");
        put_other_key(keys + i, end - i, at + len, depth + 1, out);
    }
    tn_put(out, ends_here ? ")" : ")?");
}

/* NAME-o: a property whose key is none of the names, also none of those whose schema is false. */
static tn_status add_others(tn_schema *c, const tn_object *o, const json_t *properties) {
    tn_rule_name value;
    const size_t n_most = o->n + json_object_size(properties);
    const char **keys = calloc(n_most + 1, sizeof *keys), *key;
    tn_text_buffer body = {0};
    char name[32];
    json_t *unused;
    size_t n = 0;
    if (!keys) return tn_schema_no_memory(c);
    for (size_t i = 0; i < o->n; i++) keys[n++] = o->properties[i].key;
    json_object_foreach((json_t *)properties, key, unused) if (json_is_false(unused)) keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_text);
    tn_put(&body, "\"\\\"\" ");
    put_other_key(keys, n, 0, 0, &body);
    free(keys);
    const size_t up = tn_schema_enter(c, "additionalProperties", "");
    const tn_status s = tn_schema_rule(c, o->others, &value);
    if (!s) tn_schema_leave(c, up);
    tn_put(&body, " \"\\\"\" colon %s", value.text);
    snprintf(name, sizeof name, "%s-o", o->name.text);
    tn_schema_add_rule(c, name, &body);
    return s;
}

/* ---- The chain of properties ------------------------------------------------------------------------------------------ */

/* The two rules from property i on; those from i + 1 on follow. */
static tn_status add_property(tn_schema *c, const tn_object *o, size_t i) {
    const tn_property *p = &o->properties[i];
    tn_rule_name value = {"value"};
    tn_text_buffer pair = {0}, body = {0};
    char name[48];
    tn_status s = put_key(c, p->key, &pair);
    const size_t up = tn_schema_enter(c, "properties", p->key);
    if (!s && p->schema) s = tn_schema_rule(c, p->schema, &value);
    if (s) {
        free(pair.bytes);
        return s;
    }
    tn_schema_leave(c, up);
    tn_put(&pair, " colon %s", value.text);
    const char *first = o->name.text;
    snprintf(name, sizeof name, "%s-p%zu", first, i);
    tn_schema_add_rule(c, name, &pair);
    tn_put(&body, "%s %s-b%zu", name, first, i + 1);
    if (!p->required) tn_put(&body, " | %s-a%zu", first, i + 1);
    snprintf(name, sizeof name, "%s-a%zu", first, i);
    tn_schema_add_rule(c, name, &body);
    tn_put(&body, p->required ? "sep %s-p%zu %s-b%zu" : "(sep %s-p%zu)? %s-b%zu", first, i, first, i + 1);
    snprintf(name, sizeof name, "%s-b%zu", first, i);
    tn_schema_add_rule(c, name, &body);
    return TN_OK;
}

static tn_status add_chain(tn_schema *c, const tn_object *o, const json_t *properties) {
    const char *name = o->name.text;
    tn_status s = TN_OK;
    for (size_t i = 0; i < o->n && !s; i++) s = add_property(c, o, i);
    if (!s && o->others) s = add_others(c, o, properties);
    if (s) return s;
    if (o->others)
        tn_put(&c->rules, "%s-a%zu ::= (%s-o (sep %s-o)*)?\n%s-b%zu ::= (sep %s-o)*\n", name, o->n, name,
               name, name, o->n, name);
    else
        tn_put(&c->rules, "%s-a%zu ::= \"\"\n%s-b%zu ::= \"\"\n", name, o->n, name, o->n);
    return TN_OK;
}

/* Properties without a name are made only where the schema asks for them, or names none at all: a model left free would go on
 * with them for ever. */
tn_status tn_schema_put_object(tn_schema *c, const json_t *schema, tn_text_buffer *out) {
    const json_t *others = json_object_get(schema, "additionalProperties"),
                 *properties = json_object_get(schema, "properties");
    tn_object o = {.name = tn_schema_new_name(c)};
    tn_status s = list_properties(c, schema, &o);
    const bool asked = others ? !json_is_false(others) : o.n == 0 && !properties;
    o.others = !asked ? NULL : others ? others : json_true();
    if (!s) s = add_chain(c, &o, properties);
    free(o.properties);
    if (!s) tn_put(out, "\"{\" ws %s-a0 ws \"}\"", o.name.text);
    return s;
}
