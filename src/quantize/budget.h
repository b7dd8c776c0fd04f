/* Types under a budget: the tensors that no rule names share what the target leaves them. */
#ifndef TN_QUANTIZE_BUDGET_H
#define TN_QUANTIZE_BUDGET_H

#include "imatrix.h"
#include "recipe.h"

/* Where the recipe has a target: gives the items that no rule named types of its ladder, so that all tensors together fit it.
 *
 * The errors of every rung are measured on rows spread over the tensor, weighted by importance; then rungs are climbed in the
 * order of the error that they take away for each byte. Fails if the lowest rungs are too large already. */
tn_status tn_plan_budget(const tn_file *file, const tn_plan_request *request, const tn_imatrix *imatrix,
                         tn_arena *arena, tn_plan_item *items, tn_error *err);

#endif
