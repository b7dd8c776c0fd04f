/* Where numbers first cease to be finite: a look behind every step of a batch that is computed again. */
#include <limits.h>
#include <string.h>

#include "run.h"

bool tn_all_finite(const float *x, size_t n) {
    const uint32_t exponent = 0x7f800000;
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return !found;
}

/* Whether columns of all rows of a value are; true where they are not to be had. Behind a step there are those that the caller or later
 * steps read, and of a row alone all that was made before the products, by each thread for itself. */
static bool value_is_finite(const tn_task *task, tn_value_id id, tn_range columns) {
    const tn_run *run = task->run;
    const tn_place *at = &run->plan->places[id];
    const tn_value *v = &run->plan->graph->values[id];
    const bool logits = id == run->plan->graph->logits, alone = task->n_rows == 1 && at->by_rows;
    if (v->layout != TN_LAYOUT_F32 || (!alone && !logits && !at->escapes)) return true;
    const uint8_t *row = alone    ? tn_private(task) + at->alone
                         : logits ? (const uint8_t *)run->logits
                                  : run->shared + at->shared;
    for (size_t i = task->n_rows * v->copies; i > 0; i--, row += logits ? run->logits_stride : at->stride)
        if (!tn_all_finite((const float *)(const void *)row + columns.begin, columns.end - columns.begin))
            return false;
    return true;
}

/* Each thread looks at the columns that it made, the first at the rows made before the products as well: those are complete, and what
 * others make at this time is left alone. Steps without a product make nothing but what the next one reads. */
static void look(void *user, const tn_task *task) {
    atomic_int *first = user;
    const tn_plan *plan = task->run->plan;
    for (int32_t i = task->step->first; i < task->step->end && i < atomic_load(first); i++) {
        const tn_value_id id = plan->graph->ops[i].out;
        const size_t width = plan->graph->values[id].width;
        const bool by_rows = i < task->step->mats;
        if (by_rows && task->thread != 0) continue;
        const tn_range columns = by_rows
                                     ? (tn_range){0, width}
                                     : tn_split(width, TN_COLUMN_UNIT, task->thread, plan->limits.n_threads);
        if (value_is_finite(task, id, columns)) continue;
        int known = atomic_load(first);
        while (i < known && !atomic_compare_exchange_weak(first, &known, i)) {
        }
    }
}

const tn_op *tn_first_not_finite(const tn_run *run) {
    atomic_int first = INT_MAX;
    const tn_observer observer = {look, &first};
    tn_run again = *run;
    again.observer = &observer;
    tn_run_program(&again);
    return first == INT_MAX ? NULL : &run->plan->graph->ops[first];
}
