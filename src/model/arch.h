/* An architecture, as a YAML description under models/ says it (docs/ADD_MODEL.md has the language).
 *
 * A description is validated as strictly as a model file: unknown or missing fields, bad types, unknown tensors and
 * expressions that do not parse are errors with line and column. */
#ifndef TN_MODEL_ARCH_H
#define TN_MODEL_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/activation.h"
#include "../base/arena.h"
#include "../base/status.h"

/* A description in the binary, as numbers of lines: most of them stand in many descriptions, and in the binary once. */
typedef struct tn_arch_source {
    const char *name; /* file name without .yaml */
    const uint16_t *lines;
    size_t n_lines;
} tn_arch_source;

/* Made by the build from models/ (cmake/embed_lines.cmake). */
extern const tn_arch_source tn_arch_builtin[]; /* ended by a NULL name */
extern const char tn_arch_text[];              /* line i is that from tn_arch_line_at[i] to [i + 1] */
extern const uint32_t tn_arch_line_at[];

/* The text of a description, n bytes and a NUL, freed with free(); NULL where memory fails. */
char *tn_arch_source_text(const tn_arch_source *source, size_t *n);

/* Whether `word` stands in a line of it. */
bool tn_arch_source_has(const tn_arch_source *source, const char *word);

/* ---- Where things come from in a Hugging Face checkpoint (`hf` fields; read by src/convert) ---- */

/* Expressions over the checkpoint's configuration and the hyper-parameters; the first whose names are all there holds. */
typedef struct tn_hf_source {
    const char **exprs;
    size_t n;
} tn_hf_source;

typedef struct tn_hf_named {
    const char *name;
    tn_hf_source source; /* of names: paths; of tokenizer keys: expressions, unless token is given */
    const char *token;   /* the text of the token whose id is meant; NULL */
} tn_hf_named;

/* One way to get a tensor. */
typedef struct tn_hf_part {
    const char *name;    /* in the checkpoint; "{i}" is the layer, "{e}" counts the last dimension's slices */
    const char *permute; /* heads whose rotary pairs change from halves to adjacent; NULL: as it is */
    const char *add;     /* added to each element; NULL: nothing */
    const char *rows;    /* the row of the checkpoint's tensor that is row r here; NULL: r */
    const char *values;  /* instead of a name: the value of element j */
    bool transpose;      /* the two inner dimensions change places */
    bool f32;            /* stored as F32 whatever the type asked for */
    tn_hf_source when;   /* used only where this is not 0; n 0: always */
} tn_hf_part;

/* The section `hf`. */
typedef struct tn_hf {
    const char **classes; /* of config.json's architectures; n 0: no section */
    size_t n_classes;
    tn_hf_named *names; /* short for the first of some paths into the configuration */
    size_t n_names;
    const char **require; /* conditions, void where a name is missing */
    size_t n_require;
    const char **strip; /* parts of tensor names that say nothing */
    size_t n_strip;
    const char **ignore; /* patterns of tensor names that are not converted */
    size_t n_ignore;
    tn_hf_source n_vocab;
    tn_hf_named *tokenizer; /* keys behind "tokenizer.ggml." */
    size_t n_tokenizer;
} tn_hf;

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
    tn_hf_source hf,
        hf_when; /* the value, and when it is taken (n 0: always); hf.n 0: not from checkpoints */
    tn_hf_source
        *hf_choices; /* kind CHOICE: when each holds; the last that does counts. NULL: not from checkpoints */
} tn_hparam_def;

typedef struct tn_tensor_def {
    const char *id;   /* in steps */
    const char *name; /* in files; "{i}" is the layer. NULL: never there by itself */
    const char *shape[4];
    uint32_t n_dims;
    bool per_layer;
    const char *optional; /* may be absent where this is not 0; NULL: nowhere. Steps that need it find out */
    int fallback;         /* tensor used where this one is absent; -1: none */
    const char *row;      /* the part of the fallback from this row on; NULL: all of it, of the same shape */
    tn_hf_part *hf;       /* ways to get it from a checkpoint, best first */
    size_t n_hf;
} tn_tensor_def;

typedef enum tn_step_kind {
    TN_STEP_NORM,      /* h = norm(h) */
    TN_STEP_ATTENTION, /* h = attention(h) */
    TN_STEP_LATENT,    /* the same through what is cached in short */
    TN_STEP_MLP,       /* h = down(activation(gate(h)) * up(h)), or down(activation(up(h))) */
    TN_STEP_MOE,       /* h = weighted sum of the MLPs that a router chooses */
    TN_STEP_RESIDUAL,  /* x = x + h, h = x */
    TN_STEP_SAVE,      /* value = h */
    TN_STEP_LOAD,      /* h = value */
    TN_STEP_ADD,       /* h = h + value */
    TN_STEP_SCALE,     /* h = h * scale */
    TN_STEP_LINEAR,    /* h = weight * h */
    TN_STEP_LOGITS,    /* the result is weight * h */
    TN_STEP_EMBEDDING, /* the result is h */
} tn_step_kind;

typedef enum tn_norm_kind { TN_NORM_RMS, TN_NORM_LAYER } tn_norm_kind;
typedef enum tn_norm_span { TN_NORM_HEADS, TN_NORM_ALL } tn_norm_span;
typedef enum tn_norm_place { TN_NORM_BEFORE_ROPE, TN_NORM_AFTER_ROPE } tn_norm_place;
typedef enum tn_rope_pairs { TN_ROPE_ADJACENT, TN_ROPE_HALVES } tn_rope_pairs;

enum { TN_MAX_SAVED = 8 }; /* values that the steps of a list can name, x among them */

/* Tensors are indices into tensors[], -1 where not given; the rest are expressions, NULL where not given. */
typedef struct tn_step {
    tn_step_kind kind;
    const char *when;    /* the step is left out of layers where this is 0 */
    int value;           /* save, load, add: number of a named value, 0 is x */
    int weight, bias;    /* norm, linear, logits, the norm of embed */
    const char *scale;   /* scale, attention, logits, moe, embed */
    const char *softcap; /* attention, logits */
    int norm_kind;       /* tn_norm_kind: norm, attention, the norm of embed */
    const char *eps;     /* norm, attention, the norm of embed: NULL without one */
    int norm_span;       /* tn_norm_span: attention, as the following */
    int norm_place;      /* tn_norm_place */
    int q, k, v, out, q_bias, k_bias, v_bias, out_bias, q_norm, k_norm, q_norm_bias, k_norm_bias, sinks;
    const char *heads, *kv_heads, *head_dim, *window, *causal, *alibi, *clamp;
    const char *temper_beta, *temper_length;
    int rope_pairs; /* tn_rope_pairs */
    const char *rope_dim, *rope_theta, *rope_factor, *rope_magnitude;
    const char *yarn_original, *yarn_beta_fast, *yarn_beta_slow, *yarn_truncate, *long_above;
    int freq_factors, long_factors;
    int q_a, q_a_norm, q_b, kv_a, kv_a_norm, kv_b, k_b, v_b; /* latent attention */
    const char *rank, *value_dim;
    int gate, up, down, gate_bias, up_bias, down_bias; /* mlp, moe */
    int activation;                                    /* tn_activation: mlp, moe */
    int output_gate;                                   /* mlp */
    int router, router_bias, select_bias;              /* moe, as the following */
    const char *used, *sigmoid, *near, *renormalise;
    const char *groups, *groups_used, *group_best;
    int table, positions, types; /* embed */
} tn_step;

typedef struct tn_arch {
    const char *name;
    tn_hparam_def *hparams; /* the first is n_layers */
    size_t n_hparams;
    const char *n_computed; /* layers that are computed, the first ones; NULL: all */
    const char **checks;
    size_t n_checks;
    tn_tensor_def *tensors;
    size_t n_tensors;
    tn_step embed; /* the fields of `embed` */
    tn_step *block, *head;
    size_t n_block, n_head;
    uint64_t hash; /* of the text */
    tn_hf hf;
} tn_arch;

/* Parses and validates a description; all memory comes from the arena. `label` names it in errors. */
tn_status tn_arch_parse(const char *text, size_t size, const char *label, tn_arena *arena, tn_arch *out,
                        tn_error *err);

/* The same for a file, and for one in the binary (registry.c). */
tn_status tn_arch_parse_file(const char *path, tn_arena *arena, tn_arch *out, tn_error *err);
tn_status tn_arch_parse_builtin(const tn_arch_source *source, tn_arena *arena, tn_arch *out, tn_error *err);

/* Index of a hyper-parameter by name, -1 if there is none. */
int tn_arch_hparam(const tn_arch *arch, const char *name, size_t n);

/* Index of a tensor by ID, -1 if there is none; NULL gives -1. */
int tn_arch_tensor(const tn_arch *arch, const char *id);

#endif
