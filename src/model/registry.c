/* Which description a file's architecture has: one given by the user, else one of those built in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/fmap.h"
#include "model.h"

enum { MAX_DESCRIPTION_BYTES = 1 << 20 };

tn_status tn_arch_parse_file(const char *path, tn_arena *arena, tn_arch *out, tn_error *err) {
    tn_fmap map;
    tn_status s = tn_fmap_open(&map, path, err);
    if (s) return s;
    if (map.size > MAX_DESCRIPTION_BYTES)
        s = tn_fail(err, TN_ERR_FORMAT, "bad architecture description", path, "larger than %d bytes",
                    MAX_DESCRIPTION_BYTES);
    else
        s = tn_arch_parse(map.data ? (const char *)map.data : "", map.size, path, arena, out, err);
    tn_fmap_close(&map);
    return s;
}

static size_t line_bytes(const tn_arch_source *source, size_t i) {
    return tn_arch_line_at[source->lines[i] + 1] - tn_arch_line_at[source->lines[i]];
}

char *tn_arch_source_text(const tn_arch_source *source, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < source->n_lines; i++) *n += line_bytes(source, i);
    char *text = malloc(*n + 1), *at = text;
    if (!text) return NULL;
    for (size_t i = 0; i < source->n_lines; i++) {
        memcpy(at, tn_arch_text + tn_arch_line_at[source->lines[i]], line_bytes(source, i));
        at += line_bytes(source, i);
    }
    *at = '\0';
    return text;
}

bool tn_arch_source_has(const tn_arch_source *source, const char *word) {
    for (size_t i = 0; i < source->n_lines; i++)
        if (memmem(tn_arch_text + tn_arch_line_at[source->lines[i]], line_bytes(source, i), word,
                   strlen(word)))
            return true;
    return false;
}

tn_status tn_arch_parse_builtin(const tn_arch_source *source, tn_arena *arena, tn_arch *out, tn_error *err) {
    char label[64];
    size_t n;
    char *text = tn_arch_source_text(source, &n);
    snprintf(label, sizeof label, "models/%s.yaml", source->name);
    if (!text) return tn_fail(err, TN_ERR_MEMORY, "bad architecture description", label, "out of memory");
    const tn_status s = tn_arch_parse(text, n, label, arena, out, err);
    free(text);
    return s;
}

/* As many names as there is room for, each behind a space; n bytes of a message are taken. */
static void known_names(char *dst, size_t cap, size_t n) {
    size_t at = 0;
    dst[0] = '\0';
    for (const tn_arch_source *a = tn_arch_builtin; a->name; a++) {
        const bool fits = n + at + strlen(a->name) + sizeof " ..." < cap;
        at += (size_t)snprintf(dst + at, cap - at, " %s", fits ? a->name : "...");
        if (!fits) return;
    }
}

static tn_status unknown(const tn_model *m, tn_error *err) {
    char missing[320], known[sizeof err->message];
    const char *path = tn_file_path(m->file);
    tn_model_missing(m, missing, sizeof missing);
    known_names(known, sizeof known, 110 + strlen(path) + strlen(m->arch_name) + strlen(missing));
    return tn_fail(err, TN_ERR_UNSUPPORTED, "cannot run model", path,
                   "key 'general.architecture': unknown architecture '%s'; what is missing: %s; known:%s",
                   m->arch_name, missing, known);
}

tn_status tn_model_find_arch(tn_model *m, const char *arch_file, tn_error *err) {
    if (!m->arch_name[0])
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "key 'general.architecture' is missing");
    if (arch_file) {
        tn_status s = tn_arch_parse_file(arch_file, &m->arena, &m->arch, err);
        if (s || !strcmp(m->arch.name, m->arch_name)) return s;
    }
    for (const tn_arch_source *a = tn_arch_builtin; a->name; a++)
        if (!strcmp(a->name, m->arch_name)) return tn_arch_parse_builtin(a, &m->arena, &m->arch, err);
    return unknown(m, err);
}
