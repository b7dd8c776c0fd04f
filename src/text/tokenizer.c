/* The way of a text through the tokenizer: control tokens are cut out first, what lies between goes to the
 * vocabulary's model; and what the tokens look like from outside. */
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer_impl.h"

/* ---- Encode -------------------------------------------------------------------------------------------- */

tn_status tn_encoder_push(tn_encoder *enc, uint32_t id) {
    if (enc->n_ids == enc->cap_ids) {
        size_t cap = enc->cap_ids ? 2 * enc->cap_ids : 64;
        int32_t *ids = realloc(enc->ids, cap * sizeof *ids);
        if (!ids) return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
        enc->ids = ids;
        enc->cap_ids = cap;
    }
    enc->ids[enc->n_ids++] = (int32_t)id;
    return TN_OK;
}

tn_status tn_encoder_push_byte(tn_encoder *enc, uint8_t byte) {
    const tn_tokenizer *tok = enc->tok;
    uint32_t id = tok->byte_ids[byte];
    if (id == TN_NO_TOKEN) id = tok->unk;
    if (id != TN_NO_TOKEN) return tn_encoder_push(enc, id);
    if (tok->n_replacement == 0)
        return tn_fail(enc->err, TN_ERR_UNSUPPORTED, "tokenize", "text",
                       "the vocabulary has no token for byte 0x%02X and no unknown token", byte);
    tn_status status = TN_OK;
    for (size_t i = 0; status == TN_OK && i < tok->n_replacement; i++)
        status = tn_encoder_push(enc, (uint32_t)tok->replacement[i]);
    return status;
}

tn_status tn_encoder_push_unknown(tn_encoder *enc, const char *text, size_t n) {
    const tn_tokenizer *tok = enc->tok;
    bool spelled = true;
    for (size_t i = 0; i < n; i++) spelled = spelled && tok->byte_ids[(uint8_t)text[i]] != TN_NO_TOKEN;
    if (!spelled && tok->unk != TN_NO_TOKEN) return tn_encoder_push(enc, tok->unk);
    tn_status status = TN_OK;
    for (size_t i = 0; status == TN_OK && i < n; i++) status = tn_encoder_push_byte(enc, (uint8_t)text[i]);
    return status;
}

/* Cuts out the special tokens and encodes what lies between. User-defined tokens of SentencePiece are matched
 * later, in the text with its spaces marked. */
static tn_status encode(tn_encoder *enc, const char *text, size_t n, tn_plain_ranges plain, unsigned flags) {
    const tn_tokenizer *tok = enc->tok;
    unsigned kinds = (flags & TN_TOKENIZE_SPECIAL ? TN_SPECIAL_CONTROL : 0) |
                     (tok->model->marks_spaces ? 0 : TN_SPECIAL_USER);
    tn_status status = TN_OK;
    for (size_t done = 0, at = 0; status == TN_OK && done < n; done = at) {
        const tn_prefix *special = tn_special_next_outside(&tok->specials, kinds, text, n, done, &plain, &at);
        status = tok->model->encode(enc, text + done, at - done);
        if (!special) continue;
        if (status == TN_OK) status = tn_encoder_push(enc, special->id);
        at += special->len;
    }
    return status;
}

/* BOS goes in front and EOS or SEP behind, unless the text itself has said so already. */
static tn_status encode_framed(tn_encoder *enc, const char *text, size_t n, tn_plain_ranges plain,
                               unsigned flags) {
    const tn_tokenizer *tok = enc->tok;
    bool frame = flags & TN_TOKENIZE_BOS;
    tn_status status = TN_OK;
    if (frame && tok->add_bos) status = tn_encoder_push(enc, (uint32_t)tok->bos);
    size_t n_bos = enc->n_ids;
    if (status == TN_OK) status = encode(enc, text, n, plain, flags);
    if (status != TN_OK) return status;
    if (n_bos && enc->n_ids > 1 && enc->ids[1] == tok->bos)
        memmove(enc->ids, enc->ids + 1, --enc->n_ids * sizeof *enc->ids);
    int32_t end = flags & TN_TOKENIZE_OPEN ? -1 : tok->frame_end;
    if (!frame || end < 0 || (enc->n_ids > n_bos && enc->ids[enc->n_ids - 1] == end)) return TN_OK;
    return tn_encoder_push(enc, (uint32_t)end);
}

tn_status tn_tokenize(const tn_tokenizer *tok, const char *text, size_t n, unsigned flags, int32_t **ids,
                      size_t *n_ids, tn_error *err) {
    return tn_tokenize_marked(tok, text, n, NULL, 0, flags, ids, n_ids, err);
}

tn_status tn_tokenize_marked(const tn_tokenizer *tok, const char *text, size_t n, const tn_range_pair *plain,
                             size_t n_plain, unsigned flags, int32_t **ids, size_t *n_ids, tn_error *err) {
    *ids = NULL;
    *n_ids = 0;
    /* Positions are 32 bits, and a space becomes three bytes. */
    if (n > UINT32_MAX / 4) return tn_fail(err, TN_ERR_ARG, "tokenize", "text", "%zu bytes are too many", n);
    tn_encoder enc = {.tok = tok, .err = err};
    tn_status status = encode_framed(&enc, text, n, (tn_plain_ranges){plain, n_plain}, flags);
    tn_merge_free(&enc.work);
    if (status == TN_OK && !enc.ids) {
        enc.ids = malloc(sizeof *enc.ids); /* no tokens, but memory for the caller to free */
        if (!enc.ids) status = tn_fail(err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    }
    if (status != TN_OK) {
        free(enc.ids);
        return status;
    }
    *ids = enc.ids;
    *n_ids = enc.n_ids;
    return TN_OK;
}

/* ---- Look up ------------------------------------------------------------------------------------------- */

uint32_t tn_tokenizer_n_tokens(const tn_tokenizer *tok) {
    return tok->n_tokens;
}

bool tn_tokenizer_adds_bos(const tn_tokenizer *tok) {
    return tok->add_bos;
}

int32_t tn_tokenizer_eos(const tn_tokenizer *tok) {
    return tok->eos;
}

static const tn_token *token_at(const tn_tokenizer *tok, int32_t id) {
    return id >= 0 && (uint32_t)id < tok->n_tokens ? &tok->tokens[id] : NULL;
}

const char *tn_token_bytes(const tn_tokenizer *tok, int32_t id, bool special, size_t *len) {
    const tn_token *token = token_at(tok, id);
    bool silent =
        !token || (!special && (token->type == TN_TOKEN_CONTROL || token->type == TN_TOKEN_UNKNOWN));
    *len = silent ? 0 : token->bytes_len;
    return silent ? "" : token->bytes;
}

tn_token_type tn_token_type_of(const tn_tokenizer *tok, int32_t id) {
    const tn_token *token = token_at(tok, id);
    return token ? (tn_token_type)token->type : TN_TOKEN_UNKNOWN;
}

bool tn_token_is_end(const tn_tokenizer *tok, int32_t id) {
    const tn_token *token = token_at(tok, id);
    return token && token->is_end;
}
