/* Expressions and architecture descriptions: what they mean, and that what is wrong is refused at its line and column. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/fmap.h"
#include "src/base/fmath.h"
#include "src/model/arch.h"
#include "src/model/expr.h"

static bool lookup(const void *user, const char *name, size_t n, double *value) {
    (void)user;
    *value = 12;
    if (n == 1 && *name == 'x') return true;
    *value = 1;
    return n == 8 && !memcmp(name, "kind.yes", 8);
}

static void expressions_mean_what_arithmetic_says(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"1 + 2 * 3", 7},
                {"(1 + 2) * 3", 9},
                {"7 % 4 - 1", 2},
                {"x / 5", 2.4},
                {"-x + 1", -11},
                {"!0 + !5", 1},
                {"1 < 2 && 3 >= 3", 1},
                {"0 || x == 12", 1},
                {"1 != 1", 0},
                {"if(x > 3, 10, 20)", 10},
                {"if(kind.yes, 1, 2)", 1},
                {"sqrt(x * 3)", 6},
                {"min(3, x) + max(3, x)", 15},
                {"log(x) - log(3) - 2 * log(2)", 0},
                {"pow(4, 0.5) + pow(2, 0 - 3)", 2.125},
                {"floor(x / 5) + floor(0 - 0.5)", 1},
                {"0.5 * 8", 4},
                {"10 - 3 - 2", 5},
                {"2 * (3 + 4) % 5", 4},
                {"(1 <= 2) + (2 <= 1) + 2 * (3 >= 4) + 4 * (4 >= 3)", 5},
                {"1\n+ max(20, x) - min(5, x)", 16}};
    double v;
    const char *why;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!tn_expr_eval(good[i].text, lookup, NULL, &v, &why)) fail_msg("%s: %s", good[i].text, why);
        if (v != good[i].value) fail_msg("%s gives %g", good[i].text, v);
    }
    static const char *const bad[] = {"",
                                      "1 +",
                                      "(1",
                                      "1 2",
                                      "y",
                                      "x / 0",
                                      "x % (3 - 3)",
                                      "if(1, 2)",
                                      "foo(1)",
                                      "sqrt(1, 2)",
                                      "1..2",
                                      "kind.no",
                                      "* 3",
                                      "if(1,2,3,4)",
                                      "log(0)",
                                      "pow(0, 2)",
                                      "pow(2)",
                                      "floor(1, 2)",
                                      "!=3",
                                      "of(1,2,3)",
                                      "sqrx(1)",
                                      "lag(1)",
                                      "log(1, 2)",
                                      "floox(1)",
                                      "pox(1, 2)",
                                      "mix(1, 2)",
                                      "min(1)",
                                      "max(1)",
                                      "(y",
                                      "x(",
                                      "sqrt(1 2)",
                                      "if(1, y",
                                      "pow(-1, 2)",
                                      "log(pow(10, 300) * pow(10, 300))",
                                      "pow(pow(10, 300) * pow(10, 300), 2)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tn_expr_eval(bad[i], lookup, NULL, &v, &why)) fail_msg("'%s' was accepted", bad[i]);
    assert_false(tn_expr_eval("y == z", lookup, NULL, &v, &why));
    assert_string_equal(why, "y == z"); /* the first of two errors */
    char deep[100001];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_false(tn_expr_eval(deep, lookup, NULL, &v, &why));
    memset(deep, '-', sizeof deep - 1);
    assert_false(tn_expr_eval(deep, lookup, NULL, &v, &why));
}

static void built_in_descriptions_parse(void **state) {
    (void)state;
    int n = 0;
    for (const tn_arch_source *a = tn_arch_builtin; a->name; a++, n++) {
        tn_arena arena = {0};
        tn_arch arch;
        tn_error err = {0};
        if (tn_arch_parse_builtin(a, &arena, &arch, &err)) fail_msg("%s", err.message);
        assert_string_equal(arch.name, a->name);
        tn_arena_free(&arena);
    }
    assert_true(n >= 4);
}

static void built_in_descriptions_are_the_files(void **state) {
    (void)state;
    for (const tn_arch_source *a = tn_arch_builtin; a->name; a++) {
        char path[128];
        tn_fmap file;
        size_t n;
        char *text = tn_arch_source_text(a, &n);
        snprintf(path, sizeof path, "models/%s.yaml", a->name);
        if (tn_fmap_open(&file, path, NULL)) fail_msg("%s cannot be opened", path);
        assert_int_equal(n, file.size);
        assert_memory_equal(text, file.data, n);
        assert_true(tn_arch_source_has(a, a->name));
        assert_false(tn_arch_source_has(a, "no such words"));
        tn_fmap_close(&file);
        free(text);
    }
}

/* A small description, with one line replaced. */
static const char *const lines[] = {"name: toy",
                                    "hparams:",
                                    "  n_layers: {key: block_count, min: 1, max: 9}",
                                    "  n_embd: {key: e, min: 1, max: 64}",
                                    "  n_ctx_train: {key: c, min: 1, max: 64}",
                                    "  eps: {key: eps, type: float, above: 0, max: 1}",
                                    "  kind: {key: kind, type: choice, values: [yes, no], default: no}",
                                    "checks: [n_embd % 2 == 0]",
                                    "tensors:",
                                    "  table: {name: t, shape: [n_embd, n_vocab]}",
                                    "layer_tensors:",
                                    "  n: {name: \"b.{i}.n\", shape: [n_embd]}",
                                    "  g: {name: \"b.{i}.g\", shape: [n_embd, n_embd], optional: true}",
                                    "embed: {table: table, scale: sqrt(n_embd)}",
                                    "block:",
                                    "  - norm: {weight: n, eps: eps}",
                                    "  - mlp: {gate: g, up: g, down: g, activation: silu}",
                                    "  - residual",
                                    "head:",
                                    "  - logits: {weight: table}"};
enum { N_LINES = sizeof lines / sizeof *lines };

static tn_status parse_with(int changed, const char *text, tn_error *err) {
    char all[4096] = "";
    for (int i = 0; i < N_LINES; i++) {
        strcat(all, i == changed ? text : lines[i]);
        strcat(all, "\n");
    }
    tn_arena arena = {0};
    tn_arch arch;
    tn_status s = tn_arch_parse(all, strlen(all), "toy.yaml", &arena, &arch, err);
    tn_arena_free(&arena);
    return s;
}

/* A line in the place of one of `lines`, and where and why it is wrong. */
static const struct {
    int line;
    const char *text, *where, *why;
} bad[] = {
    {2, "  n_layers: {key: b, min: 1, max: 9, hf: []}", ":3:42", "empty list"},
    {2, "  n_layers: {key: b, min: 1, max: 9, hf: a +}", ":3:42", "bad expression"},
    {2, "  n_layers: {key: b, min: 1, max: 9, hf: {value: 1, then: 2}}", ":3:53", "unknown field 'then'"},
    {2, "  n_layers: {key: b, min: 1, max: 9, hf: {value: 1}}", "toy.yaml:", "expected text"},
    {6, "  kind: {key: kind, type: choice, values: [yes, no], hf: {maybe: 1}}", ":7:58",
     "none of the values"},
    {6, "  kind: {key: kind, type: choice, values: [yes, no], hf: {}}", ":7:58", "empty mapping"},
    {9, "  table: {name: t, shape: [n_embd], hf: {add: 1}}", ":10:41", "either 'name' or 'values'"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, values: j}}", ":10:41", "either"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, transpose: true}}", ":10:41", "is of matrices"},
    {12, "  g: {name: \"b.{i}.g\", shape: [n_embd, n_embd], hf: {name: \"x.{e}.g\", transpose: true}}",
     ":13:53", "is of matrices"},
    {9, "  table: {name: t, shape: [n_embd, n_vocab], hf: {values: j}}", ":10:50", "are of vectors"},
    {9, "  table: {name: t, shape: [n_embd], hf: {values: j, rows: r}}", ":10:41", "are of vectors"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, permute: 1, transpose: true}}", ":10:41",
     "transpose"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, flip: 1}}", ":10:51", "unknown field 'flip'"},
    {19, "  - logits: {weight: table}\nhf: {classes: [A]}", ":21:5", "missing classes or n_vocab"},
    {19, "  - logits: {weight: table}\nhf: {classes: [A], n_vocab: v, tokenizer: {k: {text: a}}}", ":21:48",
     "unknown field 'text'"},
    {0, "nam: toy", ":1:1", "unknown field 'nam'"},
    {0, "name: [toy]", ":1:7", "expected text"},
    {0, "\"name: toy", "toy.yaml:", ""},
    {2, "  n_layer: {key: block_count, min: 1, max: 9}", ":3:3", "missing hyper-parameter 'n_layers'"},
    {2, "  n_layers: {min: 1, max: 9}", "toy.yaml:", "expected text"},
    {2, "  n_layers: {key: block_count, min: 1}", ":3:13", "missing range"},
    {2, "  n_layers: {key: block_count, min: one, max: 9}", ":3:37", "expected a number"},
    {2, "  n_layers: {key: b, min: 1, max: 9, default: n_embd}", ":3:47", "n_embd"}, /* only names above */
    {3, "  n_embd: {key: e, min: 1, max: 64}\n  n_embd: {key: e, min: 1, max: 64}", ":5:3",
     "given twice: 'n_embd'"},
    {5, "  eps: {key: eps, type: double, above: 0, max: 1}", ":6:25", "expected int, float or choice"},
    {7, "checks: [n_embed % 2 == 0]", ":8:10", "n_embed"},
    {7, "checks: 3", ":8:9", "list of expressions"},
    {9, "  table: {name: t, shape: []}", ":10:27", "expected a shape"},
    {9, "  table: {name: \"t{i}\", shape: [n_embd]}", ":10:10", "'{i}' belongs"},
    {11, "  n: {name: n, shape: [n_embd]}", ":12:6", "'{i}' belongs"},
    {12, "  g: {name: \"b.{i}.g\", shape: [n_embd], or: nothing}", ":13:45", "tensor above"},
    {13, "embed: {table: tabel}", ":14:16", "unknown tensor"},
    {15, "  - nrom: {weight: n, eps: eps}", ":16:5", "unknown step 'nrom'"},
    {15, "  - norm: {weight: n}", ":16:11", "missing field 'eps'"},
    {15, "  - norm: {weight: m, eps: eps}", ":16:20", "unknown tensor in 'weight'"},
    {15, "  - norm: {weight: n, eps: kind}", ":16:28", "kind"},
    {16, "  - mlp: {gate: g, up: g, down: g, activation: tanh}", ":17:48", "unknown value of 'activation'"},
    {17, "  - logits: {weight: table}", ":18:5", "ends the head"},
    {19, "  - norm: {weight: n, eps: eps}", ":20:20", "a layer's tensor outside the block"},
    {19, "  - residual", ":20:5", "ends the head"},
    {19, "  - {logits: {weight: table}, when: 1}", ":20:5", "ends the head"},
    {15, "  - load: y", ":16:11", "no step above saves 'y'"},
    {15, "  - {residual: 3}", ":16:16", "nothing belongs behind 'residual'"},
    {15, "  - {norm: {weight: n, eps: eps}, when: nope}", ":16:41", "nope"},
    {15, "  - {norm: {weight: n, eps: eps}, residual: }", ":16:5", "expected a step"},
    {15, "  - norm: {weight: n, eps: eps, kind: batch}", ":16:39", "unknown value of 'kind'"},
    {13, "embed: {table: table, positions: nix}", ":14:34", "unknown tensor in 'positions'"},
    {12, "  g: {shape: [n_embd, n_embd]}", ":13:6", "missing name"},
    {12, "  g: {name: \"b.{i}.g\", shape: [n_embd, n_embd], row: 1}", ":13:6", "'row' needs 'or'"},
    {7, "checks: [has.g]", ":8:10", "has.g"},
    {12, "  g: {name: \"b.{i}.g\", shape: [n_embd, n_embd], optional: maybe}", ":13:59", "maybe"},
    {7, "layers: n_lay", ":8:9", "n_lay"},
    /* of another kind than a field has */
    {1, "hparams: 3\nhf:", ":2:10", "expected a mapping"},
    {2, "  n_layers: 3", ":3:13", "expected a mapping"},
    {2, "  \"\": {key: b, min: 1, max: 9}", ":3:3", "expected text"},
    {2, "  [n_layers]: {key: b, min: 1, max: 9}", ":3:3", "expected a name"},
    {2, "  n_layers: {key: b, max: 9}", ":3:13", "missing range"},
    {2, "  n_layers: {key: b, above: 0}", ":3:13", "missing range"},
    {2, "  n_layers: {key: b, min: 1, max: \"\"}", ":3:35", "expected a number"},
    {2, "  n_layers: {key: b, min: [1], max: 9}", ":3:27", "expected a number"},
    {2, "  n_layers: {key: b, min: 1, max: 9x}", ":3:35", "expected a number"},
    {2, "  n_layers: {key: \"a\\0b\", min: 1, max: 9}", ":3:19", "expected text"},
    {2, "  n_layers: {key: b, min: 1, max: 9, per_layer: maybe}", ":3:49", "true or false"},
    {2, "  n_layers: {key: b, min: 1, max: 9, per_layer: [true]}", ":3:49", "true or false"},
    {2, "  n_layers: {key: b, min: 1, max: 9, hf: {value: []}}", ":3:50", "empty list"},
    {2, "  n_layers: {key: b, min: 1, max: 9, hf: {value: 1, when: [a, []]}}", ":3:63", "expected text"},
    {2, "  first: {key: a, min: 1, max: 9}\n  n_layers: {key: b, min: 1, max: 9}", ":3:3",
     "must be n_layers"},
    {5, "  eps: {key: eps, type: [float], above: 0, max: 1}", ":6:25", "expected int, float or choice"},
    {6, "  kind: {key: kind, type: choice}", "toy.yaml", "list of values"},
    {6, "  kind: {key: kind, type: choice, values: yes}", ":7:43", "list of values"},
    {6, "  kind: {key: kind, type: choice, values: []}", ":7:43", "list of values"},
    {6, "  kind: {key: kind, type: choice, values: [[yes]]}", ":7:44", "expected text"},
    {6, "  kind: {key: kind, type: choice, values: [yes], default: [yes]}", ":7:59", "expected text"},
    {6, "  kind: {key: kind, type: choice, values: [yes], default: no}", ":7:59", "none of the values"},
    {6, "  kind: {key: kind, type: choice, values: [yes], hf: a}", ":7:54", "expected a mapping"},
    {6, "  kind: {key: kind, type: choice, values: [yes], hf: {yes: a +}}", ":7:60", "bad expression"},
    {7, "checks: [[n_embd]]", ":8:10", "expected text"},
    {7, "checks: [n_vocax]", ":8:10", "n_vocax"},
    {7, "checks: [kind]", ":8:10", "kind"},
    {7, "checks: [kind.ye]", ":8:10", "kind.ye"},
    {7, "checks: [kind.yess]", ":8:10", "kind.yess"},
    {16, "  - {mlp: {gate: g, up: g, down: g, activation: silu}, when: has.tabl}", ":17:62", "has.tabl"},
    {7, "layers: [1]", ":8:9", "expected text"},
    {8, "tensors: 3\nhf:", ":9:10", "expected a mapping"},
    {9, "  table: 3", ":10:10", "expected a mapping"},
    {9, "  \"\": {name: t, shape: [n_embd]}", ":10:3", "expected text"},
    {9, "  table: {name: t, [shape]: 3}", ":10:20", "expected a name"},
    {9, "  table: {name: t}", "toy.yaml", "expected a shape"},
    {9, "  table: {name: t, shape: n_embd}", ":10:27", "expected a shape"},
    {9, "  table: {name: t, shape: [1, 2, 3, 4, 5]}", ":10:27", "expected a shape"},
    {9, "  table: {name: t, shape: [n_embd, [2]]}", ":10:36", "expected text"},
    {9, "  table: {name: [t], shape: [n_embd]}", ":10:17", "expected text"},
    {9, "  table: {name: t, shape: [n_embd], optional: [true]}", ":10:47", "expected text"},
    {10, "layer_tensors: 3\nhf:", ":11:16", "expected a mapping"},
    {11, "  table: {name: \"b.{i}.n\", shape: [n_embd]}", ":12:3", "given twice: 'table'"},
    {12, "  g: {shape: [n_embd, n_embd], or: [n]}", ":13:36", "tensor above"},
    {12, "  g: {shape: [n_embd, n_embd], or: n, row: m}", ":13:44", "bad expression"},
    {12, "  g: {shape: [1, 1, 1, 1], or: n, row: 1}", ":13:40", "rows are of"},
    {12, "  g: {shape: [n_embd, n_embd], or: n, hf: a}", ":13:43", "is in no file"},
    {13, "embed: 3", ":14:8", "expected a mapping"},
    {13, "embed: {table: [table]}", ":14:16", "unknown tensor"},
    {13, "embed: {table: table, scale: n_emb}", ":14:30", "n_emb"},
    {14, "block: 3\nhf:", ":15:8", "list of steps"},
    {14, "hf:", "toy.yaml", "list of steps"},
    {14, "block: []\nhf:", ":15:8", "list of steps"},
    {15, "  - [norm]", ":16:5", "expected a step"},
    {15, "  - {}", ":16:5", "expected a step"},
    {15, "  - {when: i}", ":16:5", "expected a step"},
    {15, "  - {[norm]: {weight: n, eps: eps}}", ":16:5", "expected a step"},
    {15, "  - norm", ":16:5", "missing fields of 'norm'"},
    {15, "  - scale", ":16:5", "missing fields of 'scale'"},
    {15, "  - norm: 3", ":16:11", "expected a mapping"},
    {15, "  - save: [y]", ":16:11", "expected text"},
    {15, "  - residual: [x]", ":16:15", "nothing belongs behind 'residual'"},
    {15, "  - norm: {weight: n, eps: [eps]}", ":16:28", "expected text"},
    {15, "  - norm: {weight: n, eps: eps, kind: [batch]}", ":16:39", "unknown value of 'kind'"},
    {19,
     "  - attention: {q: table, k: table, v: table, out: table, heads: 1, kv_heads: 1, head_dim: 1, scale: "
     "1}\n  - logits: {weight: table}",
     ":20:5", "belongs in the block"},
    {19,
     "  - latent_attention: {kv_a: table, kv_a_norm: table, out: table, eps: 1, heads: 1, head_dim: 1, "
     "value_dim: 1, rank: 1, scale: 1}\n  - logits: {weight: table}",
     ":20:5", "belongs in the block"},
    {18, "head: {}\nhf:", ":19:7", "list of steps"},
    /* of checkpoints */
    {9, "  table: {name: t, shape: [n_embd], hf: [[a]]}", ":10:42", "expected a mapping"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: [a]}}", ":10:48", "expected text"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, add: 1 +}}", ":10:56", "bad expression"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, transpose: 1}}", ":10:62", "true or false"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, f32: 1}}", ":10:56", "true or false"},
    {9, "  table: {name: t, shape: [n_embd], hf: {name: a, when: []}}", ":10:57", "empty list"},
    {9, "  table: {name: t, shape: [n_embd], hf: {values: j, permute: 1}}", ":10:41", "are of vectors"},
    {9, "  table: {name: t, shape: [n_embd], hf: {values: j, add: 1}}", ":10:41", "are of vectors"},
    {9, "  table: {name: t, shape: [n_embd], hf: {values: j, transpose: true}}", ":10:41", "is of matrices"},
    {19, "  - logits: {weight: table}\nhf: 3", ":21:5", "expected a mapping"},
    {19, "  - logits: {weight: table}\nhf: {n_vocab: v}", ":21:5", "missing classes or n_vocab"},
    {19, "  - logits: {weight: table}\nhf: {classes: []}", ":21:15", "empty list"},
    {19, "  - logits: {weight: table}\nhf: {classes: A, n_vocab: v, names: 3}", ":21:37",
     "expected a mapping"},
    {19, "  - logits: {weight: table}\nhf: {classes: A, n_vocab: v, names: {a: []}}", ":21:41", "empty list"},
    {19, "  - logits: {weight: table}\nhf: {classes: A, n_vocab: v, names: {\"\": a}}", ":21:38",
     "expected text"},
    {19, "  - logits: {weight: table}\nhf: {classes: A, n_vocab: v, names: {a: {token: b}}}", ":21:41",
     "expected text"},
    {19, "  - logits: {weight: table}\nhf: {classes: A, n_vocab: v, tokenizer: {a: {token: [b]}}}", ":21:53",
     "expected text"},
    {16, "  - moe: {router: g, used: 1, gate: g, up: g, activation: silu}", ":17:10", "missing field 'down'"},
    {16, "  - moe: {router: g, used: 1, gate: g, up: g, down: g, activation: silu, groups: {of: 2, used: 1}}",
     ":17:82", "missing field 'best'"},
};

static void wrong_descriptions_are_refused_at_their_place(void **state) {
    (void)state;
    tn_error err = {0};
    if (parse_with(-1, NULL, &err) || parse_with(7, "", &err) ||
        parse_with(2, "  n_layers: {key: b, type: int, min: 1, max: 9, per_layer: false}", &err))
        fail_msg("%s", err.message);
    if (parse_with(15,
                   "  - {norm: {eps: eps, kind: layer}, when: \"has.g && i < 2\"}\n  - save: y\n  - load: x\n"
                   "  - add: y\n  - scale: 2 * sqrt(n_embd)\n  - {residual: , when: i}",
                   &err))
        fail_msg("%s", err.message);
    if (parse_with(2,
                   "  n_layers: {key: b, min: 1, max: 9, hf: [num_layers, n_layer]}\n"
                   "  heads: {key: h, min: 1, max: 9, hf: {value: a.b * n_layers, when: c.text}}",
                   &err) ||
        parse_with(6, "  kind: {key: kind, type: choice, values: [yes, no], default: no, hf: {no: a == 1}}",
                   &err) ||
        parse_with(
            9,
            "  table: {name: t, shape: [n_embd, n_vocab], hf: [a, {name: b, transpose: true, when: [c, 1]}]}",
            &err) ||
        parse_with(11, "  n: {name: \"b.{i}.n\", shape: [n_embd], hf: [a, {values: 2 * j, f32: true}]}",
                   &err) ||
        parse_with(19,
                   "  - logits: {weight: table}\nhf: {classes: [A], n_vocab: v, names: {a: [b.c, d]}, "
                   "require: [a.e],"
                   " strip: [x], ignore: [\"*y\"], tokenizer: {k: [n_embd, 1], t_id: {token: \"<t>\"}}}",
                   &err))
        fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (tn_error){0};
        if (parse_with(bad[i].line, bad[i].text, &err) != TN_ERR_FORMAT)
            fail_msg("'%s' is accepted", bad[i].text);
        if (!strstr(err.message, bad[i].why) || !strstr(err.message, bad[i].where))
            fail_msg("'%s' gives: %s (expected %s %s)", bad[i].text, err.message, bad[i].where, bad[i].why);
    }
}

static void a_description_is_a_mapping(void **state) {
    (void)state;
    static const char *const texts[] = {"", "3", "[name]", "--- # nothing"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tn_arena arena = {0};
        tn_arch arch;
        tn_error err = {0};
        assert_int_equal(tn_arch_parse(texts[i], strlen(texts[i]), "toy.yaml", &arena, &arch, &err),
                         TN_ERR_FORMAT);
        if (!strstr(err.message, "expected a mapping")) fail_msg("'%s' gives: %s", texts[i], err.message);
        tn_arena_free(&arena);
    }
}

static void more_values_than_can_be_saved_are_refused(void **state) {
    (void)state;
    char text[1024] = "  - norm: {weight: n, eps: eps}\n";
    tn_error err = {0};
    for (int i = 1; i < TN_MAX_SAVED; i++) sprintf(text + strlen(text), "  - save: v%d\n", i);
    if (parse_with(15, text, &err)) fail_msg("%s", err.message);
    strcat(text, "  - save: w\n");
    assert_int_equal(parse_with(15, text, &err), TN_ERR_FORMAT);
    if (!strstr(err.message, "too many values")) fail_msg("%s", err.message);
}

/* Against the C library, which these replace only to have the same bits everywhere. */
static void elementary_functions_are_accurate(void **state) {
    (void)state;
    srand48(1);
    for (int i = 0; i < 200000; i++) {
        double x = (drand48() - 0.5) * 1400, s, c;
        assert_true(fabs(tn_exp(x) - exp(x)) <= 4e-16 * exp(x));
        x = exp((drand48() - 0.5) * 100);
        assert_true(fabs(tn_log(x) - log(x)) <= 1e-15 * fmax(fabs(log(x)), 1e-3));
        x = (drand48() - 0.5) * pow(2, drand48() * 31);
        tn_sincos(x, &s, &c);
        assert_true(fabs(s - sin(x)) < 3e-16 && fabs(c - cos(x)) < 3e-16);
        x = drand48();
        assert_true(fabs(tn_pow(1e6, -x) - pow(1e6, -x)) <= 4e-15 * pow(1e6, -x));
    }
    assert_true(tn_exp(-1000) == 0 && isinf(tn_exp(1000)) && isnan(tn_exp(NAN)) && tn_exp(0) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_mean_what_arithmetic_says),
        cmocka_unit_test(built_in_descriptions_parse),
        cmocka_unit_test(built_in_descriptions_are_the_files),
        cmocka_unit_test(wrong_descriptions_are_refused_at_their_place),
        cmocka_unit_test(a_description_is_a_mapping),
        cmocka_unit_test(more_values_than_can_be_saved_are_refused),
        cmocka_unit_test(elementary_functions_are_accurate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
