/* Two hash tables over a vocabulary, made at load and read-only after: token text to id, and pair of ids to
 * merge. */
#ifndef TN_TEXT_VOCAB_INDEX_H
#define TN_TEXT_VOCAB_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/arena.h"

#define TN_NO_TOKEN UINT32_MAX

struct tn_token;

typedef struct tn_text_slot {
    uint32_t hash;
    uint32_t id_plus_1; /* 0: empty */
} tn_text_slot;

typedef struct tn_text_index {
    tn_text_slot *slots; /* mask + 1 of them, a power of two, at most two thirds full */
    uint64_t mask;
    const struct tn_token *tokens; /* borrowed: the texts are compared there */
} tn_text_index;

/* Room for n texts; false when memory is out. */
bool tn_text_index_init(tn_text_index *index, const struct tn_token *tokens, uint32_t n, tn_arena *arena);

/* Adds tokens[id]; of equal texts the first one added stays. */
void tn_text_index_add(tn_text_index *index, uint32_t id);

/* The id of n bytes of text, or TN_NO_TOKEN. */
uint32_t tn_text_index_find(const tn_text_index *index, const char *text, size_t n);

typedef struct tn_pair_slot {
    uint32_t left, right, merged;
    uint32_t rank_plus_1; /* 0: empty */
} tn_pair_slot;

typedef struct tn_pair_index {
    tn_pair_slot *slots;
    uint64_t mask;
} tn_pair_index;

bool tn_pair_index_init(tn_pair_index *index, uint32_t n, tn_arena *arena);

/* Adds a merge of two tokens; of equal pairs the first one added stays. */
void tn_pair_index_add(tn_pair_index *index, uint32_t left, uint32_t right, uint32_t merged, uint32_t rank);

/* The merge of a pair, or NULL. */
const tn_pair_slot *tn_pair_index_find(const tn_pair_index *index, uint32_t left, uint32_t right);

#endif
