/* Descriptions of architectures: the YAML alone, and with it the head of a model file that has the architecture. */
#include "fuzz.h"
#include "src/model/arch.h"

static const char words[] =
    "`name: `hparams:`tensors:`block:`head:`embed:`checks:`n_layers`n_embd`n_heads`n_kv_heads`head_dim"
    "`n_ff`{i}`norm: `attention: `mlp: `moe: `residual`save: `load: `add: `scale: `linear: `logits: "
    "`embedding`when: `default: `key: `min: `max: `above: `choices: `per_layer: true`optional: `shape: ["
    "`hf: `rope:`theta: `dim: `window: `causal: `if(`sqrt(`min(`max(`pow(`log(`floor(` / ` % ` * ` && "
    "` || `!`1e308`0`-1`0.5`\n`\n  `\n    - `{`}`[`]`&a `*a`!!str `|\n`>-\n`? `---\n`...\n`\"`'`#";

/* A file that it shall say how to compute. */
static void open_with(fuzz_bytes yaml, fuzz_bytes head) {
    char arch_file[400];
    size_t n = 0;
    for (const char *at = fuzz_write("arch.yaml", yaml, 0); *at && n + 1 < sizeof arch_file; at++)
        arch_file[n++] = *at;
    arch_file[n] = '\0';
    tern_model_options options;
    tern_model *model;
    tern_error err;
    tern_model_options_defaults(&options);
    options.arch_file = arch_file;
    const tern_status s = tern_model_open(fuzz_write_head(head), &options, &model, &err);
    fuzz_check_status((int)s, &err);
    if (s) return;
    fuzz_use_model(model, true, (fuzz_bytes){(const uint8_t *)"a b", 3});
    tern_model_close(model);
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    tn_arena arena = {0};
    tn_arch arch;
    tn_error err;
    const tn_status s = tn_arch_parse(parts[0].n ? (const char *)parts[0].data : "", parts[0].n, "fuzz.yaml",
                                      &arena, &arch, &err);
    fuzz_check_status((int)s, &err);
    tn_arena_free(&arena);
    if (!s && n_parts > 1) open_with(parts[0], parts[1]);
}

const fuzz_target fuzz_arch = {"arch", run, NULL, words, 32768};
