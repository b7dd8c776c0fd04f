/* Writes a small random model file for tests of the layers above formats. */
#ifndef TN_TESTS_TINY_MODEL_H
#define TN_TESTS_TINY_MODEL_H

#include <stdio.h>
#include <unistd.h>

#include "gguf_builder.h"
#include "src/model/model.h"
#include "tern.h"

typedef struct tiny_shape {
    const char *arch; /* "llama", "gemma3" or "gemma-embedding" */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, window;
    bool q8_0;                          /* matrices in Q8_0, else F32 */
    uint32_t n_experts, n_experts_used; /* llama; 0: an MLP */
} tiny_shape;

static const tiny_shape tiny_llama = {"llama", 2, 64, 4, 2, 16, 96, 50, 0, false, 0, 0};
static const tiny_shape tiny_mixtral = {"llama", 2, 64, 4, 2, 16, 96, 50, 0, true, 5, 2};
static const tiny_shape tiny_gemma3 = {"gemma3", 7, 64, 4, 1, 16, 96, 50, 16, false, 0, 0};
static const tiny_shape tiny_encoder = {"gemma-embedding", 7, 64, 4, 1, 16, 96, 50, 16, false, 0, 0};

typedef struct tiny_tensor {
    char name[64];
    uint64_t k, n; /* n == 0: a vector */
    uint64_t n_matrices;
} tiny_tensor;

static uint32_t tiny_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void tiny_put(tiny_tensor *list, size_t *count, const char *format, uint32_t layer, uint64_t k,
                     uint64_t n) {
    snprintf(list[*count].name, sizeof list->name, format, layer);
    list[*count].k = k;
    list[*count].n_matrices = 1;
    list[(*count)++].n = n;
}

static size_t tiny_list(const tiny_shape *s, tiny_tensor *t) {
    size_t c = 0;
    const bool gemma = !strncmp(s->arch, "gemma", 5);
    const uint64_t e = s->n_embd, q = (uint64_t)s->n_heads * s->head_dim,
                   kv = (uint64_t)s->n_kv_heads * s->head_dim;
    tiny_put(t, &c, "token_embd.weight", 0, e, s->n_vocab);
    tiny_put(t, &c, "output_norm.weight", 0, e, 0);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        tiny_put(t, &c, "blk.%u.attn_norm.weight", i, e, 0);
        tiny_put(t, &c, "blk.%u.attn_q.weight", i, e, q);
        tiny_put(t, &c, "blk.%u.attn_k.weight", i, e, kv);
        tiny_put(t, &c, "blk.%u.attn_v.weight", i, e, kv);
        tiny_put(t, &c, "blk.%u.attn_output.weight", i, q, e);
        tiny_put(t, &c, "blk.%u.ffn_norm.weight", i, e, 0);
        if (s->n_experts) {
            tiny_put(t, &c, "blk.%u.ffn_gate_inp.weight", i, e, s->n_experts);
            tiny_put(t, &c, "blk.%u.ffn_gate_exps.weight", i, e, s->n_ff);
            tiny_put(t, &c, "blk.%u.ffn_up_exps.weight", i, e, s->n_ff);
            tiny_put(t, &c, "blk.%u.ffn_down_exps.weight", i, s->n_ff, e);
            for (size_t last = c - 3; last < c; last++) t[last].n_matrices = s->n_experts;
        } else {
            tiny_put(t, &c, "blk.%u.ffn_gate.weight", i, e, s->n_ff);
            tiny_put(t, &c, "blk.%u.ffn_up.weight", i, e, s->n_ff);
            tiny_put(t, &c, "blk.%u.ffn_down.weight", i, s->n_ff, e);
        }
        if (!gemma) continue;
        tiny_put(t, &c, "blk.%u.attn_q_norm.weight", i, s->head_dim, 0);
        tiny_put(t, &c, "blk.%u.attn_k_norm.weight", i, s->head_dim, 0);
        tiny_put(t, &c, "blk.%u.post_attention_norm.weight", i, e, 0);
        tiny_put(t, &c, "blk.%u.post_ffw_norm.weight", i, e, 0);
    }
    return c;
}

static void tiny_key(gb *b, const char *arch, const char *key, uint32_t v) {
    char text[96];
    snprintf(text, sizeof text, "%s.%s", arch, key);
    gb_key_u32(b, text, v);
}

static uint64_t tiny_bytes(const tiny_shape *s, const tiny_tensor *t) {
    if (t->n == 0) return t->k * 4;
    return (s->q8_0 ? t->k / 32 * 34 : t->k * 4) * t->n * t->n_matrices;
}

static void tiny_data(gb *b, const tiny_shape *s, const tiny_tensor *t, uint64_t *rng) {
    if (t->n == 0 || !s->q8_0) {
        for (uint64_t i = 0; i < t->k * (t->n ? t->n * t->n_matrices : 1); i++) {
            float v =
                ((float)tiny_random(rng) / 2147483648.0f - 0.5f) * (t->n ? 0.35f : 0.5f) + (t->n ? 0 : 1);
            gb_bytes(b, &v, 4);
        }
    } else {
        for (uint64_t i = 0; i < t->k / 32 * t->n * t->n_matrices; i++) {
            gb_u16(b, 0x1800); /* 2^-9 */
            for (int j = 0; j < 32; j++) gb_u8(b, (uint8_t)((int)(tiny_random(rng) % 200) - 100));
        }
    }
    while (b->size % 32) gb_u8(b, 0);
}

/* Writes the model to path (a template for mkstemp, changed in place). */
static inline void tiny_write(const tiny_shape *s, char *path) {
    tiny_tensor list[256];
    const size_t n = tiny_list(s, list);
    const char *a = s->arch;
    gb b = {0};
    gb_header(&b, 3, n, 14);
    gb_key(&b, "general.architecture", 8);
    gb_str(&b, a);
    tiny_key(&b, a, "block_count", s->n_layers);
    tiny_key(&b, a, "embedding_length", s->n_embd);
    tiny_key(&b, a, "feed_forward_length", s->n_ff);
    tiny_key(&b, a, "attention.head_count", s->n_heads);
    tiny_key(&b, a, "attention.head_count_kv", s->n_kv_heads);
    tiny_key(&b, a, "attention.key_length", s->head_dim);
    tiny_key(&b, a, "attention.value_length", s->head_dim);
    tiny_key(&b, a, "attention.sliding_window", s->window);
    tiny_key(&b, a, "expert_count", s->n_experts);
    tiny_key(&b, a, "expert_used_count", s->n_experts_used);
    tiny_key(&b, a, "context_length", 4096);
    tiny_key(&b, a, "vocab_size", s->n_vocab);
    char key[96];
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", a);
    const float eps = 1e-5f;
    gb_key(&b, key, 6);
    gb_bytes(&b, &eps, 4);
    uint64_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        gb_str(&b, list[i].name);
        gb_u32(&b, !list[i].n ? 1 : list[i].n_matrices == 1 ? 2 : 3);
        gb_u64(&b, list[i].k);
        if (list[i].n) gb_u64(&b, list[i].n);
        if (list[i].n_matrices > 1) gb_u64(&b, list[i].n_matrices);
        gb_u32(&b, list[i].n && s->q8_0 ? 8 : 0);
        gb_u64(&b, offset);
        offset += (tiny_bytes(s, &list[i]) + 31) / 32 * 32;
    }
    while (b.size % 32) gb_u8(&b, 0);
    uint64_t rng = 42;
    for (size_t i = 0; i < n; i++) tiny_data(&b, s, &list[i], &rng);
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, b.data, b.size) != (ssize_t)b.size || close(fd)) exit(3);
    gb_free(&b);
}

/* Opens a model of this shape; its file is gone again. Fails the test if it cannot. */
static inline tn_model *tiny_open(const tiny_shape *shape) {
    char path[] = "/tmp/tern-tiny-XXXXXX";
    tiny_write(shape, path);
    tn_model *m = NULL;
    tn_error err = {0};
    const tn_model_options options = {0};
    if (tn_model_open(path, &options, &m, &err)) fail_msg("%s", err.message);
    unlink(path);
    return m;
}

/* The same by tern.h. */
static inline tern_model *tiny_open_public(const tiny_shape *shape) {
    char path[] = "/tmp/tern-tiny-XXXXXX";
    tern_error err;
    tern_model *model;
    tiny_write(shape, path);
    if (tern_model_open(path, NULL, &model, &err)) fail_msg("%s", err.message);
    unlink(path);
    return model;
}

#endif
