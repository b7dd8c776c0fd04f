/* Which description a file's architecture has: one given by the user, else one of those built in. */
#include <stdio.h>
#include <string.h>

#include "../base/fmap.h"
#include "../base/hash.h"
#include "model.h"

enum { MAX_DESCRIPTION_BYTES = 1 << 20 };

static tn_status parse(tn_model *m, const char *text, size_t n, const char *label, tn_error *err) {
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add(&hash, text, n);
    m->arch_hash = tn_hash_value(&hash);
    return tn_arch_parse(text, n, label, &m->arena, &m->arch, err);
}

static tn_status from_file(tn_model *m, const char *path, tn_error *err) {
    tn_fmap map;
    tn_status s = tn_fmap_open(&map, path, err);
    if (s) return s;
    if (map.size > MAX_DESCRIPTION_BYTES)
        s = tn_fail(err, TN_ERR_FORMAT, "bad architecture description", path, "larger than %d bytes",
                    MAX_DESCRIPTION_BYTES);
    else
        s = parse(m, map.data ? (const char *)map.data : "", map.size, path, err);
    tn_fmap_close(&map);
    return s;
}

static tn_status unknown(const tn_model *m, tn_error *err) {
    char missing[320];
    tn_model_missing(m, missing, sizeof missing);
    return tn_fail(err, TN_ERR_UNSUPPORTED, "cannot run model", tn_file_path(m->file),
                   "key 'general.architecture': unknown architecture '%s'; what is missing: %s", m->arch_name,
                   missing);
}

tn_status tn_model_find_arch(tn_model *m, const char *arch_file, tn_error *err) {
    if (!m->arch_name[0])
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "key 'general.architecture' is missing");
    if (arch_file) {
        tn_status s = from_file(m, arch_file, err);
        if (s || !strcmp(m->arch.name, m->arch_name)) return s;
    }
    for (const tn_arch_source *a = tn_arch_builtin; a->name; a++) {
        if (strcmp(a->name, m->arch_name)) continue;
        char label[64];
        snprintf(label, sizeof label, "models/%s.yaml", a->name);
        return parse(m, a->text, a->size, label, err);
    }
    return unknown(m, err);
}
