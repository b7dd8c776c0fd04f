/* Metadata from the command line. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/c_locale.h"
#include "run.h"

#define WHAT "cannot set metadata"

typedef struct number {
    bool is_integer, is_float;
    long long integer;
    double real;
} number;

static number parse_number(const char *text) {
    number n = {0};
    char *end;
    if (!*text || text[strspn(text, "0123456789.eE+-")]) return n;
    errno = 0;
    n.integer = strtoll(text, &end, 10);
    n.is_integer = errno == 0 && !*end;
    n.real = tn_strtod(text, &end);
    n.is_float = !*end && isfinite(n.real);
    return n;
}

static bool in_range(long long v, long long low, long long high) {
    return v >= low && v <= high;
}

/* Stores a number as a type's bytes; false if it is none of that type. */
static bool store(tn_meta_type type, number n, uint8_t bytes[8]) {
    static const struct {
        long long low, high;
    } ranges[TN_META_TYPE_COUNT] = {
        [TN_META_U8] = {0, UINT8_MAX},   [TN_META_I8] = {INT8_MIN, INT8_MAX},
        [TN_META_U16] = {0, UINT16_MAX}, [TN_META_I16] = {INT16_MIN, INT16_MAX},
        [TN_META_U32] = {0, UINT32_MAX}, [TN_META_I32] = {INT32_MIN, INT32_MAX},
        [TN_META_U64] = {0, INT64_MAX},  [TN_META_I64] = {INT64_MIN, INT64_MAX},
    };
    const float narrow = fabs(n.real) <= FLT_MAX ? (float)n.real : INFINITY;
    if (type == TN_META_F32) memcpy(bytes, &narrow, sizeof narrow);
    if (type == TN_META_F64) memcpy(bytes, &n.real, sizeof n.real);
    if (type == TN_META_F32) return n.is_float && isfinite(narrow);
    if (type == TN_META_F64) return n.is_float;
    memcpy(bytes, &n.integer, sizeof n.integer); /* little-endian: the low bytes are the narrower integer */
    return n.is_integer && in_range(n.integer, ranges[type].low, ranges[type].high);
}

static tn_meta_type type_for(const char *value, number n) {
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) return TN_META_BOOL;
    if (n.is_integer) return in_range(n.integer, 0, UINT32_MAX) ? TN_META_U32 : TN_META_I64;
    return n.is_float ? TN_META_F32 : TN_META_STRING;
}

static tn_status set(tn_gguf_writer *writer, const char *key, tn_meta_type type, const char *value, number n,
                     tn_error *err) {
    uint8_t bytes[8];
    if (type == TN_META_STRING) {
        tn_gguf_set_text(writer, key, value, strlen(value));
    } else if (type == TN_META_BOOL) {
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return tn_fail(err, TN_ERR_ARG, WHAT, key, "is a bool, expected true or false, found '%.80s'",
                           value);
        tn_gguf_set_bool(writer, key, value[0] == 't');
    } else {
        if (!store(type, n, bytes))
            return tn_fail(err, TN_ERR_ARG, WHAT, key, "is of type %s, which '%.80s' is not",
                           tn_meta_type_name(type), value);
        tn_gguf_set(writer, key, type, bytes);
    }
    return TN_OK;
}

tn_status tn_quantize_override(tn_gguf_writer *writer, const tn_file *file, const char *text, tn_error *err) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || equals - text > 1000)
        return tn_fail(err, TN_ERR_ARG, WHAT, NULL, "expected KEY=VALUE, found '%.100s'", text);
    char key[1001];
    memcpy(key, text, (size_t)(equals - text));
    key[equals - text] = '\0';
    if (strncmp(key, "split.", 6) == 0)
        return tn_fail(err, TN_ERR_ARG, WHAT, key, "is set by the writing of shards");
    const tn_meta *meta = tn_file_meta(file, key);
    if (meta && meta->type == TN_META_ARRAY) return tn_fail(err, TN_ERR_ARG, WHAT, key, "is an array");
    const char *value = equals + 1;
    const number n = parse_number(value);
    return set(writer, key, meta ? meta->type : type_for(value, n), value, n, err);
}
