#include "quantize_auto.h"

#include <stdlib.h>

#include "../quality/divergence.h"

#define WHAT "cannot quantize"

/* The second half of each chunk counts: 256 positions tell types apart, and take a second or so of a small model. */
enum { CHUNK_TOKENS = 128, MAX_CHUNKS = 4, MIN_TOKENS = 16 };

typedef struct chunks {
    int32_t *ids;
    uint32_t n_ctx, n;
} chunks;

/* Chunks spread over the text, in place, each with BOS in front if the text has it there. */
static void spread(chunks *c, size_t n_ids, bool bos) {
    const int32_t first = c->ids[0];
    c->n_ctx = n_ids < CHUNK_TOKENS ? (uint32_t)n_ids : CHUNK_TOKENS;
    const size_t whole = n_ids / c->n_ctx;
    c->n = whole < MAX_CHUNKS ? (uint32_t)whole : MAX_CHUNKS;
    for (uint32_t i = 1; i < c->n; i++) {
        int32_t *to = c->ids + (size_t)i * c->n_ctx;
        const size_t from = (n_ids - c->n_ctx) / (c->n - 1) * i;
        memmove(to, c->ids + from, c->n_ctx * sizeof *to);
        if (bos) to[0] = first;
    }
}

static tn_status read_chunks(const tern_quantize_options *o, const char *path, chunks *out, tn_error *err) {
    tern_model *model;
    tern_error e;
    size_t n_ids;
    const tern_model_options options = {.size = sizeof options, .level = TERN_OPEN_VOCAB};
    tern_status s = tern_model_open(path, &options, &model, &e);
    if (s == TERN_OK) s = tern_tokenize(model, o->text, o->n_text, TERN_TOKENIZE_BOS, &out->ids, &n_ids, &e);
    const int32_t bos = s == TERN_OK ? tn_tokenizer_bos(model->tok) : -1;
    tern_model_close(model);
    if (s != TERN_OK) {
        memcpy(err, &e, sizeof *err);
        return (tn_status)s;
    }
    if (n_ids < MIN_TOKENS)
        return tn_fail(err, TN_ERR_ARG, WHAT, path, "expected a text of at least %d tokens, found %zu",
                       MIN_TOKENS, n_ids);
    spread(out, n_ids, out->ids[0] == bos);
    return TN_OK;
}

static tn_status measure(void *user, const tn_tensor *tensors, size_t n, double *out, tn_error *err) {
    return tn_divergence_measure(user, tensors, n, out, err);
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
    const tn_divergence_config config = {.path = tn_file_path(request->file),
                                         .ids = text->ids,
                                         .n_ctx = text->n_ctx,
                                         .n_chunks = text->n,
                                         .n_threads = request->n_threads};
    tn_divergence *divergence;
    tn_status s = tn_divergence_new(&config, &divergence, err);
    if (s != TN_OK) return s;
    tn_auto_request whole = *request;
    whole.measure = measure;
    whole.user = divergence;
    s = tn_plan_auto(&whole, arena, items, out, err);
    tn_divergence_free(divergence);
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
