/* The compute graph of a model: values, and the operations that make them, in an order that can be run.
 *
 * Shapes have one symbolic dimension: a value has `rows` rows, as many as the batch has tokens or as many as logits are
 * asked for, of a fixed width. An operation on OUTPUT rows that reads a TOKEN value reads its last rows. Values of experts
 * and heads have `copies` rows for each of those: one for each expert that a row uses, sorted by expert, then by row; or one
 * for each head, those of a row together.
 *
 * tn_graph_fuse then turns the list into steps. Threads meet once between steps (and once more inside a step that has
 * row operations when there are several rows). */
#ifndef TN_GRAPH_GRAPH_H
#define TN_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/activation.h"
#include "../base/arena.h"
#include "../base/dtype.h"
#include "../base/status.h"

typedef enum tn_op_kind {
#define X(NAME, name, class, what) TN_OP_##NAME,
#include "ops.def"
#undef X
    TN_OP_COUNT
} tn_op_kind;

typedef enum tn_op_class {
    TN_CLASS_ROW,
    TN_CLASS_MAT,
    TN_CLASS_ELEMENT,
    TN_CLASS_COLUMN,
    TN_CLASS_GATHER,
    TN_CLASS_HEADS
} tn_op_class;

typedef struct tn_op_info {
    const char *name;
    tn_op_class class;
} tn_op_info;

extern const tn_op_info tn_op_infos[TN_OP_COUNT];

typedef enum tn_rows { TN_ROWS_TOKENS, TN_ROWS_OUTPUTS } tn_rows;

/* What a value's rows hold: floats, quantized activations, attention's partial results, or the experts chosen: n_used
 * numbers (int32), then as many weights (float), best first. */
typedef enum tn_layout { TN_LAYOUT_F32, TN_LAYOUT_ACT, TN_LAYOUT_PARTS, TN_LAYOUT_PICKS } tn_layout;

typedef int32_t tn_value_id; /* index into values; -1: none */

typedef struct tn_value {
    tn_layout layout;
    tn_act act; /* layout ACT: Q8_32 or Q8_256 */
    tn_rows rows;
    uint32_t width;                       /* elements a row */
    uint32_t copies;                      /* rows for each row of the step: 1, or experts used, or heads */
    int32_t producer, last_use;           /* op indices */
    int32_t producer_step, last_use_step; /* set by tn_graph_fuse */
} tn_value;

/* A matrix in a file: n rows of k elements. */
typedef struct tn_weight {
    const uint8_t *data;
    tn_dtype dtype;
    uint32_t k, n;
} tn_weight;

/* The frequency of pair i is f = theta^(-i / n_pairs), divided by freq_factors[i] if there are any. Linear scaling divides
 * it by factor. YaRN (Peng et al. 2023, section 3.2) divides the low frequencies by factor, keeps the high ones, and goes
 * over from one to the other between pairs yarn_first and yarn_last. */
typedef struct tn_rope_config {
    uint32_t n_pairs; /* 0: no rotation */
    bool halves;      /* pairs (i, i + n_pairs), else (2i, 2i + 1) */
    bool yarn;
    double theta, factor;
    double yarn_first, yarn_last;
    double magnitude;          /* factor of the cosines and sines */
    const float *freq_factors; /* n_pairs divisors, or NULL */
    const float
        *long_factors; /* the same for sequences longer than the graph's long_above, or NULL: as ever */
} tn_rope_config;

/* Which row of a table a token gets. */
typedef enum tn_embed_by { TN_EMBED_TOKEN, TN_EMBED_POSITION, TN_EMBED_FIRST } tn_embed_by;

typedef struct tn_attention_params {
    uint32_t cache; /* index into the graph's caches */
    uint32_t n_heads, n_kv_heads, head_dim;
    bool ahead;           /* positions behind its own are seen too */
    uint32_t window;      /* positions seen, itself included (ahead: the half of it to each side); 0: all */
    float scale, softcap; /* softcap 0: none */
    const float *slopes;  /* of ALiBi, one a head, or NULL */
    const float
        *sinks; /* one a head: scores that take their part of the softmax and have no value; or NULL */
    const float *q_norm, *k_norm; /* head_dim weights, or NULL */
    float norm_eps;
    bool norm_layer;  /* layer norms, else RMS */
    bool norm_own;    /* head_dim weights for each head, one behind the other */
    bool norm_last;   /* behind the rotation */
    bool latent;      /* all KV heads are one in the cache, whose values are the first elements of its keys */
    uint32_t rope_at; /* element of a head that rotation begins with */
    uint32_t rope;    /* index into the graph's ropes */
    bool outputs_only; /* only OUTPUT rows of the result are read */
} tn_attention_params;

#define TN_MAX_EXPERT_GROUPS 64

/* How a router's outputs choose experts (docs/NUMERICS.md). */
typedef struct tn_route_params {
    uint32_t n_experts, n_used;
    bool sigmoid; /* scores are sigmoids, else their softmax */
    float near;   /* above 0: an expert is weighed among those left that are as near as that (SparseMixer) */
    uint32_t n_groups,
        n_groups_used; /* experts of the best groups alone are chosen; 1, 1: of all. At most TN_MAX_EXPERT_GROUPS */
    uint32_t group_best; /* a group is as good as the sum of so many of its best */
    bool renormalise;    /* weights are divided by their sum */
    float scale;         /* and multiplied by this */
    const float *bias;   /* added to the scores where they choose, not to the weights; or NULL */
} tn_route_params;

/* Matrices of one shape, one an expert or a head: each is `stride` bytes behind the one before. */
typedef struct tn_matrices {
    tn_weight weight; /* the first */
    uint32_t count;
    size_t stride;
} tn_matrices;

/* What each head's matrix makes of its part of a row stands in one row, and behind each product n_tail elements of the head's
 * part of another. */
typedef struct tn_head_product_params {
    tn_matrices of;
    bool transposed;
    uint32_t n_tail, tail_at, tail_stride; /* from tail_at on of each tail_stride elements */
} tn_head_product_params;

typedef struct tn_op {
    tn_op_kind kind;
    int32_t layer; /* -1: before or after the layers */
    tn_value_id in[3], out;
    tn_rows rows; /* of the output */
    union {
        tn_weight weight; /* MATMUL */
        struct {
            tn_weight table;
            tn_embed_by by;
        } embed;
        struct {
            const float *weight;
            float eps;
            bool layer;     /* layer norm, else RMS norm */
            uint32_t first; /* so many elements are normed, the rest stays; 0: all */
        } norm;
        struct {
            const float *vector;
        } bias;
        struct {
            float factor;
        } scale;
        struct {
            double beta; /* 1 + beta * log(1 + floor(position / length)) */
            uint32_t length;
        } temper;
        struct {
            float cap;
        } softcap;
        struct {
            float limit;
        } clamp;
        struct {
            tn_activation activation;
        } glu; /* in[1] -1: not gated */
        struct {
            tn_act act;
        } quantize;
        tn_route_params route;
        struct {
            tn_act act; /* the kind of rows that the experts behind it meet */
            uint32_t n_experts;
        } dispatch;
        tn_matrices experts;
        struct {
            uint32_t count, stride, width; /* elements from head to head, and of each */
        } heads;
        tn_head_product_params head_product;
        struct {
            const float *vectors; /* one an expert, as wide as the value */
            uint32_t n_experts;
        } expert_bias;
        struct {
            uint32_t n_experts;
        } combine;
        tn_attention_params attention; /* ATTENTION, and the ATTN_JOIN behind it */
    };
} tn_op;

/* One layer's key-value cache. */
typedef struct tn_cache_shape {
    uint32_t n_kv_heads, head_dim, window;
    bool latent; /* keys alone */
} tn_cache_shape;

/* Ops first..end-1: row operations up to mats, then products and what follows them; or one HEADS operation. */
typedef struct tn_step_range {
    int32_t first, mats, end;
    tn_rows rows;
    bool heads;
} tn_step_range;

typedef struct tn_graph {
    tn_arena *arena;
    tn_op *ops;
    int32_t n_ops, cap_ops;
    tn_value *values;
    int32_t n_values, cap_values;
    tn_cache_shape *caches;
    uint32_t n_caches, cap_caches;
    tn_rope_config *ropes; /* distinct ones */
    uint32_t n_ropes, cap_ropes;
    tn_step_range *steps;
    int32_t n_steps;
    tn_value_id logits;   /* the result: logits, or what embeddings are made of */
    bool whole;           /* some attention sees ahead: a sequence is computed at once */
    uint32_t n_positions; /* that the tables of positions have; 0: any number */
    uint32_t long_above;  /* longer sequences are rotated by long_factors throughout; 0: none are */
    bool out_of_memory;   /* set by any add; checked once at the end */
} tn_graph;

void tn_graph_init(tn_graph *g, tn_arena *arena);

/* Adds an operation with its inputs (-1 for unused) and parameters filled; sets its output by the operation's shape function
 * and returns it. rows is taken from op.rows. A shape that does not fit is a bug of the builder (assert). */
tn_value_id tn_graph_add(tn_graph *g, tn_op op);

uint32_t tn_graph_add_cache(tn_graph *g, tn_cache_shape shape);
uint32_t tn_graph_add_rope(tn_graph *g, tn_rope_config rope); /* shares equal ones */

/* The value that an operation makes; asserts that the inputs fit (shapes.c). */
tn_value tn_op_shape(const tn_graph *g, const tn_op *op);

/* Inserts the quantization of activations and groups the operations into steps. */
tn_status tn_graph_fuse(tn_graph *g, tn_error *err);

#endif
