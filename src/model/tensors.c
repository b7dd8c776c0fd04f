/* Binds the description's tensors to the file's, and checks every shape. */
#include <stdio.h>
#include <string.h>

#include "model.h"

static void layer_name(char *dst, size_t cap, const char *pattern, uint32_t layer) {
    const char *at = strstr(pattern, "{i}");
    if (at)
        snprintf(dst, cap, "%.*s%u%s", (int)(at - pattern), pattern, layer, at + 3);
    else
        snprintf(dst, cap, "%s", pattern);
}

static void shape_text(char *dst, size_t cap, const uint64_t *dims, uint32_t n) {
    size_t at = 0;
    for (uint32_t i = 0; i < n && at < cap; i++)
        at += (size_t)snprintf(dst + at, cap - at, "%s%llu", i ? " x " : "", (unsigned long long)dims[i]);
}

static tn_status wrong_shape(const tn_model *m, const char *name, const uint64_t *want, uint32_t n_want,
                             const tn_tensor *found, tn_error *err) {
    char expected[96], is[96];
    shape_text(expected, sizeof expected, want, n_want);
    shape_text(is, sizeof is, found->dims, found->n_dims);
    return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                   "tensor '%s': expected shape %s, found %s", name, expected, is);
}

static tn_status eval_shape(const tn_model *m, const tn_tensor_def *def, uint32_t layer, uint64_t want[4],
                            tn_error *err) {
    for (uint32_t d = 0; d < 4; d++) want[d] = 1;
    for (uint32_t d = 0; d < def->n_dims; d++) {
        uint32_t n;
        tn_status s = tn_model_eval_u32(m, def->shape[d], layer, &n, err);
        if (s) return s;
        want[d] = n;
    }
    return TN_OK;
}

static tn_status check(const tn_model *m, const tn_tensor_def *def, const tn_tensor *t, uint32_t layer,
                       tn_error *err) {
    uint64_t want[4];
    tn_status s = eval_shape(m, def, layer, want, err);
    if (s) return s;
    if (memcmp(want, t->dims, sizeof want) != 0) return wrong_shape(m, t->cname, want, def->n_dims, t, err);
    if (tn_dtypes[t->dtype].act == TN_ACT_NONE)
        return tn_fail(err, TN_ERR_UNSUPPORTED, "cannot run model", tn_file_path(m->file),
                       "tensor '%s': type %s cannot be computed by this version", t->cname,
                       tn_dtypes[t->dtype].name);
    if (def->n_dims == 1 && t->dtype != TN_DTYPE_F32)
        return tn_fail(err, TN_ERR_UNSUPPORTED, "cannot run model", tn_file_path(m->file),
                       "tensor '%s': expected type F32, found %s", t->cname, tn_dtypes[t->dtype].name);
    if ((uintptr_t)t->data % 4 && def->n_dims == 1)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "tensor '%s': data is not aligned", t->cname);
    return TN_OK;
}

/* The tensor named as `weight` with another word at the end of its name. */
static const tn_tensor *companion(const tn_model *m, const tn_tensor *weight, const char *word) {
    char name[192];
    const char *end = strstr(weight->cname, ".weight");
    if (!end || end[7]) return NULL;
    snprintf(name, sizeof name, "%.*s.%s", (int)(end - weight->cname), weight->cname, word);
    return tn_file_tensor(m->file, name);
}

const tn_tensor *tn_model_factor(const tn_model *m, const tn_tensor *weight) {
    return companion(m, weight, "scale");
}

static void mark_used(const tn_model *m, const tn_tensor *t, bool *used) {
    if (t) used[t - tn_file_tensor_at(m->file, 0)] = true;
}

/* A factor that would not be applied is an error. Factors of activations are for those who store them in fewer bits. */
static tn_status check_factor(const tn_model *m, const tn_tensor *t, bool *used, tn_error *err) {
    const tn_tensor *factor = tn_model_factor(m, t);
    mark_used(m, factor, used);
    mark_used(m, companion(m, t, "input_scale"), used);
    if (!factor || (t->n_dims == 2 && factor->n_bytes == 4 && factor->dtype == TN_DTYPE_F32)) return TN_OK;
    return tn_fail(err, TN_ERR_UNSUPPORTED, "cannot run model", tn_file_path(m->file),
                   "tensor '%s': expected one F32 factor of a matrix", factor->cname);
}

/* The rows of `whole` (of a vector: the elements; of several matrices: of each) that the definition speaks of, as a tensor
 * of their own. */
static tn_status slice(tn_model *m, const tn_tensor_def *def, const tn_tensor *whole, uint32_t layer,
                       const tn_tensor **out, tn_error *err) {
    tn_tensor *part = tn_arena_alloc(&m->arena, 1, sizeof *part);
    if (!part) return tn_fail(err, TN_ERR_MEMORY, "cannot run model", tn_file_path(m->file), "out of memory");
    *part = *whole;
    uint32_t row;
    tn_status s = eval_shape(m, def, layer, part->dims, err);
    if (s || (s = tn_model_eval_u32(m, def->row, layer, &row, err))) return s;
    const uint32_t of = def->n_dims > 1; /* the dimension that rows are counted in */
    const uint64_t n = part->dims[of], row_elems = of ? part->dims[0] : 1, n_matrices = part->dims[2];
    if (whole->n_dims != def->n_dims || (of && whole->dims[0] != row_elems) || row + n > whole->dims[of] ||
        whole->dims[2] != n_matrices)
        return wrong_shape(m, whole->cname, part->dims, def->n_dims, whole, err);
    const uint64_t matrix_bytes = whole->n_bytes / n_matrices, row_bytes = matrix_bytes / whole->dims[of];
    part->data = whole->data + row * row_bytes;
    part->n_bytes = (n_matrices - 1) * matrix_bytes + n * row_bytes; /* to the end of the last */
    *out = part;
    return check(m, def, part, layer, err);
}

static tn_status bind_own(tn_model *m, const tn_tensor_def *def, const tn_tensor *t, uint32_t layer,
                          const tn_model_options *options, bool *used, const tn_tensor **slot,
                          tn_error *err) {
    mark_used(m, t, used);
    *slot = options->replace ? options->replace(options->user, t) : t;
    const tn_status s = check(m, def, *slot, layer, err);
    return s ? s : check_factor(m, t, used, err);
}

static tn_status bind(tn_model *m, size_t d, uint32_t layer, const tn_model_options *options, bool *used,
                      tn_error *err) {
    const tn_tensor_def *def = &m->arch.tensors[d];
    const tn_tensor **slot = &m->tensors[d * m->hparams.n_layers + layer];
    char name[192];
    layer_name(name, sizeof name, def->name ? def->name : def->id, layer);
    const tn_tensor *own_tensor = def->name ? tn_file_tensor(m->file, name) : NULL;
    if (own_tensor) return bind_own(m, def, own_tensor, layer, options, used, slot, err);
    if (def->fallback >= 0) {
        const bool own = m->arch.tensors[def->fallback].per_layer;
        *slot = m->tensors[(size_t)def->fallback * m->hparams.n_layers + (own ? layer : 0)];
        if (*slot && def->row) return slice(m, def, *slot, layer, slot, err);
        if (*slot) return check(m, def, *slot, layer, err);
    }
    double optional = 0;
    tn_status s = def->optional ? tn_model_eval(m, def->optional, layer, &optional, err) : TN_OK;
    if (s) return s;
    if (optional == 0)
        return tn_fail(err, TN_ERR_FORMAT, "cannot run model", tn_file_path(m->file),
                       "tensor '%s' is missing", name);
    return TN_OK;
}

static void warn_unused(const tn_model *m, const bool *used, const tn_model_options *options) {
    uint64_t n = 0, first = 0;
    for (uint64_t i = tn_file_n_tensors(m->file); i-- > 0;)
        if (!used[i]) n++, first = i;
    if (!n || !options->warn) return;
    char line[320], name[160];
    const tn_tensor *t = tn_file_tensor_at(m->file, first);
    tn_escape(name, sizeof name, t->name.ptr, t->name.len);
    snprintf(line, sizeof line, "%llu tensor%s of the file %s not used by architecture %s, the first is '%s'",
             (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are", m->arch.name, name);
    options->warn(options->user, line);
}

tn_status tn_model_bind_tensors(tn_model *m, const tn_model_options *options, tn_error *err) {
    const size_t n = m->hparams.n_layers;
    const uint64_t n_file = tn_file_n_tensors(m->file);
    m->tensors = tn_arena_alloc(&m->arena, m->arch.n_tensors * n, sizeof *m->tensors);
    bool *used = tn_arena_alloc(&m->arena, n_file + 1, sizeof *used);
    if (!m->tensors || !used)
        return tn_fail(err, TN_ERR_MEMORY, "cannot run model", tn_file_path(m->file), "out of memory");
    for (uint32_t layer = 0; layer < n; layer++) {
        for (size_t d = 0; d < m->arch.n_tensors; d++) { /* a fallback stands above what falls back on it */
            if (!m->arch.tensors[d].per_layer && layer > 0) continue;
            tn_status s = bind(m, d, layer, options, used, err);
            if (s) return s;
        }
    }
    warn_unused(m, used, options);
    return TN_OK;
}
