/* Opening a model whole: hyper-parameters, tensors and vocabulary against each other, then two tokens. The input is a GGUF file
 * without its data, and a text. */
#include "fuzz.h"

static void warn(void *user, const char *line) {
    ++*(size_t *)user;
    size_t n = 0;
    while (line[n]) n++;
    FUZZ_CHECK(tn_is_printable(line, n));
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    const fuzz_bytes text = n_parts > 1 ? parts[1] : (fuzz_bytes){(const uint8_t *)"a b", 3};
    size_t n_warnings = 0;
    tern_model_options options;
    tern_model *model;
    tern_error err;
    tern_model_options_defaults(&options);
    options.warn = warn;
    options.user = &n_warnings;
    const tern_status s = tern_model_open(fuzz_write_head(parts[0]), &options, &model, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (model != NULL));
    if (s) return;
    fuzz_use_model(model, true, text);
    tern_model_close(model);
}

const fuzz_target fuzz_model = {"model", run, fuzz_mutate_model, fuzz_gguf_words, 65536};
