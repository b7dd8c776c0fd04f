/* SentencePiece's byte-pair encoding (Kudo and Richardson 2018): spaces are written U+2581, characters merge
 * into the neighbouring pair whose token has the best score, and a character without a token is spelled in
 * byte tokens. A vocabulary that comes with merges has their ranks in place of the scores. */
#include <stdlib.h>
#include <string.h>

#include "../base/utf8.h"
#include "tokenizer_impl.h"

static bool is_mark(const char *text, size_t n) {
    return n >= TN_SPACE_MARK_LEN && memcmp(text, TN_SPACE_MARK, TN_SPACE_MARK_LEN) == 0;
}

size_t tn_spm_decode(const char *text, size_t n, char *dst) {
    size_t len = 0;
    for (size_t i = 0; i < n; len++) {
        bool space = is_mark(text + i, n - i);
        dst[len] = space ? ' ' : text[i];
        i += space ? TN_SPACE_MARK_LEN : 1;
    }
    return len;
}

/* Ranks ascend as scores descend: the bits of a float, order-preserving, turned around. */
static uint32_t score_rank(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 and 0 are equal */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

typedef struct tn_spm_text {
    const tn_tokenizer *tok;
    const char *text; /* with U+2581 for spaces */
} tn_spm_text;

static void find_pair(const void *user, tn_symbol *left, const tn_symbol *right) {
    const tn_spm_text *in = user;
    if (in->tok->merges.slots) {
        tn_bpe_find_pair(in->tok, left, right);
        return;
    }
    size_t len = (size_t)left->len + right->len;
    if (len > in->tok->max_len) return;
    uint32_t id = tn_text_index_find(&in->tok->by_text, in->text + left->start, len);
    if (id == TN_NO_TOKEN) return;
    left->pair_id = id;
    left->pair_rank = score_rank(in->tok->tokens[id].score);
}

/* Takes back, latest first, the merges whose result is an unused token. */
static void undo_unused(const tn_tokenizer *tok, tn_merge_work *work) {
    tn_symbol *symbols = work->symbols;
    for (size_t e = work->n_events; e-- > 0;) {
        tn_merge_event event = work->events[e];
        tn_symbol *left = &symbols[event.left], *right = &symbols[event.right];
        /* A symbol in the result, or one that an undone merge brought back, ends where its next one starts.
         */
        if (left->id == TN_NO_TOKEN || tok->tokens[left->id].type != TN_TOKEN_UNUSED) continue;
        if (right->start + right->len != left->start + left->len) continue;
        right->next = left->next;
        left->next = event.right;
        left->len -= right->len;
        left->id = event.left_id;
    }
}

/* Merges n >= 1 bytes of valid UTF-8 without user-defined tokens. */
static tn_status encode_word(tn_encoder *enc, const char *text, size_t n) {
    const tn_tokenizer *tok = enc->tok;
    if (!tn_merge_reserve(&enc->work, n, tok->has_unused))
        return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    tn_symbol *symbols = enc->work.symbols;
    size_t n_symbols = 0;
    for (size_t i = 0; i < n; n_symbols++) {
        uint32_t len = tn_utf8_char(text + i, n - i);
        uint32_t id = tn_text_index_find(&tok->by_text, text + i, len);
        symbols[n_symbols] = (tn_symbol){.start = (uint32_t)i, .len = len, .id = id};
        i += len;
    }
    tn_merge_run(&enc->work, n_symbols, find_pair, &(tn_spm_text){tok, text});
    if (tok->has_unused) undo_unused(tok, &enc->work);
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && i != TN_NO_SYMBOL; i = symbols[i].next)
        status = symbols[i].id != TN_NO_TOKEN
                     ? tn_encoder_push(enc, symbols[i].id)
                     : tn_encoder_push_unknown(enc, text + symbols[i].start, symbols[i].len);
    return status;
}

bool tn_spm_joins_words(const char *text, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (is_mark(text + i, n - i) &&
            !(i >= TN_SPACE_MARK_LEN && is_mark(text + i - TN_SPACE_MARK_LEN, TN_SPACE_MARK_LEN)))
            return true;
    return false;
}

/* The bytes before the first space that follows something else: nothing merges across that place unless a
 * token does. */
static size_t word_len(const char *text, size_t n) {
    size_t i = 0;
    while (is_mark(text + i, n - i)) i += TN_SPACE_MARK_LEN;
    while (i < n && !is_mark(text + i, n - i)) i++;
    return i;
}

/* Most vocabularies have no token with a space behind something else; word by word is much faster then. */
static tn_status encode_run(tn_encoder *enc, const char *text, size_t n) {
    tn_status status = TN_OK;
    for (size_t done = 0, len; status == TN_OK && done < n; done += len) {
        len = enc->tok->joins_words ? n : word_len(text + done, n - done);
        status = encode_word(enc, text + done, len);
    }
    return status;
}

/* Cuts at bad bytes, which stand for themselves and never merge. */
static tn_status encode_bytes(tn_encoder *enc, const char *text, size_t n) {
    tn_status status = TN_OK;
    for (size_t start = 0, i = 0; status == TN_OK && start < n;) {
        uint32_t width = i < n ? tn_utf8_char(text + i, n - i) : 0;
        i += width;
        if (width) continue;
        status = encode_run(enc, text + start, i - start);
        if (status == TN_OK && i < n) status = tn_encoder_push_byte(enc, (uint8_t)text[i]);
        start = ++i;
    }
    return status;
}

size_t tn_spm_mark_spaces(const char *text, size_t n, char *dst) {
    char *out = dst;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ')
            out = mempcpy(out, TN_SPACE_MARK, TN_SPACE_MARK_LEN);
        else
            *out++ = text[i];
    }
    return (size_t)(out - dst);
}

/* The text with its spaces marked, behind one more where the prefix is asked for; malloc'ed. */
static char *mark_text(const char *text, size_t n, bool prefix, size_t *len) {
    size_t n_spaces = prefix ? 1 : 0;
    for (size_t i = 0; i < n; i++) n_spaces += text[i] == ' ';
    char *marked = malloc(n + n_spaces * TN_SPACE_MARK_LEN + 1);
    if (!marked) return NULL;
    *len = prefix ? tn_spm_mark_spaces(" ", 1, marked) : 0;
    *len += tn_spm_mark_spaces(text, n, marked + *len);
    return marked;
}

tn_status tn_spm_encode(tn_encoder *enc, const char *text, size_t n) {
    if (n == 0) return TN_OK;
    size_t len = 0;
    char *marked = mark_text(text, n, enc->tok->add_space_prefix, &len);
    if (!marked) return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    tn_status status = TN_OK;
    for (size_t done = 0, at = 0; status == TN_OK && done < len; done += at) {
        const tn_prefix *user =
            tn_special_next(&enc->tok->specials, TN_SPECIAL_USER, marked + done, len - done, &at);
        status = encode_bytes(enc, marked + done, at);
        if (!user) continue;
        if (status == TN_OK) status = tn_encoder_push(enc, user->id);
        at += user->len;
    }
    free(marked);
    return status;
}
