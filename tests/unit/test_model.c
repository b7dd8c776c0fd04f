/* Descriptions that parse but contradict themselves or the file: each is an error, whatever a step is pointed at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "src/model/model.h"
#include "tests/unit/tiny_model.h"

/* The built-in llama with one piece of text replaced, as a file. */
static void write_changed(char *path, const char *from, const char *to) {
    const tn_arch_source *a = tn_arch_builtin;
    while (strcmp(a->name, "llama")) a++;
    size_t n;
    char *text = tn_arch_source_text(a, &n), *at = strstr(text, from);
    if (!at) fail_msg("the description no longer says '%s'", from);
    int fd = mkstemp(path);
    const size_t before = (size_t)(at - text), after = strlen(at + strlen(from));
    assert_true(write(fd, text, before) == (ssize_t)before &&
                write(fd, to, strlen(to)) == (ssize_t)strlen(to) &&
                write(fd, at + strlen(from), after) == (ssize_t)after && close(fd) == 0);
    free(text);
}

static tn_status open_with(const char *from, const char *to, tn_error *err) {
    char model[] = "/tmp/tern-tiny-XXXXXX", arch[] = "/tmp/tern-arch-XXXXXX";
    tiny_write(&tiny_llama, model);
    write_changed(arch, from, to);
    const tn_model_options options = {.arch_file = arch};
    tn_model *m;
    tn_status s = tn_model_open(model, &options, &m, err);
    tn_model_close(m);
    unlink(model);
    unlink(arch);
    return s;
}

static void contradictions_are_refused(void **state) {
    (void)state;
    tn_error err = {0};
    if (open_with("name: llama", "name: llama", &err)) fail_msg("%s", err.message);
    static const struct {
        const char *from, *to, *why; /* NULL: it opens */
    } cases[] = {
        {"{gate: ffn_gate,", "{gate: attn_q,", "gate and up are not of one width"},
        {"out: attn_output\n", "out: ffn_gate\n", "residual stream"},
        {"down: ffn_down", "down: attn_output", "'attn_output' is not a matrix with rows of 96"},
        {"  - norm: {weight: ffn_norm", "  - norm: {weight: attn_q", "'attn_q' is not a vector of 64"},
        {"  - norm: {weight: ffn_norm", "  - norm: {weight: attn_k_bias", "'attn_k_bias' is absent"},
        {"q: attn_q\n", "q: attn_k\n", "width of the heads"},
        {"k: attn_k\n", "k: attn_q\n", "width of the heads"},
        {"q_bias: attn_q_bias", "qk_norm: {q: ffn_norm, eps: norm_eps}", "'ffn_norm' is not a vector of 16"},
        {"logits: {weight: output}", "logits: {weight: output_norm}", "'output_norm' is not a matrix"},
        {"embed: {table: token_embd}", "embed: {table: output_norm}", "'output_norm' is not a matrix"},
        {"down: ffn_down", "down: attn_q_bias", "'attn_q_bias' is absent"},
        {"freq_factors: rope_freqs", "freq_factors: output_norm", "'output_norm' is not a vector of 8"},
        {"- norm: {weight: output_norm, eps: norm_eps}", "- norm: {weight: output_norm, eps: 0}", "epsilon"},
        {"hf: lm_head.weight, or: token_embd", "or: output_norm", "expected shape"},
        {"default: none", "default: ntk", "the default is none of the values"},
        {"scale: 1 / sqrt(head_dim)", "scale: 1 / (head_dim - 16)", "division by zero"},
        {"heads: n_heads\n", "heads: 3\n", "not a multiple"},
        {"head_dim: head_dim\n", "head_dim: 12\n", "multiple of 8"},
        {"dim: rope_dim\n", "dim: 64\n", "exceed the head size"},
        {"theta: rope_theta", "theta: 0", "above 0"},
        {"window: window\n", "window: 0 - 1\n", "expected a whole number"},
        {"window: window\n", "temperature: {beta: 1, length: 0}\n", "length of the temperature"},
        {"q_bias: attn_q_bias", "qk_norm: {q: ffn_norm, eps: norm_eps, over: all, place: after_rope}",
         "whole width"},
        {"  - norm: {weight: ffn_norm, eps: norm_eps}", "  - {save: y, when: 0}\n  - load: y",
         "no step of this layer has saved"},
        {"{original: \"if(rope_scaling.yarn, rope_original, 0)\"", "{original: 0 - 1", "yarn needs"},
        {"freq_factors: rope_freqs", "long: {factors: output_norm, above: 9}", "not a vector of 8"},
        {"or: token_embd}", "or: token_embd, row: 1}", "expected shape"},
        {"checks:\n", "layers: 0\nchecks:\n", "'0' is 0, expected at least 1 and at most"},
        {"checks:\n", "layers: n_layers + 1\nchecks:\n", "expected at least 1 and at most"},
        {"checks:\n", "layers: 0.5\nchecks:\n", "expected a whole number"},
        {"checks:\n", "layers: 0 - 1\nchecks:\n", "expected a whole number"},
        {"checks:\n", "layers: 4294967296\nchecks:\n", "expected a whole number"},
        {"checks:\n", "layers: 1 / (n_embd - 64)\nchecks:\n", "division by zero"},
        {"head_dim % 8 == 0", "1 / (n_embd - 64)", "division by zero"},
        {"head_dim % 8 == 0", "sqrt(0 - n_embd)", "not finite"},
        {"head_dim % 8 == 0", "n_embd == 63", "contradict each other in layer 0: expected n_embd == 63"},
        {"max: 1, default: 1}", "max: 1, default: 0.5}", "default '0.5' is 0.5, not a whole number"},
        {"max: 1, default: 1}", "max: 1, default: 2}", "at most 1, found 2"},
        {"max: 1, default: 1}", "max: 1, default: 1 / (n_embd - 64)}", "division by zero"},
        {"{key: attention.causal,", "{key: \"tokenizer.none\",", NULL},
        {"values: [none, linear, yarn], default: none, hf: {linear: rope_type.linear, yarn: rope_type.yarn}}",
         "values: [none, non, linear, yarn], default: none}\n  n: {key: n, min: 1, max: 2, default: "
         "\"1 + rope_scaling.non\"}",
         NULL},
        {"logits: {weight: output}", "logits: {weight: output, scale: 1 + has.output}", NULL},
        {"  - norm: {weight: ffn_norm, eps: norm_eps}",
         "  - {norm: {weight: ffn_norm, eps: norm_eps}, when: has.ffn_norm}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err = (tn_error){0};
        tn_status s = open_with(cases[i].from, cases[i].to, &err);
        if (!cases[i].why) {
            if (s != TN_OK) fail_msg("'%s' gives %s", cases[i].to, err.message);
        } else if (s != TN_ERR_FORMAT || !strstr(err.message, cases[i].why))
            fail_msg("'%s' gives %d: %s (expected %s)", cases[i].to, s, err.message, cases[i].why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(contradictions_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
