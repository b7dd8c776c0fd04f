/* Perplexity of a text, and divergence from what another model predicted for it.
 *
 * The text's tokens are cut into chunks of the context; each is evaluated on its own, begins with BOS (in the place of its first
 * token) where the vocabulary asks for it, and counts from its middle on: what llama.cpp's perplexity does, so that figures can be
 * compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval.h"
#include "terminal.h"

static void show(const tn_mean *loss, uint64_t done, uint64_t total) {
    char what[64];
    snprintf(what, sizeof what, "perplexity %.4f, chunks", exp(loss->mean));
    tn_progress_show(what, done, total);
}

static int too_large(const tn_eval *e) {
    return tn_cli_fail("cannot evaluate: %s: out of memory", e->info.path);
}

/* ---- Perplexity ---- */

typedef struct tn_perplexity {
    tn_eval *eval;
    tn_eval_base *base; /* NULL: not saved */
    tn_mean loss;       /* -log p of the text's tokens */
} tn_perplexity;

static int score_loss(void *user, const float *logits, int32_t token) {
    tn_perplexity *p = user;
    tern_log_softmax(logits, p->eval->info.n_vocab, p->eval->log_probs);
    tn_mean_add(&p->loss, -p->eval->log_probs[token]);
    return p->base ? tn_eval_base_write(p->base, logits) : TN_EXIT_DONE;
}

static int score_chunks(tn_perplexity *p, const tn_chunks *text) {
    int failed = TN_EXIT_DONE;
    for (uint32_t chunk = 0; chunk < text->n_chunks && !failed; chunk++) {
        size_t kept = 0;
        failed = tn_eval_rows(p->eval, text->ids + (size_t)chunk * text->n_ctx, &kept,
                              tn_eval_first_scored(text->n_ctx), text->n_ctx, score_loss, p);
        show(&p->loss, chunk + 1, text->n_chunks);
    }
    return failed;
}

static void put_text(tn_eval *e, const tn_chunks *text, const tn_mean *loss) {
    tn_eval_put_count(e, "context", text->n_ctx);
    tn_eval_put_count(e, "chunks", text->n_chunks);
    tn_eval_put_count(e, "tokens_scored", loss->n);
    tn_eval_put_with_error(e, "perplexity", exp(loss->mean), exp(loss->mean) * tn_mean_error(loss));
}

int tn_eval_perplexity(tn_eval *e) {
    tn_eval_base_head head = {.n_vocab = e->info.n_vocab};
    tn_perplexity p = {.eval = e};
    snprintf(head.model, sizeof head.model, "%s", e->info.name);
    int failed = tn_chunks_read(e->options, e->model, &head.text);
    if (!failed) failed = tn_eval_start(e, head.text.n_ctx);
    if (!failed && e->options->save_base) failed = tn_eval_base_create(e->options, &head, &p.base);
    if (!failed) failed = score_chunks(&p, &head.text);
    if (!failed && p.base) failed = tn_eval_base_commit(p.base);
    tn_eval_base_close(p.base);
    if (!failed) put_text(e, &head.text, &p.loss);
    tern_free(head.text.ids);
    return failed;
}

/* ---- Divergence ---- */

typedef struct tn_divergence {
    tn_eval *eval;
    tn_eval_base *base;
    float *base_logits;
    double *base_log_probs;
    double *klds; /* of each position */
    tn_mean loss, base_loss, ratio, kld, same_top, delta, delta_squared;
} tn_divergence;

static size_t top_of(const double *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static int score_divergence(void *user, const float *logits, int32_t token) {
    tn_divergence *d = user;
    const uint32_t n = d->eval->info.n_vocab;
    double *mine = d->eval->log_probs, *base = d->base_log_probs;
    const int failed = tn_eval_base_read(d->base, d->base_logits);
    if (failed) return failed;
    tern_log_softmax(logits, n, mine);
    tern_log_softmax(d->base_logits, n, base);
    const double kld = tern_kl_divergence(base, mine, n), delta = exp(mine[token]) - exp(base[token]);
    d->klds[d->kld.n] = kld;
    tn_mean_add(&d->kld, kld);
    tn_mean_add(&d->loss, -mine[token]);
    tn_mean_add(&d->base_loss, -base[token]);
    tn_mean_add(&d->ratio, base[token] - mine[token]);
    tn_mean_add(&d->same_top, top_of(mine, n) == top_of(base, n));
    tn_mean_add(&d->delta, delta);
    tn_mean_add(&d->delta_squared, delta * delta);
    return TN_EXIT_DONE;
}

static int compare_reals(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two nearest of sorted values. */
static double quantile(const double *x, size_t n, double q) {
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)at, next = i + 1 < n ? i + 1 : i;
    return x[i] + (at - (double)i) * (x[next] - x[i]);
}

static void put_divergence(tn_divergence *d) {
    tn_eval *e = d->eval;
    const size_t n = d->kld.n;
    const double base = exp(d->base_loss.mean), ratio = exp(d->ratio.mean), rms = sqrt(d->delta_squared.mean);
    qsort(d->klds, n, sizeof *d->klds, compare_reals);
    tn_eval_put_with_error(e, "base_perplexity", base, base * tn_mean_error(&d->base_loss));
    tn_eval_put_with_error(e, "perplexity_ratio", ratio, ratio * tn_mean_error(&d->ratio));
    tn_eval_put_with_error(e, "kld_mean", d->kld.mean, tn_mean_error(&d->kld));
    tn_eval_put(e, "kld_median", quantile(d->klds, n, 0.5));
    tn_eval_put(e, "kld_99_percent", quantile(d->klds, n, 0.99));
    tn_eval_put(e, "kld_max", d->klds[n - 1]);
    tn_eval_put_with_error(e, "same_top_percent", 100 * d->same_top.mean, 100 * tn_mean_error(&d->same_top));
    tn_eval_put_with_error(e, "delta_p_percent", 100 * d->delta.mean, 100 * tn_mean_error(&d->delta));
    tn_eval_put_with_error(e, "delta_p_rms_percent", 100 * rms,
                           rms > 0 ? 100 * tn_mean_error(&d->delta_squared) / (2 * rms) : 0);
}

static int compare_chunks(tn_divergence *d, const tn_chunks *text) {
    const uint32_t n_vocab = d->eval->info.n_vocab;
    const uint32_t first = tn_eval_first_scored(text->n_ctx);
    d->base_logits = malloc(n_vocab * sizeof *d->base_logits);
    d->base_log_probs = malloc(n_vocab * sizeof *d->base_log_probs);
    d->klds = calloc((size_t)text->n_chunks * (text->n_ctx - first), sizeof *d->klds);
    if (!d->base_logits || !d->base_log_probs || !d->klds) return too_large(d->eval);
    int failed = TN_EXIT_DONE;
    for (uint32_t chunk = 0; chunk < text->n_chunks && !failed; chunk++) {
        size_t kept = 0;
        failed = tn_eval_rows(d->eval, text->ids + (size_t)chunk * text->n_ctx, &kept, first, text->n_ctx,
                              score_divergence, d);
        show(&d->loss, chunk + 1, text->n_chunks);
    }
    return failed;
}

int tn_eval_kld(tn_eval *e) {
    tn_divergence d = {.eval = e};
    int failed = tn_eval_base_open(e->options->base, &d.base);
    if (failed) return failed;
    const tn_eval_base_head *head = tn_eval_base_head_of(d.base);
    if (head->n_vocab != e->info.n_vocab)
        failed = tn_cli_fail("cannot evaluate: %s: expected the vocabulary of %s, %u tokens, found %u",
                             e->info.path, e->options->base, head->n_vocab, e->info.n_vocab);
    if (!failed) failed = tn_eval_start(e, head->text.n_ctx);
    if (!failed) failed = compare_chunks(&d, &head->text);
    if (!failed) {
        tn_eval_put_text(e, "base_model", head->model);
        put_text(e, &head->text, &d.loss);
        put_divergence(&d);
    }
    tn_eval_base_close(d.base);
    free(d.base_logits), free(d.base_log_probs), free(d.klds);
    return failed;
}
