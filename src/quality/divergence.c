#include "divergence.h"

#include <stdlib.h>
#include <string.h>

#include "../base/checked.h"
#include "../base/scores.h"
#include "../exec/pool.h"
#include "../session/session.h"

#define WHAT "cannot measure divergence"

struct tn_divergence {
    tn_divergence_config config;
    uint32_t n_vocab, n_scored; /* rows of a chunk that count */
    float *base;                /* [chunk][row][vocab] */
    double *log_probs;          /* [thread][2][vocab] */
    double *row_sums;           /* [row] */
    tn_pool *pool;
};

typedef struct replaced {
    const tn_tensor *tensors;
    size_t n;
} replaced;

/* ---- A model with other tensors ---- */

static const tn_tensor *replace(void *user, const tn_tensor *t) {
    const replaced *r = user;
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->tensors[i].cname, t->cname) == 0) return &r->tensors[i];
    return t;
}

static tn_status open_model(const char *path, replaced *r, tn_model **out, tn_error *err) {
    const tn_model_options options = {.level = TN_OPEN_ALL, .user = r, .replace = replace};
    const tn_status s = tn_model_open(path, &options, out, err);
    if (s != TN_OK || !(*out)->encoder) return s;
    tn_model_close(*out);
    *out = NULL;
    return tn_fail(err, TN_ERR_UNSUPPORTED, WHAT, path, "the model does not predict tokens");
}

static tn_status open_session(const tn_divergence *d, const tn_model *model, tn_session **out,
                              tn_error *err) {
    const tn_session_config config = {.n_ctx = d->config.n_ctx,
                                      .n_batch = d->config.n_ctx,
                                      .n_outputs = d->n_scored,
                                      .n_threads = d->config.n_threads,
                                      .n_vocab = model->hparams.n_vocab,
                                      .kv = TN_KV_F16,
                                      .file = model->file};
    return tn_session_new(&model->graph, &config, out, err);
}

static tn_status eval_chunk(const tn_divergence *d, tn_session *session, uint32_t chunk, tn_error *err) {
    tn_session_truncate(session, 0);
    const int32_t *ids = d->config.ids + (size_t)chunk * d->config.n_ctx;
    const tn_status s = tn_session_eval(session, ids, d->config.n_ctx, d->n_scored, err);
    if (s != TN_ERR_NUMERIC) return s;
    return tn_fail(err, s, WHAT, d->config.path, "what the model computes is not finite");
}

/* ---- Divergence ---- */

typedef struct compared {
    const tn_divergence *d;
    const tn_session *session;
    uint32_t chunk;
} compared;

static void compare_rows(void *arg, uint32_t thread) {
    const compared *c = arg;
    const tn_divergence *d = c->d;
    const size_t n = d->n_vocab;
    double *log_p = d->log_probs + (size_t)thread * 2 * n, *log_q = log_p + n;
    for (uint32_t row = thread; row < d->n_scored; row += d->config.n_threads) {
        const size_t at = (size_t)c->chunk * d->n_scored + row;
        tn_log_softmax(d->base + at * n, n, log_p);
        tn_log_softmax(tn_session_logits(c->session, row), n, log_q);
        d->row_sums[at] = tn_kl_divergence(log_p, log_q, n);
    }
}

static tn_status compare(tn_divergence *d, const tn_model *model, double *out, tn_error *err) {
    tn_session *session;
    tn_status s = open_session(d, model, &session, err);
    for (uint32_t chunk = 0; s == TN_OK && chunk < d->config.n_chunks; chunk++) {
        s = eval_chunk(d, session, chunk, err);
        if (s == TN_OK) tn_pool_run(d->pool, compare_rows, &(compared){d, session, chunk});
    }
    tn_session_free(session);
    const size_t n_rows = (size_t)d->n_scored * d->config.n_chunks;
    double sum = 0;
    for (size_t row = 0; row < n_rows; row++) sum += d->row_sums[row];
    *out = sum / (double)n_rows;
    return s;
}

tn_status tn_divergence_measure(tn_divergence *d, const tn_tensor *tensors, size_t n, double *out,
                                tn_error *err) {
    tn_model *model;
    *out = 0;
    tn_status s = open_model(d->config.path, &(replaced){tensors, n}, &model, err);
    if (s != TN_OK) return s;
    s = compare(d, model, out, err);
    tn_model_close(model);
    return s;
}

/* ---- The base ---- */

static tn_status reserve(tn_divergence *d, tn_error *err) {
    const uint64_t n_rows = (uint64_t)d->n_scored * d->config.n_chunks;
    uint64_t n_base;
    if (!tn_mul_u64(n_rows, d->n_vocab, &n_base))
        return tn_fail(err, TN_ERR_MEMORY, WHAT, d->config.path, "out of memory");
    d->base = calloc(n_base, sizeof *d->base);
    d->log_probs = calloc((size_t)d->config.n_threads * 2 * d->n_vocab, sizeof *d->log_probs);
    d->row_sums = calloc(n_rows, sizeof *d->row_sums);
    if (!d->base || !d->log_probs || !d->row_sums)
        return tn_fail(err, TN_ERR_MEMORY, WHAT, d->config.path, "out of memory");
    return tn_pool_new(d->config.n_threads, false, &d->pool, err);
}

static tn_status keep_base(tn_divergence *d, const tn_model *model, tn_error *err) {
    tn_session *session;
    tn_status s = open_session(d, model, &session, err);
    for (uint32_t chunk = 0; s == TN_OK && chunk < d->config.n_chunks; chunk++) {
        s = eval_chunk(d, session, chunk, err);
        for (uint32_t row = 0; s == TN_OK && row < d->n_scored; row++) {
            float *to = d->base + ((size_t)chunk * d->n_scored + row) * d->n_vocab;
            memcpy(to, tn_session_logits(session, row), d->n_vocab * sizeof *to);
        }
    }
    tn_session_free(session);
    return s;
}

tn_status tn_divergence_new(const tn_divergence_config *config, tn_divergence **out, tn_error *err) {
    *out = NULL;
    tn_model *model = NULL;
    tn_divergence *d = calloc(1, sizeof *d);
    if (!d) return tn_fail(err, TN_ERR_MEMORY, WHAT, config->path, "out of memory");
    d->config = *config;
    d->n_scored = config->n_ctx / 2;
    tn_status s = open_model(config->path, &(replaced){NULL, 0}, &model, err);
    if (s == TN_OK) {
        d->n_vocab = model->graph.values[model->graph.logits].width;
        s = reserve(d, err);
    }
    if (s == TN_OK) s = keep_base(d, model, err);
    tn_model_close(model);
    if (s != TN_OK) {
        tn_divergence_free(d);
        return s;
    }
    *out = d;
    return TN_OK;
}

void tn_divergence_free(tn_divergence *d) {
    if (!d) return;
    tn_pool_free(d->pool);
    free(d->base), free(d->log_probs), free(d->row_sums);
    free(d);
}
