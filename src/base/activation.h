/* The activation functions of MLPs, as graphs, kernels and descriptions name them. */
#ifndef TN_BASE_ACTIVATION_H
#define TN_BASE_ACTIVATION_H

typedef enum tn_activation {
    TN_ACTIVATION_SILU,
    TN_ACTIVATION_GELU,     /* the tanh form */
    TN_ACTIVATION_GELU_ERF, /* the exact form */
    TN_ACTIVATION_RELU,
    TN_ACTIVATION_RELU2,   /* the square of RELU */
    TN_ACTIVATION_CLAMPED, /* gpt-oss: SILU of 1.702 of what is clamped, times up + 1 */
    TN_ACTIVATION_COUNT
} tn_activation;

#endif
