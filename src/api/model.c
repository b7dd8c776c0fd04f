/* Models: opening, metadata, tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/c_locale.h"
#include "api.h"

_Static_assert((int)TERN_OPEN_METADATA == (int)TN_OPEN_METADATA, "levels agree");

const char *tern_version(void) {
#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)
    return TEXT(TERN_VERSION_MAJOR) "." TEXT(TERN_VERSION_MINOR) "." TEXT(TERN_VERSION_PATCH);
}

size_t tern_escape(char *dst, size_t cap, const char *text, size_t n) {
    return tn_escape(dst, cap, text, n);
}

void tern_free(void *memory) {
    free(memory);
}

void tern_model_options_defaults(tern_model_options *o) {
    *o = (tern_model_options){.size = sizeof *o};
}

static tn_status open_tokenizer(tern_model *model, const char *pre, tn_error *err) {
    const tn_vocab_source *v = &model->m->vocab;
    if (v->n_tokens == 0) return TN_OK;
    snprintf(model->tokenizer_name, sizeof model->tokenizer_name, "%.31s%s%.60s", v->model,
             pre || v->pre ? "/" : "",
             pre      ? pre
             : v->pre ? v->pre
                      : "");
    tn_error e;
    tn_status s = tn_tokenizer_new(v, pre, &model->tok, &e);
    return s ? tn_fail(err, s, "cannot open model", tn_file_path(model->m->file), "%s", e.message) : TN_OK;
}

static void copy_texts(tern_model *model) {
    tn_str name;
    const tn_meta *meta = tn_file_meta(model->m->file, "general.name");
    if (meta && tn_meta_str(meta, 0, &name)) tn_escape(model->name, sizeof model->name, name.ptr, name.len);
    meta = tn_file_meta(model->m->file, "general.sampling.sequence");
    if (meta && tn_meta_str(meta, 0, &name))
        tn_escape(model->samplers, sizeof model->samplers, name.ptr, name.len);
}

void tern_source_defaults(tern_source *source) {
    *source = (tern_source){.size = sizeof *source, .fd = -1};
}

static tn_status open_parts(tern_model *model, const tn_fmap_source *source, const tern_model_options *o,
                            tn_error *e) {
    const tn_model_options inner = {
        .level = (tn_open_level)o->level, .arch_file = o->arch_file, .warn = o->warn, .user = o->user};
    tn_status s = tn_model_open_source(source, &inner, &model->m, e);
    if (!s && o->level != TERN_OPEN_METADATA) s = open_tokenizer(model, o->pre_tokenizer, e);
    if (!s && o->level == TERN_OPEN_VOCAB && !model->tok)
        s = tn_fail(e, TN_ERR_FORMAT, "cannot open model", source->path,
                    "the file has no vocabulary (key 'tokenizer.ggml.model')");
    if (!s && o->preload) s = tn_file_preload(model->m->file, o->progress, o->user, e);
    return s;
}

static tern_status open_model(tn_fmap_source *source, const tern_model_options *options, tern_model **out,
                              tern_error *err) {
    tern_model_options o;
    tn_error e = {0};
    tern_model_options_defaults(&o);
    tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (!s && o.level > TERN_OPEN_METADATA)
        s = tn_fail(&e, TN_ERR_ARG, "bad options", "level", "%u is none", (unsigned)o.level);
    if (!s) s = tn_api_allocator(&o.allocator, &source->allocator, &e);
    if (s) return tn_api_give(err, s, &e);
    tern_model *model = calloc(1, sizeof *model);
    if (!model)
        return tn_api_give(
            err, tn_fail(&e, TN_ERR_MEMORY, "cannot open model", source->path, "out of memory"), &e);
    model->allocator = source->allocator;
    s = open_parts(model, source, &o, &e);
    if (s) {
        tern_model_close(model);
        return tn_api_give(err, s, &e);
    }
    copy_texts(model);
    *out = model;
    return TERN_OK;
}

tern_status tern_model_open(const char *path, const tern_model_options *options, tern_model **out,
                            tern_error *err) {
    if (out) *out = NULL;
    if (!path || !out) return tn_api_null(err, __func__);
    tn_fmap_source source = tn_fmap_path(path);
    return open_model(&source, options, out, err);
}

tern_status tern_model_open_source(const tern_source *source, const tern_model_options *options,
                                   tern_model **out, tern_error *err) {
    if (out) *out = NULL;
    if (!source || !out) return tn_api_null(err, __func__);
    tern_source o;
    tn_error e = {0};
    char name[32] = "memory";
    tern_source_defaults(&o);
    const tn_status s = tn_api_options(&o, sizeof o, source, &e);
    if (s) return tn_api_give(err, s, &e);
    if (!o.path && !o.data && o.fd < 0) return tn_api_null(err, __func__);
    if (!o.data) snprintf(name, sizeof name, "descriptor %d", o.fd);
    tn_fmap_source inner = {
        .path = o.path ? o.path : name, .fd = o.fd, .offset = o.offset, .data = o.data, .n_bytes = o.n_bytes};
    const bool part = o.offset || o.n_bytes;
    if ((o.data && (o.fd >= 0 || o.offset)) || (tn_fmap_is_path(&inner) && part))
        return tn_api_give(err,
                           tn_fail(&e, TN_ERR_ARG, "cannot open model", inner.path,
                                   "expected a path, a part of a descriptor's file, or memory"),
                           &e);
    return open_model(&inner, options, out, err);
}

void tern_model_close(tern_model *model) {
    if (!model) return;
    tn_tokenizer_free(model->tok);
    tn_model_close(model->m);
    free(model);
}

static uint64_t count_params(const tn_file *file) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < tn_file_n_tensors(file); i++) {
        const tn_tensor *t = tn_file_tensor_at(file, i);
        n += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    return n;
}

void tern_model_info_get(const tern_model *model, tern_model_info *info) {
    const tn_model *m = model->m;
    *info = (tern_model_info){
        .path = tn_file_path(m->file),
        .format = tn_file_format(m->file),
        .architecture = m->arch_name,
        .name = model->name,
        .file_bytes = tn_file_bytes(m->file),
        .n_shards = tn_file_shards(m->file),
        .n_params = count_params(m->file),
        .n_vocab = m->hparams.n_vocab ? m->hparams.n_vocab : m->vocab.n_tokens,
        .n_ctx_train = m->hparams.n_ctx_train,
        .n_layers = m->hparams.n_layers,
        .n_embd = m->hparams.n_embd,
        .tokenizer = model->tokenizer_name,
        .encoder = m->graph.whole,
        .n_metadata = tn_file_n_meta(m->file),
        .n_tensors = tn_file_n_tensors(m->file),
    };
    const tn_pooling pooling = tn_api_pooling(model);
    if (pooling != TN_POOLING_RANK) info->pooling = (tern_pooling)((int)pooling + TERN_POOLING_NONE);
    for (int32_t i = 0; i < m->graph.n_ops; i++) {
        const tn_op *op = &m->graph.ops[i];
        if (op->kind != TN_OP_ATTENTION) continue;
        info->n_heads = op->attention.n_heads;
        info->n_kv_heads = op->attention.n_kv_heads;
        info->head_dim = op->attention.head_dim;
        return;
    }
}

static size_t value_text(char *dst, size_t cap, const tn_meta *meta, uint64_t i) {
    tn_str text;
    bool flag;
    int64_t whole;
    uint64_t large;
    double number;
    if (tn_meta_str(meta, i, &text)) return tn_escape(dst, cap, text.ptr, text.len);
    int n = 0;
    if (tn_meta_bool(meta, i, &flag))
        n = snprintf(dst, cap, "%s", flag ? "true" : "false");
    else if (tn_meta_i64(meta, i, &whole))
        n = snprintf(dst, cap, "%" PRId64, whole);
    else if (tn_meta_u64(meta, i, &large))
        n = snprintf(dst, cap, "%" PRIu64, large);
    else if (tn_meta_f64(meta, i, &number))
        n = tn_snprintf(dst, cap, "%.9g", number);
    return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

static void array_text(char *dst, size_t cap, const tn_meta *meta, uint64_t max_items) {
    size_t at = (size_t)snprintf(dst, cap, "[");
    for (uint64_t i = 0; i < meta->count && i < max_items && at + 8 < cap; i++) {
        if (i) at += (size_t)snprintf(dst + at, cap - at, ", ");
        at += value_text(dst + at, cap - at, meta, i);
    }
    if (at + 8 < cap) snprintf(dst + at, cap - at, meta->count > max_items ? ", ...]" : "]");
}

bool tern_model_metadata(const tern_model *model, uint64_t i, uint64_t max_items, char *key, size_t key_cap,
                         char *type, size_t type_cap, char *value, size_t value_cap) {
    if (i >= tn_file_n_meta(model->m->file)) return false;
    const tn_meta *meta = tn_file_meta_at(model->m->file, i);
    const bool array = meta->type == TN_META_ARRAY;
    tn_escape(key, key_cap, meta->key.ptr, meta->key.len);
    snprintf(type, type_cap, "%s%s", tn_meta_type_name(meta->elem_type), array ? "[]" : "");
    if (array) snprintf(type, type_cap, "%s[%" PRIu64 "]", tn_meta_type_name(meta->elem_type), meta->count);
    if (array)
        array_text(value, value_cap, meta, max_items);
    else
        value_text(value, value_cap, meta, 0);
    return true;
}

size_t tern_model_metadata_item(const tern_model *model, uint64_t i, uint64_t item, char *dst, size_t cap,
                                uint64_t *count) {
    const bool exists = i < tn_file_n_meta(model->m->file);
    const tn_meta *meta = exists ? tn_file_meta_at(model->m->file, i) : NULL;
    if (count) *count = exists ? meta->count : 0;
    if (!exists || item >= meta->count) return SIZE_MAX;
    tn_str text;
    char number[64];
    if (!tn_meta_str(meta, item, &text))
        text = (tn_str){number, value_text(number, sizeof number, meta, item)};
    if (cap) memcpy(dst, text.ptr, text.len < cap ? text.len : cap);
    return text.len;
}

bool tern_model_tensor(const tern_model *model, uint64_t i, tern_tensor_info *info) {
    if (i >= tn_file_n_tensors(model->m->file)) return false;
    const tn_tensor *t = tn_file_tensor_at(model->m->file, i);
    *info = (tern_tensor_info){.name = t->cname,
                               .type = tn_dtypes[t->dtype].name,
                               .n_dims = t->n_dims,
                               .dims = {t->dims[0], t->dims[1], t->dims[2], t->dims[3]},
                               .n_bytes = t->n_bytes,
                               .computable = tn_dtypes[t->dtype].act != TN_ACT_NONE};
    return true;
}
