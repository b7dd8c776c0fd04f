/* Graph, fusion and plan on tiny models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/model/model.h"
#include "src/plan/plan.h"
#include "tests/unit/tiny_model.h"

static void layers_have_five_steps(void **state) {
    (void)state;
    const tiny_shape *shapes[] = {&tiny_llama, &tiny_gemma3};
    for (int i = 0; i < 2; i++) {
        tn_model *m = tiny_open(shapes[i]);
        assert_int_equal(m->graph.n_steps, 5 * (int)shapes[i]->n_layers + 1); /* and the output head */
        tn_model_close(m);
    }
}

/* The first layer of a llama: what each step holds. */
static void steps_hold_what_the_design_says(void **state) {
    (void)state;
    tiny_shape shape = tiny_llama;
    shape.q8_0 = true;
    tn_model *m = tiny_open(&shape);
    const tn_graph *g = &m->graph;
    static const tn_op_kind expected[][6] = {
        {TN_OP_EMBED, TN_OP_NORM, TN_OP_QUANTIZE, TN_OP_MATMUL, TN_OP_MATMUL, TN_OP_MATMUL},
        {TN_OP_ATTENTION},
        {TN_OP_ATTN_JOIN, TN_OP_QUANTIZE, TN_OP_MATMUL, TN_OP_ADD},
        {TN_OP_NORM, TN_OP_QUANTIZE, TN_OP_MATMUL, TN_OP_MATMUL, TN_OP_GLU},
        {TN_OP_QUANTIZE, TN_OP_MATMUL, TN_OP_ADD},
    };
    static const int counts[] = {6, 1, 4, 5, 3}, rows[] = {3, 0, 2, 2, 1};
    for (int s = 0; s < 5; s++) {
        assert_int_equal(g->steps[s].end - g->steps[s].first, counts[s]);
        assert_int_equal(g->steps[s].mats - g->steps[s].first, rows[s]);
        for (int i = 0; i < counts[s]; i++)
            assert_int_equal(g->ops[g->steps[s].first + i].kind, expected[s][i]);
        assert_int_equal(g->steps[s].heads, s == 1);
    }
    tn_model_close(m);
}

/* A layer of experts: one meeting of the threads more than an MLP. */
static void experts_take_three_steps(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_mixtral);
    const tn_graph *g = &m->graph;
    static const tn_op_kind expected[][5] = {
        {TN_OP_NORM, TN_OP_QUANTIZE, TN_OP_MATMUL},
        {TN_OP_ROUTE, TN_OP_DISPATCH, TN_OP_EXPERTS, TN_OP_EXPERTS, TN_OP_GLU},
        {TN_OP_QUANTIZE, TN_OP_EXPERTS, TN_OP_COMBINE, TN_OP_ADD},
    };
    static const int counts[] = {3, 5, 4}, rows[] = {2, 2, 1};
    assert_int_equal(g->n_steps, 6 * (int)tiny_mixtral.n_layers + 1);
    for (int s = 0; s < 3; s++) {
        const tn_step_range *step = &g->steps[3 + s];
        assert_int_equal(step->end - step->first, counts[s]);
        assert_int_equal(step->mats - step->first, rows[s]);
        for (int i = 0; i < counts[s]; i++) assert_int_equal(g->ops[step->first + i].kind, expected[s][i]);
    }
    tn_model_close(m);
}

static void only_asked_rows_go_through_the_tail(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    for (int32_t s = 0; s < m->graph.n_steps; s++)
        assert_int_equal(m->graph.steps[s].rows, s < m->graph.n_steps - 4 ? TN_ROWS_TOKENS : TN_ROWS_OUTPUTS);
    tn_model_close(m);
}

/* When a value comes into being or ends: steps, and in a step its row operations before the rest. */
static int32_t phase(const tn_graph *g, int32_t op) {
    int32_t s = 0;
    while (g->steps[s].end <= op) s++;
    return 2 * s + (op >= g->steps[s].mats);
}

/* When the last thread has read a value. With one row threads do not meet between the two parts of a step: there only what is
 * each thread's own, made by row operations of the same step, ends in between. */
static int32_t end_phase(const tn_graph *g, const tn_value *v) {
    const int32_t last = v->last_use > v->producer ? v->last_use : v->producer;
    const bool own = phase(g, v->producer) / 2 == phase(g, last) / 2;
    return own ? phase(g, last) : phase(g, last) | 1;
}

/* Whether a is made element by element from b, which was made in the same step by products and is not needed after. */
static bool writes_over(const tn_graph *g, int32_t a, int32_t b) {
    const tn_value *va = &g->values[a], *vb = &g->values[b];
    return tn_op_infos[g->ops[va->producer].kind].class == TN_CLASS_ELEMENT && vb->last_use == va->producer &&
           vb->producer >= g->steps[va->producer_step].mats && va->width == vb->width;
}

/* Values that are alive at the same time share no bytes, but for one that is written over another, its input. */
static void living_values_do_not_overlap(void **state) {
    (void)state;
    tiny_shape one_expert = tiny_mixtral;
    one_expert.n_experts_used = 1;
    const tiny_shape *shapes[] = {&tiny_llama, &tiny_gemma3, &tiny_mixtral, &one_expert};
    for (int i = 0; i < 4; i++) {
        tn_model *m = tiny_open(shapes[i]);
        tn_kernels kernels;
        tn_kernels_fill(&kernels, TN_ISA_REF);
        tn_arena arena = {0};
        tn_plan plan;
        const tn_limits limits = {512, 32, 4, 2, false};
        assert_int_equal(tn_plan_make(&m->graph, &kernels, &limits, &arena, &plan, NULL), TN_OK);
        int pairs = 0, in_place = 0;
        for (int32_t a = 0; a < m->graph.n_values; a++) {
            const tn_value *va = &m->graph.values[a];
            const tn_place *pa = &plan.places[a];
            if (a == m->graph.logits) continue;
            assert_int_equal(pa->shared % 64, 0);
            assert_true(pa->shared + pa->stride * pa->max_rows <= plan.shared_bytes);
            for (int32_t b = 0; b < a; b++) {
                const tn_value *vb = &m->graph.values[b];
                const tn_place *pb = &plan.places[b];
                if (b == m->graph.logits || phase(&m->graph, va->producer) > end_phase(&m->graph, vb) ||
                    phase(&m->graph, vb->producer) > end_phase(&m->graph, va))
                    continue;
                pairs++;
                if (pa->shared == pb->shared && writes_over(&m->graph, a, b)) {
                    in_place++;
                    continue;
                }
                assert_true(pa->shared + pa->stride * pa->max_rows <= pb->shared ||
                            pb->shared + pb->stride * pb->max_rows <= pa->shared);
            }
        }
        assert_true(pairs > 20);
        assert_true(in_place >= 2 * 2); /* in each layer at least the gated unit and the last sum */
        tn_arena_free(&arena);
        tn_model_close(m);
    }
}

static void splits_cover_everything_once(void **state) {
    (void)state;
    for (size_t n = 0; n < 100; n++)
        for (size_t unit = 1; unit < 20; unit += 5)
            for (size_t threads = 1; threads < 9; threads++) {
                size_t next = 0;
                for (size_t t = 0; t < threads; t++) {
                    tn_range r = tn_split(n, unit, t, threads);
                    assert_int_equal(r.begin, next);
                    assert_true(r.end >= r.begin && (r.begin % unit == 0 || r.begin == n));
                    next = r.end;
                }
                assert_int_equal(next, n);
            }
}

static void attention_spans(void **state) {
    (void)state;
    tn_attention_params p = {0};
    tn_span s = tn_attention_span(&p, 0, 1);
    assert_true(s.lo == 0 && s.hi == 1 && s.first_chunk == 0 && s.n_chunks == 1);
    s = tn_attention_span(&p, 64, 300);
    assert_true(s.lo == 0 && s.hi == 65 && s.first_chunk == 0 && s.n_chunks == 2);
    p.window = 10;
    s = tn_attention_span(&p, 200, 300); /* sees 191..200 */
    assert_true(s.lo == 191 && s.hi == 201 && s.first_chunk == 2 && s.n_chunks == 2);
    s = tn_attention_span(&p, 9, 300);
    assert_true(s.lo == 0 && s.hi == 10);
    p.ahead = true; /* five to each side, within the sequence */
    s = tn_attention_span(&p, 62, 300);
    assert_true(s.lo == 57 && s.hi == 68 && s.first_chunk == 0 && s.n_chunks == 2);
    s = tn_attention_span(&p, 3, 300);
    assert_true(s.lo == 0 && s.hi == 9);
    s = tn_attention_span(&p, 298, 300);
    assert_true(s.lo == 293 && s.hi == 300);
    p.window = 0;
    s = tn_attention_span(&p, 5, 65);
    assert_true(s.lo == 0 && s.hi == 65 && s.first_chunk == 0 && s.n_chunks == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_have_five_steps),
        cmocka_unit_test(steps_hold_what_the_design_says),
        cmocka_unit_test(experts_take_three_steps),
        cmocka_unit_test(only_asked_rows_go_through_the_tail),
        cmocka_unit_test(living_values_do_not_overlap),
        cmocka_unit_test(splits_cover_everything_once),
        cmocka_unit_test(attention_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
