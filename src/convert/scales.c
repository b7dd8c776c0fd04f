#include "scales.h"

#include <stdio.h>
#include <string.h>

#include "../../formats/file.h"
#include "floats.h"

/* Behind a weight's name in the checkpoints of the methods below. */
static const char *const suffixes[] = {"_scale_inv", "_scale"};
static const char *const unused[] = {".input_scale", ".activation_scale", "_activation_scale", ".k_scale",
                                     ".v_scale"};
static const char *const methods[] = {"fp8", "compressed-tensors", "modelopt", "mxfp4"};

static bool ends_with(tn_str name, const char *end) {
    const size_t n = strlen(end);
    return name.len >= n && !memcmp(name.ptr + name.len - n, end, n);
}

tn_status tn_scales_check(tn_converter *c) {
    const json_t *config = json_object_get(c->config, "quantization_config");
    if (!config && c->text_config) config = json_object_get(c->text_config, "quantization_config");
    if (!config || json_is_null(config)) return TN_OK;
    const char *method = json_string_value(json_object_get(config, "quant_method"));
    bool known = false;
    for (size_t i = 0; method && i < sizeof methods / sizeof *methods; i++)
        known |= !strcmp(method, methods[i]);
    if (!known) {
        char shown[64];
        tn_escape(shown, sizeof shown, method ? method : "", method ? strlen(method) : 0);
        return TN_NOT_KNOWN(c,
                            "config.json: quantization_config.quant_method '%s', expected fp8, "
                            "compressed-tensors, modelopt or mxfp4",
                            shown);
    }
    for (uint64_t i = 0; i < tn_checkpoint_n_tensors(c->checkpoint); i++)
        for (size_t u = 0; u < sizeof unused / sizeof *unused; u++)
            c->sources[i].used |= ends_with(c->sources[i].name, unused[u]);
    return TN_OK;
}

static tn_source *find(const tn_converter *c, tn_str weight) {
    char name[512];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const int n = snprintf(name, sizeof name, "%.*s%s", (int)weight.len, weight.ptr, suffixes[i]);
        if (n < 0 || (size_t)n >= sizeof name) continue;
        const tn_source *source = tn_names_find(&c->source_names, name, (size_t)n);
        if (source) return &c->sources[source - c->sources];
    }
    return NULL;
}

/* The block that the configuration gives, or 0. */
static uint64_t block_size(const tn_converter *c, size_t i) {
    const json_t *config = json_object_get(c->config, "quantization_config");
    const json_t *size = json_array_get(json_object_get(config, "weight_block_size"), i);
    return json_is_integer(size) && json_integer_value(size) > 0 ? (uint64_t)json_integer_value(size) : 0;
}

static tn_status read_blocks(const tn_converter *c, const tn_st_tensor *t, const tn_st_tensor *scale,
                             tn_scales *out) {
    const uint64_t rows = t->dims[0], columns = t->dims[1], n = scale->n_dims > 1 ? scale->dims[1] : 1;
    const bool by_row = scale->dims[0] == rows && n == 1;
    out->block_rows = by_row ? 1 : block_size(c, 0);
    out->block_columns = by_row ? columns : block_size(c, 1);
    out->n_columns = n;
    if (scale->n_dims > 2 || !out->block_rows || !out->block_columns || !rows || !columns ||
        (rows - 1) / out->block_rows + 1 != scale->dims[0] || (columns - 1) / out->block_columns + 1 != n)
        return TN_BAD(c,
                      "tensor '%s': its shape fits neither the rows of its weight nor "
                      "quantization_config.weight_block_size",
                      tn_show(scale->name).text);
    return TN_OK;
}

tn_status tn_scales_find(const tn_converter *c, const tn_source *weight, tn_scales *out) {
    *out = (tn_scales){.data = NULL};
    const tn_st_tensor *t = weight->tensor;
    const bool is_8_bit = tn_st_type_bytes(t->type) == 1 && !weight->block_scales;
    tn_source *source = is_8_bit ? find(c, weight->name) : NULL;
    if (!source) return TN_OK;
    const tn_st_tensor *scale = source->tensor;
    source->used = true;
    if (!tn_floats_known(scale->type))
        return TN_BAD(c, "tensor '%s': a scale of type %s", tn_show(scale->name).text,
                      tn_st_type_name(scale->type));
    *out = (tn_scales){scale->type, scale->data, UINT64_MAX, UINT64_MAX, 1};
    if (scale->n_elems == 1) return TN_OK;
    if (t->n_dims != 2 || scale->n_dims < 1 || !scale->n_elems)
        return TN_BAD(c, "tensor '%s': scales of a tensor that is no matrix", tn_show(scale->name).text);
    return read_blocks(c, t, scale, out);
}

void tn_scales_apply(const tn_scales *scales, uint64_t row, uint64_t column, uint64_t n, float *x) {
    const uint32_t bytes = tn_st_type_bytes(scales->type);
    const uint8_t *line = scales->data + row / scales->block_rows * scales->n_columns * bytes;
    for (uint64_t i = 0; i < n;) {
        const uint64_t block = (column + i) / scales->block_columns,
                       left = scales->block_columns - (column + i) % scales->block_columns;
        const uint64_t end = left < n - i ? i + left : n;
        float scale;
        tn_floats_read(scales->type, line + block * bytes, 1, &scale);
        for (; i < end; i++) x[i] *= scale;
    }
}
