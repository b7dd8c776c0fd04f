/* A vocabulary as a file gives it: read by src/model, used by src/text. */
#ifndef TN_BASE_VOCAB_H
#define TN_BASE_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "memory.h"

/* Arrays checked for shape; strings are (pointer, length), borrowed from the file. */
typedef struct tn_vocab_source {
    const char *model; /* "gpt2", "llama", ... NUL-terminated; NULL if absent */
    const char *pre;   /* pre-tokenizer name; NULL if absent */
    uint32_t n_tokens;
    const char *const *token_text; /* n_tokens */
    const uint32_t *token_len;
    const float *scores;  /* n_tokens or NULL */
    const int32_t *types; /* n_tokens or NULL: all normal */
    uint32_t n_merges;
    const char *const *merge_text; /* "left right" */
    const uint32_t *merge_len;
    const uint8_t *charsmap; /* SentencePiece's compiled normalization, unchecked; NULL if absent */
    size_t n_charsmap_bytes;
    int64_t bos, eos, eot, unk, sep; /* ids, -1 if absent */
    /* 1, 0, -1: not said (the tokenizer model's default holds) */
    int8_t add_bos, add_eos, add_sep, add_space_prefix, remove_extra_spaces;
    int8_t lowercase, strip_accents; /* WordPiece */
    tn_allocator allocator;          /* of a tokenizer made of it; all zero: the system's memory */
} tn_vocab_source;

#endif
