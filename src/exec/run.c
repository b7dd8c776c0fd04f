#include "run.h"

#include <string.h>

static tn_op_run_fn *const run_table[TN_OP_COUNT] = {
#define X(NAME, name, class, what) run_##name,
#include "../graph/ops.def"
#undef X
};

static size_t rows_of(const tn_run *run, tn_rows rows) {
    return rows == TN_ROWS_TOKENS ? run->n_tokens : run->n_outputs;
}

uint8_t *tn_task_row(const tn_task *t, tn_value_id id, size_t i) {
    const tn_run *run = t->run;
    const tn_plan *plan = run->plan;
    const tn_place *at = &plan->places[id];
    const tn_value *v = &plan->graph->values[id];
    if (t->n_rows == 1 && at->by_rows && v->producer >= t->step->first)
        return tn_private(t) + at->alone + (v->copies > 1 ? i * at->stride : 0);
    if (id == plan->graph->logits) return (uint8_t *)run->logits + i * run->logits_stride;
    if (v->rows == TN_ROWS_TOKENS && t->op->rows == TN_ROWS_OUTPUTS) i += run->n_tokens - run->n_outputs;
    return run->shared + at->shared + i * at->stride;
}

/* With one row, what later steps read is copied out of the private area; any one thread may do it. */
static void publish(const tn_task *t) {
    const tn_plan *plan = t->run->plan;
    for (int32_t i = t->step->first; i < t->step->mats; i++) {
        const tn_value_id id = plan->graph->ops[i].out;
        const tn_place *at = &plan->places[id];
        uint8_t *dst = id == plan->graph->logits ? (uint8_t *)t->run->logits : t->run->shared + at->shared;
        if (at->escapes) memcpy(dst, tn_private(t) + at->alone, at->stride * plan->graph->values[id].copies);
    }
}

static void observe(tn_task *t) {
    for (int32_t i = t->step->mats; i < t->step->end; i++) {
        t->op = &t->run->plan->graph->ops[i];
        if (tn_op_infos[t->op->kind].class == TN_CLASS_MAT)
            t->run->observer->product(t->run->observer->user, t);
    }
}

static void run_step(tn_run *run, const tn_step_range *step, uint32_t thread) {
    const tn_graph *g = run->plan->graph;
    const uint32_t n_threads = run->plan->limits.n_threads;
    tn_task t = {.run = run, .step = step, .thread = thread, .n_rows = rows_of(run, step->rows)};
    const bool alone = t.n_rows == 1;
    for (int32_t i = step->first; i < step->mats; i++) {
        t.op = &g->ops[i];
        const tn_value *out = &g->values[t.op->out];
        if (!alone && tn_op_infos[t.op->kind].class == TN_CLASS_GATHER) tn_pool_barrier(run->pool);
        t.rows = alone ? (tn_range){0, out->copies} : tn_split(t.n_rows * out->copies, 1, thread, n_threads);
        t.columns = (tn_range){0, out->width};
        run_table[t.op->kind](&t);
    }
    if (alone && thread == 0) publish(&t);
    if (!alone && step->mats > step->first && step->mats < step->end) tn_pool_barrier(run->pool);
    for (int32_t i = step->mats; i < step->end; i++) {
        t.op = &g->ops[i];
        t.rows = (tn_range){0, t.n_rows * g->values[t.op->out].copies};
        t.columns = tn_split(g->values[t.op->out].width, TN_COLUMN_UNIT, thread, n_threads);
        run_table[t.op->kind](&t);
    }
    if (run->observer) observe(&t);
}

/* All threads must leave behind the same step: one of them looks, and says before they meet which step that is. The number, and
 * not a flag, since that thread may be through the next step before another has read what it said. */
static void run_all(void *arg, uint32_t thread) {
    tn_run *run = arg;
    const tn_graph *g = run->plan->graph;
    for (int32_t s = 0; s < g->n_steps; s++) {
        if (rows_of(run, g->steps[s].rows) == 0) continue;
        run_step(run, &g->steps[s], thread);
        if (s + 1 == g->n_steps) return;
        if (thread == 0 && atomic_load_explicit(run->cancelled, memory_order_relaxed))
            atomic_store_explicit(&run->last_step, s, memory_order_relaxed);
        tn_pool_barrier(run->pool);
        if (atomic_load_explicit(&run->last_step, memory_order_relaxed) == s) return;
    }
}

bool tn_run_program(tn_run *run) {
    atomic_init(&run->last_step, -1);
    tn_pool_run(run->pool, run_all, run);
    return atomic_load_explicit(&run->last_step, memory_order_relaxed) < 0;
}
