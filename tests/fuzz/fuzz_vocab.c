/* A vocabulary as a file gives it, and a text through its tokenizer. */
#include "fuzz.h"

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    const fuzz_bytes text = n_parts > 1 ? parts[1] : (fuzz_bytes){(const uint8_t *)"a b", 3};
    tern_model_options options;
    tern_model *model;
    tern_error err;
    tern_model_options_defaults(&options);
    options.level = TERN_OPEN_VOCAB;
    const tern_status s = tern_model_open(fuzz_write("vocab.gguf", parts[0], 0), &options, &model, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (model != NULL));
    if (s) return;
    fuzz_use_model(model, false, text);
    tern_model_close(model);
}

const fuzz_target fuzz_vocab = {"vocab", run, fuzz_mutate_model, fuzz_gguf_words, 65536};
