#include "convert.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../../formats/json.h"
#include "../base/fmap.h"
#include "../model/model.h"
#include "../text/tokenizer.h"
#include "convert_impl.h"
#include "modules.h"

tn_status tn_convert_no_memory(const tn_converter *c) {
    return tn_fail(c->err, TN_ERR_MEMORY, TN_CONVERT_WHAT, c->dir, "out of memory");
}

const char *tn_convert_path(tn_converter *c, const char *name) {
    struct stat read, written;
    const size_t n = strlen(c->dir) + 1 + strlen(name);
    char *path = tn_arena_alloc(&c->arena, n + 1, 1);
    if (!path) return NULL;
    snprintf(path, n + 1, "%s/%s", c->dir, name);
    if (stat(path, &read) == 0 && stat(c->out, &written) == 0)
        c->reads_out |= read.st_dev == written.st_dev && read.st_ino == written.st_ino;
    return path;
}

tn_status tn_convert_json(tn_converter *c, const char *name, json_type root, json_t **out) {
    *out = NULL;
    const char *path = tn_convert_path(c, name);
    if (!path) return tn_convert_no_memory(c);
    bool exists;
    const tn_status s = tn_fmap_exists(path, &exists, c->err);
    return !s && exists ? tn_json_load(TN_CONVERT_WHAT, path, root, out, c->err) : s;
}

static tn_status read_configs(tn_converter *c) {
    tn_status s;
    if ((s = tn_convert_json(c, "config.json", JSON_OBJECT, &c->config)) ||
        (s = tn_convert_json(c, "tokenizer_config.json", JSON_OBJECT, &c->tokenizer_config)) ||
        (s = tn_convert_json(c, "generation_config.json", JSON_OBJECT, &c->generation_config)))
        return s;
    if (!c->config) return tn_fail(c->err, TN_ERR_IO, TN_CONVERT_WHAT, c->dir, "there is no config.json");
    json_t *text = json_object_get(c->config, "text_config"); /* of models that also see or hear */
    c->text_config = json_is_object(text) ? text : NULL;
    return TN_OK;
}

/* The written file must open as a model, before it gets its name. */
static tn_status validate(const tn_converter *c, const char *path) {
    const tn_model_options options = {.level = TN_OPEN_ALL,
                                      .arch_file = c->options->arch_file,
                                      .warn = c->options->warn,
                                      .user = c->options->user};
    tn_model *model;
    tn_tokenizer *tokenizer = NULL;
    tn_error why;
    tn_status s = tn_model_open(path, &options, &model, &why);
    if (!s) s = tn_tokenizer_new(&model->vocab, NULL, &tokenizer, &why);
    if (s) tn_fail(c->err, s, TN_CONVERT_WHAT, c->dir, "the result is no model that runs: %s", why.message);
    tn_tokenizer_free(tokenizer);
    tn_model_close(model);
    return s;
}

/* The type of the first matrix, where it is one that can be kept: the configuration's word for it is not always true. */
static void choose_type(tn_converter *c) {
    c->type = c->options->same_type ? TN_DTYPE_F16 : c->options->type;
    for (uint64_t i = 0; c->options->same_type && i < tn_checkpoint_n_tensors(c->checkpoint); i++) {
        const tn_st_tensor *t = tn_checkpoint_at(c->checkpoint, i);
        if (t->n_dims < 2 || (t->type != TN_ST_F16 && t->type != TN_ST_BF16)) continue;
        c->type = t->type == TN_ST_F16 ? TN_DTYPE_F16 : TN_DTYPE_BF16;
        break;
    }
}

static tn_status check_out(tn_converter *c) {
    /* What the checkpoint's reader reads. */
    if (!tn_convert_path(c, "model.safetensors.index.json")) return tn_convert_no_memory(c);
    if (!c->reads_out && !tn_checkpoint_has_file(c->checkpoint, c->out)) return TN_OK;
    return tn_fail(c->err, TN_ERR_IO, TN_CONVERT_WHAT, c->out, "is a file of the checkpoint");
}

static tn_status run(tn_converter *c) {
    tn_status s;
    if ((s = read_configs(c)) || (s = tn_convert_find_arch(c)) ||
        (s = tn_checkpoint_open(c->dir, &c->checkpoint, c->err)) || (s = tn_modules_read(c)))
        return s;
    choose_type(c);
    if (!(c->writer = tn_gguf_writer_new(c->out))) return tn_convert_no_memory(c);
    tn_gguf_set_text(c->writer, "general.architecture", c->arch.name, strlen(c->arch.name));
    if ((s = tn_convert_read_hparams(c)) || (s = tn_convert_require(c)) ||
        (s = tn_convert_write_pooling(c)) || (s = tn_convert_plan_tensors(c)) ||
        (s = tn_convert_write_general(c)) || (s = tn_convert_write_card(c)) ||
        (s = tn_convert_write_tokenizer(c)) || (s = check_out(c)) ||
        (s = tn_gguf_begin(c->writer, NULL, c->err)) || (s = tn_convert_write_tensors(c)) ||
        (s = tn_checkpoint_check_whole(c->checkpoint, c->err)))
        return s;
    const char *finished;
    if ((s = tn_gguf_finish(c->writer, &finished, c->err)) || (s = validate(c, finished))) return s;
    tn_gguf_writer *writer = c->writer;
    c->writer = NULL;
    return tn_gguf_commit(writer, c->err);
}

tn_status tn_convert(const char *dir, const char *out, const tn_convert_options *options, tn_error *err) {
    tn_converter c = {.dir = dir, .out = out, .options = options, .err = err};
    tn_status s = run(&c);
    tn_gguf_abort(c.writer);
    tn_checkpoint_close(c.checkpoint);
    json_decref(c.config);
    json_decref(c.modules);
    json_decref(c.tokenizer_config);
    json_decref(c.generation_config);
    tn_arena_free(&c.arena);
    return s;
}
