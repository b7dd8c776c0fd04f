#include "scores.h"

#include "fmath.h"

/* What is further below the largest adds less than 2e-12 in a vocabulary of 2^18: half of the time is exponentials. */
#define FURTHEST_BELOW (-40.0)

void tn_log_softmax(const float *logits, size_t n, double *log_probs) {
    float top = n ? logits[0] : 0.0f;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > top) top = logits[i];
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double below = (double)logits[i] - (double)top;
        if (below > FURTHEST_BELOW) sum += tn_exp(below);
    }
    const double shift = n ? (double)top + tn_log(sum) : 0;
    for (size_t i = 0; i < n; i++) log_probs[i] = (double)logits[i] - shift;
}

double tn_kl_divergence(const double *log_p, const double *log_q, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (log_p[i] > FURTHEST_BELOW) sum += tn_exp(log_p[i]) * (log_p[i] - log_q[i]);
    return sum;
}
