/* What tells models apart, in the time of a look at the file's index. */
#include "../../formats/file.h"
#include "../base/hash.h"
#include "model.h"

enum { SAMPLE_BYTES = 64 }; /* of a tensor's data: two trainings of one architecture differ there too */

static void add_text(tn_hash *hash, tn_str text) {
    tn_hash_add_u64(hash, text.len);
    tn_hash_add(hash, text.ptr, text.len);
}

static void add_meta(tn_hash *hash, const tn_meta *meta) {
    add_text(hash, meta->key);
    tn_hash_add_u64(hash, meta->type);
    tn_hash_add_u64(hash, meta->elem_type);
    tn_hash_add_u64(hash, meta->count);
    tn_str text;
    if (meta->elem_type == TN_META_STRING)
        for (uint64_t i = 0; i < meta->count && tn_meta_str(meta, i, &text); i++) add_text(hash, text);
    else
        tn_hash_add(hash, meta->data, meta->count * tn_meta_type_bytes(meta->elem_type));
}

static void add_tensor(tn_hash *hash, const tn_tensor *tensor) {
    add_text(hash, tensor->name);
    tn_hash_add_u64(hash, tensor->dtype);
    for (int i = 0; i < 4; i++) tn_hash_add_u64(hash, tensor->dims[i]);
    tn_hash_add(hash, tensor->data, tensor->n_bytes < SAMPLE_BYTES ? tensor->n_bytes : SAMPLE_BYTES);
}

uint64_t tn_model_identity(const tn_model *m) {
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add_u64(&hash, m->arch.hash);
    for (uint64_t i = 0; i < tn_file_n_meta(m->file); i++) add_meta(&hash, tn_file_meta_at(m->file, i));
    for (uint64_t i = 0; i < tn_file_n_tensors(m->file); i++)
        add_tensor(&hash, tn_file_tensor_at(m->file, i));
    return tn_hash_value(&hash);
}
