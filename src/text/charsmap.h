/* SentencePiece's compiled normalization rules (its "precompiled charsmap").
 *
 *   u32 trie_bytes | trie_bytes of u32: a double array, Darts-clone's layout | texts, each ended by a NUL
 *
 * The array maps prefixes of the text to offsets in the texts. It comes from a file and is trusted in nothing: every
 * index is checked where it is used, and a rule that leads outside does not apply. All integers little-endian. */
#ifndef TN_TEXT_CHARSMAP_H
#define TN_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "../base/status.h"

typedef struct tn_charsmap {
    const uint8_t *units; /* borrowed; no alignment */
    size_t n_units;       /* 0: no rules */
    const char *texts;    /* borrowed; the last byte is a NUL */
    size_t n_text_bytes;
} tn_charsmap;

/* The longest rule and the longest text that apply; those of NFKC have at most 18 and 33 bytes. */
enum { TN_CHARSMAP_MAX_RULE = 64, TN_CHARSMAP_MAX_TEXT = 64 };

tn_status tn_charsmap_read(tn_charsmap *map, const uint8_t *data, size_t n, tn_error *err);

/* The bytes at the start of text[0 .. n) that the longest rule replaces, 0 if none applies, and what by. */
size_t tn_charsmap_match(const tn_charsmap *map, const char *text, size_t n, const char **by, size_t *by_len);

#endif
