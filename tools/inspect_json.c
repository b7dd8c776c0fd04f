/* The inspection as JSON. Numbers stay numbers and strings keep their bytes; what JSON cannot hold (an
 * integer above 2^63-1, infinity, text that is not UTF-8) becomes a string, the text with its bad bytes as
 * \xNN. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "json_print.h"

enum { SHOWN_ITEMS = 64 };

static json_t *json_text(const char *text, size_t n) {
    json_t *json = json_stringn(text, n);
    if (json) return json;
    const size_t cap = n * 4 + 1;
    char *safe = malloc(cap);
    if (!safe) return NULL;
    json = json_stringn(safe, tern_escape(safe, cap, text, n));
    free(safe);
    return json;
}

static json_t *json_cstring(const char *text) {
    return json_text(text ? text : "", text ? strlen(text) : 0);
}

static json_t *json_u64(uint64_t value) {
    char text[24];
    if (value <= INT64_MAX) return json_integer((json_int_t)value);
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

/* An element's text as the JSON value that its type asks for. */
static json_t *json_element(const char *type, const char *text, size_t n) {
    if (strncmp(type, "str", 3) == 0) return json_text(text, n);
    if (strncmp(type, "bool", 4) == 0) return json_boolean(n == 4);
    if (type[0] == 'f') {
        const double value = strtod(text, NULL);
        return isfinite(value) ? json_real(value) : json_text(text, n);
    }
    int64_t integer;
    return tn_parse_integer(text, INT64_MIN, INT64_MAX, &integer) ? json_integer(integer)
                                                                  : json_text(text, n);
}

/* A growing buffer for the text of one element. */
typedef struct tn_buffer {
    char *bytes;
    size_t cap;
} tn_buffer;

static json_t *json_item(const tern_model *file, uint64_t i, uint64_t item, const char *type,
                         tn_buffer *buffer) {
    const size_t n = tern_model_metadata_item(file, i, item, buffer->bytes, buffer->cap, NULL);
    if (n == SIZE_MAX) return NULL;
    if (n >= buffer->cap) { /* keep room for the NUL that number parsing needs */
        char *grown = realloc(buffer->bytes, n + 64);
        if (!grown) return NULL;
        buffer->bytes = grown;
        buffer->cap = n + 64;
        tern_model_metadata_item(file, i, item, buffer->bytes, buffer->cap, NULL);
    }
    buffer->bytes[n] = '\0';
    return json_element(type, buffer->bytes, n);
}

/* json_*_new functions take over the reference, and report a NULL value as failure. */
static bool put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new_nocheck(object, key, value) == 0;
}

static json_t *json_entry(const tern_model *file, uint64_t i, const char *type, tn_buffer *buffer) {
    json_t *entry = json_object();
    bool ok = put(entry, "type", json_cstring(type));
    uint64_t count = 0;
    tern_model_metadata_item(file, i, 0, NULL, 0, &count);
    if (!strchr(type, '[')) {
        ok = ok && put(entry, "value", json_item(file, i, 0, type, buffer));
    } else {
        json_t *items = json_array();
        for (uint64_t item = 0; item < count && item < SHOWN_ITEMS; item++) {
            ok = ok && json_array_append_new(items, json_item(file, i, item, type, buffer)) == 0;
        }
        ok = put(entry, "count", json_u64(count)) && ok;
        ok = put(entry, "value", items) && ok;
    }
    if (ok) return entry;
    json_decref(entry);
    return NULL;
}

static json_t *json_metadata(const tern_model *file) {
    /* The longest key of any format (GGUF allows 65,535 bytes), every byte escaped. */
    enum { KEY_CAP = 4 * 65536 + 1 };
    json_t *metadata = json_object();
    tn_buffer buffer = {0};
    char *key = malloc(KEY_CAP), type[64], value[8];
    bool ok = metadata && key;
    for (uint64_t i = 0;
         ok && tern_model_metadata(file, i, 1, key, KEY_CAP, type, sizeof type, value, sizeof value); i++) {
        ok = put(metadata, key, json_entry(file, i, type, &buffer));
    }
    free(key);
    free(buffer.bytes);
    if (ok) return metadata;
    json_decref(metadata);
    return NULL;
}

static json_t *json_tensors(const tern_model *file) {
    json_t *tensors = json_array();
    tern_tensor_info tensor;
    for (uint64_t i = 0; tensors && tern_model_tensor(file, i, &tensor); i++) {
        json_t *dims = json_array();
        for (uint32_t d = 0; d < tensor.n_dims; d++) json_array_append_new(dims, json_u64(tensor.dims[d]));
        json_t *row =
            json_pack("{s:o?, s:s, s:o?, s:o?, s:b}", "name", json_cstring(tensor.name), "type", tensor.type,
                      "dims", dims, "bytes", json_u64(tensor.n_bytes), "computable", (int)tensor.computable);
        if (json_array_append_new(tensors, row) == 0) continue;
        json_decref(tensors);
        return NULL;
    }
    return tensors;
}

static json_t *json_types(const tn_inspection *in) {
    json_t *types = json_object();
    for (size_t i = 0; i < in->n_types; i++) {
        const tn_type_sum *sum = &in->types[i];
        put(types, sum->type,
            json_pack("{s:o?, s:o?, s:o?, s:b}", "tensors", json_u64(sum->n_tensors), "elements",
                      json_u64(sum->n_elements), "bytes", json_u64(sum->n_bytes), "computable",
                      (int)sum->computable));
    }
    return types;
}

static json_t *json_plans(const tn_inspection *in) {
    json_t *plans = json_array();
    for (size_t i = 0; i < in->n_plans; i++) {
        const tern_memory *memory = &in->plans[i].memory;
        const uint64_t total = memory->weights_bytes + memory->kv_bytes + memory->scratch_bytes;
        json_array_append_new(
            plans, json_pack("{s:I, s:o?, s:o?, s:o?, s:o?}", "n_ctx", (json_int_t)in->plans[i].n_ctx,
                             "weights_bytes", json_u64(memory->weights_bytes), "kv_bytes",
                             json_u64(memory->kv_bytes), "scratch_bytes", json_u64(memory->scratch_bytes),
                             "total_bytes", json_u64(total)));
    }
    return plans;
}

static json_t *json_summary(const tn_inspection *in) {
    const tern_model_info *info = &in->info;
    const bool runnable = in->not_runnable.code == TERN_OK;
    json_t *json = json_pack("{s:o?, s:o?, s:o?, s:o?, s:o?, s:I, s:o?, s:I}", "path",
                             json_cstring(info->path), "format", json_cstring(info->format), "architecture",
                             json_cstring(info->architecture), "name", json_cstring(info->name), "file_bytes",
                             json_u64(info->file_bytes), "n_shards", (json_int_t)info->n_shards, "n_params",
                             json_u64(info->n_params), "n_vocab", (json_int_t)info->n_vocab);
    put(json, "tensor_bytes", json_u64(in->tensor_bytes));
    if (info->n_params > 0)
        put(json, "bits_per_weight", json_real(8.0 * (double)in->tensor_bytes / (double)info->n_params));
    put(json, "tokenizer", json_cstring(info->tokenizer));
    put(json, "runnable", json_boolean(runnable));
    put(json, "not_runnable", runnable ? json_null() : json_cstring(in->not_runnable.message));
    if (!runnable) return json;
    const struct {
        const char *key;
        uint32_t value;
    } shape[] = {{"n_ctx_train", info->n_ctx_train}, {"n_layers", info->n_layers},
                 {"n_embd", info->n_embd},           {"n_heads", info->n_heads},
                 {"n_kv_heads", info->n_kv_heads},   {"head_dim", info->head_dim}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        put(json, shape[i].key, json_integer(shape[i].value));
    put(json, "n_ctx_fits", json_integer(in->plans[0].memory.n_ctx_fits));
    return json;
}

int tn_inspect_json(const tn_inspection *inspection) {
    json_t *json = json_summary(inspection);
    const bool ok = json && put(json, "tensor_types", json_types(inspection)) &&
                    put(json, "memory", json_plans(inspection)) &&
                    put(json, "metadata", json_metadata(inspection->file)) &&
                    put(json, "tensors", json_tensors(inspection->file));
    const int exit_code =
        ok ? tn_json_print(stdout, json, JSON_INDENT(1)) : tn_cli_fail("cannot print JSON: out of memory");
    json_decref(json);
    return exit_code;
}
