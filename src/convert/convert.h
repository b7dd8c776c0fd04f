/* From a Hugging Face checkpoint directory to a GGUF file.
 *
 *   config.json ---------------+-> hyper-parameters -> metadata
 *   models/NAME.yaml, `hf` ----+-> tensors: names, shapes, rows
 *   *.safetensors -------------+-> rows, in chunks of about a MiB
 *   tokenizer.json or .model, tokenizer_config.json, chat_template.jinja, generation_config.json -> metadata
 *
 * What an architecture's checkpoints look like is said by its description alone (docs/ADD_MODEL.md). The checkpoint's
 * files are mapped; memory does not grow with their size. */
#ifndef TN_CONVERT_CONVERT_H
#define TN_CONVERT_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/dtype.h"
#include "../base/status.h"

typedef struct tn_convert_options {
    tn_dtype type;         /* of matrices: F32, F16, BF16 or Q8_0 */
    bool same_type;        /* instead, that of the checkpoint's first matrix if it is F16 or BF16, else F16 */
    const char *pre;       /* name of the pre-tokenizer; NULL: found by what tokenizer.json says */
    const char *arch_file; /* NULL, or a description that adds or replaces one */
    /* Called between chunks; false cancels. Fractions by bytes of the checkpoint. NULL: not told. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void (*warn)(void *user, const char *line); /* NULL: not told; the line is safe to print */
    void *user;
} tn_convert_options;

/* Writes `out`, which appears whole or not at all, and only if it opens as a model. */
tn_status tn_convert(const char *dir, const char *out, const tn_convert_options *options, tn_error *err);

#endif
