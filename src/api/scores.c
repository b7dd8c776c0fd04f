/* Probabilities of logits. */
#include "../base/scores.h"

#include "tern.h"

void tern_log_softmax(const float *logits, size_t n, double *log_probs) {
    tn_log_softmax(logits, n, log_probs);
}

double tern_kl_divergence(const double *log_p, const double *log_q, size_t n) {
    return tn_kl_divergence(log_p, log_q, n);
}
