/* One weight that is not a number makes one error, which names the layer that has it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/tiny_session.h"

enum { N_IDS = 9 };

static const int32_t ids[N_IDS] = {3, 1, 4, 1, 5, 9, 2, 6, 5};

/* The floats of an operation's weight, so that they can be exchanged; *n is 0 if it has none. */
static const float **weight_of(tn_op *op, const tn_graph *graph, size_t *n) {
    *n = 0;
    switch (op->kind) {
    case TN_OP_EMBED: *n = (size_t)op->embed.table.k * op->embed.table.n; break;
    case TN_OP_MATMUL: *n = (size_t)op->weight.k * op->weight.n; break;
    case TN_OP_EXPERTS: *n = op->experts.stride / sizeof(float) * op->experts.count; break;
    case TN_OP_NORM: *n = graph->values[op->out].width; return &op->norm.weight;
    default: return NULL;
    }
    return (const float **)(op->kind == TN_OP_EMBED     ? &op->embed.table.data
                            : op->kind == TN_OP_EXPERTS ? &op->experts.weight.data
                                                        : &op->weight.data);
}

static void expect_named(const tn_model *m, const tn_op *op, uint32_t n_batch, uint32_t n_threads) {
    char layer[32];
    tn_error err = {0};
    tn_session *s = tiny_session(m, 64, n_batch, n_threads, TN_KV_F16);
    snprintf(layer, sizeof layer, "from layer %d on", op->layer);
    const char *where = op->layer >= 0            ? layer
                        : op->kind == TN_OP_EMBED ? "from the embeddings on"
                                                  : "from the output on";
    assert_int_equal(tn_session_eval(s, ids, N_IDS, 1, &err), TN_ERR_NUMERIC);
    if (!strstr(err.message, where)) fail_msg("%s: expected '%s'", err.message, where);
    tn_session_free(s);
}

static void every_weight_is_named_by_its_layer(const tiny_shape *shape, size_t expected) {
    tn_model *m = tiny_open(shape);
    size_t n_named = 0;
    for (int32_t i = 0; i < m->graph.n_ops; i++) {
        tn_op *op = (tn_op *)&m->graph.ops[i];
        size_t n;
        const float **weight = weight_of(op, &m->graph, &n);
        if (!n) continue;
        const float *sound = *weight;
        float *spoilt = malloc(n * sizeof *spoilt);
        assert_non_null(spoilt);
        for (size_t j = 0; j < n; j++) spoilt[j] = j % 7 == 3 ? (float)NAN : sound[j];
        *weight = spoilt;
        expect_named(m, op, 1, 1 + (uint32_t)i % 3);
        expect_named(m, op, 4, 1 + (uint32_t)(i + 1) % 3);
        expect_named(m, op, N_IDS, 1 + (uint32_t)(i + 2) % 3);
        *weight = sound;
        free(spoilt);
        n_named++;
    }
    assert_int_equal(n_named, expected);
    tn_model_close(m);
}

static void weights_of_a_plain_model(void **state) {
    (void)state;
    every_weight_is_named_by_its_layer(&tiny_llama, 1 + 2 * 9 + 2);
}

static void weights_of_a_model_with_windows(void **state) {
    (void)state;
    every_weight_is_named_by_its_layer(&tiny_gemma3, 1 + 7 * 11 + 2);
}

static void weights_of_experts(void **state) {
    (void)state;
    tiny_shape shape = tiny_mixtral;
    shape.q8_0 = false;
    every_weight_is_named_by_its_layer(&shape, 1 + 2 * 10 + 2);
}

static void weights_of_an_encoder(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_encoder);
    tn_op *op = (tn_op *)&m->embedding_graph.ops[m->embedding_graph.n_ops / 2];
    while (op->kind != TN_OP_MATMUL) op++;
    const tn_weight sound = op->weight;
    float *spoilt = calloc((size_t)sound.k * sound.n, sizeof *spoilt);
    assert_non_null(spoilt);
    spoilt[1] = (float)NAN;
    op->weight.data = (const uint8_t *)spoilt;
    const tn_session_config config = {.n_ctx = 64,
                                      .n_batch = 64,
                                      .n_outputs = 64,
                                      .n_threads = 2,
                                      .n_vocab = m->hparams.n_vocab,
                                      .kv = TN_KV_F16};
    tn_session *s = NULL;
    tn_error err = {0};
    char where[32];
    snprintf(where, sizeof where, "from layer %d on", op->layer);
    assert_int_equal(tn_session_new(&m->embedding_graph, &config, &s, &err), TN_OK);
    assert_int_equal(tn_session_eval(s, ids, N_IDS, N_IDS, &err), TN_ERR_NUMERIC);
    if (!strstr(err.message, where)) fail_msg("%s: expected '%s'", err.message, where);
    op->weight = sound;
    free(spoilt);
    tn_session_free(s);
    tn_model_close(m);
}

static void a_sound_model_goes_on_behind_the_error(void **state) {
    (void)state;
    tn_model *m = tiny_open(&tiny_llama);
    tn_session *s = tiny_session(m, 64, 4, 2, TN_KV_F16), *fresh = tiny_session(m, 64, 4, 2, TN_KV_F16);
    tn_op *last = (tn_op *)&m->graph.ops[m->graph.n_ops - 1];
    const tn_weight sound = last->weight;
    float *spoilt = calloc((size_t)sound.k * sound.n, sizeof *spoilt);
    assert_non_null(spoilt);
    assert_int_equal(last->kind, TN_OP_MATMUL);
    spoilt[0] = (float)INFINITY;
    last->weight.data = (const uint8_t *)spoilt;
    tn_error err = {0};
    assert_int_equal(tn_session_eval(s, ids, N_IDS - 1, 1, &err), TN_ERR_NUMERIC);
    last->weight = sound;
    tiny_eval(s, ids + tn_session_position(s), N_IDS - tn_session_position(s));
    tiny_eval(fresh, ids, N_IDS);
    assert_memory_equal(tn_session_logits(s, 0), tn_session_logits(fresh, 0),
                        tn_session_row_width(s) * sizeof(float));
    free(spoilt);
    tn_session_free(s);
    tn_session_free(fresh);
    tn_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_a_plain_model),
        cmocka_unit_test(weights_of_a_model_with_windows),
        cmocka_unit_test(weights_of_experts),
        cmocka_unit_test(weights_of_an_encoder),
        cmocka_unit_test(a_sound_model_goes_on_behind_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
