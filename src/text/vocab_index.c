#include "vocab_index.h"

#include <string.h>

#include "tokenizer_impl.h"

/* A multiply and a shift-fold a word: each input bit reaches the low bits, which choose the slot. */
static inline uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t hash_text(const char *text, size_t n) {
    uint64_t h = mix(n, UINT64_C(0xD1B54A32D192ED03)), word = 0;
    for (; n >= 8; text += 8, n -= 8) {
        memcpy(&word, text, 8);
        h = mix(h, word);
    }
    word = 0;
    for (size_t i = 0; i < n; i++) word = word << 8 | (uint8_t)text[i];
    return mix(mix(h, word), h);
}

static uint64_t hash_pair(uint32_t left, uint32_t right) {
    return mix(mix(UINT64_C(0xD1B54A32D192ED03), (uint64_t)left << 32 | right), right);
}

/* The smallest power of two that n entries fill to two thirds at most. */
static uint64_t table_size(uint32_t n) {
    uint64_t size = 16;
    while (size < (uint64_t)n + n / 2) size *= 2;
    return size;
}

bool tn_text_index_init(tn_text_index *index, const tn_token *tokens, uint32_t n, tn_arena *arena) {
    uint64_t size = table_size(n);
    index->slots = tn_arena_alloc(arena, size, sizeof *index->slots);
    index->mask = size - 1;
    index->tokens = tokens;
    return index->slots != NULL;
}

/* The slot that holds the text, or the empty one where it belongs. */
static tn_text_slot *find_text_slot(const tn_text_index *index, const char *text, size_t n, uint32_t *tag) {
    uint64_t hash = hash_text(text, n);
    *tag = (uint32_t)(hash >> 32);
    for (uint64_t i = hash & index->mask;; i = (i + 1) & index->mask) {
        tn_text_slot *slot = &index->slots[i];
        if (slot->id_plus_1 == 0) return slot;
        if (slot->hash != *tag) continue;
        const tn_token *token = &index->tokens[slot->id_plus_1 - 1];
        if (token->text_len == n && memcmp(token->text, text, n) == 0) return slot;
    }
}

void tn_text_index_add(tn_text_index *index, uint32_t id) {
    uint32_t tag;
    const tn_token *token = &index->tokens[id];
    tn_text_slot *slot = find_text_slot(index, token->text, token->text_len, &tag);
    if (slot->id_plus_1 != 0) return;
    slot->hash = tag;
    slot->id_plus_1 = id + 1;
}

uint32_t tn_text_index_find(const tn_text_index *index, const char *text, size_t n) {
    uint32_t tag;
    return find_text_slot(index, text, n, &tag)->id_plus_1 - 1; /* 0 - 1 is TN_NO_TOKEN */
}

bool tn_pair_index_init(tn_pair_index *index, uint32_t n, tn_arena *arena) {
    uint64_t size = table_size(n);
    index->slots = tn_arena_alloc(arena, size, sizeof *index->slots);
    index->mask = size - 1;
    return index->slots != NULL;
}

static tn_pair_slot *find_pair_slot(const tn_pair_index *index, uint32_t left, uint32_t right) {
    for (uint64_t i = hash_pair(left, right) & index->mask;; i = (i + 1) & index->mask) {
        tn_pair_slot *slot = &index->slots[i];
        if (slot->rank_plus_1 == 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

void tn_pair_index_add(tn_pair_index *index, uint32_t left, uint32_t right, uint32_t merged, uint32_t rank) {
    tn_pair_slot *slot = find_pair_slot(index, left, right);
    if (slot->rank_plus_1 == 0) *slot = (tn_pair_slot){left, right, merged, rank + 1};
}

const tn_pair_slot *tn_pair_index_find(const tn_pair_index *index, uint32_t left, uint32_t right) {
    const tn_pair_slot *slot = find_pair_slot(index, left, right);
    return slot->rank_plus_1 ? slot : NULL;
}
