/* RWKV's tokenizer: at each place the longest token that the text begins with, bytes all the way. */
#include "tokenizer_impl.h"

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* Files write a token as Python shows its bytes: \\ \' \n \r \t and \xNN. */
size_t tn_rwkv_decode(const char *text, size_t n, char *dst) {
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < n) {
            c = text[++i];
            int high = c == 'x' && i + 2 < n ? hex_value(text[i + 1]) : -1;
            int low = high >= 0 ? hex_value(text[i + 2]) : -1;
            if (low >= 0) {
                c = (char)(high * 16 + low);
                i += 2;
            } else {
                c = (char)(c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c);
            }
        }
        dst[len++] = c;
    }
    return len;
}

tn_status tn_rwkv_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    (void)source;
    tn_status status = tn_tokenizer_index_matched(tok, true, err);
    for (uint32_t i = 0; status == TN_OK && i < tok->matched.n; i++) {
        const tn_prefix *token = &tok->matched.list[i];
        uint32_t *id = &tok->byte_ids[(uint8_t)token->text[0]];
        if (token->len == 1 && *id == TN_NO_TOKEN) *id = token->id;
    }
    return status;
}

tn_status tn_rwkv_encode(tn_encoder *enc, const char *text, size_t n) {
    tn_status status = TN_OK;
    for (size_t i = 0; status == TN_OK && i < n;) {
        const tn_prefix *token = tn_prefixes_longest(&enc->tok->matched, text + i, n - i);
        status = token ? tn_encoder_push(enc, token->id) : tn_encoder_push_byte(enc, (uint8_t)text[i]);
        i += token ? token->len : 1;
    }
    return status;
}
