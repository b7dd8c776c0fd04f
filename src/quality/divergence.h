/* How far a model's predictions are from its own with some tensors replaced: the mean Kullback-Leibler divergence over the second
 * halves of a few chunks of text. */
#ifndef TN_QUALITY_DIVERGENCE_H
#define TN_QUALITY_DIVERGENCE_H

#include "../model/model.h"

typedef struct tn_divergence tn_divergence;

typedef struct tn_divergence_config {
    const char *path;   /* the model's file */
    const int32_t *ids; /* n_chunks of n_ctx tokens, each evaluated on its own; outlive the object */
    uint32_t n_ctx;     /* at least 2 */
    uint32_t n_chunks, n_threads;
    bool (*goes_on)(void *user); /* asked after each chunk; false cancels */
    void *user;
} tn_divergence_config;

/* Evaluates the model as it is and keeps its logits: n_chunks * n_ctx / 2 rows of the vocabulary. */
tn_status tn_divergence_new(const tn_divergence_config *config, tn_divergence **out, tn_error *err);
void tn_divergence_free(tn_divergence *d); /* NULL is fine */

/* The divergence, in nats a position, of the model with n tensors, found by name, in the place of the file's. The same number for
 * any number of threads. */
tn_status tn_divergence_measure(tn_divergence *d, const tn_tensor *tensors, size_t n, double *out,
                                tn_error *err);

#endif
