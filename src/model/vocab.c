#include "vocab.h"

#include <string.h>

enum { MAX_TOKEN_BYTES = 1 << 16 }; /* published vocabularies stay below 1 KiB */

static tn_status bad(const tn_file *file, const char *key, const char *why, tn_error *err) {
    return tn_fail(err, TN_ERR_FORMAT, "bad vocabulary", tn_file_path(file), "key '%s': %s", key, why);
}

static tn_status out_of_memory(const tn_file *file, tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "cannot read the vocabulary", tn_file_path(file), "out of memory");
}

static tn_status read_name(const tn_file *file, const char *key, tn_arena *arena, const char **out,
                           tn_error *err) {
    const tn_meta *meta = tn_file_meta(file, key);
    tn_str text;
    *out = NULL;
    if (!meta) return TN_OK;
    if (!tn_meta_str(meta, 0, &text)) return bad(file, key, "expected a string", err);
    *out = tn_arena_strdup(arena, text.ptr, text.len);
    return *out ? TN_OK : out_of_memory(file, err);
}

static tn_status read_strings(const tn_file *file, const char *key, tn_arena *arena, const char *const **text,
                              const uint32_t **len, uint32_t *n, tn_error *err) {
    const tn_meta *meta = tn_file_meta(file, key);
    *n = 0;
    if (!meta) return TN_OK;
    if (meta->type != TN_META_ARRAY || meta->elem_type != TN_META_STRING || meta->count > INT32_MAX)
        return bad(file, key, "expected an array of strings", err);
    const char **texts = tn_arena_alloc(arena, meta->count, sizeof *texts);
    uint32_t *lens = tn_arena_alloc(arena, meta->count, sizeof *lens);
    if (!texts || !lens) return out_of_memory(file, err);
    for (uint64_t i = 0; i < meta->count; i++) {
        tn_str s;
        if (!tn_meta_str(meta, i, &s) || s.len > MAX_TOKEN_BYTES)
            return tn_fail(err, TN_ERR_FORMAT, "bad vocabulary", tn_file_path(file),
                           "key '%s': string %llu is longer than %d bytes", key, (unsigned long long)i,
                           MAX_TOKEN_BYTES);
        texts[i] = s.ptr;
        lens[i] = (uint32_t)s.len;
    }
    *text = texts, *len = lens, *n = (uint32_t)meta->count;
    return TN_OK;
}

/* An array with one element a token, or NULL. */
static tn_status token_array(const tn_file *file, const char *key, tn_meta_type type, uint32_t n,
                             const tn_meta **out, tn_error *err) {
    *out = tn_file_meta(file, key);
    if (!*out) return TN_OK;
    if ((*out)->type != TN_META_ARRAY || (*out)->elem_type != type)
        return bad(file, key, type == TN_META_F32 ? "expected an array of f32" : "expected an array of i32",
                   err);
    if ((*out)->count != n)
        return tn_fail(err, TN_ERR_FORMAT, "bad vocabulary", tn_file_path(file),
                       "key '%s': expected %u values, one a token, found %llu", key, n,
                       (unsigned long long)(*out)->count);
    return TN_OK;
}

static tn_status copy_array(const tn_file *file, const tn_meta *meta, tn_arena *arena, const void **out,
                            tn_error *err) {
    *out = NULL;
    if (!meta) return TN_OK;
    void *copy = tn_arena_alloc(arena, meta->count, 4);
    if (!copy) return out_of_memory(file, err);
    memcpy(copy, meta->data, meta->count * 4); /* the file's arrays have no alignment */
    *out = copy;
    return TN_OK;
}

static tn_status read_id(const tn_file *file, const char *key, uint32_t n_tokens, int64_t *out,
                         tn_error *err) {
    const tn_meta *meta = tn_file_meta(file, key);
    uint64_t id;
    *out = -1;
    if (!meta) return TN_OK;
    if (!tn_meta_u64(meta, 0, &id) || id >= n_tokens) {
        int64_t negative;
        if (tn_meta_i64(meta, 0, &negative) && negative == -1) return TN_OK; /* how some writers say "none" */
        return tn_fail(err, TN_ERR_FORMAT, "bad vocabulary", tn_file_path(file),
                       "key '%s': expected a token id below %u", key, n_tokens);
    }
    *out = (int64_t)id;
    return TN_OK;
}

static tn_status read_flag(const tn_file *file, const char *key, int8_t *out, tn_error *err) {
    const tn_meta *meta = tn_file_meta(file, key);
    bool value;
    *out = -1;
    if (!meta) return TN_OK;
    if (!tn_meta_bool(meta, 0, &value)) return bad(file, key, "expected a bool", err);
    *out = value;
    return TN_OK;
}

static tn_status read_charsmap(const tn_file *file, tn_vocab_source *v, tn_error *err) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const tn_meta *meta = tn_file_meta(file, key);
    if (!meta) return TN_OK;
    if (meta->type != TN_META_ARRAY || (meta->elem_type != TN_META_U8 && meta->elem_type != TN_META_I8))
        return bad(file, key, "expected an array of bytes", err);
    v->charsmap = meta->data;
    v->n_charsmap_bytes = meta->count;
    return TN_OK;
}

static tn_status read_ids_and_flags(const tn_file *file, tn_vocab_source *v, tn_error *err) {
    tn_status s;
    if ((s = read_id(file, "tokenizer.ggml.bos_token_id", v->n_tokens, &v->bos, err)) ||
        (s = read_id(file, "tokenizer.ggml.eos_token_id", v->n_tokens, &v->eos, err)) ||
        (s = read_id(file, "tokenizer.ggml.eot_token_id", v->n_tokens, &v->eot, err)) ||
        (s = read_id(file, "tokenizer.ggml.unknown_token_id", v->n_tokens, &v->unk, err)) ||
        (s = read_id(file, "tokenizer.ggml.seperator_token_id", v->n_tokens, &v->sep, err)) || /* sic */
        (s = read_flag(file, "tokenizer.ggml.add_bos_token", &v->add_bos, err)) ||
        (s = read_flag(file, "tokenizer.ggml.add_eos_token", &v->add_eos, err)) ||
        (s = read_flag(file, "tokenizer.ggml.add_sep_token", &v->add_sep, err)) ||
        (s = read_flag(file, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix, err)) ||
        (s = read_flag(file, "tokenizer.ggml.normalizer.lowercase", &v->lowercase, err)) ||
        (s = read_flag(file, "tokenizer.ggml.normalizer.strip_accents", &v->strip_accents, err)))
        return s;
    return read_flag(file, "tokenizer.ggml.remove_extra_whitespaces", &v->remove_extra_spaces, err);
}

tn_status tn_vocab_read(const tn_file *file, tn_arena *arena, tn_vocab_source *v, tn_error *err) {
    *v = (tn_vocab_source){.bos = -1, .eos = -1, .eot = -1, .unk = -1, .sep = -1};
    v->allocator = arena->allocator;
    tn_status s = read_name(file, "tokenizer.ggml.model", arena, &v->model, err);
    if (s || !v->model || !strcmp(v->model, "no_vocab")) return s;
    const tn_meta *scores, *types;
    if ((s = read_name(file, "tokenizer.ggml.pre", arena, &v->pre, err)) ||
        (s = read_strings(file, "tokenizer.ggml.tokens", arena, &v->token_text, &v->token_len, &v->n_tokens,
                          err)) ||
        (s = read_strings(file, "tokenizer.ggml.merges", arena, &v->merge_text, &v->merge_len, &v->n_merges,
                          err)))
        return s;
    if (v->n_tokens == 0) return bad(file, "tokenizer.ggml.tokens", "missing or empty", err);
    if ((s = token_array(file, "tokenizer.ggml.scores", TN_META_F32, v->n_tokens, &scores, err)) ||
        (s = token_array(file, "tokenizer.ggml.token_type", TN_META_I32, v->n_tokens, &types, err)) ||
        (s = copy_array(file, scores, arena, (const void **)&v->scores, err)) ||
        (s = copy_array(file, types, arena, (const void **)&v->types, err)))
        return s;
    if ((s = read_charsmap(file, v, err))) return s;
    return read_ids_and_flags(file, v, err);
}
