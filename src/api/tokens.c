/* Text to tokens and back. */
#include "api.h"

_Static_assert((int)TERN_TOKENIZE_SPECIAL == (int)TN_TOKENIZE_SPECIAL, "flags agree");
_Static_assert((int)TERN_TOKENIZE_OPEN == (int)TN_TOKENIZE_OPEN, "flags agree");

tn_status tn_api_need_tokenizer(const tern_model *model, tn_error *e) {
    if (model->tok) return TN_OK;
    return tn_fail(e, TN_ERR_UNSUPPORTED, "cannot handle text", tn_file_path(model->m->file),
                   "the model has no vocabulary");
}

tern_status tern_tokenize(const tern_model *model, const char *text, size_t n, unsigned flags, int32_t **ids,
                          size_t *n_ids, tern_error *err) {
    if (ids) *ids = NULL;
    if (n_ids) *n_ids = 0;
    if (!model || (!text && n) || !ids || !n_ids) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_status s = tn_api_need_tokenizer(model, &e);
    if (!s) s = tn_tokenize(model->tok, text, n, flags, ids, n_ids, &e);
    return tn_api_give(err, s, &e);
}

tern_status tern_tokenize_chunks(const tern_model *model, const char *text, size_t n, uint32_t n_ctx,
                                 int32_t **ids, size_t *n_ids, tern_error *err) {
    tn_error e = {0};
    if (n_ctx == 0) {
        tn_fail(&e, TN_ERR_ARG, "bad call", __func__, "chunks of no tokens");
        return tn_api_give(err, TN_ERR_ARG, &e);
    }
    const tern_status s =
        tern_tokenize(model, text, n, TERN_TOKENIZE_BOS | TERN_TOKENIZE_OPEN, ids, n_ids, err);
    if (s != TERN_OK) return s;
    *n_ids -= *n_ids % n_ctx;
    const bool bos = tn_tokenizer_adds_bos(model->tok);
    for (size_t at = n_ctx; bos && at < *n_ids; at += n_ctx) (*ids)[at] = (*ids)[0];
    return TERN_OK;
}

const char *tern_token_text(const tern_model *model, int32_t id, bool special, size_t *n) {
    *n = 0;
    return model->tok ? tn_token_bytes(model->tok, id, special, n) : "";
}

bool tern_token_is_end(const tern_model *model, int32_t id) {
    return model->tok && tn_token_is_end(model->tok, id);
}
