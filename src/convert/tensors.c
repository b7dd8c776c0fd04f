/* Finds for each tensor of the description what it is made of, and sees that no tensor of the checkpoint is left over. */
#include <stdio.h>
#include <string.h>

#include "../../formats/file.h"
#include "../base/match.h"
#include "convert_impl.h"
#include "floats.h"
#include "mxfp4.h"
#include "scales.h"

enum { MAX_SLICES = 65536, MAX_NAME = 256, MAX_LAYERS_BEHIND = 8 };

/* ---- Names ------------------------------------------------------------------------------------------------- */

/* Copies the name without the parts that the description says to leave out. */
static tn_status strip_name(tn_converter *c, tn_str name, tn_str *out) {
    *out = name;
    for (size_t i = 0; i < c->arch.hf.n_strip; i++) {
        const char *part = c->arch.hf.strip[i];
        const size_t n = strlen(part);
        const char *at = memmem(out->ptr, (size_t)out->len, part, n);
        if (!at) continue;
        char *copy = tn_arena_alloc(&c->arena, (size_t)out->len + 1, 1);
        if (!copy) return tn_convert_no_memory(c);
        const size_t head = (size_t)(at - out->ptr);
        memcpy(copy, out->ptr, head);
        memcpy(copy + head, at + n, (size_t)out->len - head - n);
        *out = (tn_str){copy, out->len - n};
    }
    return TN_OK;
}

static tn_status index_sources(tn_converter *c) {
    const uint64_t n = tn_checkpoint_n_tensors(c->checkpoint);
    uint64_t first, second;
    c->sources = tn_arena_alloc(&c->arena, (size_t)n, sizeof *c->sources);
    uint32_t *slots = tn_arena_alloc(&c->arena, tn_names_slots(n), sizeof *slots);
    if (!c->sources || !slots) return tn_convert_no_memory(c);
    for (uint64_t i = 0; i < n; i++) {
        c->sources[i].tensor = tn_checkpoint_at(c->checkpoint, i);
        tn_status s = strip_name(c, c->sources[i].tensor->name, &c->sources[i].name);
        if (s) return s;
    }
    if (tn_names_build(&c->source_names, slots, c->sources, sizeof *c->sources, n, &first, &second))
        return TN_OK;
    return TN_BAD(c, "two tensors are called '%s'", tn_show(c->sources[first].name).text);
}

/* The pattern with the layer for "{i}" and the slice for "{e}". */
static void expand(char name[MAX_NAME], const char *pattern, uint64_t layer, uint64_t slice) {
    size_t at = 0;
    for (const char *p = pattern; *p && at + 24 < MAX_NAME;) {
        const bool is_layer = !strncmp(p, "{i}", 3), is_slice = !strncmp(p, "{e}", 3);
        if (is_layer || is_slice) {
            at += (size_t)snprintf(name + at, MAX_NAME - at, "%llu",
                                   (unsigned long long)(is_layer ? layer : slice));
            p += 3;
        } else {
            name[at++] = *p++;
        }
    }
    name[at] = '\0';
}

static tn_source *find(const tn_converter *c, const char *pattern, uint64_t layer, uint64_t slice) {
    char name[MAX_NAME];
    expand(name, pattern, layer, slice);
    const tn_source *source = tn_names_find(&c->source_names, name, strlen(name));
    return source ? &c->sources[source - c->sources] : NULL;
}

/* ---- Shapes ------------------------------------------------------------------------------------------------ */

static void dims_text(char text[128], const uint64_t *dims, uint32_t n) {
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n && at < 100; i++)
        at += (size_t)snprintf(text + at, 128 - at, "%s%llu", i ? " x " : "", (unsigned long long)dims[i]);
}

/* Whether a checkpoint's tensor has the shape of the job's, or of a slice of it; leading dimensions of 1 do not count. What
 * "rows" picks from may have any number of rows, and of elements and columns any shape. */
static tn_status check_shape(const tn_converter *c, const tn_job *job, const tn_st_tensor *t) {
    const uint32_t n_dims = job->n_dims - (job->slices != NULL);
    const bool picks = job->part->rows != NULL;
    uint64_t want[4];
    uint32_t ones = 0;
    while (t->n_dims - ones > n_dims && t->dims[ones] == 1) ones++;
    bool same = t->n_dims - ones == n_dims;
    for (uint32_t i = 0; i < n_dims; i++) want[i] = job->dims[n_dims - 1 - i];
    if (job->part->transpose && n_dims >= 2) {
        const uint64_t last = want[n_dims - 1];
        want[n_dims - 1] = want[n_dims - 2];
        want[n_dims - 2] = last;
    }
    if (picks && !job->by_element)
        same = t->n_dims >= 2 && (job->part->transpose || t->dims[t->n_dims - 1] == want[n_dims - 1]);
    for (uint32_t i = 0; same && !picks && i < n_dims; i++) same = t->dims[ones + i] == want[i];
    if (same) return TN_OK;
    char expected[128], found[128];
    dims_text(expected, want, n_dims);
    dims_text(found, t->dims, t->n_dims);
    return TN_BAD(c, "tensor '%s': expected shape %s, found %s", tn_show(t->name).text, expected, found);
}

static tn_status read_dims(const tn_converter *c, tn_job *job, uint32_t layer) {
    tn_place at = {.layer = layer};
    uint64_t n = 1;
    job->n_dims = job->def->n_dims;
    for (uint32_t d = 0; d < job->n_dims; d++) {
        tn_status s = tn_convert_whole(c, &at, job->def->shape[d], &job->dims[d]);
        if (s) return s;
        if (job->dims[d] == 0 || __builtin_mul_overflow(n, job->dims[d], &n) || n > (uint64_t)1 << 48)
            return TN_BAD(c, "tensor '%s': a shape of 0 or more than 2^48 elements", job->name);
    }
    return TN_OK;
}

/* ---- Jobs -------------------------------------------------------------------------------------------------- */

static bool is_bias(const char *name) {
    const size_t n = strlen(name);
    return n >= 5 && !strcmp(name + n - 5, ".bias");
}

/* Vectors and norms are F32, as are biases and what is small; rows that blocks do not fit are F16; MXFP4 stays as it is where the
 * types are the checkpoint's. */
static tn_dtype pick_dtype(const tn_converter *c, const tn_job *job) {
    static const char norm[] = "_norm.weight", weight[] = ".weight";
    const size_t n = strlen(job->name);
    const bool is_norm = n >= strlen(norm) && !strcmp(job->name + n - strlen(norm), norm);
    const bool is_weight = n >= strlen(weight) && !strcmp(job->name + n - strlen(weight), weight);
    if (job->n_dims == 1 || is_norm || !is_weight || job->part->f32) return TN_DTYPE_F32;
    const bool is_slices = job->part->name && strstr(job->part->name, "{e}");
    if (c->options->same_type && job->source && job->source->block_scales && !job->part->add && !is_slices)
        return TN_DTYPE_MXFP4;
    return job->dims[0] % tn_dtypes[c->type].block_elems ? TN_DTYPE_F16 : c->type;
}

/* Marks what the job takes from the checkpoint: the tensor, and its scales if it has some. */
static tn_status use(const tn_converter *c, const tn_job *job, tn_source *source) {
    tn_scales scales;
    source->used = true;
    if (source->block_scales && (job->part->transpose || job->dims[0] % TN_MXFP4_WEIGHTS))
        return TN_NOT_KNOWN(c,
                            "tensor '%s': MXFP4 that is to be transposed, or whose rows end within a block",
                            tn_show(source->tensor->name).text);
    if (!source->block_scales && !tn_floats_known(source->tensor->type))
        return TN_NOT_KNOWN(c, "tensor '%s': type %s cannot be converted", tn_show(source->tensor->name).text,
                            tn_st_type_name(source->tensor->type));
    tn_status s = tn_scales_find(c, source, &scales);
    return s ? s : check_shape(c, job, source->tensor);
}

static tn_status find_slices(tn_converter *c, tn_job *job) {
    const uint64_t n = job->dims[job->n_dims - 1];
    if (job->n_dims < 2 || n > MAX_SLICES)
        return TN_BAD(c, "tensor '%s': %llu slices, expected at most %d", job->name, (unsigned long long)n,
                      MAX_SLICES);
    if (!(job->slices = tn_arena_alloc(&c->arena, (size_t)n, sizeof *job->slices)))
        return tn_convert_no_memory(c);
    for (uint64_t x = 0; x < n; x++) {
        char name[MAX_NAME];
        expand(name, job->part->name, job->layer, x);
        if (!(job->slices[x] = find(c, job->part->name, job->layer, x)))
            return TN_BAD(c, "tensor '%s' is missing", name);
        tn_status s = use(c, job, job->slices[x]);
        if (s) return s;
    }
    return TN_OK;
}

static tn_status add_job(tn_converter *c, const tn_tensor_def *def, const tn_hf_part *part, uint32_t layer,
                         tn_source *source) {
    char name[MAX_NAME];
    expand(name, def->name, layer, 0);
    tn_job *job = &c->jobs[c->n_jobs];
    *job = (tn_job){
        .name = tn_arena_strdup(&c->arena, name, strlen(name)), .def = def, .part = part, .layer = layer};
    if (!job->name) return tn_convert_no_memory(c);
    tn_status s = read_dims(c, job, layer);
    if (s) return s;
    job->source = source;
    job->dtype = pick_dtype(c, job);
    job->by_element = (part->permute || part->rows) && (job->n_dims == 1 || is_bias(job->name));
    if (part->name && strstr(part->name, "{e}"))
        s = find_slices(c, job);
    else if (part->name)
        s = use(c, job, source);
    if (s) return s;
    tn_gguf_add_tensor(c->writer, job->name, job->dtype, job->n_dims, job->dims);
    uint64_t n = 1;
    for (uint32_t d = 0; d < job->n_dims; d++) n *= job->dims[d];
    c->n_params += n;
    c->n_jobs++;
    return TN_OK;
}

/* Whether the part is meant for this checkpoint, and if it has a source, which. */
static tn_status consider(const tn_converter *c, const tn_hf_part *part, uint32_t layer, bool *usable,
                          tn_source **source) {
    tn_place at = {.layer = layer};
    double value = 1;
    bool found = true;
    if (part->when.n) {
        tn_status s = tn_convert_source(c, &at, &part->when, &value, &found);
        if (s) return s;
    }
    *usable = found && value != 0;
    *source = *usable && part->name ? find(c, part->name, layer, 0) : NULL;
    if (part->name && !*source) *usable = false;
    return TN_OK;
}

static tn_status plan(tn_converter *c, const tn_tensor_def *def, uint32_t layer) {
    for (size_t p = 0; p < def->n_hf; p++) {
        bool usable;
        tn_source *source;
        tn_status s = consider(c, &def->hf[p], layer, &usable, &source);
        if (s || usable) return s ? s : add_job(c, def, &def->hf[p], layer, source);
    }
    if (def->fallback >= 0 || def->optional) return TN_OK;
    char name[MAX_NAME];
    if (!def->n_hf)
        return TN_NOT_KNOWN(c, "the description of %s does not say where tensor '%s' comes from",
                            c->arch.name, def->id);
    expand(name, def->hf[0].name ? def->hf[0].name : def->id, layer, 0);
    return TN_BAD(c, "tensor '%s' is missing", name);
}

/* ---- What is left over ------------------------------------------------------------------------------------- */

/* "{i}" in a pattern stands for the layers behind the last: those that predict further tokens. */
static bool is_ignored(const tn_converter *c, tn_str name) {
    char pattern[MAX_NAME];
    for (size_t i = 0; i < c->arch.hf.n_ignore; i++)
        for (uint32_t layer = 0; layer < MAX_LAYERS_BEHIND; layer++) {
            expand(pattern, c->arch.hf.ignore[i], c->n_layers + layer, 0);
            if (tn_match(pattern, name.ptr, (size_t)name.len)) return true;
        }
    return false;
}

static tn_status check_unused(const tn_converter *c) {
    for (uint64_t i = 0; i < tn_checkpoint_n_tensors(c->checkpoint); i++)
        if (!c->sources[i].used && !is_ignored(c, c->sources[i].name))
            return TN_NOT_KNOWN(c, "tensor '%s' has no place in the description of %s",
                                tn_show(c->sources[i].tensor->name).text, c->arch.name);
    return TN_OK;
}

tn_status tn_convert_plan_tensors(tn_converter *c) {
    size_t most = 0;
    for (size_t d = 0; d < c->arch.n_tensors; d++) most += c->arch.tensors[d].per_layer ? c->n_layers : 1;
    tn_status s = index_sources(c);
    if (s || (s = tn_scales_check(c)) || (s = tn_mxfp4_find(c))) return s;
    if (!(c->jobs = tn_arena_alloc(&c->arena, most, sizeof *c->jobs))) return tn_convert_no_memory(c);
    for (uint32_t layer = 0; layer <= c->n_layers; layer++) { /* first those outside of layers */
        for (size_t d = 0; d < c->arch.n_tensors; d++) {
            const tn_tensor_def *def = &c->arch.tensors[d];
            if (!def->name || def->per_layer != (layer > 0)) continue;
            if ((s = plan(c, def, layer ? layer - 1 : 0))) return s;
        }
    }
    return check_unused(c);
}
