/* Pre-tokenizers: how text is cut into pieces before byte-level BPE merges inside each. */
#ifndef TN_TEXT_PRETOK_H
#define TN_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "../base/status.h"

enum { TN_PRETOK_MAX_NAMES = 16, TN_PRETOK_MAX_PATTERNS = 8 };

/* One published pre-tokenizer. Each pattern cuts the pieces of the one before: every match is a piece, and so
 * is what lies between matches. */
typedef struct tn_pretok_spec {
    const char *names[TN_PRETOK_MAX_NAMES];       /* as in tokenizer.ggml.pre; NULL ends the list */
    const char *patterns[TN_PRETOK_MAX_PATTERNS]; /* in PCRE2's syntax; NULL ends the list */
    /* As tokenizer.json has them, where that is another text; NULL first: the same. */
    const char *published[TN_PRETOK_MAX_PATTERNS];
    size_t
        n_byte_patterns;   /* the last so many patterns match bytes, not characters, and may cut within one */
    bool nfc;              /* the text is brought into Unicode's normalization form C first */
    bool marks_spaces;     /* no pieces at all: SentencePiece's alphabet with ranked merges */
    bool ignore_merges;    /* a piece that is a token is that token, whatever the merges say */
    bool add_bos, add_sep; /* unless the file says otherwise */
} tn_pretok_spec;

typedef struct tn_pretok tn_pretok; /* compiled; read-only, for any number of threads */

/* NULL if there is no such name. */
const tn_pretok_spec *tn_pretok_find(const char *name);

/* The i-th specification, NULL behind the last. */
const tn_pretok_spec *tn_pretok_spec_at(size_t i);

/* A stage of a pre-tokenizer as tokenizer.json has it. */
typedef enum tn_stage_kind {
    TN_STAGE_SPLIT,       /* by a regular expression, in `pattern` */
    TN_STAGE_BYTE_LEVEL,  /* ByteLevel with use_regex */
    TN_STAGE_DIGITS,      /* Digits with individual_digits */
    TN_STAGE_DIGIT_RUNS,  /* Digits without */
    TN_STAGE_PUNCTUATION, /* Punctuation, Contiguous */
} tn_stage_kind;

typedef struct tn_stage {
    tn_stage_kind kind;
    const char *pattern;
} tn_stage;

/* The regular expression that a stage splits by. */
const char *tn_stage_pattern(const tn_stage *stage);

/* A published pre-tokenizer by what tokenizer.json says: its stages, how many of them stand behind the change to bytes, whether
 * NFC goes before, and ignore_merges. The first name of the specification that has all that; NULL if there is none. */
const char *tn_pretok_match(const tn_stage *stages, size_t n, size_t n_byte_stages, bool nfc,
                            bool ignore_merges);

/* The i-th of all names, NULL behind the last. */
const char *tn_pretok_name(size_t i);

tn_status tn_pretok_new(const tn_pretok_spec *spec, tn_pretok **out, tn_error *err);
void tn_pretok_free(tn_pretok *pretok); /* NULL is fine */

/* Called for each piece in order; what is not TN_OK ends the split and is returned. */
typedef tn_status tn_piece_fn(void *user, const char *piece, size_t n);

/* Cuts n bytes of valid UTF-8. */
tn_status tn_pretok_split(const tn_pretok *pretok, const char *text, size_t n, tn_piece_fn *fn, void *user,
                          tn_error *err);

#endif
