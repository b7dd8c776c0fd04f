/* Which description a checkpoint has: the one that lists its class, the first of config.json's architectures. */
#include <string.h>

#include "convert_impl.h"

static bool has_class(const tn_arch *arch, const char *name) {
    for (size_t i = 0; i < arch->hf.n_classes; i++)
        if (!strcmp(arch->hf.classes[i], name)) return true;
    return false;
}

/* The text of the class stands in few descriptions: the others need no parsing. */
static tn_status find_builtin(tn_converter *c, const char *name) {
    for (const tn_arch_source *a = tn_arch_builtin; a->name; a++) {
        if (!tn_arch_source_has(a, name)) continue;
        tn_status s = tn_arch_parse_builtin(a, &c->arena, &c->arch, c->err);
        if (s || has_class(&c->arch, name)) return s;
    }
    char shown[96];
    tn_escape(shown, sizeof shown, name, strlen(name));
    return TN_NOT_KNOWN(
        c, "config.json: no description lists the class '%s' of 'architectures' (--arch-file)", shown);
}

tn_status tn_convert_find_arch(tn_converter *c) {
    const char *name = json_string_value(json_array_get(json_object_get(c->config, "architectures"), 0));
    if (!name || !*name)
        return TN_BAD(c, "config.json: expected 'architectures', a list with the name of a class");
    if (c->options->arch_file) {
        tn_status s = tn_arch_parse_file(c->options->arch_file, &c->arena, &c->arch, c->err);
        if (s || has_class(&c->arch, name)) return s;
    }
    return find_builtin(c, name);
}
