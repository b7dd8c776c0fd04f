/* An architecture, as a YAML description under models/ says it (docs/ADD_MODEL.md has the language).
 *
 * A description is validated as strictly as a model file: unknown or missing fields, bad types, unknown tensors and
 * expressions that do not parse are errors with line and column. */
#ifndef TN_MODEL_ARCH_H
#define TN_MODEL_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/arena.h"
#include "../base/status.h"

/* A description's text in the binary. */
typedef struct tn_arch_source {
    const char *name; /* file name without .yaml */
    const char *text;
    size_t size;
} tn_arch_source;

extern const tn_arch_source tn_arch_builtin[]; /* ended by a NULL name; made by the build from models/ */

typedef enum tn_hparam_kind { TN_HPARAM_INT, TN_HPARAM_FLOAT, TN_HPARAM_CHOICE } tn_hparam_kind;

typedef struct tn_hparam_def {
    const char *name;         /* in expressions */
    const char *key;          /* in metadata, behind "ARCH." */
    const char *default_expr; /* NULL: required */
    tn_hparam_kind kind;
    bool per_layer;      /* may be an array with one value a layer */
    bool min_is_outside; /* `above`: the least allowed value is greater than min */
    double min, max;
    const char *const *choices; /* kind CHOICE; the value is the index */
    size_t n_choices;
} tn_hparam_def;

typedef struct tn_tensor_def {
    const char *id;   /* in steps */
    const char *name; /* in files; "{i}" is the layer */
    const char *shape[4];
    uint32_t n_dims;
    bool per_layer, optional;
    int fallback;           /* tensor used where this one is absent; -1: none */
    const char *hf_name;    /* in checkpoints; NULL: not there */
    const char *hf_permute; /* heads whose rotary pairs change from halves to adjacent; NULL: as it is */
    const char *hf_add;     /* added to each element; NULL: nothing */
} tn_tensor_def;

typedef enum tn_step_kind {
    TN_STEP_NORM,      /* h = norm(h) */
    TN_STEP_ATTENTION, /* h = attention(h) */
    TN_STEP_MLP,       /* h = down(activation(gate(h)) * up(h)) */
    TN_STEP_RESIDUAL,  /* x = x + h, h = x */
    TN_STEP_LOGITS,    /* the result is weight * h */
} tn_step_kind;

typedef enum tn_rope_pairs { TN_ROPE_ADJACENT, TN_ROPE_HALVES } tn_rope_pairs;
typedef enum tn_activation { TN_ACTIVATION_SILU, TN_ACTIVATION_GELU } tn_activation;

/* Tensors are indices into tensors[], -1 where not given; the rest are expressions, NULL where not given. */
typedef struct tn_step {
    tn_step_kind kind;
    int weight;      /* norm, logits */
    const char *eps; /* norm */
    int q, k, v, out, q_bias, k_bias, v_bias, out_bias, q_norm, k_norm, freq_factors;
    const char *qk_norm_eps, *heads, *kv_heads, *head_dim, *scale, *window;
    const char *rope_dim, *rope_theta, *rope_factor;
    int rope_pairs; /* tn_rope_pairs */
    int gate, up, down;
    int activation; /* tn_activation */
} tn_step;

typedef struct tn_arch {
    const char *name;
    tn_hparam_def *hparams; /* the first is n_layers */
    size_t n_hparams;
    const char **checks;
    size_t n_checks;
    tn_tensor_def *tensors;
    size_t n_tensors;
    int embed_table;
    const char *embed_scale; /* NULL: none */
    tn_step *block, *head;
    size_t n_block, n_head;
} tn_arch;

/* Parses and validates a description; all memory comes from the arena. `label` names it in errors. */
tn_status tn_arch_parse(const char *text, size_t size, const char *label, tn_arena *arena, tn_arch *out,
                        tn_error *err);

/* Index of a hyper-parameter by name, -1 if there is none. */
int tn_arch_hparam(const tn_arch *arch, const char *name, size_t n);

#endif
