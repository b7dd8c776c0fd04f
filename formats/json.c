#include "json.h"

#include <stdint.h>

#include "../src/base/fmap.h"
#include "../src/base/json.h"

/* What jansson takes for a value, at most: an object with one key, an array with one element, any other value with its
 * place in the value around it. */
enum { OBJECT_BYTES = 320, ARRAY_BYTES = 160, VALUE_BYTES = 128 };

static const uint64_t MOST_BYTES = (uint64_t)384 << 20;

/* An upper bound of the memory of the parsed text: signs inside of strings count too, which is seldom much. */
static uint64_t parsed_bytes(const tn_fmap *map) {
    uint64_t bytes = map->size; /* of the strings */
    for (uint64_t i = 0; i < map->size; i++) {
        if (map->data[i] == '{') bytes += OBJECT_BYTES;
        if (map->data[i] == '[') bytes += ARRAY_BYTES;
        if (map->data[i] == ',') bytes += VALUE_BYTES;
    }
    return bytes;
}

static tn_status parse(const tn_fmap *map, const char *what, const char *path, json_type root, json_t **out,
                       tn_error *err) {
    if (map->size == 0) return tn_fail(err, TN_ERR_FORMAT, what, path, "the file is empty");
    if (map->size > MOST_BYTES || parsed_bytes(map) > MOST_BYTES)
        return tn_fail(err, TN_ERR_MEMORY, what, path,
                       "a JSON file of %llu bytes with that many values is too large",
                       (unsigned long long)map->size);
    json_error_t error;
    *out = tn_json_parse((const char *)map->data, (size_t)map->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                         &error);
    if (!*out && tn_json_no_memory(&error)) return tn_fail(err, TN_ERR_MEMORY, what, path, "out of memory");
    if (!*out)
        return tn_fail(err, TN_ERR_FORMAT, what, path, "line %d, column %d: %s", error.line, error.column,
                       error.text);
    if (json_typeof(*out) == root) return TN_OK;
    json_decref(*out);
    *out = NULL;
    return tn_fail(err, TN_ERR_FORMAT, what, path, "expected a JSON %s",
                   root == JSON_ARRAY ? "array" : "object");
}

tn_status tn_json_load(const char *what, const char *path, json_type root, json_t **out, tn_error *err) {
    tn_fmap map;
    *out = NULL;
    tn_status s = tn_fmap_open(&map, path, err);
    if (s) return s;
    s = parse(&map, what, path, root, out, err);
    tn_fmap_close(&map);
    return s;
}
