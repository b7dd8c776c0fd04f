/* tern.h over the layers below. Errors are copied from the internal type; the two agree member for member. */
#include "tern.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/machine.h"
#include "base/memory.h"
#include "exec/measure.h"
#include "graph/describe.h"
#include "model/model.h"
#include "session/generator.h"
#include "session/session.h"
#include "text/tokenizer.h"

_Static_assert((int)TERN_ERR_CANCELLED == (int)TN_ERR_CANCELLED, "status codes agree");
_Static_assert(sizeof(tern_error) == sizeof(tn_error), "errors agree");
_Static_assert((int)TERN_OPEN_METADATA == (int)TN_OPEN_METADATA, "levels agree");
_Static_assert((int)TERN_KV_F16 == (int)TN_KV_F16 && (int)TERN_KV_Q8_0 == (int)TN_KV_Q8_0,
               "cache types agree");
_Static_assert((int)TERN_STOP_FULL == (int)TN_STOP_FULL, "stop reasons agree");
_Static_assert((int)TERN_TOKENIZE_SPECIAL == (int)TN_TOKENIZE_SPECIAL, "flags agree");

struct tern_model {
    tn_model *m;
    tn_tokenizer *tok; /* NULL without a vocabulary */
    char tokenizer_name[96], name[160];
};

struct tern_session {
    const tern_model *model;
    tn_session *s;
};

struct tern_generator {
    tn_generator *g;
};

static tern_status give(tern_error *err, tn_status status, const tn_error *e) {
    if (err && status) memcpy(err, e, sizeof *err);
    return (tern_status)status;
}

/* A caller's options over the defaults: as many bytes as the caller's version of the struct has. */
static void merge(void *dst, size_t size, const void *options) {
    size_t given = 0;
    if (!options) return;
    memcpy(&given, options, sizeof given);
    memcpy(dst, options, given < size ? given : size);
}

const char *tern_version(void) {
#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)
    return TEXT(TERN_VERSION_MAJOR) "." TEXT(TERN_VERSION_MINOR) "." TEXT(TERN_VERSION_PATCH);
}

size_t tern_escape(char *dst, size_t cap, const char *text, size_t n) {
    return tn_escape(dst, cap, text, n);
}

void tern_free(void *memory) {
    free(memory);
}

/* ---- Model ------------------------------------------------------------------------------------------------------- */

void tern_model_options_defaults(tern_model_options *o) {
    *o = (tern_model_options){.size = sizeof *o};
}

static tn_status open_tokenizer(tern_model *model, const char *pre, tn_error *err) {
    const tn_vocab_source *v = &model->m->vocab;
    if (v->n_tokens == 0) return TN_OK;
    snprintf(model->tokenizer_name, sizeof model->tokenizer_name, "%.31s%s%.60s", v->model,
             pre || v->pre ? "/" : "",
             pre      ? pre
             : v->pre ? v->pre
                      : "");
    tn_error e;
    tn_status s = tn_tokenizer_new(v, pre, &model->tok, &e);
    return s ? tn_fail(err, s, "cannot open model", tn_file_path(model->m->file), "%s", e.message) : TN_OK;
}

static void copy_name(tern_model *model) {
    tn_str name;
    const tn_meta *meta = tn_file_meta(model->m->file, "general.name");
    if (meta && tn_meta_str(meta, 0, &name)) tn_escape(model->name, sizeof model->name, name.ptr, name.len);
}

tern_status tern_model_open(const char *path, const tern_model_options *options, tern_model **out,
                            tern_error *err) {
    tern_model_options o;
    tn_error e = {0};
    tern_model_options_defaults(&o);
    merge(&o, sizeof o, options);
    *out = NULL;
    tern_model *model = calloc(1, sizeof *model);
    if (!model) return give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot open model", path, "out of memory"), &e);
    const tn_model_options inner = {(tn_open_level)o.level, o.arch_file, o.warn, o.user};
    tn_status s = tn_model_open(path, &inner, &model->m, &e);
    if (!s && o.level != TERN_OPEN_METADATA) s = open_tokenizer(model, o.pre_tokenizer, &e);
    if (!s && o.level == TERN_OPEN_VOCAB && !model->tok)
        s = tn_fail(&e, TN_ERR_FORMAT, "cannot open model", path,
                    "the file has no vocabulary (key 'tokenizer.ggml.model')");
    if (s) {
        tern_model_close(model);
        return give(err, s, &e);
    }
    copy_name(model);
    *out = model;
    return TERN_OK;
}

void tern_model_close(tern_model *model) {
    if (!model) return;
    tn_tokenizer_free(model->tok);
    tn_model_close(model->m);
    free(model);
}

static uint64_t count_params(const tn_file *file) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < tn_file_n_tensors(file); i++) {
        const tn_tensor *t = tn_file_tensor_at(file, i);
        n += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    return n;
}

void tern_model_info_get(const tern_model *model, tern_model_info *info) {
    const tn_model *m = model->m;
    *info = (tern_model_info){
        .path = tn_file_path(m->file),
        .format = tn_file_format(m->file),
        .architecture = m->arch_name,
        .name = model->name,
        .file_bytes = tn_file_bytes(m->file),
        .n_shards = tn_file_shards(m->file),
        .n_params = count_params(m->file),
        .n_vocab = m->hparams.n_vocab ? m->hparams.n_vocab : m->vocab.n_tokens,
        .n_ctx_train = m->hparams.n_ctx_train,
        .n_layers = m->hparams.n_layers,
        .n_embd = m->hparams.n_embd,
        .tokenizer = model->tokenizer_name,
    };
    for (int32_t i = 0; i < m->graph.n_ops; i++) {
        const tn_op *op = &m->graph.ops[i];
        if (op->kind != TN_OP_ATTENTION) continue;
        info->n_heads = op->attention.n_heads;
        info->n_kv_heads = op->attention.n_kv_heads;
        info->head_dim = op->attention.head_dim;
        return;
    }
}

uint64_t tern_model_n_metadata(const tern_model *model) {
    return tn_file_n_meta(model->m->file);
}

static size_t value_text(char *dst, size_t cap, const tn_meta *meta, uint64_t i) {
    tn_str text;
    bool flag;
    int64_t whole;
    uint64_t large;
    double number;
    if (tn_meta_str(meta, i, &text)) return tn_escape(dst, cap, text.ptr, text.len);
    int n = 0;
    if (tn_meta_bool(meta, i, &flag))
        n = snprintf(dst, cap, "%s", flag ? "true" : "false");
    else if (tn_meta_i64(meta, i, &whole))
        n = snprintf(dst, cap, "%" PRId64, whole);
    else if (tn_meta_u64(meta, i, &large))
        n = snprintf(dst, cap, "%" PRIu64, large);
    else if (tn_meta_f64(meta, i, &number))
        n = snprintf(dst, cap, "%.9g", number);
    return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

static void array_text(char *dst, size_t cap, const tn_meta *meta, uint64_t max_items) {
    size_t at = (size_t)snprintf(dst, cap, "[");
    for (uint64_t i = 0; i < meta->count && i < max_items && at + 8 < cap; i++) {
        if (i) at += (size_t)snprintf(dst + at, cap - at, ", ");
        at += value_text(dst + at, cap - at, meta, i);
    }
    if (at + 8 < cap) snprintf(dst + at, cap - at, meta->count > max_items ? ", ...]" : "]");
}

bool tern_model_metadata(const tern_model *model, uint64_t i, uint64_t max_items, char *key, size_t key_cap,
                         char *type, size_t type_cap, char *value, size_t value_cap) {
    if (i >= tn_file_n_meta(model->m->file)) return false;
    const tn_meta *meta = tn_file_meta_at(model->m->file, i);
    const bool array = meta->type == TN_META_ARRAY;
    tn_escape(key, key_cap, meta->key.ptr, meta->key.len);
    snprintf(type, type_cap, "%s%s", tn_meta_type_name(meta->elem_type), array ? "[]" : "");
    if (array) snprintf(type, type_cap, "%s[%" PRIu64 "]", tn_meta_type_name(meta->elem_type), meta->count);
    if (array)
        array_text(value, value_cap, meta, max_items);
    else
        value_text(value, value_cap, meta, 0);
    return true;
}

size_t tern_model_metadata_item(const tern_model *model, uint64_t i, uint64_t item, char *dst, size_t cap,
                                uint64_t *count) {
    const bool exists = i < tn_file_n_meta(model->m->file);
    const tn_meta *meta = exists ? tn_file_meta_at(model->m->file, i) : NULL;
    if (count) *count = exists ? meta->count : 0;
    if (!exists || item >= meta->count) return SIZE_MAX;
    tn_str text;
    char number[64];
    if (!tn_meta_str(meta, item, &text))
        text = (tn_str){number, value_text(number, sizeof number, meta, item)};
    if (cap) memcpy(dst, text.ptr, text.len < cap ? text.len : cap);
    return text.len;
}

uint64_t tern_model_n_tensors(const tern_model *model) {
    return tn_file_n_tensors(model->m->file);
}

bool tern_model_tensor(const tern_model *model, uint64_t i, tern_tensor_info *info) {
    if (i >= tn_file_n_tensors(model->m->file)) return false;
    const tn_tensor *t = tn_file_tensor_at(model->m->file, i);
    *info = (tern_tensor_info){.name = t->cname,
                               .type = tn_dtypes[t->dtype].name,
                               .n_dims = t->n_dims,
                               .dims = {t->dims[0], t->dims[1], t->dims[2], t->dims[3]},
                               .n_bytes = t->n_bytes,
                               .computable = tn_dtypes[t->dtype].act != TN_ACT_NONE};
    return true;
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

static tn_status need_tokenizer(const tern_model *model, tn_error *e) {
    if (model->tok) return TN_OK;
    return tn_fail(e, TN_ERR_UNSUPPORTED, "cannot handle text", tn_file_path(model->m->file),
                   "the model has no vocabulary");
}

tern_status tern_tokenize(const tern_model *model, const char *text, size_t n, unsigned flags, int32_t **ids,
                          size_t *n_ids, tern_error *err) {
    tn_error e = {0};
    *ids = NULL, *n_ids = 0;
    tn_status s = need_tokenizer(model, &e);
    if (!s) s = tn_tokenize(model->tok, text, n, flags, ids, n_ids, &e);
    return give(err, s, &e);
}

const char *tern_token_text(const tern_model *model, int32_t id, bool special, size_t *n) {
    *n = 0;
    return model->tok ? tn_token_bytes(model->tok, id, special, n) : "";
}

bool tern_token_is_end(const tern_model *model, int32_t id) {
    return model->tok && tn_token_is_end(model->tok, id);
}

/* ---- Session ----------------------------------------------------------------------------------------------------- */

void tern_session_options_defaults(tern_session_options *o) {
    *o = (tern_session_options){.size = sizeof *o, .n_batch = 512, .n_outputs = 1, .kv = TERN_KV_F16};
}

static tn_status session_config(const tern_model *model, const tern_session_options *options,
                                tn_session_config *c, tn_error *e) {
    tern_session_options o;
    tern_session_options_defaults(&o);
    merge(&o, sizeof o, options);
    const tn_hparams *h = &model->m->hparams;
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
                             .n_threads = o.n_threads ? o.n_threads : (uint32_t)tn_default_threads(),
                             .n_vocab = h->n_vocab,
                             .kv = (tn_kv_type)o.kv,
                             .progress = o.progress,
                             .user = o.user};
    if (c->n_outputs > c->n_batch) c->n_outputs = c->n_batch;
    return TN_OK;
}

/* The largest context whose cache, beside the rest, fits the memory available: bit by bit from the highest. */
static tn_status measure(const tern_model *model, const tn_session_config *c, tern_memory *out, tn_error *e) {
    tn_session_sizes sizes;
    tn_status s = tn_session_measure(&model->m->graph, c, &sizes, e);
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
        if (tn_session_measure(&model->m->graph, &probe, &sizes, NULL)) continue;
        if (sizes.kv_bytes + sizes.scratch_bytes + out->weights_bytes <= available) fits = probe.n_ctx;
    }
    out->n_ctx_fits = fits;
    return TN_OK;
}

tern_status tern_session_memory(const tern_model *model, const tern_session_options *options,
                                tern_memory *memory, tern_error *err) {
    tn_error e = {0};
    tn_session_config c;
    *memory = (tern_memory){0};
    tn_status s = session_config(model, options, &c, &e);
    if (!s) s = measure(model, &c, memory, &e);
    return give(err, s, &e);
}

static tn_status check_memory(const tern_model *model, const tn_session_config *c, tn_error *e) {
    tn_session_sizes sizes;
    tn_status s = tn_session_measure(&model->m->graph, c, &sizes, e);
    const uint64_t weights = tn_file_bytes(model->m->file), available = tn_memory_available();
    if (s || weights + sizes.kv_bytes + sizes.scratch_bytes <= available) return s;
    tern_memory memory;
    if ((s = measure(model, c, &memory, e))) return s;
    return tn_fail(e, TN_ERR_MEMORY, "not enough memory", tn_file_path(model->m->file),
                   "weights %" PRIu64 " MiB, cache of %u positions %" PRIu64 " MiB, scratch %" PRIu64
                   " MiB, available %" PRIu64 " MiB; a context of %u would fit",
                   weights >> 20, c->n_ctx, sizes.kv_bytes >> 20, sizes.scratch_bytes >> 20, available >> 20,
                   memory.n_ctx_fits);
}

tern_status tern_session_new(const tern_model *model, const tern_session_options *options, tern_session **out,
                             tern_error *err) {
    tn_error e = {0};
    tn_session_config c;
    *out = NULL;
    tern_session *session = calloc(1, sizeof *session);
    if (!session)
        return give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot make a session", NULL, "out of memory"), &e);
    session->model = model;
    tn_status s;
    if ((s = session_config(model, options, &c, &e)) || (s = check_memory(model, &c, &e)) ||
        (s = tn_session_new(&model->m->graph, &c, &session->s, &e))) {
        free(session);
        return give(err, s, &e);
    }
    *out = session;
    return TERN_OK;
}

void tern_session_free(tern_session *session) {
    if (!session) return;
    tn_session_free(session->s);
    free(session);
}

uint32_t tern_session_n_ctx(const tern_session *session) {
    return tn_session_config_of(session->s)->n_ctx;
}
uint32_t tern_session_n_threads(const tern_session *session) {
    return tn_session_config_of(session->s)->n_threads;
}
const char *tern_session_isa(const tern_session *session) {
    return tn_session_isa(session->s);
}
uint32_t tern_session_position(const tern_session *session) {
    return tn_session_position(session->s);
}

tern_status tern_session_eval(tern_session *session, const int32_t *ids, size_t n, uint32_t n_outputs,
                              tern_error *err) {
    tn_error e = {0}, named = {0};
    tn_status s = tn_session_eval(session->s, ids, n, n_outputs, &e);
    if (s != TN_ERR_NUMERIC) return give(err, s, &e);
    const char *why = strrchr(e.message, ':'); /* the file is at fault: name it */
    return give(err,
                tn_fail(&named, s, "cannot compute", tn_file_path(session->model->m->file), "%s",
                        why ? why + 2 : e.message),
                &named);
}

const float *tern_session_logits(const tern_session *session, uint32_t i) {
    return tn_session_logits(session->s, i);
}

tern_status tern_session_truncate(tern_session *session, uint32_t position, uint32_t *kept, tern_error *err) {
    tn_error e = {0};
    *kept = tn_session_position(session->s);
    if (position > *kept)
        return give(err,
                    tn_fail(&e, TN_ERR_ARG, "cannot truncate", NULL, "position %u is past the end, %u",
                            position, *kept),
                    &e);
    *kept = tn_session_truncate(session->s, position);
    return TERN_OK;
}

/* ---- Speed ------------------------------------------------------------------------------------------------------- */

bool tern_session_step(const tern_session *session, uint32_t i, tern_step_info *info) {
    const tn_graph *graph = &session->model->m->graph;
    const tn_dtype kv = tn_kv_dtype(tn_session_config_of(session->s)->kv);
    *info = (tern_step_info){0};
    if (i >= (uint32_t)graph->n_steps) return false;
    tn_step_summary step;
    tn_graph_describe_step(graph, (int32_t)i, &step);
    *info = (tern_step_info){.layer = step.layer,
                             .outputs_only = step.outputs_only,
                             .weight_bytes = step.weight_bytes,
                             .weight_macs = step.weight_macs,
                             .kv_bytes = tn_dtype_row_bytes(kv, step.kv_elements),
                             .kv_macs = step.kv_macs,
                             .window = step.window};
    memcpy(info->operations, step.text, sizeof info->operations);
    return true;
}

uint32_t tern_session_n_barriers(const tern_session *session) {
    return tn_session_n_barriers(session->s);
}

tern_status tern_machine_get(tern_machine *machine, tern_error *err) {
    tn_error e = {0};
    tn_machine m;
    memset(machine, 0, sizeof *machine);
    const tn_status s = tn_machine_get(&m, &e);
    if (s) return give(err, s, &e);
    memcpy(machine->cpu, m.cpu, sizeof machine->cpu);
    memcpy(machine->features, m.features, sizeof machine->features);
    memcpy(machine->isas, m.isas, sizeof machine->isas);
    snprintf(machine->isa, sizeof machine->isa, "%s", tn_isa_name(m.isa));
    machine->isa_forced = m.isa_forced;
    machine->n_cpus = (uint32_t)m.cpus.n_online;
    machine->n_allowed = (uint32_t)m.cpus.n_allowed;
    machine->n_cores = (uint32_t)m.cpus.n_cores;
    machine->quota_cpus = (uint32_t)m.cpus.quota;
    machine->n_threads = (uint32_t)m.default_threads;
    machine->memory_bytes = m.memory_bytes;
    machine->available_bytes = m.available_bytes;
    return TERN_OK;
}

tern_status tern_measure_machine(uint32_t n_threads, uint64_t buffer_bytes, double seconds,
                                 tern_machine_speed *speed, tern_error *err) {
    tn_error e = {0};
    tn_isa isa;
    tn_machine_speed m = {0};
    tn_status s = tn_isa_choose(&isa, &e);
    if (!s && (n_threads > 1024 || !(seconds > 0 && seconds <= 60)))
        s = tn_fail(&e, TN_ERR_ARG, "cannot measure the machine", NULL,
                    "%u threads of at most 1024, %g seconds of at most 60", n_threads, seconds);
    if (!s)
        s = tn_measure_machine(n_threads ? n_threads : (uint32_t)tn_default_threads(), buffer_bytes, isa,
                               seconds, &m, &e);
    *speed = (tern_machine_speed){m.buffer_bytes, m.read_bytes_per_s, m.macs_per_s};
    return give(err, s, &e);
}

/* ---- Generator --------------------------------------------------------------------------------------------------- */

void tern_sampling_defaults(tern_sampling *s) {
    *s = (tern_sampling){.size = sizeof *s,
                         .temperature = 0.8f,
                         .top_k = 40,
                         .top_p = 0.95f,
                         .min_p = 0.05f,
                         .repeat_penalty = 1.0f,
                         .repeat_last_n = 64};
}

void tern_generator_options_defaults(tern_generator_options *o) {
    *o = (tern_generator_options){.size = sizeof *o, .max_tokens = UINT64_MAX};
}

tern_status tern_generator_new(tern_session *session, const tern_generator_options *options,
                               const int32_t *prompt, size_t n_prompt, tern_generator **out,
                               tern_error *err) {
    tern_generator_options o;
    tern_sampling p;
    tn_error e = {0};
    tern_generator_options_defaults(&o);
    merge(&o, sizeof o, options);
    tern_sampling_defaults(&p);
    merge(&p, sizeof p, o.sampling);
    *out = NULL;
    tern_generator *generator = calloc(1, sizeof *generator);
    if (!generator)
        return give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot generate", NULL, "out of memory"), &e);
    const tn_generator_config c = {
        .sampling = {p.seed, p.temperature, p.top_k, p.top_p, p.min_p, p.repeat_penalty, p.repeat_last_n},
        .max_tokens = o.max_tokens,
        .stop = o.stop,
        .n_stop = o.n_stop,
        .ignore_end = o.ignore_end,
        .special = o.special};
    tn_status s = need_tokenizer(session->model, &e);
    if (!s) s = tn_generator_new(session->s, session->model->tok, &c, prompt, n_prompt, &generator->g, &e);
    if (s) {
        free(generator);
        return give(err, s, &e);
    }
    *out = generator;
    return TERN_OK;
}

void tern_generator_free(tern_generator *generator) {
    if (!generator) return;
    tn_generator_free(generator->g);
    free(generator);
}

tern_status tern_generator_next(tern_generator *generator, const char **text, size_t *n,
                                tern_stop_reason *stop, tern_error *err) {
    tn_error e = {0};
    tn_stop reason;
    tn_status s = tn_generator_next(generator->g, text, n, &reason, &e);
    *stop = (tern_stop_reason)reason;
    return give(err, s, &e);
}

uint64_t tern_generator_n_tokens(const tern_generator *generator) {
    return tn_generator_n_tokens(generator->g);
}
int32_t tern_generator_token(const tern_generator *generator) {
    return tn_generator_token(generator->g);
}
