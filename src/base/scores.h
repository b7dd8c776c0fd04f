/* Probabilities of logits and how far two sets of them are apart, in double precision, one order of operations. */
#ifndef TN_BASE_SCORES_H
#define TN_BASE_SCORES_H

#include <stddef.h>

/* As tern_log_softmax and tern_kl_divergence of tern.h. */
void tn_log_softmax(const float *logits, size_t n, double *log_probs);
double tn_kl_divergence(const double *log_p, const double *log_q, size_t n);

#endif
