#include "quantize_auto.h"

#include <stdlib.h>

#include "../base/hash.h"
#include "../quality/divergence.h"

#define WHAT "cannot quantize"

/* The second half of each chunk counts: 256 positions tell types apart, and take a second or so of a small model. */
enum { CHUNK_TOKENS = 128, MAX_CHUNKS = 4 };

typedef struct chunks {
    int32_t *ids;
    uint32_t n;
    uint64_t model; /* tn_model_identity */
} chunks;

static tn_status read_chunks(const tern_quantize_options *o, const char *path, chunks *out, tn_error *err) {
    tern_model *model;
    tern_error e;
    size_t n_ids = 0;
    const tern_model_options options = {.size = sizeof options, .level = TERN_OPEN_VOCAB};
    tern_status s = tern_model_open(path, &options, &model, &e);
    if (s == TERN_OK) {
        out->model = tn_model_identity(model->m);
        s = tern_tokenize_chunks(model, o->text, o->n_text, CHUNK_TOKENS, &out->ids, &n_ids, &e);
    }
    tern_model_close(model);
    if (s != TERN_OK) {
        memcpy(err, &e, sizeof *err);
        return (tn_status)s;
    }
    const size_t whole = n_ids / CHUNK_TOKENS;
    if (!whole)
        return tn_fail(err, TN_ERR_ARG, WHAT, path, "expected a text of at least %d tokens", CHUNK_TOKENS);
    out->n = whole < MAX_CHUNKS ? (uint32_t)whole : MAX_CHUNKS;
    for (uint32_t i = 1; i < out->n; i++) /* spread over the text */
        memmove(out->ids + (size_t)i * CHUNK_TOKENS, out->ids + (whole - 1) * i / (out->n - 1) * CHUNK_TOKENS,
                CHUNK_TOKENS * sizeof *out->ids);
    return TN_OK;
}

/* What a measurement depends on beside tensors and types. */
static tn_status identify(const chunks *text, const tn_auto_request *r, uint64_t *out, tn_error *err) {
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add_u64(&hash, text->model);
    tn_hash_add(&hash, text->ids, (size_t)text->n * CHUNK_TOKENS * sizeof *text->ids);
    for (uint64_t i = 0; r->imatrix && i < tn_file_n_tensors(r->file); i++) {
        const tn_tensor *t = tn_file_tensor_at(r->file, i);
        const uint64_t n_matrices = t->dims[2] * t->dims[3];
        const float *weights;
        const tn_status s = tn_imatrix_find(r->imatrix, t->cname, t->dims[0], n_matrices, &weights, err);
        if (s != TN_OK) return s;
        if (weights) tn_hash_add(&hash, weights, t->dims[0] * n_matrices * sizeof *weights);
    }
    *out = tn_hash_value(&hash);
    return TN_OK;
}

/* ---- Measurements ---- */

typedef struct measuring {
    const tern_quantize_options *o;
    tn_divergence *divergence;
    uint64_t done, total; /* as last told; total 0: the model itself is evaluated */
} measuring;

static bool show(void *user, uint64_t done, uint64_t total) {
    measuring *m = user;
    m->done = done;
    m->total = total;
    return !m->o->measuring || m->o->measuring(m->o->user, done, total);
}

static bool goes_on(void *user) {
    const measuring *m = user;
    return show(user, m->done, m->total);
}

static tn_status measure(void *user, const tn_tensor *tensors, size_t n, double *out, tn_error *err) {
    return tn_divergence_measure(((measuring *)user)->divergence, tensors, n, out, err);
}

static void tell(const tern_quantize_options *o, const tn_auto_group *g) {
    tern_quantize_candidate candidates[TN_MAX_LADDER];
    for (uint32_t i = 0; i < g->n_candidates; i++) {
        const tn_candidate *c = &g->candidates[i];
        candidates[i] = (tern_quantize_candidate){tn_dtypes[c->type].name, c->n_bytes, c->divergence};
    }
    const tern_quantize_group told = {.pattern = g->pattern,
                                      .layered = g->layered,
                                      .first_layer = g->first_layer,
                                      .last_layer = g->last_layer,
                                      .n_tensors = g->n_tensors,
                                      .n_elements = g->n_elements,
                                      .candidates = candidates,
                                      .n_candidates = g->n_candidates,
                                      .chosen = g->chosen};
    o->group(o->user, &told);
}

static tn_status plan(const tern_quantize_options *o, const chunks *text, const tn_auto_request *request,
                      tn_arena *arena, tn_plan_item *items, tn_auto_result *out, tn_error *err) {
    measuring m = {.o = o};
    const tn_divergence_config config = {.path = tn_file_path(request->file),
                                         .ids = text->ids,
                                         .n_ctx = CHUNK_TOKENS,
                                         .n_chunks = text->n,
                                         .n_threads = request->n_threads,
                                         .goes_on = goes_on,
                                         .user = &m};
    tn_auto_request whole = *request;
    whole.measure = measure;
    whole.progress = show;
    whole.user = &m;
    tn_status s = identify(text, request, &whole.identity, err);
    if (s == TN_OK && o->measures) s = tn_measures_open(o->measures, &whole.measures, err);
    if (s == TN_OK) s = tn_divergence_new(&config, &m.divergence, err);
    if (s == TN_OK) s = tn_plan_auto(&whole, arena, items, out, err);
    tn_divergence_free(m.divergence);
    tn_measures_close(whole.measures);
    for (uint32_t i = 0; s == TN_OK && o->group && i < out->n_groups; i++) tell(o, &out->groups[i]);
    return s;
}

tn_status tn_api_plan_auto(const tern_quantize_options *o, const tn_auto_request *request, tn_arena *arena,
                           tn_plan_item *items, tn_auto_result *out, tn_error *err) {
    const char *path = tn_file_path(request->file);
    if (!request->plan->recipe->n_ladder)
        return tn_fail(err, TN_ERR_ARG, WHAT, path, "a text without a target: there is nothing to choose");
    chunks text = {0};
    tn_status s = read_chunks(o, path, &text, err);
    if (s == TN_OK) s = plan(o, &text, request, arena, items, out, err);
    free(text.ids);
    return s;
}
