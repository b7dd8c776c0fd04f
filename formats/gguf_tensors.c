/* GGUF tensor descriptions, and the layout of their data. */
#include <stdlib.h>
#include <string.h>

#include "../src/base/checked.h"
#include "gguf.h"

typedef unsigned long long ull;

static tn_status read_dims(gguf_part *part, tn_tensor *tensor, uint64_t index, tn_error *err) {
    if (!tn_read_u32(&part->reader, &tensor->n_dims)) return gguf_truncated(part, "tensor", index, 4, err);
    if (tensor->n_dims == 0 || tensor->n_dims > 4) {
        return GGUF_BAD(part, err, "tensor '%s': has %u dimensions, expected 1 to 4",
                        tn_show(tensor->name).text, tensor->n_dims);
    }
    for (uint32_t i = 0; i < 4; i++) {
        tensor->dims[i] = 1;
        if (i >= tensor->n_dims) continue;
        if (!tn_read_u64(&part->reader, &tensor->dims[i]))
            return gguf_truncated(part, "tensor", index, 8, err);
        if (tensor->dims[i] == 0 || tensor->dims[i] > INT64_MAX) {
            return GGUF_BAD(part, err, "tensor '%s': dimension %u is %lld, expected at least 1",
                            tn_show(tensor->name).text, i, (long long)tensor->dims[i]);
        }
    }
    return TN_OK;
}

/* The bytes of all rows; every product on the way is checked, the number of elements too. */
static tn_status compute_size(const gguf_part *part, tn_tensor *tensor, tn_error *err) {
    const tn_dtype_info *type = &tn_dtypes[tensor->dtype];
    const uint64_t *dims = tensor->dims;
    if (dims[0] % type->block_elems != 0) {
        return GGUF_BAD(part, err,
                        "tensor '%s': rows of %llu elements are not a multiple of %u, the block of %s",
                        tn_show(tensor->name).text, (ull)dims[0], type->block_elems, type->name);
    }
    uint64_t rows, elems, row_bytes;
    bool fits = tn_mul_u64(dims[1], dims[2], &rows) && tn_mul_u64(rows, dims[3], &rows) &&
                tn_mul_u64(dims[0], rows, &elems) && elems <= INT64_MAX &&
                tn_mul_u64(dims[0] / type->block_elems, type->block_bytes, &row_bytes) &&
                tn_mul_u64(row_bytes, rows, &tensor->n_bytes);
    if (fits) return TN_OK;
    return GGUF_BAD(part, err, "tensor '%s': size of %llu x %llu x %llu x %llu elements overflows",
                    tn_show(tensor->name).text, (ull)dims[0], (ull)dims[1], (ull)dims[2], (ull)dims[3]);
}

/* The offset counts from the end of this section, which is not known yet: place_tensor uses it. */
static tn_status read_tensor(tn_file *file, gguf_part *part, uint64_t index, tn_tensor *tensor,
                             uint64_t *offset, tn_error *err) {
    tn_status status = gguf_read_name(part, "tensor", index, &tensor->name, err);
    if (status == TN_OK) status = read_dims(part, tensor, index, err);
    if (status != TN_OK) return status;
    uint32_t type;
    if (!tn_read_u32(&part->reader, &type)) return gguf_truncated(part, "tensor", index, 4, err);
    if (!tn_dtype_from_ggml(type, &tensor->dtype)) {
        return GGUF_BAD(part, err, "tensor '%s': type %u is unknown or was removed from the format",
                        tn_show(tensor->name).text, type);
    }
    if (!tn_read_u64(&part->reader, offset)) return gguf_truncated(part, "tensor", index, 8, err);
    status = compute_size(part, tensor, err);
    if (status != TN_OK) return status;
    void *cname;
    status = tn_file_alloc(file, tensor->name.len + 1, 1, "tensor names", &cname, err);
    if (status != TN_OK) return status;
    memcpy(cname, tensor->name.ptr, tensor->name.len);
    tensor->cname = cname;
    return TN_OK;
}

static tn_status place_tensor(const gguf_part *part, tn_tensor *tensor, uint64_t data_start, uint64_t offset,
                              tn_error *err) {
    uint64_t size = part->reader.size, begin, end;
    if (offset % part->alignment != 0) {
        return GGUF_BAD(part, err, "tensor '%s': offset %llu is not a multiple of the alignment %llu",
                        tn_show(tensor->name).text, (ull)offset, (ull)part->alignment);
    }
    if (!tn_add_u64(data_start, offset, &begin) || begin >= size) {
        return GGUF_BAD(part, err,
                        "tensor '%s': offset %llu (from byte %llu) is past the end of the file (size %llu)",
                        tn_show(tensor->name).text, (ull)offset, (ull)data_start, (ull)size);
    }
    if (!tn_add_u64(begin, tensor->n_bytes, &end) || end > size) {
        return GGUF_BAD(part, err,
                        "tensor '%s': its %llu bytes at byte %llu are past the end of the file (size %llu)",
                        tn_show(tensor->name).text, (ull)tensor->n_bytes, (ull)begin, (ull)size);
    }
    tensor->data = part->reader.base + begin;
    return TN_OK;
}

static int compare_place(const void *a, const void *b) {
    const tn_tensor *x = *(const tn_tensor *const *)a, *y = *(const tn_tensor *const *)b;
    return (x->data > y->data) - (x->data < y->data);
}

static tn_status check_apart(tn_file *file, const gguf_part *part, const tn_tensor *tensors, tn_error *err) {
    void *memory;
    tn_status status =
        tn_file_alloc(file, part->n_tensors, sizeof(tn_tensor *), "sorting tensors", &memory, err);
    if (status != TN_OK) return status;
    const tn_tensor **order = memory;
    for (uint64_t i = 0; i < part->n_tensors; i++) order[i] = &tensors[i];
    qsort(order, part->n_tensors, sizeof *order, compare_place);
    for (uint64_t i = 1; i < part->n_tensors; i++) {
        const tn_tensor *a = order[i - 1], *b = order[i];
        if (a->data + a->n_bytes <= b->data) continue;
        return GGUF_BAD(part, err, "tensor '%s' at byte %llu overlaps tensor '%s', bytes %llu to %llu",
                        tn_show(b->name).text, (ull)(b->data - part->reader.base), tn_show(a->name).text,
                        (ull)(a->data - part->reader.base), (ull)(a->data + a->n_bytes - part->reader.base));
    }
    return TN_OK;
}

tn_status gguf_read_tensors(tn_file *file, gguf_part *part, tn_tensor *tensors, tn_error *err) {
    void *memory;
    tn_status status = tn_file_alloc(file, part->n_tensors, sizeof(uint64_t), "tensor offsets", &memory, err);
    uint64_t *offsets = memory;
    for (uint64_t i = 0; status == TN_OK && i < part->n_tensors; i++) {
        status = read_tensor(file, part, i, &tensors[i], &offsets[i], err);
    }
    uint64_t data_start;
    if (status == TN_OK && !tn_align_u64(part->reader.pos, part->alignment, &data_start)) {
        status = GGUF_BAD(part, err, "no room for tensor data");
    }
    for (uint64_t i = 0; status == TN_OK && i < part->n_tensors; i++) {
        status = place_tensor(part, &tensors[i], data_start, offsets[i], err);
    }
    return status == TN_OK ? check_apart(file, part, tensors, err) : status;
}
