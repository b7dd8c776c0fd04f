/* What the files of the tokenizer share. */
#ifndef TN_TEXT_TOKENIZER_IMPL_H
#define TN_TEXT_TOKENIZER_IMPL_H

#include "merge.h"
#include "pretok.h"
#include "special.h"
#include "tokenizer.h"
#include "vocab_index.h"

typedef struct tn_token {
    const char *text;  /* as in the file, borrowed from there */
    const char *bytes; /* what it stands for in text: borrowed, or in tn_tokenizer.decoded */
    uint32_t text_len, bytes_len;
    float score;
    uint8_t type;
    bool is_end;
} tn_token;

struct tn_tokenizer {
    tn_token *tokens;
    uint32_t n_tokens;
    char *decoded;
    char *marked; /* texts of user-defined tokens with their spaces marked, as SentencePiece meets them */
    bool spm;     /* SentencePiece; else byte-level BPE */
    tn_text_index by_text; /* the tokens that merging may reach: all but control, unknown and byte tokens */
    tn_pair_index merges;  /* byte-level BPE */
    tn_pretok *pretok;     /* byte-level BPE */
    tn_specials specials;
    uint32_t byte_ids[256];   /* the token of a byte by itself, or TN_NO_TOKEN */
    uint16_t byte_chars[256]; /* byte-level BPE: the letter of the GPT-2 byte alphabet for a byte */
    uint32_t max_len;         /* of the texts in by_text */
    uint32_t unk;             /* or TN_NO_TOKEN */
    int32_t bos, eos;         /* or -1 */
    int32_t replacement[3];   /* byte-level BPE: the tokens of U+FFFD */
    size_t n_replacement;     /* 0 if the vocabulary cannot write it */
    bool add_bos, add_eos, add_space_prefix, ignore_merges, has_unused;
    bool joins_words; /* SentencePiece: a mergeable token has a space behind something else */
};

/* The state of one tn_tokenize. */
typedef struct tn_encoder {
    const tn_tokenizer *tok;
    int32_t *ids;
    size_t n_ids, cap_ids;
    tn_merge_work work;
    tn_error *err;
} tn_encoder;

tn_status tn_encoder_push(tn_encoder *enc, uint32_t id);

/* A byte by itself: its byte token or byte character, else the unknown token, else U+FFFD, else an error. */
tn_status tn_encoder_push_byte(tn_encoder *enc, uint8_t byte);

/* ---- Byte-level BPE (bpe.c) ---------------------------------------------------------------------------- */

/* Writes the bytes that a token's text stands for (at most n) and returns how many; a text with characters
 * outside the byte alphabet stands for itself. */
size_t tn_bpe_decode(const char *text, size_t n, char *dst);

/* Reads the merges and the bytes' tokens. */
tn_status tn_bpe_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);

/* Text without special tokens in it. */
tn_status tn_bpe_encode(tn_encoder *enc, const char *text, size_t n);

/* ---- SentencePiece (spm.c) ----------------------------------------------------------------------------- */

/* Writes the text with U+2581 as spaces (at most n bytes) and returns the length. */
size_t tn_spm_decode(const char *text, size_t n, char *dst);

/* Writes the text with U+2581 for each space; at most TN_SPACE_MARK_LEN * n bytes. Returns the bytes written. */
size_t tn_spm_mark_spaces(const char *text, size_t n, char *dst);
enum { TN_SPACE_MARK_LEN = 3 };

/* Whether the text has U+2581 behind another character. */
bool tn_spm_joins_words(const char *text, size_t n);

/* Text without control tokens in it. */
tn_status tn_spm_encode(tn_encoder *enc, const char *text, size_t n);

#endif
