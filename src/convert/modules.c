#include "modules.h"

#include <stdio.h>
#include <string.h>

#include "../../formats/file.h"

#define CONFIG "config.json"

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* "Dense" of "sentence_transformers.models.Dense". */
static const char *kind_of(const json_t *module) {
    const char *type = text_of(module, "type"), *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

static bool is_one_of(const char *kind, const char *const *known, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(kind, known[i])) return true;
    return false;
}

static void warn_of(const tn_converter *c, const char *kind) {
    char line[256], shown[96];
    if (!c->options->warn) return;
    tn_escape(shown, sizeof shown, kind, strlen(kind));
    snprintf(line, sizeof line, "modules.json: the module '%s' is not converted, vectors are those before it",
             shown);
    c->options->warn(c->options->user, line);
}

/* Whether a tensor of the description is made of one whose name begins so. */
static bool is_described(const tn_arch *arch, const char *prefix) {
    for (size_t i = 0; i < arch->n_tensors; i++)
        for (size_t p = 0; p < arch->tensors[i].n_hf; p++) {
            const char *name = arch->tensors[i].hf[p].name;
            if (name && !strncmp(name, prefix, strlen(prefix))) return true;
        }
    return false;
}

/* Weights alone: what stands before the pooling of means may be nothing but linear. */
static tn_status add_dense(tn_converter *c, const char *dir, const char *name, const char *prefix) {
    char file[300];
    json_t *config;
    snprintf(file, sizeof file, "%s/" CONFIG, dir);
    tn_status s = tn_convert_json(c, file, JSON_OBJECT, &config);
    if (s) return s;
    if (!config) return TN_BAD(c, "modules.json: there is no %s", tn_show((tn_str){file, strlen(file)}).text);
    const char *activation = strrchr(text_of(config, "activation_function"), '.');
    const bool is_linear = activation && !strcmp(activation, ".Identity");
    if (json_object_set_new(c->modules, name, config) != 0) return tn_convert_no_memory(c);
    if (!is_linear)
        return TN_NOT_KNOWN(c, "%s: expected the activation_function torch.nn.modules.linear.Identity",
                            tn_show((tn_str){file, strlen(file)}).text);
    const char *path = tn_convert_path(c, dir);
    return path ? tn_checkpoint_add(c->checkpoint, path, prefix, c->err) : tn_convert_no_memory(c);
}

static tn_status read_module(tn_converter *c, const json_t *module, size_t i) {
    static const char *const known[] = {"Transformer", "Pooling", "Normalize"};
    char name[32], prefix[32];
    const char *kind = kind_of(module), *dir = text_of(module, "path");
    snprintf(name, sizeof name, "dense_%zu", i);
    snprintf(prefix, sizeof prefix, "dense_%zu.", i);
    if (strlen(dir) > 200 || *dir == '/' || strstr(dir, ".."))
        return TN_BAD(c, "modules.json: a path of a module that leads out of the checkpoint");
    if (!strcmp(kind, "Pooling")) c->pooling_dir = tn_arena_strdup(&c->arena, dir, strlen(dir));
    if (!strcmp(kind, "Pooling") && !c->pooling_dir) return tn_convert_no_memory(c);
    if (!strcmp(kind, "Dense") && is_described(&c->arch, prefix)) return add_dense(c, dir, name, prefix);
    if (*kind && !is_one_of(kind, known, sizeof known / sizeof *known)) warn_of(c, kind);
    return TN_OK;
}

tn_status tn_modules_read(tn_converter *c) {
    json_t *list, *module;
    size_t i;
    if (!(c->modules = json_object())) return tn_convert_no_memory(c);
    tn_status s = tn_convert_json(c, "modules.json", JSON_ARRAY, &list);
    json_array_foreach(list, i, module) if (!s) s = read_module(c, module, i);
    json_decref(list);
    return s;
}
