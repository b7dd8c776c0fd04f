/* What the files of the tokenizer share. */
#ifndef TN_TEXT_TOKENIZER_IMPL_H
#define TN_TEXT_TOKENIZER_IMPL_H

#include "charsmap.h"
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

typedef struct tn_encoder tn_encoder;

/* One kind of tokenizer: a row of the table in tokenizer_load.c. */
typedef struct tn_text_model {
    const char *name; /* tokenizer.ggml.model */
    /* After the tokens, special tokens and byte tokens are known; may be NULL. */
    tn_status (*load)(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);
    /* Text without control tokens in it and, unless marks_spaces, without user-defined ones. */
    tn_status (*encode)(tn_encoder *enc, const char *text, size_t n);
    /* Writes the bytes that a token's text stands for (at most n) and returns how many. */
    size_t (*decode)(const char *text, size_t n, char *dst);
    bool pretokenizes; /* by the rules that tokenizer.ggml.pre names */
    bool
        marks_spaces; /* SentencePiece's alphabet: U+2581 for spaces; encode meets user-defined tokens in it */
    bool needs_scores;
    bool add_bos, add_eos, add_sep, add_space_prefix; /* unless the file says otherwise */
} tn_text_model;

struct tn_tokenizer {
    const tn_text_model *model;
    tn_arena arena; /* all that follows but what libraries made */
    tn_token *tokens;
    uint32_t n_tokens;
    tn_text_index by_text; /* the tokens that merging may reach: all but control, unknown and byte tokens */
    tn_pair_index merges;  /* byte-pair encoding with ranks */
    tn_prefixes matched;   /* unigram, WordPiece, RWKV: the texts of normal tokens, as matched in the text */
    tn_pretok *pretok;     /* byte-level BPE */
    tn_charsmap charsmap;  /* unigram */
    tn_prefixes specials;
    uint32_t byte_ids[256];   /* the token of a byte by itself, or TN_NO_TOKEN */
    uint16_t byte_chars[256]; /* byte-level BPE: the letter of the GPT-2 byte alphabet for a byte */
    uint32_t max_len;         /* of the texts in by_text */
    uint32_t unk;             /* or TN_NO_TOKEN */
    double unk_score;         /* unigram: of a character without a token */
    int32_t bos, eos;         /* or -1 */
    int32_t frame_end;        /* put behind a framed text, or -1 */
    int32_t replacement[3];   /* byte-level BPE: the tokens of U+FFFD */
    size_t n_replacement;     /* 0 if the vocabulary cannot write it */
    bool add_bos, add_space_prefix, ignore_merges, nfc, has_unused;
    bool joins_words;              /* SentencePiece: a mergeable token has a space behind something else */
    bool remove_extra_spaces;      /* unigram */
    bool lowercase, strip_accents; /* WordPiece */
};

/* The state of one tn_tokenize. */
struct tn_encoder {
    const tn_tokenizer *tok;
    int32_t *ids;
    size_t n_ids, cap_ids;
    tn_merge_work work;
    tn_error *err;
};

tn_status tn_encoder_push(tn_encoder *enc, uint32_t id);

/* A byte by itself: its byte token or byte character, else the unknown token, else U+FFFD, else an error. */
tn_status tn_encoder_push_byte(tn_encoder *enc, uint8_t byte);

/* A character that the vocabulary lacks: its byte tokens if it has them all, else as tn_encoder_push_byte. */
tn_status tn_encoder_push_unknown(tn_encoder *enc, const char *text, size_t n);

/* Fills tok->matched with the normal tokens, by their bytes or by their texts. */
tn_status tn_tokenizer_index_matched(tn_tokenizer *tok, bool bytes, tn_error *err);

/* ---- Byte-level BPE (bpe.c) ---------------------------------------------------------------------------- */

/* A text with characters outside the byte alphabet stands for itself. */
size_t tn_bpe_decode(const char *text, size_t n, char *dst);
tn_status tn_bpe_load_merges(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);
tn_status tn_bpe_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);
tn_status tn_bpe_encode(tn_encoder *enc, const char *text, size_t n);

/* Sets what left and right merge into by the ranked merges; a tn_pair_fn but for its user. */
void tn_bpe_find_pair(const tn_tokenizer *tok, tn_symbol *left, const tn_symbol *right);

/* ---- SentencePiece's byte-pair encoding (spm.c), by scores or, where the file has merges, by their ranks - */

size_t tn_spm_decode(const char *text, size_t n, char *dst);
tn_status tn_spm_encode(tn_encoder *enc, const char *text, size_t n);

/* Writes the text with U+2581 for each space; at most TN_SPACE_MARK_LEN * n bytes. Returns the bytes written. */
size_t tn_spm_mark_spaces(const char *text, size_t n, char *dst);
enum { TN_SPACE_MARK_LEN = 3 };
#define TN_SPACE_MARK "\xE2\x96\x81"

/* Whether the text has U+2581 behind another character. */
bool tn_spm_joins_words(const char *text, size_t n);

/* ---- SentencePiece's unigram model (unigram.c) ------------------------------------------------------------ */

tn_status tn_unigram_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);
tn_status tn_unigram_encode(tn_encoder *enc, const char *text, size_t n);

/* ---- BERT's WordPiece (wordpiece.c) ------------------------------------------------------------------------ */

tn_status tn_wordpiece_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);
tn_status tn_wordpiece_encode(tn_encoder *enc, const char *text, size_t n);

/* ---- RWKV (rwkv.c) ------------------------------------------------------------------------------------------ */

size_t tn_rwkv_decode(const char *text, size_t n, char *dst);
tn_status tn_rwkv_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err);
tn_status tn_rwkv_encode(tn_encoder *enc, const char *text, size_t n);

#endif
