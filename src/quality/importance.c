#include "importance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../formats/gguf_writer.h"
#include "../base/checked.h"
#include "../exec/run.h"
#include "../session/session.h"

#define WHAT "cannot measure importances"

/* One tensor: n_matrices of n_columns. */
typedef struct entry {
    const tn_tensor *tensor;
    uint32_t n_columns, n_matrices;
    double *sums;     /* [matrix][column] */
    uint64_t *counts; /* [matrix] */
} entry;

typedef struct collector {
    const tn_model *model;
    const tn_graph *graph;
    tn_arena arena;
    entry *entries;
    size_t n_entries;
    int32_t *entry_of; /* of an operation; -1: none */
    uint32_t *places;  /* [thread][max_matrices]: next row of each expert */
    uint32_t max_matrices;
} collector;

static tn_status no_memory(const collector *c, tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, WHAT, tn_file_path(c->model->file), "out of memory");
}

/* ---- Which operations multiply by which tensors ---- */

static const tn_weight *weight_of(const tn_op *op) {
    return op->kind == TN_OP_MATMUL ? &op->weight : op->kind == TN_OP_EXPERTS ? &op->experts.weight : NULL;
}

/* A tensor of a layer that begins with the matrix: of one that is cut into several (Q, K, V) the first part counts. */
static const tn_tensor *tensor_of(const collector *c, const tn_weight *w) {
    const tn_file *file = c->model->file;
    for (uint64_t i = 0; w && i < tn_file_n_tensors(file); i++) {
        const tn_tensor *t = tn_file_tensor_at(file, i);
        if (t->data == w->data && t->dims[0] == w->k && strncmp(t->cname, "blk.", 4) == 0) return t;
    }
    return NULL;
}

static bool add_entry(collector *c, const tn_tensor *t) {
    entry *e = &c->entries[c->n_entries++];
    const uint64_t n_matrices = t->dims[2] * t->dims[3]; /* of a matrix that the graph took: small */
    *e = (entry){.tensor = t, .n_columns = (uint32_t)t->dims[0], .n_matrices = (uint32_t)n_matrices};
    uint64_t n;
    if (!tn_mul_u64(e->n_columns, n_matrices, &n)) return false;
    e->sums = tn_arena_alloc(&c->arena, n, sizeof *e->sums);
    e->counts = tn_arena_alloc(&c->arena, n_matrices, sizeof *e->counts);
    if (e->n_matrices > c->max_matrices) c->max_matrices = e->n_matrices;
    return e->sums && e->counts;
}

static tn_status prepare(collector *c, uint32_t n_threads, tn_error *err) {
    const size_t n_ops = (size_t)c->graph->n_ops;
    c->entries = tn_arena_alloc(&c->arena, n_ops, sizeof *c->entries);
    c->entry_of = tn_arena_alloc(&c->arena, n_ops, sizeof *c->entry_of);
    if (!c->entries || !c->entry_of) return no_memory(c, err);
    for (size_t i = 0; i < n_ops; i++) {
        const tn_tensor *t = tensor_of(c, weight_of(&c->graph->ops[i]));
        size_t e = 0;
        c->entry_of[i] = -1;
        if (!t) continue;
        while (e < c->n_entries && c->entries[e].tensor != t) e++;
        if (e == c->n_entries && !add_entry(c, t)) return no_memory(c, err);
        c->entry_of[i] = (int32_t)e;
    }
    c->places = tn_arena_alloc(&c->arena, (size_t)n_threads * c->max_matrices, sizeof *c->places);
    if (c->n_entries == 0)
        return tn_fail(err, TN_ERR_UNSUPPORTED, WHAT, tn_file_path(c->model->file),
                       "the model has no matrices in its layers");
    return c->places ? TN_OK : no_memory(c, err);
}

/* ---- Sums ---- */

/* The value before it was quantized. */
static tn_value_id unquantized(const tn_graph *g, tn_value_id id) {
    const tn_op *op = &g->ops[g->values[id].producer];
    return op->kind == TN_OP_QUANTIZE ? op->in[0] : id;
}

/* Each thread adds up columns of its own, so that a sum has one order. */
static void add_row(const tn_task *t, entry *e, uint32_t matrix, tn_value_id value, size_t row) {
    const float *x = (const float *)(const void *)tn_task_row(t, value, row);
    const tn_range columns = tn_split(e->n_columns, 16, t->thread, t->run->plan->limits.n_threads);
    double *sums = e->sums + (size_t)matrix * e->n_columns;
    for (size_t i = columns.begin; i < columns.end; i++) sums[i] += (double)x[i] * (double)x[i];
    if (t->thread == 0) e->counts[matrix]++;
}

/* The rows of a step in order, each for the experts it uses. What the experts read is either one row for all of a row's experts, or
 * (what they made before) one each, sorted by expert, then by row. */
static void add_expert_rows(const collector *c, const tn_task *t, entry *e) {
    const tn_graph *g = c->graph;
    const tn_op *dispatch = &g->ops[g->values[t->op->in[0]].producer];
    const bool shared = dispatch->kind == TN_OP_DISPATCH;
    const tn_value_id value = unquantized(g, shared ? dispatch->in[0] : t->op->in[0]);
    const uint32_t n_used = g->values[t->op->in[1]].width / 2;
    uint32_t *place = c->places + (size_t)t->thread * c->max_matrices, first = 0;
    memset(place, 0, e->n_matrices * sizeof *place);
    for (size_t row = 0; row < t->n_rows; row++) {
        const int32_t *expert = (const int32_t *)(const void *)tn_task_row(t, t->op->in[1], row);
        for (uint32_t i = 0; i < n_used; i++) place[expert[i]]++;
    }
    for (uint32_t x = 0; x < e->n_matrices; x++) {
        const uint32_t n = place[x];
        place[x] = first;
        first += n;
    }
    for (size_t row = 0; row < t->n_rows; row++) {
        const int32_t *expert = (const int32_t *)(const void *)tn_task_row(t, t->op->in[1], row);
        for (uint32_t i = 0; i < n_used; i++)
            add_row(t, e, (uint32_t)expert[i], value, shared ? row : place[expert[i]]++);
    }
}

static void observe(void *user, const tn_task *t) {
    const collector *c = user;
    const int32_t at = c->entry_of[t->op - c->graph->ops];
    if (at < 0) return;
    if (t->op->kind == TN_OP_EXPERTS) {
        add_expert_rows(c, t, &c->entries[at]);
        return;
    }
    const tn_value_id value = unquantized(c->graph, t->op->in[0]);
    for (size_t row = 0; row < t->n_rows; row++) add_row(t, &c->entries[at], 0, value, row);
}

static tn_status evaluate(collector *c, const tn_importance_config *config, tn_error *err) {
    const tn_observer observer = {observe, c};
    const tn_session_config session_config = {.n_ctx = config->n_ctx,
                                              .n_batch = config->n_batch,
                                              .n_outputs = config->n_batch,
                                              .n_threads = config->n_threads,
                                              .n_vocab = c->model->hparams.n_vocab,
                                              .kv = TN_KV_F16,
                                              .observer = &observer,
                                              .file = c->model->file};
    tn_session *session;
    tn_status s = tn_session_new(c->graph, &session_config, &session, err);
    for (uint32_t chunk = 0; s == TN_OK && chunk < config->n_chunks; chunk++) {
        const int32_t *ids = config->ids + (size_t)chunk * config->n_ctx;
        tn_session_truncate(session, 0);
        for (uint32_t at = 0; s == TN_OK && at < config->n_ctx; at += config->n_batch) {
            const uint32_t left = config->n_ctx - at, n = left < config->n_batch ? left : config->n_batch;
            s = tn_session_eval(session, ids + at, n, n, err);
        }
        if (s == TN_OK && config->progress && !config->progress(config->user, chunk + 1, config->n_chunks))
            s = tn_fail(err, TN_ERR_CANCELLED, "cancelled", NULL, "after %u of %u chunks", chunk + 1,
                        config->n_chunks);
    }
    tn_session_free(session);
    return s;
}

/* ---- The file ---- */

static void add_tensor(tn_gguf_writer *w, const char *name, const char *suffix, uint64_t columns,
                       uint64_t rows) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    tn_gguf_add_tensor(w, full, TN_DTYPE_F32, 2, (uint64_t[]){columns, rows});
}

static void describe(const collector *c, const tn_importance_config *config, tn_gguf_writer *w) {
    const tn_str dataset = {config->dataset, strlen(config->dataset)};
    tn_gguf_set_text(w, "general.type", "imatrix", strlen("imatrix"));
    tn_gguf_set_texts(w, "imatrix.datasets", &dataset, 1);
    tn_gguf_set_u32(w, "imatrix.chunk_count", config->n_chunks);
    tn_gguf_set_u32(w, "imatrix.chunk_size", config->n_ctx);
    for (size_t i = 0; i < c->n_entries; i++) {
        const entry *e = &c->entries[i];
        add_tensor(w, e->tensor->cname, ".in_sum2", e->n_columns, e->n_matrices);
        add_tensor(w, e->tensor->cname, ".counts", 1, e->n_matrices);
    }
}

static tn_status write_entry(const collector *c, const entry *e, tn_gguf_writer *w, tn_error *err) {
    const size_t n = (size_t)e->n_columns * e->n_matrices;
    for (size_t i = 0; i < n; i++) {
        const float sum = (float)e->sums[i];
        if (!isfinite(sum))
            return tn_fail(err, TN_ERR_NUMERIC, WHAT, tn_file_path(c->model->file),
                           "what tensor '%.80s' is multiplied by is not finite", e->tensor->cname);
        memcpy((uint8_t *)e->sums + i * sizeof sum, &sum, sizeof sum); /* in place of what has been read */
    }
    tn_status s = tn_gguf_write(w, e->sums, n * sizeof(float), err);
    for (uint32_t i = 0; s == TN_OK && i < e->n_matrices; i++) {
        const float count = (float)e->counts[i];
        s = tn_gguf_write(w, &count, sizeof count, err);
    }
    return s;
}

static tn_status write_file(const collector *c, const tn_importance_config *config, const char *out,
                            tn_error *err) {
    tn_gguf_writer *w = tn_gguf_writer_new(out);
    if (!w) return no_memory(c, err);
    describe(c, config, w);
    tn_status s = tn_gguf_begin(w, c->model->file, err);
    for (size_t i = 0; s == TN_OK && i < c->n_entries; i++) s = write_entry(c, &c->entries[i], w, err);
    if (s == TN_OK) return tn_gguf_commit(w, err);
    tn_gguf_abort(w);
    return s;
}

tn_status tn_importance_write(const tn_model *model, const tn_importance_config *config, const char *out,
                              tn_error *err) {
    collector c = {.model = model, .graph = &model->embedding_graph};
    tn_status s = prepare(&c, config->n_threads, err);
    if (s == TN_OK) s = evaluate(&c, config, err);
    if (s == TN_OK) s = write_file(&c, config, out, err);
    tn_arena_free(&c.arena);
    return s;
}
