/* What the name of a checkpoint's directory says: "Meta-Llama-3.1-8B-Instruct" is basename Meta-Llama-3.1, size 8B, finetune
 * Instruct. The rules are those of the GGUF naming convention as its Python package applies them. */
#ifndef TN_CONVERT_MODEL_NAME_H
#define TN_CONVERT_MODEL_NAME_H

#include <stdint.h>

enum { TN_MODEL_NAME_BYTES = 256 };

/* Parts are empty where the name does not say. */
typedef struct tn_model_name {
    char title[TN_MODEL_NAME_BYTES]; /* as a person would write it */
    char organization[TN_MODEL_NAME_BYTES], basename[TN_MODEL_NAME_BYTES], finetune[TN_MODEL_NAME_BYTES];
    char version[TN_MODEL_NAME_BYTES], size_label[TN_MODEL_NAME_BYTES];
} tn_model_name;

/* `id` is NAME or ORGANIZATION/NAME. A size in the name that is far from the number of parameters is taken for something
 * else. */
void tn_model_name_read(const char *id, uint64_t n_params, tn_model_name *out);

/* "135M": the number of parameters with at least two digits. */
void tn_size_label(char *dst, uint64_t cap, uint64_t n_params);

#endif
