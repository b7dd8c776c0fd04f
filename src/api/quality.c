/* Importance matrices. */
#include "../quality/importance.h"

#include "api.h"

#define WHAT "cannot measure importances"

void tern_imatrix_options_defaults(tern_imatrix_options *o) {
    *o = (tern_imatrix_options){.size = sizeof *o, .n_ctx = 512, .n_batch = 512, .dataset = ""};
}

static tn_status check(const tern_model *model, const tern_imatrix_options *o, size_t n_ids, tn_error *e) {
    const char *path = tn_file_path(model->m->file);
    if (!model->m->hparams.n_layers)
        return tn_fail(e, TN_ERR_ARG, WHAT, path, "the model was not opened whole");
    if (model->m->encoder)
        return tn_fail(e, TN_ERR_UNSUPPORTED, WHAT, path, "the model does not predict tokens");
    if (!o->n_ctx || o->n_ctx > 1u << 24 || !o->n_batch || o->n_batch > 65536 || o->n_threads > 1024 ||
        !o->dataset)
        return tn_fail(e, TN_ERR_ARG, WHAT, path, "options out of range");
    if (n_ids < o->n_ctx || n_ids / o->n_ctx > UINT32_MAX)
        return tn_fail(e, TN_ERR_ARG, WHAT, path, "%zu tokens, expected at least a chunk of %u", n_ids,
                       o->n_ctx);
    return TN_OK;
}

tern_status tern_imatrix(const tern_model *model, const int32_t *ids, size_t n_ids,
                         const tern_imatrix_options *options, const char *out, tern_error *err) {
    if (!model || (!ids && n_ids) || !out) return tn_api_null(err, __func__);
    tn_error e = {0};
    tern_imatrix_options o;
    tern_imatrix_options_defaults(&o);
    tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (s == TN_OK) s = tn_api_texts(&o.dataset, 1, "dataset", &e);
    if (s == TN_OK) s = check(model, &o, n_ids, &e);
    if (s != TN_OK) return tn_api_give(err, s, &e);
    const tn_importance_config config = {.ids = ids,
                                         .n_ctx = o.n_ctx,
                                         .n_chunks = (uint32_t)(n_ids / o.n_ctx),
                                         .n_batch = o.n_batch < o.n_ctx ? o.n_batch : o.n_ctx,
                                         .n_threads = tn_api_threads(o.n_threads),
                                         .dataset = o.dataset,
                                         .progress = o.progress,
                                         .user = o.user};
    return tn_api_give(err, tn_importance_write(model->m, &config, out, &e), &e);
}
