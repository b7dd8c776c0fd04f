#include "model.h"

#include <stdlib.h>
#include <string.h>

static tn_status copy_arch_name(tn_model *m, tn_error *err) {
    tn_str name = {"", 0};
    const tn_meta *meta = tn_file_meta(m->file, "general.architecture");
    if (meta && !tn_meta_str(meta, 0, &name))
        return tn_fail(err, TN_ERR_FORMAT, "cannot open model", tn_file_path(m->file),
                       "key 'general.architecture': expected a string, found %s",
                       tn_meta_type_name(meta->type));
    char text[96];
    size_t n = tn_escape(text, sizeof text, name.ptr, name.len);
    m->arch_name = tn_arena_strdup(&m->arena, text, n);
    return m->arch_name
               ? TN_OK
               : tn_fail(err, TN_ERR_MEMORY, "cannot open model", tn_file_path(m->file), "out of memory");
}

static tn_status open_parts(tn_model *m, const tn_fmap_source *source, const tn_model_options *options,
                            tn_error *err) {
    tn_status s;
    if ((s = tn_file_open_source(source, &m->file, err)) || (s = copy_arch_name(m, err))) return s;
    if (options->level == TN_OPEN_METADATA) return TN_OK;
    if (options->level == TN_OPEN_VOCAB) return tn_vocab_read(m->file, &m->arena, &m->vocab, err);
    if ((s = tn_model_find_arch(m, options->arch_file, err)) ||
        (s = tn_vocab_read(m->file, &m->arena, &m->vocab, err)) || (s = tn_model_read_hparams(m, err)) ||
        (s = tn_model_bind_tensors(m, options, err)))
        return s;
    return tn_model_build_graphs(m, err);
}

tn_status tn_model_open_source(const tn_fmap_source *source, const tn_model_options *options, tn_model **out,
                               tn_error *err) {
    *out = NULL;
    tn_model *m = calloc(1, sizeof *m);
    if (!m) return tn_fail(err, TN_ERR_MEMORY, "cannot open model", source->path, "out of memory");
    tn_status s = open_parts(m, source, options, err);
    if (s) {
        tn_model_close(m);
        return s;
    }
    *out = m;
    return TN_OK;
}

tn_status tn_model_open(const char *path, const tn_model_options *options, tn_model **out, tn_error *err) {
    const tn_fmap_source source = tn_fmap_path(path);
    return tn_model_open_source(&source, options, out, err);
}

void tn_model_close(tn_model *m) {
    if (!m) return;
    tn_arena_free(&m->arena);
    tn_file_close(m->file);
    free(m);
}
