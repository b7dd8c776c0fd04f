/* Vectors of texts: the rows of a text's tokens, pooled and normalized. */
#include <math.h>
#include <stdlib.h>

#include "api.h"

_Static_assert((int)TERN_POOLING_LAST == (int)TN_POOLING_LAST + (int)TERN_POOLING_NONE, "poolings agree");

tn_pooling tn_api_pooling(const tern_model *model) {
    const tn_pooling said = model->m->hparams.pooling;
    if (said != TN_POOLING_UNKNOWN) return said;
    return model->m->graph.whole ? TN_POOLING_MEAN : TN_POOLING_LAST;
}

void tern_embed_options_defaults(tern_embed_options *o) {
    *o = (tern_embed_options){
        .size = sizeof *o, .normalize = true, .flags = TERN_TOKENIZE_BOS | TERN_TOKENIZE_SPECIAL};
}

/* A text on its way to vectors. */
typedef struct embedding {
    tern_session *session;
    tn_pooling pooling;
    const int32_t *ids;
    size_t n_ids, n_vectors, width;
    float *vectors;
    double *sums; /* of the rows, for their mean */
} embedding;

static tn_status fail(const tern_session *session, tn_error *e, tn_status status, const char *why) {
    return tn_fail(e, status, "cannot embed", tn_file_path(session->model->m->file), "%s", why);
}

static tn_status prepare(embedding *m, tern_pooling pooling, tn_error *e) {
    const tern_session *session = m->session;
    const uint32_t n_ctx = tn_session_config_of(session->s)->n_ctx;
    if (tn_api_has_logits(session))
        return fail(session, e, TN_ERR_ARG, "the session keeps logits, not embeddings");
    if (pooling > TERN_POOLING_LAST) return fail(session, e, TN_ERR_ARG, "unknown pooling");
    m->pooling = pooling ? (tn_pooling)(pooling - TERN_POOLING_NONE) : tn_api_pooling(session->model);
    if (m->pooling == TN_POOLING_RANK)
        return fail(session, e, TN_ERR_UNSUPPORTED,
                    "the model scores pairs of texts; another pooling can be named");
    if (m->n_ids == 0) return fail(session, e, TN_ERR_ARG, "the text has no tokens");
    if (m->n_ids > n_ctx)
        return tn_fail(e, TN_ERR_FULL, "cannot embed", tn_file_path(session->model->m->file),
                       "the text has %zu tokens, and the context holds %u", m->n_ids, n_ctx);
    m->width = tn_session_row_width(session->s);
    m->n_vectors = m->pooling == TN_POOLING_NONE ? m->n_ids : 1;
    m->vectors = calloc(m->n_vectors * m->width, sizeof *m->vectors);
    m->sums = calloc(m->width, sizeof *m->sums);
    return m->vectors && m->sums ? TN_OK : fail(session, e, TN_ERR_MEMORY, "out of memory");
}

static void take_row(embedding *m, size_t token, const float *row) {
    if (m->pooling == TN_POOLING_MEAN) {
        for (size_t i = 0; i < m->width; i++) m->sums[i] += (double)row[i];
    } else {
        const size_t at = m->pooling == TN_POOLING_NONE ? token : 0;
        memcpy(m->vectors + at * m->width, row, m->width * sizeof *row);
    }
}

/* Batch by batch; of the first pooling the first batch is enough, of the last its last row. */
static tern_status evaluate(embedding *m, tern_error *err) {
    tn_session *s = m->session->s;
    const size_t n_batch = tn_session_config_of(s)->n_batch;
    tn_session_truncate(s, 0);
    for (size_t at = 0, n; at < m->n_ids; at += n) {
        n = m->n_ids - at < n_batch ? m->n_ids - at : n_batch;
        const bool ends = m->pooling == TN_POOLING_LAST;
        const uint32_t n_rows = !ends ? (uint32_t)n : at + n == m->n_ids;
        const tern_status status = tern_session_eval(m->session, m->ids + at, n, n_rows, err);
        if (status) return status;
        for (uint32_t r = 0; r < n_rows; r++) {
            take_row(m, at + r, tn_session_logits(s, r));
            if (m->pooling == TN_POOLING_FIRST) return TERN_OK;
        }
    }
    for (size_t i = 0; m->pooling == TN_POOLING_MEAN && i < m->width; i++)
        m->vectors[i] = (float)(m->sums[i] / (double)m->n_ids);
    return TERN_OK;
}

static void normalize(float *vector, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)vector[i] * (double)vector[i];
    for (size_t i = 0; sum > 0 && i < n; i++) vector[i] = (float)((double)vector[i] / sqrt(sum));
}

tern_status tern_embed_tokens(tern_session *session, const int32_t *ids, size_t n_ids,
                              const tern_embed_options *options, float **vectors, size_t *n_vectors,
                              uint32_t *width, tern_error *err) {
    if (vectors) *vectors = NULL;
    if (n_vectors) *n_vectors = 0;
    if (width) *width = 0;
    if (!session || (!ids && n_ids) || !vectors || !n_vectors || !width) return tn_api_null(err, __func__);
    tern_embed_options o;
    tn_error e = {0};
    tern_embed_options_defaults(&o);
    tn_status prepared = tn_api_options(&o, sizeof o, options, &e);
    embedding m = {.session = session, .ids = ids, .n_ids = n_ids};
    if (!prepared) prepared = prepare(&m, o.pooling, &e);
    const tern_status status = prepared ? tn_api_give(err, prepared, &e) : evaluate(&m, err);
    free(m.sums);
    if (status) {
        free(m.vectors);
        return status;
    }
    for (size_t i = 0; o.normalize && i < m.n_vectors; i++) normalize(m.vectors + i * m.width, m.width);
    *vectors = m.vectors, *n_vectors = m.n_vectors, *width = (uint32_t)m.width;
    return TERN_OK;
}

tern_status tern_embed(tern_session *session, const char *text, size_t n, const tern_embed_options *options,
                       float **vectors, size_t *n_vectors, uint32_t *width, tern_error *err) {
    if (vectors) *vectors = NULL;
    if (n_vectors) *n_vectors = 0;
    if (width) *width = 0;
    if (!session || (!text && n) || !vectors || !n_vectors || !width) return tn_api_null(err, __func__);
    tern_embed_options o;
    tn_error e = {0};
    int32_t *ids;
    size_t n_ids;
    tern_embed_options_defaults(&o);
    const tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (s) return tn_api_give(err, s, &e);
    tern_status status = tern_tokenize(session->model, text, n, o.flags, &ids, &n_ids, err);
    if (!status) status = tern_embed_tokens(session, ids, n_ids, &o, vectors, n_vectors, width, err);
    free(ids);
    return status;
}
