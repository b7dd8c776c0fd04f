/* Converting: the files of a checkpoint, each with its name as first line. Of model.safetensors the data are left out; as many
 * bytes as the header's largest offset says stand in their place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static const char *const names[] = {"config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer.model",
                                    "model.safetensors",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.txt",
                                    "chat_template.jinja",
                                    "modules.json",
                                    "README.md"};
enum { N_NAMES = sizeof names / sizeof *names, MAX_DATA = 1 << 20 };

static const char words[] =
    "`\"architectures\":`\"model_type\":`\"vocab_size\":`\"hidden_size\":`\"num_hidden_layers\":"
    "`\"rope_scaling\":`null`true`\"rope_parameters\":`\"rope_type\":`\"text_config\":`\"layer_types\":"
    "`\"sliding_window\":`\"quantization_config\":`[`]`{`}`,`\"model\":`\"vocab\":`\"merges\":`\"type\":"
    "`\"BPE\"`\"Unigram\"`\"WordPiece\"`\"added_tokens\":`\"normalizer\":`\"pre_tokenizer\":"
    "`\"post_processor\":`\"decoder\":`\"Sequence\"`\"Split\"`\"ByteLevel\"`\"id\":`\"content\":"
    "`\"special\":`\"unk_token\":`\"byte_fallback\":`\"chat_template\":`-1`0`1e300`4294967296";

static bool mutate(fuzz_edit *e, fuzz_random *r) {
    return fuzz_mutate_json(e, r, words);
}

/* The second number of any "data_offsets": [a, b]. */
static size_t data_bytes(const char *text) {
    size_t most = 0;
    while ((text = strstr(text, "data_offsets"))) {
        text += strcspn(text, ",");
        const unsigned long long end = *text ? strtoull(text + 1, NULL, 10) : 0;
        if (end > most && end <= MAX_DATA) most = (size_t)end;
    }
    return most;
}

static void write_part(fuzz_bytes part, const char *folder) {
    char path[160];
    const char *text = fuzz_text(part);
    const size_t n_name = strcspn(text, "\n");
    for (size_t i = 0; i < N_NAMES && n_name < part.n; i++) {
        if (strlen(names[i]) != n_name || memcmp(names[i], text, n_name) != 0) continue;
        const fuzz_bytes contents = {part.data + n_name + 1, part.n - n_name - 1};
        uint64_t n_header = contents.n >= 8 ? contents.n - 8 : 0;
        uint8_t *whole = (uint8_t *)fuzz_text(contents);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (i != 4 || contents.n < 8) {
            fuzz_write(path, contents, 0);
        } else if (memcmp(whole, "8 bytes:", 8) ==
                   0) { /* for the length, so that seeds can be read and changed */
            memcpy(whole, &n_header, sizeof n_header);
            fuzz_write(path, (fuzz_bytes){whole, contents.n}, data_bytes((char *)whole + 8));
        } else {
            fuzz_write(path, contents, data_bytes(text + n_name + 9));
        }
    }
}

static void warn(void *user, const char *line) {
    (void)user;
    FUZZ_CHECK(tn_is_printable(line, strlen(line)));
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    char folder[400], out[400], name[160];
    snprintf(folder, sizeof folder, "%s", fuzz_path("checkpoint"));
    snprintf(out, sizeof out, "%s", fuzz_path("out.gguf"));
    mkdir(folder, 0700);
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(name, sizeof name, "checkpoint/%s", names[i]);
        unlink(fuzz_path(name));
    }
    for (size_t i = 0; i < n_parts; i++) write_part(parts[i], "checkpoint");
    unlink(out);
    tern_convert_options options;
    tern_error err;
    tern_convert_options_defaults(&options);
    options.warn = warn;
    const tern_status s = tern_convert(folder, out, &options, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK((access(out, F_OK) == 0) == !s);
}

const fuzz_target fuzz_convert = {"convert", run, mutate, words, 65536};
