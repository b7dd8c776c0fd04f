/* Vocabularies made of a list of choices: kind, alphabet, tokens, merges, flags. */
#ifndef TN_TESTS_VOCAB_MAKER_H
#define TN_TESTS_VOCAB_MAKER_H

#include "fuzz.h"
#include "src/text/tokenizer.h"

enum { MAX_TOKENS = 700, MAX_MERGES = 64 };

typedef struct fuzz_vocabulary {
    tn_vocab_source source;
    const char *texts[MAX_TOKENS], *merges[MAX_MERGES];
    uint32_t lens[MAX_TOKENS], merge_lens[MAX_MERGES];
    float scores[MAX_TOKENS];
    int32_t types[MAX_TOKENS];
    char own[(MAX_TOKENS + MAX_MERGES) * 32];
    size_t n_own;
} fuzz_vocabulary;

/* Takes the choices from the front; v is all zero. Returns whether every byte has a token and nothing is normalized. */
bool fuzz_make_vocabulary(fuzz_vocabulary *v, fuzz_bytes *from);

#endif
