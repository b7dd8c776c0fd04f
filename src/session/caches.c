#include "caches.h"

#include "../base/checked.h"

static uint64_t blocks_for(uint64_t n_positions) {
    return (n_positions + TN_ATTN_CHUNK - 1) / TN_ATTN_CHUNK;
}

/* Whether every head fills whole blocks of the cache's type. */
static tn_status check_heads(const tn_graph *graph, tn_kv_type kv, tn_error *err) {
    const tn_dtype_info *type = &tn_dtypes[tn_kv_dtype(kv)];
    for (uint32_t i = 0; i < graph->n_caches; i++)
        if (graph->caches[i].head_dim % type->block_elems)
            return tn_fail(
                err, TN_ERR_ARG, "cannot make the session", NULL,
                "a cache of %s needs heads of a multiple of %u elements, the model's have %u: use f16",
                type->name, (unsigned)type->block_elems, graph->caches[i].head_dim);
    return TN_OK;
}

/* Places a cache behind those before it in a block; false on overflow. */
static bool place(const tn_cache_shape *shape, const tn_session_config *c, uint64_t *block_bytes,
                  tn_kv *out) {
    const size_t row_bytes = tn_dtype_row_bytes(tn_kv_dtype(c->kv), shape->head_dim);
    const size_t part_bytes = row_bytes * TN_ATTN_CHUNK, head_bytes = (shape->latent ? 1 : 2) * part_bytes;
    uint64_t bytes;
    out->k = *block_bytes;
    out->v = *block_bytes + (shape->latent ? 0 : part_bytes);
    out->head_stride = head_bytes;
    out->pos_stride = row_bytes;
    return tn_mul_u64(head_bytes, shape->n_kv_heads, &bytes) &&
           tn_add_u64(*block_bytes, bytes, block_bytes) && *block_bytes < SIZE_MAX / 8;
}

tn_status tn_caches_plan(const tn_graph *graph, const tn_session_config *config, tn_arena *arena,
                         tn_caches *out, tn_error *err) {
    const tn_status status = check_heads(graph, config->kv, err);
    if (status) return status;
    *out = (tn_caches){.kv = tn_arena_alloc(arena, graph->n_caches, sizeof *out->kv)};
    if (!out->kv) return tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL, "out of memory");
    for (uint32_t i = 0; i < graph->n_caches; i++)
        if (graph->caches[i].window > out->window) out->window = graph->caches[i].window;
    const uint64_t n_all = blocks_for(config->n_ctx),
                   n_ring = blocks_for((uint64_t)out->window + config->n_batch + TN_RING_MARGIN);
    uint64_t block_bytes[TN_KV_KINDS] = {0}, bytes;
    bool fits = true;
    for (uint32_t i = 0; i < graph->n_caches; i++) {
        tn_kv *kv = &out->kv[i];
        kv->kind = graph->caches[i].window && n_ring < n_all ? TN_KV_RING : TN_KV_ALL;
        fits = fits && place(&graph->caches[i], config, &block_bytes[kv->kind], kv);
    }
    for (int kind = 0; kind < TN_KV_KINDS; kind++) {
        if (!block_bytes[kind]) continue;
        out->blocks[kind].n = (uint32_t)(kind == TN_KV_RING ? n_ring : n_all);
        out->blocks[kind].bytes = block_bytes[kind];
        fits = fits && tn_mul_u64(block_bytes[kind], out->blocks[kind].n, &bytes) && bytes < SIZE_MAX / 8 &&
               tn_add_u64(out->bytes, bytes, &out->bytes);
    }
    out->ring = out->blocks[TN_KV_RING].n * TN_ATTN_CHUNK;
    return fits ? TN_OK
                : tn_fail(err, TN_ERR_MEMORY, "cannot make the session", NULL,
                          "the sizes exceed the address space");
}
