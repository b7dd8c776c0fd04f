/* Experts: what the router chooses and weighs, and the sum of what they make, against formulas in double precision; the
 * same bits for any number of threads and rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/checked.h"
#include "src/exec/run.h"

/* A graph that looks its rows and router outputs up in tables: the row of token i has WIDTH values, its router row
 * n_experts; expert e multiplies by a matrix of its own, and may add a vector. */
enum { WIDTH = 32, N_OUT = 40, MAX_EXPERTS = 16, N_TOKENS = 37 };

static float rows[N_TOKENS][WIDTH], router[N_TOKENS][MAX_EXPERTS], bias[MAX_EXPERTS];
static float matrices[MAX_EXPERTS][N_OUT][WIDTH], vectors[MAX_EXPERTS][N_OUT];

/* The same matrices in blocks of Q8_0: int8 times 2^-7. */
static struct {
    uint16_t d;
    int8_t q[WIDTH];
} blocks[MAX_EXPERTS][N_OUT];
_Static_assert(sizeof blocks[0][0] == 34, "a block of Q8_0");

static float uniform(void) {
    return (float)(drand48() * 2 - 1);
}

static void fill(float spread) {
    srand48(7);
    for (int t = 0; t < N_TOKENS; t++) {
        for (int i = 0; i < WIDTH; i++) rows[t][i] = uniform();
        for (int e = 0; e < MAX_EXPERTS; e++) router[t][e] = spread * uniform();
    }
    for (int e = 0; e < MAX_EXPERTS; e++) {
        bias[e] = 0.5f * uniform();
        for (int n = 0; n < N_OUT; n++) {
            vectors[e][n] = uniform();
            blocks[e][n].d = 0x2000;
            for (int i = 0; i < WIDTH; i++) {
                blocks[e][n].q[i] = (int8_t)(uniform() * 127);
                matrices[e][n][i] = (float)blocks[e][n].q[i] / 128;
            }
        }
    }
}

static tn_value_id add(tn_graph *g, tn_op op) {
    op.rows = TN_ROWS_OUTPUTS;
    return tn_graph_add(g, op);
}

static tn_value_id look_up(tn_graph *g, const float *table, uint32_t width) {
    const tn_weight w = {(const uint8_t *)table, TN_DTYPE_F32, width, N_TOKENS};
    return add(g, (tn_op){.kind = TN_OP_EMBED, .in = {-1, -1, -1}, .embed = {w, false}});
}

/* The router's rows stand MAX_EXPERTS apart in its table. */
static void build(tn_graph *g, tn_arena *arena, const tn_route_params *p, bool q8_0,
                  const float *router_rows) {
    tn_graph_init(g, arena);
    const tn_weight floats = {(const uint8_t *)matrices, TN_DTYPE_F32, WIDTH, N_OUT},
                    quants = {(const uint8_t *)blocks, TN_DTYPE_Q8_0, WIDTH, N_OUT};
    const tn_matrices experts = {q8_0 ? quants : floats, p->n_experts,
                                 q8_0 ? sizeof blocks[0] : sizeof matrices[0]};
    const tn_act act = tn_dtypes[experts.weight.dtype].act;
    const tn_value_id x = look_up(g, rows[0], WIDTH), scores = look_up(g, router_rows, p->n_experts);
    const tn_value_id picks = add(g, (tn_op){.kind = TN_OP_ROUTE, .in = {scores, -1, -1}, .route = *p});
    const tn_value_id sorted =
        add(g, (tn_op){.kind = TN_OP_DISPATCH, .in = {x, picks, -1}, .dispatch = {act, p->n_experts}});
    tn_value_id y = add(g, (tn_op){.kind = TN_OP_EXPERTS, .in = {sorted, picks, -1}, .experts = experts});
    y = add(
        g,
        (tn_op){.kind = TN_OP_EXPERT_BIAS, .in = {y, picks, -1}, .expert_bias = {vectors[0], p->n_experts}});
    y = add(g, (tn_op){.kind = TN_OP_COMBINE, .in = {y, picks, -1}, .combine = {p->n_experts}});
    /* so that the sum has a place of its own */
    g->logits = add(g, (tn_op){.kind = TN_OP_SCALE, .in = {y, -1, -1}, .scale = {1}});
    assert_int_equal(tn_graph_fuse(g, NULL), TN_OK);
}

/* n tokens from `first` on, `at_once` of them in a run. */
static void run(const tn_route_params *p, bool q8_0, uint32_t n_threads, uint32_t at_once,
                float (*out)[N_OUT]) {
    static float packed[N_TOKENS * MAX_EXPERTS];
    for (uint32_t t = 0; t < N_TOKENS; t++)
        memcpy(packed + t * p->n_experts, router[t], p->n_experts * sizeof *packed);
    tn_arena arena = {0};
    tn_graph g;
    build(&g, &arena, p, q8_0, packed);
    tn_kernels kernels;
    tn_kernels_fill(&kernels, TN_ISA_REF);
    tn_plan plan;
    const tn_limits limits = {64, at_once, at_once, n_threads, false};
    assert_int_equal(tn_plan_make(&g, &kernels, &limits, &arena, &plan, NULL), TN_OK);
    tn_pool *pool;
    assert_int_equal(tn_pool_new(n_threads, false, &pool, NULL), TN_OK);
    uint8_t *memory = aligned_alloc(64, tn_round_up(plan.private_bytes * n_threads + plan.shared_bytes, 64));
    for (uint32_t first = 0; first < N_TOKENS; first += at_once) {
        const uint32_t n = N_TOKENS - first < at_once ? N_TOKENS - first : at_once;
        int32_t ids[N_TOKENS];
        for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(first + i);
        tn_run r = {.plan = &plan,
                    .pool = pool,
                    .private_base = memory,
                    .shared = memory + plan.private_bytes * n_threads,
                    .ids = ids,
                    .n_tokens = n,
                    .n_outputs = n,
                    .logits = out[first],
                    .logits_stride = sizeof *out};
        tn_run_program(&r);
    }
    free(memory);
    tn_pool_free(pool);
    tn_arena_free(&arena);
}

/* ---- The formula ---------------------------------------------------------------------------------------------- */

static uint32_t largest(const double *x, const bool *used, uint32_t n) {
    uint32_t best = n;
    for (uint32_t i = n; i-- > 0;)
        if (!used[i] && (best == n || x[i] >= x[best])) best = i;
    return best;
}

static void forbid_groups(const tn_route_params *p, const double *key, bool *used) {
    const uint32_t n = p->n_experts / p->n_groups;
    double group[MAX_EXPERTS] = {0};
    bool chosen[MAX_EXPERTS] = {false};
    for (uint32_t g = 0; g < p->n_groups; g++) {
        bool counted[MAX_EXPERTS] = {false};
        for (uint32_t i = 0; i < p->group_best; i++) {
            const uint32_t e = largest(key + g * n, counted, n);
            counted[e] = true, group[g] += key[g * n + e];
        }
    }
    for (uint32_t i = 0; i < p->n_groups_used; i++) chosen[largest(group, chosen, p->n_groups)] = true;
    for (uint32_t e = 0; e < p->n_experts; e++) used[e] = !chosen[e / n];
}

static double near_weight(const tn_route_params *p, const float *logits, const bool *used, uint32_t best) {
    double sum = 0;
    const double m = (double)logits[best];
    for (uint32_t e = 0; e < p->n_experts; e++) {
        const double size = fmax(fabs((double)logits[e]), m);
        if (!used[e] && !((m - (double)logits[e]) / size > (double)p->near))
            sum += exp((double)logits[e] - m);
    }
    return 1 / sum;
}

static void expected(const tn_route_params *p, uint32_t token, double *y) {
    double score[MAX_EXPERTS], key[MAX_EXPERTS], total = 0, sum = 0;
    bool used[MAX_EXPERTS] = {false};
    for (uint32_t e = 0; e < p->n_experts; e++) total += exp((double)router[token][e]);
    for (uint32_t e = 0; e < p->n_experts; e++) {
        const double l = (double)router[token][e];
        score[e] = p->sigmoid ? 1 / (1 + exp(-l)) : exp(l) / total;
        key[e] = score[e] + (p->bias ? (double)p->bias[e] : 0);
    }
    if (p->n_groups > 1) forbid_groups(p, key, used);
    uint32_t chosen[MAX_EXPERTS];
    double weight[MAX_EXPERTS];
    for (uint32_t i = 0; i < p->n_used; i++) {
        const uint32_t e = chosen[i] = largest(key, used, p->n_experts);
        weight[i] = p->near > 0 ? near_weight(p, router[token], used, e) : score[e];
        used[e] = true;
        sum += weight[i];
    }
    for (uint32_t n = 0; n < N_OUT; n++) {
        y[n] = 0;
        for (uint32_t i = 0; i < p->n_used; i++) {
            double made = (double)vectors[chosen[i]][n];
            for (int k = 0; k < WIDTH; k++)
                made += (double)matrices[chosen[i]][n][k] * (double)rows[token][k];
            y[n] += made * weight[i] / (p->renormalise ? sum : 1) * (double)p->scale;
        }
    }
}

/* ---- The tests ------------------------------------------------------------------------------------------------ */

#define ALL .n_groups = 1, .n_groups_used = 1, .group_best = 1

static const tn_route_params routers[] = {
    {8, 2, .scale = 1, .renormalise = true, ALL},
    {16, 4, .scale = 1, ALL},
    {5, 5, .scale = 2.5f, ALL},
    {1, 1, .scale = 1, .renormalise = true, ALL},
    {8, 1, .scale = 1, ALL},
    {16, 3, .sigmoid = true, .scale = 1.7f, .renormalise = true, .bias = bias, ALL},
    {16, 3, .bias = bias, .scale = 1, .renormalise = true, ALL},
    {16, 4, .sigmoid = true, .n_groups = 4, .n_groups_used = 2, .group_best = 2, .scale = 1, .bias = bias},
    {12, 3, .n_groups = 3, .n_groups_used = 1, .group_best = 1, .scale = 16},
    {16, 2, .near = 0.3f, .scale = 1, ALL},
};
enum { N_ROUTERS = sizeof routers / sizeof *routers };

static void compare(const tn_route_params *p, float (*found)[N_OUT], double slack, int which) {
    for (uint32_t t = 0; t < N_TOKENS; t++) {
        double want[N_OUT];
        expected(p, t, want);
        for (int n = 0; n < N_OUT; n++)
            if (!(fabs((double)found[t][n] - want[n]) <= slack * (double)p->scale))
                fail_msg("router %d, token %u, output %d: %g, expected %g", which, t, n, (double)found[t][n],
                         want[n]);
    }
}

static void experts_compute_what_formulas_say(void **state) {
    (void)state;
    static float found[N_TOKENS][N_OUT];
    fill(2);
    for (int i = 0; i < N_ROUTERS; i++) {
        run(&routers[i], false, 1, N_TOKENS, found);
        compare(&routers[i], found, 1e-5, i);
        run(&routers[i], true, 1, N_TOKENS, found);
        compare(&routers[i], found, 0.06, i); /* rows are rounded to 1/254 of their largest element */
    }
}

/* All scores are equal: the first experts, and of equal groups the first. */
static void the_first_of_equals_is_chosen(void **state) {
    (void)state;
    static float found[N_TOKENS][N_OUT];
    fill(0);
    for (int i = 0; i < N_ROUTERS; i++) {
        tn_route_params p = routers[i];
        p.bias = NULL;
        run(&p, false, 1, N_TOKENS, found);
        compare(&p, found, 1e-5, i);
    }
}

static void threads_and_batches_give_the_same_bits(void **state) {
    (void)state;
    static float found[N_TOKENS][N_OUT], other[N_TOKENS][N_OUT];
    static const uint32_t n_threads[] = {2, 3, 5}, at_once[] = {1, 2, 7, N_TOKENS};
    fill(2);
    for (int i = 0; i < 2 * N_ROUTERS; i++) {
        const tn_route_params *p = &routers[i / 2];
        run(p, i % 2, 1, N_TOKENS, found);
        for (int t = 0; t < 3; t++)
            for (int b = 0; b < 4; b++) {
                run(p, i % 2, n_threads[t], at_once[b], other);
                if (memcmp(found, other, sizeof found) != 0)
                    fail_msg("router %d: other bits with %u threads, %u rows at once", i / 2, n_threads[t],
                             at_once[b]);
            }
    }
}

/* No score can be ordered: whatever is chosen exists, once each, and the result says that it is no number. */
static void nan_stays_nan(void **state) {
    (void)state;
    static float found[N_TOKENS][N_OUT];
    fill(2);
    for (int t = 0; t < N_TOKENS; t++)
        for (int e = 0; e < MAX_EXPERTS; e++) router[t][e] = NAN;
    for (int i = 0; i < N_ROUTERS; i++) {
        run(&routers[i], false, 2, N_TOKENS, found);
        for (int t = 0; t < N_TOKENS; t++) assert_true(isnan(found[t][0]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_compute_what_formulas_say),
        cmocka_unit_test(the_first_of_equals_is_chosen),
        cmocka_unit_test(threads_and_batches_give_the_same_bits),
        cmocka_unit_test(nan_stays_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
