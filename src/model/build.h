/* The builder of a graph, shared by the steps (build.c), attention (build_attention.c) and experts (build_moe.c). */
#ifndef TN_MODEL_BUILD_H
#define TN_MODEL_BUILD_H

#include "model.h"

/* What attention kernels take: TN_ATTN_MAX_Q, TN_ATTN_MAX_DIM. */
enum { TN_MAX_HEADS_OF_ONE = 64, TN_MAX_HEAD_DIM = 576 };

typedef struct tn_builder {
    tn_model *m;
    tn_graph *g;
    tn_error *err;
    tn_status status; /* the first failure */
    int32_t layer;    /* -1 outside the block */
    bool last_layer;  /* attention goes on with OUTPUT rows */
    bool embeddings;  /* what logits are made of is the result */
    tn_rows rows;     /* of what is being computed */
    tn_value_id h;    /* the value that steps transform */
    tn_value_id
        saved[TN_MAX_SAVED]; /* named values, -1 where there is none; the first is x, the residual stream */
} tn_builder;

/* A tensor of the description in this layer; NULL for -1 and where it is absent. */
const tn_tensor *tn_build_tensor(const tn_builder *b, int def);

/* Values of expressions in this layer; `absent` for NULL and after a failure. */
double tn_build_number(tn_builder *b, const char *expr, double absent);
uint32_t tn_build_whole(tn_builder *b, const char *expr, uint32_t absent);

void tn_build_fail(tn_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint32_t tn_build_width(const tn_builder *b, tn_value_id value);

/* A vector of n floats; NULL where the step does not name one or an optional one is absent. */
const float *tn_build_vector(tn_builder *b, int def, uint32_t n);
/* A matrix whose rows are k long; zero after a failure. */
tn_weight tn_build_matrix(tn_builder *b, int def, uint32_t k);
/* The same of one that is read otherwise than by tn_build_linear, which alone applies factors: one with a factor is an error. */
tn_weight tn_build_bare_matrix(tn_builder *b, int def, uint32_t k);

/* Adds an operation. After a failure nothing more is added, and the value is one that exists. */
tn_value_id tn_build_add(tn_builder *b, tn_op op);
/* weight x + bias, without the bias where there is none. */
tn_value_id tn_build_linear(tn_builder *b, tn_value_id x, int weight, int bias);
/* Norm of a value's rows: without a weight where the step names none, with a bias where there is one. */
tn_value_id tn_build_norm(tn_builder *b, tn_value_id x, const tn_step *step, int weight, int bias);

void tn_build_attention(tn_builder *b, const tn_step *step); /* build_attention.c */
/* The step's rotation (build_attention.c). */
tn_rope_config tn_build_rope(tn_builder *b, const tn_step *step);
void tn_build_latent(tn_builder *b, const tn_step *step); /* build_latent.c */
void tn_build_moe(tn_builder *b, const tn_step *step);    /* build_moe.c */

#endif
