/* Automatic recipes: types under a budget by what they do to the predictions of the model.
 *
 * A group is the tensors of one role ("blk.*.attn_q.weight") in a third of the layers, or one tensor outside the layers. For each
 * group and each type of the ladder the divergence of the model is measured with that group alone made of that type. Divergences
 * are small and those of different groups nearly independent, so that their sum stands for the whole; the types that make it least
 * are found by dynamic programming over the bytes that the target leaves. */
#ifndef TN_QUANTIZE_AUTO_H
#define TN_QUANTIZE_AUTO_H

#include "imatrix.h"
#include "measures.h"
#include "recipe.h"

typedef struct tn_candidate {
    tn_dtype wanted, type; /* of the ladder; what it makes of the group's first tensor */
    uint64_t n_bytes;      /* of the group */
    double divergence;
} tn_candidate;

typedef struct tn_auto_group {
    const char *pattern;              /* of the tensors' names */
    const char *rest;                 /* of their names, behind the layer */
    uint32_t first_layer, last_layer; /* both included */
    uint32_t part;                    /* which third of the layers */
    bool layered;                     /* else one tensor outside the layers */
    uint32_t n_tensors;
    uint64_t n_elements;
    tn_candidate candidates[TN_MAX_LADDER];
    uint32_t n_candidates, chosen;
} tn_auto_group;

typedef struct tn_auto_request {
    const tn_file *file;
    const tn_plan_request *plan;
    const tn_imatrix *imatrix; /* may be NULL */
    uint32_t n_threads;        /* changes no choice */
    /* The divergence of the model with n tensors in the place of those with their names. */
    tn_status (*measure)(void *user, const tn_tensor *tensors, size_t n, double *out, tn_error *err);
    /* Told of measurements, and asked while one goes on, with the same figures; false cancels. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    tn_measures *measures; /* NULL, or what was measured before, and what will be kept */
    uint64_t identity;     /* of what measurements depend on beside tensors and types */
} tn_auto_request;

typedef struct tn_auto_result {
    tn_auto_group *groups; /* in the arena */
    uint32_t n_groups;
    double divergence; /* expected of the whole: the sum of the groups' */
} tn_auto_result;

/* Gives the items that no rule named types of the ladder of the plan's recipe, which must have a target. */
tn_status tn_plan_auto(const tn_auto_request *request, tn_arena *arena, tn_plan_item *items,
                       tn_auto_result *out, tn_error *err);

/* Makes the choices rules of the recipe, behind those that it has and in the place of its target. */
tn_status tn_auto_rules(const tn_auto_result *result, tn_arena *arena, tn_recipe *recipe, tn_error *err);

#endif
