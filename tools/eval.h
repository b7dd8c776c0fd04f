/* What the kinds of `tern eval` share: scoring the tokens of a text, means with their errors, and results. */
#ifndef TN_TOOLS_EVAL_H
#define TN_TOOLS_EVAL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "chunks.h"
#include "cli.h"

typedef struct tn_eval {
    const tn_options *options;
    tern_model *model;
    tern_model_info info;
    tern_session *session;  /* tn_eval_start makes it */
    uint32_t n_ctx, n_rows; /* of the session: positions, rows of logits held at once */
    double *log_probs;      /* info.n_vocab */
    json_t *results;        /* in the order in which they are printed */
    bool incomplete;        /* memory ran out for one of them */
} tn_eval;

/* Each returns 0, or the exit code after printing why. */
int tn_eval_start(tn_eval *e, uint32_t n_ctx);
int tn_eval_perplexity(tn_eval *e);
int tn_eval_kld(tn_eval *e);
int tn_eval_choice(tn_eval *e);

/* Told the logits that came before a token. */
typedef int tn_eval_row_fn(void *user, const float *logits, int32_t token);

/* Gives fn the logits for each of ids[first .. n-1], first >= 1, n - 1 at most the context. ids[0 .. *n_kept-1] are in the session
 * already, fewer than `first`; *n_kept becomes what is there afterwards. */
int tn_eval_rows(tn_eval *e, const int32_t *ids, size_t *n_kept, size_t first, size_t n, tn_eval_row_fn *fn,
                 void *user);

/* ---- Means (Welford's recurrence) ---- */

typedef struct tn_mean {
    uint64_t n;
    double mean, squares; /* of the differences from the mean, summed */
} tn_mean;

void tn_mean_add(tn_mean *m, double x);
double tn_mean_error(const tn_mean *m); /* standard error of the mean; 0 of fewer than two */

/* ---- Results ---- */

void tn_eval_put_text(tn_eval *e, const char *key, const char *text);
void tn_eval_put_count(tn_eval *e, const char *key, uint64_t n);
void tn_eval_put(tn_eval *e, const char *key, double value);
void tn_eval_put_with_error(tn_eval *e, const char *key, double value, double error);

/* ---- Saved logits of a base model (eval_base.c) ---- */

typedef struct tn_eval_base tn_eval_base;

typedef struct tn_eval_base_head {
    uint32_t n_vocab;
    char model[256];
    tn_chunks text; /* of a file that is read the ids are the base's */
} tn_eval_base_head;

/* Of each chunk the tokens from here on are scored. */
static inline uint32_t tn_eval_first_scored(uint32_t n_ctx) {
    return n_ctx / 2 + 1;
}

int tn_eval_base_create(const tn_options *options, const tn_eval_base_head *head, tn_eval_base **out);
int tn_eval_base_write(tn_eval_base *base, const float *logits);
int tn_eval_base_commit(tn_eval_base *base);

int tn_eval_base_open(const char *path, tn_eval_base **out);
const tn_eval_base_head *tn_eval_base_head_of(const tn_eval_base *base);
int tn_eval_base_read(tn_eval_base *base, float *logits); /* the next row, but for a constant */

void tn_eval_base_close(tn_eval_base *base); /* NULL is fine; what was not committed is removed */

#endif
