/* Byte-level byte-pair encoding (Radford et al. 2019): each byte is a character of a printable alphabet, and
 * pairs merge by the rank that the vocabulary gives them. */
#include <stdlib.h>
#include <string.h>

#include "../base/utf8.h"
#include "normalize.h"
#include "tokenizer_impl.h"

/* GPT-2's bytes_to_unicode: printable Latin-1 stands for itself, the other 68 bytes are U+0100 and up in
 * order. */
static bool is_printable_latin1(unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

static uint32_t byte_char(uint8_t byte) {
    if (is_printable_latin1(byte)) return byte;
    uint32_t c = 0x100;
    for (unsigned b = 0; b < byte; b++) c += !is_printable_latin1(b);
    return c;
}

/* The byte that a character of the alphabet stands for, or -1. The printable ones are cut by the others into
 * the ranges 00-20, 7F-A0 and AD. */
static int char_byte(uint32_t c) {
    if (c < 0x100) return is_printable_latin1(c) ? (int)c : -1;
    c -= 0x100;
    if (c < 0x21) return (int)c;
    if (c < 0x21 + 0x22) return (int)(c - 0x21 + 0x7F);
    return c == 0x21 + 0x22 ? 0xAD : -1;
}

size_t tn_bpe_decode(const char *text, size_t n, char *dst) {
    size_t len = 0;
    for (size_t i = 0; i < n; len++) {
        uint32_t width = tn_utf8_char(text + i, n - i), c = (uint8_t)text[i];
        if (width == 2) c = (c & 0x1F) << 6 | ((uint8_t)text[i + 1] & 0x3F);
        int byte = width == 1 || width == 2 ? char_byte(c) : -1;
        if (byte < 0) {
            memcpy(dst, text, n);
            return n;
        }
        dst[len] = (char)byte;
        i += width;
    }
    return len;
}

static void load_byte_chars(tn_tokenizer *tok) {
    for (unsigned b = 0; b < 256; b++) {
        uint32_t c = byte_char((uint8_t)b);
        tok->byte_chars[b] = (uint16_t)c;
        char utf8[2] = {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F))};
        if (c < 0x80) utf8[0] = (char)c;
        uint32_t id = tn_text_index_find(&tok->by_text, utf8, c < 0x80 ? 1 : 2);
        /* A user-defined token of this text stands for the letter, not for the byte. */
        if (id != TN_NO_TOKEN && tok->tokens[id].type != TN_TOKEN_USER_DEFINED) tok->byte_ids[b] = id;
    }
}

/* Adds merge `rank`, "left right". One that is not of this form, or whose parts or result are no tokens, can
 * never be used and is passed over; its rank stays taken. joined has room for the text. */
static void load_merge(tn_tokenizer *tok, const char *text, uint32_t n, uint32_t rank, char *joined) {
    /* A part may itself begin with a space in vocabularies that are not of the byte alphabet. */
    const char *space = n > 2 ? memchr(text + 1, ' ', n - 2) : NULL;
    if (!space) return;
    size_t left_len = (size_t)(space - text), right_len = n - left_len - 1;
    uint32_t left = tn_text_index_find(&tok->by_text, text, left_len);
    uint32_t right = tn_text_index_find(&tok->by_text, space + 1, right_len);
    if (left == TN_NO_TOKEN || right == TN_NO_TOKEN) return;
    memcpy(joined, text, left_len);
    memcpy(joined + left_len, space + 1, right_len);
    uint32_t merged = tn_text_index_find(&tok->by_text, joined, n - 1);
    if (merged != TN_NO_TOKEN) tn_pair_index_add(&tok->merges, left, right, merged, rank);
}

tn_status tn_bpe_load_merges(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    if (source->n_merges == 0) /* every text would be cut to bytes: not what any model was trained on */
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.merges", "missing or empty");
    uint32_t longest = 0;
    for (uint32_t i = 0; i < source->n_merges; i++)
        if (source->merge_len[i] > longest) longest = source->merge_len[i];
    char *joined = malloc((size_t)longest + 1);
    if (!joined || !tn_pair_index_init(&tok->merges, source->n_merges, &tok->arena)) {
        free(joined);
        return tn_fail(err, TN_ERR_MEMORY, "vocabulary", "tokenizer.ggml.merges", "out of memory");
    }
    for (uint32_t i = 0; i < source->n_merges; i++)
        load_merge(tok, source->merge_text[i], source->merge_len[i], i, joined);
    free(joined);
    return TN_OK;
}

/* How the vocabulary writes U+FFFD: what a byte becomes that some vocabularies of byte-level BPE have no
 * letter for. */
static tn_status load_replacement(tn_tokenizer *tok, tn_error *err) {
    const char *text = "\xEF\xBF\xBD";
    for (size_t i = 0; i < 3; i++)
        if (tok->byte_ids[(uint8_t)text[i]] == TN_NO_TOKEN) return TN_OK;
    int32_t *ids;
    size_t n;
    tn_status status = tn_tokenize(tok, text, 3, 0, &ids, &n, err);
    for (size_t i = 0; status == TN_OK && i < n && i < 3; i++)
        tok->replacement[tok->n_replacement++] = ids[i];
    free(ids);
    return status;
}

tn_status tn_bpe_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    load_byte_chars(tok);
    tn_status status = tn_bpe_load_merges(tok, source, err);
    return status == TN_OK ? load_replacement(tok, err) : status;
}

void tn_bpe_find_pair(const tn_tokenizer *tok, tn_symbol *left, const tn_symbol *right) {
    const tn_pair_slot *merge = tn_pair_index_find(&tok->merges, left->id, right->id);
    left->pair_id = merge ? merge->merged : TN_NO_TOKEN;
    if (merge) left->pair_rank = merge->rank_plus_1;
}

static void find_pair(const void *user, tn_symbol *left, const tn_symbol *right) {
    tn_bpe_find_pair(user, left, right);
}

static tn_status encode_piece(void *user, const char *piece, size_t n) {
    tn_encoder *enc = user;
    const tn_tokenizer *tok = enc->tok;
    if (n == 1) return tn_encoder_push_byte(enc, (uint8_t)piece[0]);
    if (!tn_merge_reserve(&enc->work, n, false))
        return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    tn_symbol *symbols = enc->work.symbols;
    for (size_t i = 0; i < n; i++)
        symbols[i] = (tn_symbol){.start = (uint32_t)i, .len = 1, .id = tok->byte_ids[(uint8_t)piece[i]]};
    tn_merge_run(&enc->work, n, find_pair, tok);
    tn_status status = TN_OK;
    for (uint32_t i = 0; status == TN_OK && i != TN_NO_SYMBOL; i = symbols[i].next)
        status = symbols[i].id != TN_NO_TOKEN ? tn_encoder_push(enc, symbols[i].id)
                                              : tn_encoder_push_byte(enc, (uint8_t)piece[symbols[i].start]);
    return status;
}

/* The token whose text is the piece written in the byte alphabet. The symbols, not yet in use, lend their
 * memory. */
static tn_status find_whole_piece(tn_encoder *enc, const char *piece, size_t n, uint32_t *id) {
    *id = TN_NO_TOKEN;
    if (n > enc->tok->max_len) return TN_OK;
    if (!tn_merge_reserve(&enc->work, n, false))
        return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    char *text = (char *)enc->work.symbols;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = enc->tok->byte_chars[(uint8_t)piece[i]];
        if (c >= 0x80) text[len++] = (char)(0xC0 | c >> 6);
        text[len++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3F));
    }
    *id = tn_text_index_find(&enc->tok->by_text, text, len);
    return TN_OK;
}

static tn_status encode_piece_whole_first(void *user, const char *piece, size_t n) {
    tn_encoder *enc = user;
    uint32_t id;
    tn_status status = find_whole_piece(enc, piece, n, &id);
    if (status != TN_OK) return status;
    return id != TN_NO_TOKEN ? tn_encoder_push(enc, id) : encode_piece(user, piece, n);
}

/* Valid UTF-8. */
static tn_status encode_valid(tn_encoder *enc, const char *text, size_t n) {
    tn_piece_fn *piece = enc->tok->ignore_merges ? encode_piece_whole_first : encode_piece;
    if (!enc->tok->nfc || tn_nfc_is_plain(text, n))
        return tn_pretok_split(enc->tok->pretok, text, n, piece, enc, enc->err);
    size_t len;
    char *composed = tn_nfc(text, n, &len);
    if (!composed) return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    tn_status status = tn_pretok_split(enc->tok->pretok, composed, len, piece, enc, enc->err);
    free(composed);
    return status;
}

tn_status tn_bpe_encode(tn_encoder *enc, const char *text, size_t n) {
    tn_status status = TN_OK;
    /* The patterns need valid UTF-8: a bad byte ends a stretch of text and stands for itself. */
    for (size_t start = 0, i = 0; status == TN_OK && start < n;) {
        uint32_t width = i < n ? tn_utf8_char(text + i, n - i) : 0;
        i += width;
        if (width) continue;
        status = encode_valid(enc, text + start, i - start);
        if (status == TN_OK && i < n) status = tn_encoder_push_byte(enc, (uint8_t)text[i]);
        start = ++i;
    }
    return status;
}
