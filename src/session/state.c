#include "state.h"

#include <string.h>

#include "../base/hash.h"
#include "session_impl.h"

enum { STATE_VERSION = 1 }; /* of the layout and of the numbers in it: docs/NUMERICS.md */

static const char magic[8] = "tern-kv\n";

typedef struct state_header {
    char magic[8];
    uint32_t version, kv;
    uint64_t model;
    uint32_t n_caches, position, oldest, zero;
    uint64_t body_bytes;
    uint64_t checksum; /* of what stands before it */
} state_header;

_Static_assert(sizeof(state_header) == 56, "the header has no padding");

static uint64_t header_checksum(const state_header *h) {
    tn_hash hash;
    tn_hash_start(&hash);
    tn_hash_add(&hash, h, offsetof(state_header, checksum));
    return tn_hash_value(&hash);
}

/* Heads of keys and of values; a latent cache has keys alone. */
static uint32_t n_parts(const tn_cache_shape *shape) {
    return shape->latent ? 1 : 2;
}

/* Bytes of tokens and cache rows, at most those of a cache that exists: the position is within the context. */
static uint64_t body_bytes(const tn_session *s, uint32_t position, uint32_t oldest) {
    uint64_t total = (uint64_t)position * sizeof(int32_t);
    for (uint32_t i = 0; i < s->graph->n_caches; i++) {
        const tn_cache_shape *shape = &s->graph->caches[i];
        const uint64_t n = position - (shape->window ? oldest : 0);
        total += n * n_parts(shape) * shape->n_kv_heads * s->program->caches.kv[i].pos_stride;
    }
    return total;
}

/* ---- One walk over the body, to write it or to read it ---------------------------------------------------------- */

typedef struct state_io {
    tn_state_write *write; /* or */
    tn_state_read *read;
    void *user;
    tn_hash hash;
} state_io;

static tn_status pass(state_io *io, void *bytes, size_t n, tn_error *err) {
    tn_status status = io->write ? io->write(io->user, bytes, n, err) : io->read(io->user, bytes, n, err);
    if (!status) tn_hash_add(&io->hash, bytes, n);
    return status;
}

/* Rows first..position - 1 of a head, `at` in each block. What a smaller ring than the saved one cannot hold is overwritten by what
 * follows. */
static tn_status pass_rows(state_io *io, const tn_blocks *blocks, const tn_kv *kv, size_t at, uint32_t first,
                           uint32_t position, tn_error *err) {
    for (uint32_t p = first; p < position;) {
        const uint32_t row = p % TN_ATTN_CHUNK, left = position - p;
        const uint32_t n = left < TN_ATTN_CHUNK - row ? left : TN_ATTN_CHUNK - row;
        uint8_t *block = blocks->at[p / TN_ATTN_CHUNK % blocks->n];
        tn_status status = pass(io, block + at + row * kv->pos_stride, n * kv->pos_stride, err);
        if (status) return status;
        p += n;
    }
    return TN_OK;
}

static tn_status pass_body(state_io *io, const tn_session *s, uint32_t position, uint32_t oldest,
                           tn_error *err) {
    tn_hash_start(&io->hash);
    tn_status status = pass(io, s->tokens, position * sizeof *s->tokens, err);
    for (uint32_t i = 0; i < s->graph->n_caches && !status; i++) {
        const tn_kv *kv = &s->program->caches.kv[i];
        const tn_cache_shape *shape = &s->graph->caches[i];
        const uint32_t first = shape->window ? oldest : 0, n_heads = shape->n_kv_heads;
        const size_t parts[] = {kv->k, kv->v};
        for (uint32_t h = 0; h < n_parts(shape) * n_heads && !status; h++)
            status = pass_rows(io, &s->caches[kv->kind], kv,
                               parts[h / n_heads] + h % n_heads * kv->head_stride, first, position, err);
    }
    return status;
}

/* ---- Save ------------------------------------------------------------------------------------------------------- */

uint64_t tn_state_bytes(const tn_session *s) {
    return sizeof(state_header) + body_bytes(s, s->position, s->oldest) + sizeof(uint64_t);
}

tn_status tn_state_save(const tn_session *s, uint64_t model, tn_state_write *write, void *user,
                        tn_error *err) {
    if (s->graph->whole)
        return tn_fail(err, TN_ERR_ARG, "cannot save the state", NULL,
                       "this model computes a sequence at once: nothing could go on from it");
    state_header h = {.version = STATE_VERSION,
                      .kv = s->config.kv,
                      .model = model,
                      .n_caches = s->graph->n_caches,
                      .position = s->position,
                      .oldest = s->oldest,
                      .body_bytes = tn_state_bytes(s) - sizeof h - sizeof(uint64_t)};
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = header_checksum(&h);
    state_io io = {.write = write, .user = user};
    tn_status status = write(user, &h, sizeof h, err);
    if (!status) status = pass_body(&io, s, s->position, s->oldest, err);
    if (status) return status;
    const uint64_t checksum = tn_hash_value(&io.hash);
    return write(user, &checksum, sizeof checksum, err);
}

/* ---- Load ------------------------------------------------------------------------------------------------------- */

#define BAD(where, err, ...) tn_fail(err, TN_ERR_FORMAT, "cannot restore the state", where, __VA_ARGS__)

static tn_status check_format(const state_header *h, uint64_t size, const char *where, tn_error *err) {
    if (memcmp(h->magic, magic, sizeof magic)) return BAD(where, err, "not a saved state of a session");
    if (h->version != STATE_VERSION)
        return BAD(where, err, "version %u, expected %u: it was saved by another version", h->version,
                   STATE_VERSION);
    if (h->checksum != header_checksum(h) || h->zero)
        return BAD(where, err, "damaged: the header does not agree with its checksum");
    if (h->body_bytes != size - sizeof *h - sizeof(uint64_t))
        return BAD(where, err, "truncated or damaged: expected %llu bytes, found %llu",
                   (unsigned long long)h->body_bytes + sizeof *h + sizeof(uint64_t),
                   (unsigned long long)size);
    return TN_OK;
}

/* Whether it is a state that this session could have been in. */
static tn_status check_fit(const tn_session *s, const state_header *h, uint64_t model, const char *where,
                           tn_error *err) {
    if (h->model != model) return BAD(where, err, "it was saved with another model");
    if (h->kv != (uint32_t)s->config.kv)
        return BAD(where, err, "it was saved with another type of cache than %s",
                   tn_dtypes[tn_kv_dtype(s->config.kv)].name);
    if (h->position > s->config.n_ctx)
        return BAD(where, err, "it holds %u positions, the context %u", h->position, s->config.n_ctx);
    const uint32_t window = s->program->caches.window;
    const uint32_t needed = h->position > window ? h->position - window : 0;
    if (h->n_caches != s->graph->n_caches || h->oldest > needed ||
        body_bytes(s, h->position, h->oldest) != h->body_bytes)
        return BAD(where, err, "its sizes are not those of this model");
    return TN_OK;
}

static tn_status check_tokens(const tn_session *s, uint32_t n, const char *where, tn_error *err) {
    for (uint32_t i = 0; i < n; i++)
        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= s->config.n_vocab)
            return BAD(where, err, "token %d is not in the vocabulary of %u", s->tokens[i],
                       s->config.n_vocab);
    return TN_OK;
}

static tn_status read_body(tn_session *s, const state_header *h, const char *where, tn_state_read *read,
                           void *user, tn_error *err) {
    state_io io = {.read = read, .user = user};
    uint64_t checksum;
    tn_status status = tn_session_claim(s, 0, h->position, err);
    if (!status) status = pass_body(&io, s, h->position, h->oldest, err);
    if (!status) status = read(user, &checksum, sizeof checksum, err);
    if (status) return status;
    if (checksum != tn_hash_value(&io.hash))
        return BAD(where, err, "damaged: the contents do not agree with their checksum");
    return check_tokens(s, h->position, where, err);
}

tn_status tn_state_load(tn_session *s, uint64_t model, uint64_t size, const char *where, tn_state_read *read,
                        void *user, tn_error *err) {
    state_header h;
    tn_session_truncate(s, 0);
    if (size < sizeof h + sizeof(uint64_t))
        return BAD(where, err, "truncated: expected at least %zu bytes, found %llu",
                   sizeof h + sizeof(uint64_t), (unsigned long long)size);
    tn_status status = read(user, &h, sizeof h, err);
    if (status || (status = check_format(&h, size, where, err)) ||
        (status = check_fit(s, &h, model, where, err)) || (status = read_body(s, &h, where, read, user, err)))
        return status;
    s->position = h.position;
    const uint32_t ring = s->program->caches.ring;
    s->oldest = ring && h.position > ring && h.position - ring > h.oldest ? h.position - ring : h.oldest;
    s->is_long = s->graph->long_above && h.position > s->graph->long_above;
    return TN_OK;
}
