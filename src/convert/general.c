/* The keys "general.": what the model is called and how large it is, and how its publisher samples. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert_impl.h"
#include "model_name.h"

enum { GGML_QUANT_VERSION = 2 };

/* llama.cpp's numbers of file types. */
static uint32_t file_type(const tn_converter *c) {
    static const uint32_t numbers[TN_DTYPE_COUNT] = {
        [TN_DTYPE_F32] = 0, [TN_DTYPE_F16] = 1, [TN_DTYPE_Q8_0] = 7, [TN_DTYPE_BF16] = 32};
    enum { MOSTLY_MXFP4 = 38 };
    for (size_t i = 0; i < c->n_jobs; i++)
        if (c->jobs[i].dtype == TN_DTYPE_MXFP4) return MOSTLY_MXFP4;
    return numbers[c->type];
}

static void set_text(const tn_converter *c, const char *key, const char *text) {
    if (*text) tn_gguf_set_text(c->writer, key, text, strlen(text));
}

/* Experts count once, their number stands in front: "8x7B". */
static void size_label(const tn_converter *c, char label[32]) {
    uint64_t shared = 0, expert = 0, n_experts = 0, n_expert_tensors = 0;
    for (size_t i = 0; i < c->n_jobs; i++) {
        const tn_job *job = &c->jobs[i];
        uint64_t n = 1;
        for (uint32_t d = 0; d < job->n_dims; d++) n *= job->dims[d];
        if (strstr(job->name, "_exps.") && job->n_dims >= 3) { /* their biases count as the rest */
            const uint64_t experts = job->dims[job->n_dims - 1];
            expert += n / experts, n_experts += experts, n_expert_tensors++;
        } else {
            shared += n;
        }
    }
    char size[24];
    tn_size_label(size, sizeof size, shared + expert);
    if (n_expert_tensors)
        snprintf(label, 32, "%llux%s", (unsigned long long)(n_experts / n_expert_tensors), size);
    else
        snprintf(label, 32, "%s", size);
}

/* The first of two names that says a thing counts for it. */
static void merge(char dst[TN_MODEL_NAME_BYTES], const char src[TN_MODEL_NAME_BYTES]) {
    if (!*dst) memcpy(dst, src, TN_MODEL_NAME_BYTES);
}

static tn_status write_name(const tn_converter *c) {
    tn_model_name name, of_dir;
    memset(&name, 0, sizeof name);
    const char *published = json_string_value(json_object_get(c->config, "_name_or_path"));
    const char *slash = published ? strchr(published, '/') : NULL;
    char *real = realpath(c->dir, NULL);
    if (!real && errno == ENOMEM) return tn_convert_no_memory(c);
    if (!real) return tn_fail(c->err, TN_ERR_IO, TN_CONVERT_WHAT, c->dir, "%s", strerror(errno));
    if (published && *published && !(slash && strchr(slash + 1, '/')))
        tn_model_name_read(published, c->n_params, &name);
    tn_model_name_read(strrchr(real, '/') + 1, c->n_params, &of_dir);
    free(real);
    merge(name.title, of_dir.title);
    merge(name.organization, of_dir.organization);
    merge(name.basename, of_dir.basename);
    merge(name.finetune, of_dir.finetune);
    merge(name.version, of_dir.version);
    merge(name.size_label, of_dir.size_label);
    if (!name.size_label[0]) size_label(c, name.size_label);
    set_text(c, "general.name", name.title);
    set_text(c, "general.organization", name.organization);
    set_text(c, "general.basename", name.basename);
    set_text(c, "general.finetune", name.finetune);
    set_text(c, "general.version", name.version);
    set_text(c, "general.size_label", name.size_label);
    return TN_OK;
}

static void write_sampling(const tn_converter *c) {
    static const struct {
        const char *name, *other, *key;
        bool whole;
    } values[] = {{"top_k", NULL, "top_k", true},
                  {"top_p", NULL, "top_p", false},
                  {"min_p", NULL, "min_p", false},
                  {"temperature", NULL, "temp", false},
                  {"penalty_last_n", NULL, "penalty_last_n", true},
                  {"penalty_repeat", "repetition_penalty", "penalty_repeat", false}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const json_t *value = json_object_get(c->generation_config, values[i].name);
        char key[64];
        if (!value && values[i].other) value = json_object_get(c->generation_config, values[i].other);
        if (!json_is_number(value)) continue;
        snprintf(key, sizeof key, "general.sampling.%s", values[i].key);
        const double number = json_number_value(value);
        const int32_t whole = number > -2e9 && number < 2e9 ? (int32_t)number : 0;
        if (values[i].whole)
            tn_gguf_set(c->writer, key, TN_META_I32, &whole);
        else
            tn_gguf_set_f32(c->writer, key, (float)number);
    }
}

tn_status tn_convert_write_general(tn_converter *c) {
    set_text(c, "general.type", "model");
    tn_gguf_set_u32(c->writer, "general.file_type", file_type(c));
    tn_gguf_set_u32(c->writer, "general.quantization_version", GGML_QUANT_VERSION);
    write_sampling(c);
    return write_name(c);
}
