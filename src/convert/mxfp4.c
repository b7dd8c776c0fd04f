#include "mxfp4.h"

#include <string.h>

#include "../../formats/file.h"
#include "floats.h"

enum { CODE_BYTES = TN_MXFP4_WEIGHTS / 2, NO_NUMBER = 0xff };

/* E2M1: sign, exponent of two bits, one bit of mantissa. */
static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static bool are_scales(const tn_st_tensor *codes, const tn_st_tensor *scales) {
    const uint32_t n_dims = codes->n_dims - 1;
    return scales->type == TN_ST_U8 && scales->n_dims == n_dims &&
           memcmp(codes->dims, scales->dims, n_dims * sizeof *codes->dims) == 0;
}

static tn_status pair(tn_converter *c, tn_source *source, tn_source *scales) {
    const tn_st_tensor *codes = source->tensor;
    if (codes->n_dims < 2 || codes->dims[codes->n_dims - 1] != CODE_BYTES ||
        !are_scales(codes, scales->tensor))
        return TN_BAD(c, "tensor '%s': its shape and that of its scales are not those of blocks of 16 bytes",
                      tn_show(codes->name).text);
    tn_st_tensor *weights = tn_arena_alloc(&c->arena, 1, sizeof *weights);
    if (!weights) return tn_convert_no_memory(c);
    *weights = *codes;
    weights->n_dims--;
    weights->dims[weights->n_dims - 1] *= TN_MXFP4_WEIGHTS; /* what n_bytes holds, twice */
    weights->n_elems *= 2;
    source->tensor = weights;
    source->block_scales = scales->tensor;
    scales->used = true;
    return TN_OK;
}

tn_status tn_mxfp4_find(tn_converter *c) {
    static const char blocks[] = "_blocks", scales[] = "_scales";
    const size_t n_end = sizeof blocks - 1;
    char name[512];
    for (uint64_t i = 0; i < tn_checkpoint_n_tensors(c->checkpoint); i++) {
        tn_source *source = &c->sources[i];
        const size_t n = (size_t)source->name.len;
        if (source->tensor->type != TN_ST_U8 || n < n_end || n >= sizeof name ||
            memcmp(source->name.ptr + n - n_end, blocks, n_end) != 0)
            continue;
        memcpy(name, source->name.ptr, n - n_end);
        memcpy(name + n - n_end, scales, n_end);
        const tn_source *found = tn_names_find(&c->source_names, name, n);
        if (!found) return TN_BAD(c, "tensor '%s' is missing", tn_show((tn_str){name, n}).text);
        const tn_status s = pair(c, source, &c->sources[found - c->sources]);
        if (s) return s;
    }
    return TN_OK;
}

static const uint8_t *codes_at(const tn_source *source, uint64_t block) {
    return source->tensor->data + block * CODE_BYTES;
}

void tn_mxfp4_read(const tn_source *source, uint64_t first, uint64_t n, float *x) {
    for (uint64_t block = first / TN_MXFP4_WEIGHTS; n; block++, n -= TN_MXFP4_WEIGHTS) {
        const uint8_t *codes = codes_at(source, block);
        float scale;
        tn_floats_read(TN_ST_F8_E8M0, source->block_scales->data + block, 1, &scale);
        for (int i = 0; i < CODE_BYTES; i++) {
            *x++ = values[codes[i] & 15] * scale;
            *x++ = values[codes[i] >> 4] * scale;
        }
    }
}

static uint8_t code(const uint8_t *codes, int i) {
    return (uint8_t)(codes[i / 2] >> (i % 2 * 4) & 15);
}

bool tn_mxfp4_repack(const tn_source *source, uint64_t first, uint64_t n, uint8_t *out) {
    for (uint64_t block = first / TN_MXFP4_WEIGHTS; n; block++, n -= TN_MXFP4_WEIGHTS) {
        const uint8_t *codes = codes_at(source, block);
        *out = source->block_scales->data[block];
        if (*out++ == NO_NUMBER) return false;
        for (int i = 0; i < CODE_BYTES; i++)
            *out++ = (uint8_t)(code(codes, i) | code(codes, i + CODE_BYTES) << 4);
    }
    return true;
}
