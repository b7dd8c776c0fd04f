/* A model: a file, the description of its architecture, its hyper-parameters and tensors checked against each other, its
 * tokenizer, and the graph that computes it. Read-only once open; shared by any number of sessions. */
#ifndef TN_MODEL_MODEL_H
#define TN_MODEL_MODEL_H

#include "../../formats/format.h"
#include "../base/arena.h"
#include "../base/status.h"
#include "../graph/graph.h"
#include "arch.h"
#include "vocab.h"

typedef enum tn_open_level { TN_OPEN_ALL, TN_OPEN_VOCAB, TN_OPEN_METADATA } tn_open_level;

typedef struct tn_model_options {
    tn_open_level level;
    const char *arch_file;                      /* NULL, or a description that adds or replaces one */
    void (*warn)(void *user, const char *line); /* NULL: not told; the line is safe to print */
    void *user;
    /* NULL, or gives what is computed with in the place of a tensor of the file: itself, or one of its shape that outlives the
     * model. The model's file and identity do not show it. */
    const tn_tensor *(*replace)(void *user, const tn_tensor *tensor);
} tn_model_options;

/* How the rows of a sequence become one vector; from NONE to RANK the numbers of files. */
typedef enum tn_pooling {
    TN_POOLING_NONE, /* they stay rows */
    TN_POOLING_MEAN,
    TN_POOLING_FIRST,
    TN_POOLING_LAST,
    TN_POOLING_RANK,   /* a score of a pair of texts: not a vector */
    TN_POOLING_UNKNOWN /* the file says nothing */
} tn_pooling;

/* Hyper-parameter h of layer i is values[h * n_layers + i], equal for all layers where the file gives one. */
typedef struct tn_hparams {
    uint32_t n_layers, n_vocab, n_embd, n_ctx_train;
    tn_pooling pooling;
    double *values;
} tn_hparams;

typedef struct tn_model {
    tn_file *file;
    tn_arena arena;
    char *arch_name; /* general.architecture, escaped; "" if absent */
    tn_arch arch;    /* from here on: level ALL */
    tn_hparams hparams;
    const tn_tensor **tensors; /* [def * n_layers + layer], NULL where an optional one is absent */
    bool encoder;              /* there are no logits: the results are embeddings */
    tn_graph graph;            /* its result are logits, of encoders what embeddings are made of */
    tn_graph embedding_graph;  /* the same without the product that makes logits */
    tn_vocab_source vocab;     /* levels ALL and VOCAB; empty where the file has none */
} tn_model;

/* On failure *out is NULL. */
tn_status tn_model_open_source(const tn_fmap_source *source, const tn_model_options *options, tn_model **out,
                               tn_error *err);
tn_status tn_model_open(const char *path, const tn_model_options *options, tn_model **out, tn_error *err);
void tn_model_close(tn_model *model); /* NULL is fine */

/* A hash of the metadata, the description, the list of tensors and the first bytes of each: equal for one model wherever its
 * file lies, different for another but by chance (identity.c). Takes milliseconds. Level ALL. */
uint64_t tn_model_identity(const tn_model *m);

/* Parts of tn_model_open, one file each. */
tn_status tn_model_find_arch(tn_model *m, const char *arch_file, tn_error *err);              /* registry.c */
tn_status tn_model_read_hparams(tn_model *m, tn_error *err);                                  /* hparams.c */
tn_status tn_model_bind_tensors(tn_model *m, const tn_model_options *options, tn_error *err); /* tensors.c */
tn_status tn_model_build_graphs(tn_model *m, tn_error *err);                                  /* build.c */

/* The factor of a matrix: the tensor named as `weight` with "scale" for "weight" at the end, NULL if there is none. Its
 * product is multiplied by it (NVFP4 files have one a matrix). */
const tn_tensor *tn_model_factor(const tn_model *m, const tn_tensor *weight);

/* What this version lacks to run a file of an unknown architecture, step by step, as text (missing.c). */
void tn_model_missing(const tn_model *m, char *text, size_t cap);

/* Evaluates an expression of the description for a layer (0 outside the block); fails naming the expression. */
tn_status tn_model_eval(const tn_model *m, const char *expr, uint32_t layer, double *value, tn_error *err);
/* The same, for a whole number in [0, 2^32). */
tn_status tn_model_eval_u32(const tn_model *m, const char *expr, uint32_t layer, uint32_t *value,
                            tn_error *err);

#endif
