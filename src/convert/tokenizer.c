/* The tokenizer's metadata: which file has it, and what the description adds. */
#include <stdio.h>
#include <string.h>

#include "../base/fmap.h"
#include "vocab.h"

static const float PADDING_SCORE = -10000;

/* All ids begin as "[PADn]", unused. */
static tn_status new_vocab(tn_converter *c, tn_hf_vocab *v) {
    *v = (tn_hf_vocab){.n = c->n_vocab, .add_space_prefix = -1, .remove_extra_spaces = -1};
    v->texts = tn_arena_alloc(&c->arena, v->n, sizeof *v->texts);
    v->types = tn_arena_alloc(&c->arena, v->n, sizeof *v->types);
    v->scores = tn_arena_alloc(&c->arena, v->n, sizeof *v->scores);
    if (!v->texts || !v->types || !v->scores) return tn_convert_no_memory(c);
    for (uint32_t i = 0; i < v->n; i++) {
        char text[24];
        const int n = snprintf(text, sizeof text, "[PAD%u]", i);
        v->texts[i] = (tn_str){tn_arena_strdup(&c->arena, text, (size_t)n), (uint64_t)n};
        if (!v->texts[i].ptr) return tn_convert_no_memory(c);
        v->types[i] = TN_TOKEN_UNUSED;
        v->scores[i] = PADDING_SCORE;
    }
    return TN_OK;
}

static void write_vocab(const tn_converter *c, const tn_hf_vocab *v) {
    tn_gguf_set_text(c->writer, "tokenizer.ggml.model", v->model, strlen(v->model));
    tn_gguf_set_text(c->writer, "tokenizer.ggml.pre", v->pre, strlen(v->pre));
    tn_gguf_set_texts(c->writer, "tokenizer.ggml.tokens", v->texts, v->n);
    if (v->has_scores) tn_gguf_set_array(c->writer, "tokenizer.ggml.scores", TN_META_F32, v->scores, v->n);
    tn_gguf_set_array(c->writer, "tokenizer.ggml.token_type", TN_META_I32, v->types, v->n);
    if (v->n_merges) tn_gguf_set_texts(c->writer, "tokenizer.ggml.merges", v->merges, v->n_merges);
    if (v->add_space_prefix >= 0)
        tn_gguf_set_bool(c->writer, "tokenizer.ggml.add_space_prefix", v->add_space_prefix != 0);
    if (v->remove_extra_spaces >= 0)
        tn_gguf_set_bool(c->writer, "tokenizer.ggml.remove_extra_whitespaces", v->remove_extra_spaces != 0);
    if (v->charsmap)
        tn_gguf_set_array(c->writer, "tokenizer.ggml.precompiled_charsmap", TN_META_U8, v->charsmap,
                          v->n_charsmap_bytes);
}

static bool find_token(const tn_hf_vocab *v, const char *text, uint32_t *id) {
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->texts[i].len != strlen(text) || memcmp(v->texts[i].ptr, text, strlen(text)) != 0) continue;
        *id = i;
        return true;
    }
    return false;
}

/* What the description says of keys behind "tokenizer.ggml.": ids where the key ends so, else flags. Those that name a token
 * stand back behind what the checkpoint's files say, the others count more. */
static tn_status write_described(const tn_converter *c, const tn_hf_vocab *v, bool tokens) {
    for (size_t i = 0; i < c->arch.hf.n_tokenizer; i++) {
        const tn_hf_named *item = &c->arch.hf.tokenizer[i];
        if (tokens != (item->token != NULL)) continue;
        char key[96];
        tn_place at = {0};
        double value = 0;
        bool found = true;
        uint32_t id = v->n;
        const size_t n = strlen(item->name);
        snprintf(key, sizeof key, "tokenizer.ggml.%s", item->name);
        tn_status s = TN_OK;
        if (item->token)
            found = find_token(v, item->token, &id);
        else if (!(s = tn_convert_source(c, &at, &item->source, &value, &found)) && found && value >= 0 &&
                 value < v->n)
            id = (uint32_t)value;
        if (s) return s;
        if (!found) continue;
        if (!item->token && value < 0) continue; /* how an expression says that the key is not written */
        if (n > 3 && !strcmp(item->name + n - 3, "_id")) {
            if (id < v->n) tn_gguf_set_u32(c->writer, key, id);
        } else {
            tn_gguf_set_bool(c->writer, key, value != 0);
        }
    }
    return TN_OK;
}

static tn_status write_all(tn_converter *c, const char *model, const char *lines, const json_t *tokenizer) {
    tn_hf_vocab v;
    bool has_model, has_lines;
    tn_status s = new_vocab(c, &v);
    if (s || (s = tn_fmap_exists(model, &has_model, c->err)) ||
        (s = tn_fmap_exists(lines, &has_lines, c->err)))
        return s;
    if (has_model)
        s = tn_vocab_read_spm(c, model, &v);
    else if (tokenizer)
        s = tn_vocab_read_json(c, tokenizer, &v);
    else if (has_lines)
        s = tn_vocab_read_lines(c, lines, &v);
    else
        s = tn_fail(c->err, TN_ERR_IO, TN_CONVERT_WHAT, c->dir,
                    "there is neither tokenizer.model nor tokenizer.json nor vocab.txt");
    if (s) return s;
    write_vocab(c, &v);
    if ((s = write_described(c, &v, true))) return s;
    tn_vocab_write_special(c, &v, tokenizer);
    if ((s = tn_vocab_write_templates(c))) return s;
    return write_described(c, &v, false);
}

tn_status tn_convert_write_tokenizer(tn_converter *c) {
    json_t *tokenizer;
    const char *model = tn_convert_path(c, "tokenizer.model"), *lines = tn_convert_path(c, "vocab.txt");
    if (!model || !lines) return tn_convert_no_memory(c);
    tn_status s = tn_convert_json(c, "tokenizer.json", JSON_OBJECT, &tokenizer);
    if (!s) s = write_all(c, model, lines, tokenizer);
    json_decref(tokenizer);
    return s;
}
