/* Which type each tensor gets: recipes, and what they make of a file. docs/QUANTIZE.md describes their YAML. */
#ifndef TN_QUANTIZE_RECIPE_H
#define TN_QUANTIZE_RECIPE_H

#include "../../formats/format.h"
#include "../base/arena.h"

/* Tensors that are named by what they are for. */
typedef enum tn_rule_role { TN_RULE_PATTERNS, TN_RULE_OUTPUT, TN_RULE_EMBEDDING } tn_rule_role;

/* Layers from first to last of n; a fraction is of n, rounded down. `every` > 0: each so many, counted from `first`. */
typedef struct tn_layer_range {
    uint32_t first_num, first_den, last_num, last_den; /* den 0: the number itself; the last excluded */
    uint32_t every;
} tn_layer_range;

typedef struct tn_rule {
    tn_rule_role role;
    const char *const *patterns; /* '*' any text, '?' any character; of the whole name */
    size_t n_patterns;
    const tn_layer_range *layers; /* n_layers 0: all, tensors without a layer too */
    size_t n_ranges;
    const char *layers_text;
    /* What must hold of the model; 0 or -1: anything. */
    uint32_t min_gqa, experts, min_experts, model_layers;
    int imatrix; /* 1: there must be one, 0: there must be none */
    tn_dtype type;
} tn_rule;

enum { TN_MAX_LADDER = 16 };

typedef struct tn_recipe {
    const char *name;
    int64_t file_type; /* for general.file_type; -1: not said */
    bool has_type;
    tn_dtype type; /* of what no rule names */
    tn_rule *rules;
    size_t n_rules;
    /* With a target, of all tensors, the types of what no rule names are chosen from a ladder (budget.h). */
    uint64_t target_bytes; /* 0: none */
    double target_bpw;     /* bits a weight; 0: none */
    tn_dtype ladder[TN_MAX_LADDER];
    size_t n_ladder;
} tn_recipe;

/* A built-in recipe by name, or one from a file, whose `base` may be built in. Everything is in the arena. */
tn_status tn_recipe_builtin(const char *name, tn_arena *arena, tn_recipe *out, tn_error *err);
tn_status tn_recipe_load(const char *path, tn_arena *arena, tn_recipe *out, tn_error *err);

/* No rules: everything shares a number of bits a weight. */
tn_recipe tn_recipe_of_target(double bpw);

/* The recipe as YAML, as it will be applied, its base merged in; freed by the caller with free; NULL when memory is out. */
char *tn_recipe_text(const tn_recipe *recipe);

/* ---- Plans ---------------------------------------------------------------------------------------------------- */

typedef struct tn_plan_item {
    const tn_tensor *tensor; /* of the file */
    tn_dtype type;           /* what it becomes; its own: copied as it is */
    tn_dtype wanted;         /* what the recipe said */
    bool by_default;         /* no rule named it */
    const char *why;         /* "", or why the two differ or why it is kept */
    uint64_t n_bytes;
} tn_plan_item;

/* A caller's choice for one tensor, before any rule. */
typedef struct tn_chosen {
    const char *tensor;
    tn_dtype type;
} tn_chosen;

typedef struct tn_plan_request {
    const tn_recipe *recipe;
    const tn_chosen *chosen;
    size_t n_chosen;
    bool has_imatrix, allow_requantize;
} tn_plan_request;

/* One item a tensor, in the file's order, in the arena. Fails where a quantized tensor would be quantized again without leave. */
tn_status tn_plan_types(const tn_file *file, const tn_plan_request *request, tn_arena *arena,
                        tn_plan_item **items, tn_error *err);

/* Gives an item the type `wanted`, or what stands in for it. */
tn_status tn_plan_give(const tn_file *file, const tn_plan_request *request, tn_dtype wanted, bool is_output,
                       tn_arena *arena, tn_plan_item *item, tn_error *err);

/* The type that `wanted` makes of a tensor: itself, or what stands in where rows do not fit its blocks. */
tn_dtype tn_plan_type(const tn_tensor *t, tn_dtype wanted, bool is_output);

/* The bytes that a recipe with a target gives to all tensors of a file. */
uint64_t tn_plan_target(const tn_file *file, const tn_recipe *recipe);

int64_t tn_layer_of(const char *name); /* N of "blk.N.", or -1 */

#endif
