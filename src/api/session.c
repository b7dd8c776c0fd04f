/* Sessions: options, memory, evaluation. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/machine.h"
#include "../base/memory.h"
#include "api.h"

_Static_assert((int)TERN_KV_F16 == (int)TN_KV_F16 && (int)TERN_KV_Q8_0 == (int)TN_KV_Q8_0,
               "cache types agree");

void tern_session_options_defaults(tern_session_options *o) {
    *o = (tern_session_options){.size = sizeof *o, .n_batch = 512, .n_outputs = 1, .kv = TERN_KV_F16};
}

uint32_t tn_api_threads(uint32_t asked) {
    tn_cpu_counts cpus;
    tn_cpu_counts_get(&cpus);
    if (!asked) return (uint32_t)tn_default_threads(&cpus);
    return asked < (uint32_t)cpus.n_allowed ? asked : (uint32_t)cpus.n_allowed;
}

/* What a session computes: with which configuration, and which of the model's graphs. */
typedef struct session_plan {
    const tn_graph *graph;
    tn_session_config config;
} session_plan;

static tn_status session_config(const tern_model *model, const tern_session_options *options,
                                session_plan *out, tn_error *e) {
    tn_session_config *c = &out->config;
    tern_session_options o;
    tern_session_options_defaults(&o);
    tn_status status = tn_api_options(&o, sizeof o, options, e);
    const tn_hparams *h = &model->m->hparams;
    tn_allocator allocator;
    if (!status) status = tn_api_allocator(&o.allocator, &allocator, e);
    if (status) return status;
    if (!h->n_layers)
        return tn_fail(e, TN_ERR_ARG, "cannot make a session", tn_file_path(model->m->file),
                       "the model was not opened whole");
    const uint32_t n_ctx = o.n_ctx ? o.n_ctx : h->n_ctx_train < 4096 ? h->n_ctx_train : 4096;
    if (n_ctx > (1u << 30) || o.n_threads > 1024 || !o.n_batch || o.n_batch > 65536 || !o.n_outputs ||
        o.n_outputs > o.n_batch || o.kv > TERN_KV_Q8_0)
        return tn_fail(e, TN_ERR_ARG, "cannot make a session", tn_file_path(model->m->file),
                       "options out of range: context %u of at most 2^30, batch %u of 1 to 65536, outputs %u "
                       "of 1 to the batch, threads %u of "
                       "at most 1024",
                       n_ctx, o.n_batch, o.n_outputs, o.n_threads);
    *c = (tn_session_config){.n_ctx = n_ctx,
                             .n_batch = o.n_batch < n_ctx ? o.n_batch : n_ctx,
                             .n_outputs = o.n_outputs,
                             .n_threads = tn_api_threads(o.n_threads),
                             .n_vocab = h->n_vocab,
                             .kv = (tn_kv_type)o.kv,
                             .pin = o.pin,
                             .parallel = {o.parallel, o.parallel_user},
                             .allocator = allocator.alloc ? allocator : model->allocator,
                             .progress = o.progress,
                             .user = o.user};
    if (c->n_outputs > c->n_batch) c->n_outputs = c->n_batch;
    const bool embeddings = o.embeddings || model->m->encoder;
    out->graph = embeddings ? &model->m->embedding_graph : &model->m->graph;
    if (embeddings) c->n_outputs = out->graph->whole ? c->n_ctx : c->n_batch;
    return TN_OK;
}

/* The largest context whose cache, beside the rest, fits the memory available: bit by bit from the highest. */
static tn_status measure(const tern_model *model, const session_plan *plan, tern_memory *out, tn_error *e) {
    const tn_session_config *c = &plan->config;
    tn_session_sizes sizes;
    tn_status s = tn_session_measure(plan->graph, c, &sizes, e);
    if (s) return s;
    *out = (tern_memory){.weights_bytes = tn_file_bytes(model->m->file),
                         .kv_bytes = sizes.kv_bytes,
                         .scratch_bytes = sizes.scratch_bytes};
    const uint64_t available = tn_memory_available();
    tn_session_config probe = *c;
    uint32_t fits = 0;
    for (uint32_t step = 1u << 30; step >= 64; step /= 2) {
        probe.n_ctx = fits + step;
        if (probe.n_ctx > model->m->hparams.n_ctx_train && probe.n_ctx > c->n_ctx) continue;
        if (tn_session_measure(plan->graph, &probe, &sizes, NULL)) continue;
        if (sizes.kv_bytes + sizes.scratch_bytes + out->weights_bytes <= available) fits = probe.n_ctx;
    }
    out->n_ctx_fits = fits;
    return TN_OK;
}

tern_status tern_session_memory(const tern_model *model, const tern_session_options *options,
                                tern_memory *memory, tern_error *err) {
    if (!model || !memory) return tn_api_null(err, __func__);
    tn_error e = {0};
    session_plan plan;
    *memory = (tern_memory){0};
    tn_status s = session_config(model, options, &plan, &e);
    if (!s) s = measure(model, &plan, memory, &e);
    return tn_api_give(err, s, &e);
}

static tn_status check_memory(const tern_model *model, const session_plan *plan, tn_error *e) {
    tn_session_sizes sizes;
    tn_status s = tn_session_measure(plan->graph, &plan->config, &sizes, e);
    const uint64_t weights = tn_file_bytes(model->m->file), available = tn_memory_available();
    if (s || weights + sizes.kv_bytes + sizes.scratch_bytes <= available) return s;
    tern_memory memory;
    if ((s = measure(model, plan, &memory, e))) return s;
    return tn_fail(e, TN_ERR_MEMORY, "not enough memory", tn_file_path(model->m->file),
                   "weights %" PRIu64 " MiB, cache of %u positions %" PRIu64 " MiB, scratch %" PRIu64
                   " MiB, available %" PRIu64 " MiB; a context of %u would fit",
                   weights >> 20, plan->config.n_ctx, sizes.kv_bytes >> 20, sizes.scratch_bytes >> 20,
                   available >> 20, memory.n_ctx_fits);
}

tern_status tern_session_new(const tern_model *model, const tern_session_options *options, tern_session **out,
                             tern_error *err) {
    if (out) *out = NULL;
    if (!model || !out) return tn_api_null(err, __func__);
    tn_error e = {0};
    session_plan plan;
    tern_session *session = calloc(1, sizeof *session);
    if (!session)
        return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot make a session", NULL, "out of memory"),
                           &e);
    session->model = model;
    tn_status s;
    if ((s = session_config(model, options, &plan, &e)) || (s = check_memory(model, &plan, &e)) ||
        (s = tn_session_new(plan.graph, &plan.config, &session->s, &e))) {
        free(session);
        return tn_api_give(err, s, &e);
    }
    session->graph = plan.graph;
    *out = session;
    return TERN_OK;
}

tern_status tern_session_fork(const tern_session *session, tern_session **out, tern_error *err) {
    if (out) *out = NULL;
    if (!session || !out) return tn_api_null(err, __func__);
    tn_error e = {0};
    tern_session *fork = malloc(sizeof *fork);
    if (!fork)
        return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot fork the session", NULL, "out of memory"),
                           &e);
    *fork = *session;
    const tn_status s = tn_session_fork(session->s, &fork->s, &e);
    if (s)
        free(fork);
    else
        *out = fork;
    return tn_api_give(err, s, &e);
}

void tern_session_free(tern_session *session) {
    if (!session) return;
    tn_session_free(session->s);
    free(session);
}

void tern_session_info_get(const tern_session *session, tern_session_info *info) {
    const tn_session_config *config = tn_session_config_of(session->s);
    *info = (tern_session_info){.n_ctx = config->n_ctx,
                                .position = tn_session_position(session->s),
                                .tokens = tn_session_tokens(session->s),
                                .n_threads = config->n_threads,
                                .n_barriers = tn_session_n_barriers(session->s),
                                .isa = tn_session_isa(session->s)};
}

/* Where the numbers are at fault, the file is: name it. */
static tern_status give_computed(const tern_session *session, tern_error *err, tn_status s, tn_error *e) {
    tn_error named = {0};
    s = tn_api_computed(session->model, s, e);
    if (s != TN_ERR_NUMERIC) return tn_api_give(err, s, e);
    const char *why = strrchr(e->message, ':');
    return tn_api_give(err,
                       tn_fail(&named, s, "cannot compute", tn_file_path(session->model->m->file), "%s",
                               why ? why + 2 : e->message),
                       &named);
}

tern_status tern_session_eval(tern_session *session, const int32_t *ids, size_t n, uint32_t n_outputs,
                              tern_error *err) {
    if (!session || !ids) return tn_api_null(err, __func__);
    tn_error e = {0};
    return give_computed(session, err, tn_session_eval(session->s, ids, n, n_outputs, &e), &e);
}

tern_status tern_session_sync(tern_session *session, const int32_t *ids, size_t n, uint32_t n_outputs,
                              uint32_t *reused, tern_error *err) {
    if (!session || !ids) return tn_api_null(err, __func__);
    tn_error e = {0};
    uint32_t kept;
    const tn_status s = tn_session_sync(session->s, ids, n, n_outputs, &kept, &e);
    if (reused) *reused = kept;
    return give_computed(session, err, s, &e);
}

void tern_session_cancel(tern_session *session) {
    if (session) tn_session_cancel(session->s, true);
}
void tern_session_resume(tern_session *session) {
    if (session) tn_session_cancel(session->s, false);
}

const float *tern_session_row(const tern_session *session, uint32_t i, uint32_t *width) {
    if (width) *width = tn_session_row_width(session->s);
    return tn_session_logits(session->s, i);
}

tern_status tern_session_truncate(tern_session *session, uint32_t position, uint32_t *kept, tern_error *err) {
    if (kept) *kept = 0;
    if (!session || !kept) return tn_api_null(err, __func__);
    tn_error e = {0};
    *kept = tn_session_position(session->s);
    if (position > *kept)
        return tn_api_give(err,
                           tn_fail(&e, TN_ERR_ARG, "cannot truncate", NULL, "position %u is past the end, %u",
                                   position, *kept),
                           &e);
    *kept = tn_session_truncate(session->s, position);
    return TERN_OK;
}
