/* BERT's WordPiece (Devlin et al. 2019): the text is cleaned, stripped of accents and lower-cased, cut at spaces,
 * punctuation and Chinese characters, and each word is spelled by the longest tokens from its left. In a model file a
 * token that begins a word has U+2581 in front, and one that continues a word is bare. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "../base/utf8.h"
#include "normalize.h"
#include "tokenizer_impl.h"

enum { MAX_WORD_CHARS = 100 }; /* a longer word is unknown, as published */

static int64_t find_text(const tn_tokenizer *tok, const char *text) {
    for (uint32_t i = 0; i < tok->n_tokens; i++)
        if (tok->tokens[i].text_len == strlen(text) && memcmp(tok->tokens[i].text, text, strlen(text)) == 0)
            return i;
    return -1;
}

tn_status tn_wordpiece_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    if (tok->bos < 0) tok->bos = (int32_t)find_text(tok, "[CLS]");
    if (tok->frame_end < 0 && source->add_sep != 0) tok->frame_end = (int32_t)find_text(tok, "[SEP]");
    int64_t unk = find_text(tok, "[UNK]");
    if (tok->unk == TN_NO_TOKEN && unk >= 0) tok->unk = (uint32_t)unk;
    if (tok->unk == TN_NO_TOKEN)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.unknown_token_id", "missing");
    tok->add_bos = tok->bos >= 0 && source->add_bos != 0;
    tok->lowercase = source->lowercase != 0;
    tok->strip_accents = source->strip_accents < 0 ? tok->lowercase : source->strip_accents;
    return tn_tokenizer_index_matched(tok, false, err);
}

/* ---- Normalization, as in BertNormalizer --------------------------------------------------------------- */

static bool is_space(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

static bool is_control(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return c == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

/* Decodes, drops what is not to be seen (bad bytes too) and writes every space as U+0020. At most n code points. */
static size_t clean(const char *text, size_t n, int32_t *dst) {
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        uint32_t width = tn_utf8_char(text + i, n - i);
        int32_t c = 0xFFFD;
        if (width) tn_utf8_decode(text + i, width, &c);
        i += width ? width : 1;
        if (is_space(c))
            dst[len++] = ' ';
        else if (!is_control(c))
            dst[len++] = c;
    }
    return len;
}

/* Drops the marks of a decomposed text. */
static size_t strip_marks(int32_t *cps, size_t n) {
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        if (utf8proc_category(cps[i]) != UTF8PROC_CATEGORY_MN) cps[len++] = cps[i];
    return len;
}

/* ---- Words, as in BertPreTokenizer --------------------------------------------------------------------- */

/* The published ranges; one of them begins at 2B920 where Unicode's block begins at 2B820. */
static bool is_chinese(int32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool is_punctuation(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    bool ascii_symbol =
        (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    return ascii_symbol || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

/* Greedy from the left; the first token must begin a word. False if some part has no token. */
static bool spell(tn_encoder *enc, const char *word, size_t n, tn_status *status) {
    for (size_t i = 0; *status == TN_OK && i < n;) {
        const tn_prefix *token = tn_prefixes_longest(&enc->tok->matched, word + i, n - i);
        if (!token || (i == 0 && token->len <= TN_SPACE_MARK_LEN)) return false;
        *status = tn_encoder_push(enc, token->id);
        i += token->len;
    }
    return true;
}

static tn_status encode_word(tn_encoder *enc, const int32_t *cps, size_t n) {
    if (n > MAX_WORD_CHARS) return tn_encoder_push(enc, enc->tok->unk);
    char word[TN_SPACE_MARK_LEN + 4 * MAX_WORD_CHARS] = TN_SPACE_MARK;
    size_t len = TN_SPACE_MARK_LEN, n_before = enc->n_ids;
    for (size_t i = 0; i < n; i++)
        len += (size_t)utf8proc_encode_char(cps[i], (utf8proc_uint8_t *)word + len);
    tn_status status = TN_OK;
    if (spell(enc, word, len, &status)) return status;
    enc->n_ids = n_before;
    return tn_encoder_push(enc, enc->tok->unk);
}

static tn_status encode_words(tn_encoder *enc, const int32_t *cps, size_t n) {
    tn_status status = TN_OK;
    for (size_t i = 0, end; status == TN_OK && i < n; i = end) {
        for (end = i; end < n && cps[end] != ' ' && !is_punctuation(cps[end]) && !is_chinese(cps[end]);)
            end++;
        if (end > i) {
            status = encode_word(enc, cps + i, end - i);
            continue;
        }
        end++;
        if (cps[i] != ' ') status = encode_word(enc, cps + i, 1);
    }
    return status;
}

tn_status tn_wordpiece_encode(tn_encoder *enc, const char *text, size_t n) {
    const tn_tokenizer *tok = enc->tok;
    int32_t *cps = malloc((n + 1) * sizeof *cps), *decomposed = NULL;
    if (!cps) return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    size_t len = clean(text, n, cps);
    if (tok->strip_accents) {
        decomposed = malloc((len + 1) * TN_NFD_MAX * sizeof *decomposed);
        len = decomposed ? tn_nfd(cps, len, decomposed) : SIZE_MAX;
    }
    tn_status status = TN_OK;
    if (len == SIZE_MAX) {
        status = tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    } else {
        int32_t *out = decomposed ? decomposed : cps;
        if (decomposed) len = strip_marks(out, len);
        for (size_t i = 0; tok->lowercase && i < len; i++) out[i] = utf8proc_tolower(out[i]);
        status = encode_words(enc, out, len);
    }
    free(cps);
    free(decomposed);
    return status;
}
