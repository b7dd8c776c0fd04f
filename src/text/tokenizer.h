/* Text to token ids and back.
 *
 * A tokenizer is built from the vocabulary that a model file carries and borrows its strings: the file must outlive it.
 * It is read-only once made and may be used by many threads. */
#ifndef TN_TEXT_TOKENIZER_H
#define TN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/status.h"
#include "../base/vocab.h"
#include "range.h"

typedef struct tn_tokenizer tn_tokenizer;

typedef enum tn_token_type { /* numbered as in GGUF */
                             TN_TOKEN_NORMAL = 1,
                             TN_TOKEN_UNKNOWN,
                             TN_TOKEN_CONTROL,
                             TN_TOKEN_USER_DEFINED,
                             TN_TOKEN_UNUSED,
                             TN_TOKEN_BYTE,
} tn_token_type;

/* pre_override, if not NULL, is the pre-tokenizer to use whatever the file says. Errors name the metadata key. */
tn_status tn_tokenizer_new(const tn_vocab_source *source, const char *pre_override, tn_tokenizer **out,
                           tn_error *err);
void tn_tokenizer_free(tn_tokenizer *tok); /* NULL is fine */

typedef enum tn_tokenize_flags {
    TN_TOKENIZE_BOS = 1,     /* put BOS (and EOS) where the vocabulary asks for it */
    TN_TOKENIZE_SPECIAL = 2, /* text of control tokens becomes those tokens; user-defined tokens always do */
    TN_TOKENIZE_OPEN = 4,    /* the text goes on: no EOS or SEP behind it */
} tn_tokenize_flags;

/* Tokenizes n bytes. *ids is malloc'ed (caller frees), *n_ids its length. Bad UTF-8: each offending byte is taken by
 * itself, as a byte token or the vocabulary's byte character; one that the vocabulary does not have becomes the unknown
 * token or else U+FFFD; nothing is dropped. BOS and EOS that the text itself already has are not added again. In SentencePiece
 * vocabularies each stretch between control tokens begins with the added space. Linear time, bounded stack. */
tn_status tn_tokenize(const tn_tokenizer *tok, const char *text, size_t n, unsigned flags, int32_t **ids,
                      size_t *n_ids, tn_error *err);

/* The same with ranges of the text in which text of control tokens stays text: what has a byte in one is no control
 * token. */
tn_status tn_tokenize_marked(const tn_tokenizer *tok, const char *text, size_t n, const tn_range_pair *plain,
                             size_t n_plain, unsigned flags, int32_t **ids, size_t *n_ids, tn_error *err);

uint32_t tn_tokenizer_n_tokens(const tn_tokenizer *tok);

/* The bytes a token stands for in text, borrowed from the tokenizer; may be part of a character. Control tokens give
 * no bytes unless `special`, which gives their text. id out of range gives none. */
const char *tn_token_bytes(const tn_tokenizer *tok, int32_t id, bool special, size_t *len);

tn_token_type tn_token_type_of(const tn_tokenizer *tok, int32_t id);

/* Whether generation ends at this token: EOS, EOT and every control token that published models end a turn with. */
bool tn_token_is_end(const tn_tokenizer *tok, int32_t id);

bool tn_tokenizer_adds_bos(const tn_tokenizer *tok); /* with TN_TOKENIZE_BOS */
int32_t tn_tokenizer_eos(const tn_tokenizer *tok);

/* ---- Streams ------------------------------------------------------------------------------------------- */

/* Turns ids into text piece by piece; a piece never ends inside a UTF-8 character. The concatenation of all pieces and
 * the flush is exactly the detokenized text; bytes that can never become a character pass as U+FFFD. */
typedef struct tn_text_stream {
    unsigned char held[4];
    uint8_t n_held;
    bool started; /* SentencePiece: the first token's leading space was the added prefix and is dropped */
} tn_text_stream; /* all zero at the start */

/* Appends the token's text to dst; at most tn_stream_bound(tok, id) bytes. Returns the bytes written. */
size_t tn_stream_bound(const tn_tokenizer *tok, int32_t id);
size_t tn_stream_push(const tn_tokenizer *tok, tn_text_stream *stream, int32_t id, bool special, char *dst);
size_t tn_stream_flush(tn_text_stream *stream, char *dst); /* at most 12 bytes */

#endif
