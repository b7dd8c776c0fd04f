/* The vocabulary of a checkpoint, on its way into metadata. */
#ifndef TN_CONVERT_VOCAB_H
#define TN_CONVERT_VOCAB_H

#include "../text/tokenizer.h"
#include "convert_impl.h"

typedef struct tn_hf_vocab {
    const char *model; /* tokenizer.ggml.model */
    const char *pre;   /* tokenizer.ggml.pre */
    uint32_t n;        /* as config.json says; ids without a token are unused ones */
    tn_str *texts;
    int32_t *types; /* tn_token_type */
    float *scores;
    bool has_scores;
    tn_str *merges;
    size_t n_merges;
    int add_space_prefix;    /* 1, 0, -1: not said */
    const uint8_t *charsmap; /* SentencePiece's compiled normalization, in the arena; NULL */
    size_t n_charsmap_bytes;
    int remove_extra_spaces; /* as add_space_prefix */
} tn_hf_vocab;

/* Each fills a vocabulary whose ids all are unused tokens: of tokenizer.model, tokenizer.json, vocab.txt. */
tn_status tn_vocab_read_spm(tn_converter *c, const char *path, tn_hf_vocab *v);
tn_status tn_vocab_read_json(tn_converter *c, const json_t *tokenizer, tn_hf_vocab *v);
tn_status tn_vocab_read_lines(tn_converter *c, const char *path, tn_hf_vocab *v);

/* Makes tokens as WordPiece has them in checkpoints those of files, and the vocabulary one of its kind. */
tn_status tn_vocab_mark_words(tn_converter *c, tn_hf_vocab *v);

/* A token that was added to the vocabulary: control tokens stay as they are, in others U+2581 is a space. */
tn_status tn_vocab_add(tn_converter *c, tn_hf_vocab *v, uint64_t id, const json_t *token, float score);

/* The name of the pre-tokenizer that cuts as tokenizer.json says; what no table has is an error that names --pre. */
tn_status tn_vocab_find_pre(tn_converter *c, const json_t *tokenizer, const char **name);

/* Ids and flags of special tokens, and what the normalizer does. `tokenizer` may be NULL. */
void tn_vocab_write_special(tn_converter *c, const tn_hf_vocab *v, const json_t *tokenizer);

/* The chat templates. */
tn_status tn_vocab_write_templates(tn_converter *c);

#endif
