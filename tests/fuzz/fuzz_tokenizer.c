/* Tokenizers of vocabularies made of the input, which is a list of choices: kind, alphabet, tokens, merges, flags, then a text.
 * What comes of the text is ids of the vocabulary, and back from them whole characters; where all bytes have tokens and nothing is
 * normalized, the text itself. */
#include <stdlib.h>
#include <string.h>

#include "vocab_maker.h"

static void check_text(const tn_tokenizer *tok, const int32_t *ids, size_t n_ids, fuzz_bytes text,
                       bool same) {
    tn_text_stream stream = {0};
    size_t cap = 16, n = 0;
    for (size_t i = 0; i < n_ids; i++) cap += tn_stream_bound(tok, ids[i]);
    char *out = malloc(cap);
    FUZZ_CHECK(out);
    for (size_t i = 0; i < n_ids; i++) {
        n += tn_stream_push(tok, &stream, ids[i], true, out + n);
        FUZZ_CHECK(n <= cap);
    }
    n += tn_stream_flush(&stream, out + n);
    for (size_t i = 0; i < n; i++) /* printable but for control characters: UTF-8 */
        if ((unsigned char)out[i] < 32 || out[i] == 127) out[i] = ' ';
    if (same && tn_is_printable((const char *)text.data, text.n))
        FUZZ_CHECK(n == text.n && !memcmp(out, text.data, n));
    free(out);
}

static void run(const uint8_t *data, size_t n) {
    fuzz_vocabulary *v = calloc(1, sizeof *v);
    fuzz_bytes from = {data, n};
    FUZZ_CHECK(v);
    const bool whole = fuzz_make_vocabulary(v, &from);
    tn_tokenizer *tok;
    tn_error err;
    tn_status s = tn_tokenizer_new(&v->source, NULL, &tok, &err);
    fuzz_check_status((int)s, &err);
    for (unsigned flags = 0; !s && flags < 8; flags++) {
        int32_t *ids;
        size_t n_ids;
        const tn_range_pair plain = {from.n / 4, from.n / 2};
        const tn_status t = tn_tokenize_marked(tok, (const char *)from.data, from.n, &plain, from.n > 4,
                                               flags, &ids, &n_ids, &err);
        fuzz_check_status((int)t, &err);
        if (t) continue;
        for (size_t i = 0; i < n_ids; i++) FUZZ_CHECK(ids[i] >= 0 && (uint32_t)ids[i] < v->source.n_tokens);
        check_text(tok, ids, n_ids, from, whole && !flags);
        free(ids);
    }
    if (!s) tn_tokenizer_free(tok);
    free(v);
}

const fuzz_target fuzz_tokenizer = {"tokenizer", run, NULL, NULL, 8192};
