#include "blocks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Blocks that came at once, those with numbers first .. first + n - 1 of whoever took them. */
typedef struct tn_slab {
    atomic_uint n_held; /* by tables, and by the owner that may take more of it */
    uint32_t first, n;
    size_t stride; /* bytes between blocks */
    uint8_t *memory;
    tn_allocator allocator;
    atomic_uint users[]; /* of each block; 0: not taken */
} tn_slab;

/* Blocks are read side by side at one offset. An odd number of pages between them spreads that over the sets of a cache; the page more
 * is never touched, and a host's memory is not spent on it. */
static size_t stride_of(const tn_blocks *b) {
    const size_t page = 4096, pages = (b->bytes + page - 1) / page;
    return b->allocator.alloc ? b->bytes : (pages | 1) * page;
}

static tn_slab *slab_new(const tn_blocks *b, uint32_t first, uint32_t n) {
    tn_slab *slab = malloc(sizeof *slab + n * sizeof *slab->users);
    if (!slab) return NULL;
    *slab = (tn_slab){.first = first, .n = n, .stride = stride_of(b), .allocator = b->allocator};
    if (slab->stride > SIZE_MAX / n || !(slab->memory = tn_memory_take(&b->allocator, n * slab->stride))) {
        free(slab);
        return NULL;
    }
    tn_memory_expect_all(&b->allocator, slab->memory, n * slab->stride);
    atomic_init(&slab->n_held, 1);
    for (uint32_t i = 0; i < n; i++) atomic_init(&slab->users[i], 0);
    return slab;
}

static void let_go(tn_slab *slab) {
    if (atomic_fetch_sub(&slab->n_held, 1) != 1) return;
    tn_memory_give(&slab->allocator, slab->memory, slab->n * slab->stride);
    free(slab);
}

static atomic_uint *users_of(const tn_blocks *b, uint32_t i) {
    return &b->from[i]->users[i - b->from[i]->first];
}

/* Another owner can come only by this one's being shared, so that what is true stays true. */
static bool is_alone(const tn_blocks *b, uint32_t i) {
    return b->at[i] && atomic_load(users_of(b, i)) == 1;
}

static void take(tn_blocks *b, tn_slab *slab, uint32_t i) {
    atomic_store(&slab->users[i - slab->first], 1);
    atomic_fetch_add(&slab->n_held, 1);
    b->from[i] = slab;
    b->at[i] = slab->memory + (i - slab->first) * slab->stride;
}

/* Leaves blocks [begin, end); the memory of those that nobody else uses goes back, runs of them at once. */
static void leave(tn_blocks *b, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin, next; i < end; i = next) {
        next = i + 1;
        tn_slab *slab = b->from[i];
        if (!slab) continue;
        const bool alone = is_alone(b, i);
        while (alone && next < end && b->from[next] == slab && is_alone(b, next)) next++;
        if (alone) tn_memory_discard(&slab->allocator, b->at[i], (next - i) * slab->stride);
        for (uint32_t k = i; k < next; k++) {
            atomic_fetch_sub(users_of(b, k), 1);
            let_go(slab);
            b->from[k] = NULL, b->at[k] = NULL;
        }
    }
}

static bool start(tn_blocks *out, uint32_t n, size_t bytes, const tn_allocator *allocator) {
    *out = (tn_blocks){.n = n, .bytes = bytes, .allocator = *allocator};
    out->at = calloc(n ? n : 1, sizeof *out->at);
    out->from = calloc(n ? n : 1, sizeof *out->from);
    if (out->at && out->from) return true;
    tn_blocks_free(out);
    return false;
}

bool tn_blocks_new(tn_blocks *out, uint32_t n, size_t bytes, const tn_allocator *allocator) {
    if (!start(out, n, bytes, allocator)) return false;
    if (n == 0) return true;
    if (!(out->own = slab_new(out, 0, n))) {
        tn_blocks_free(out);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) take(out, out->own, i);
    return true;
}

bool tn_blocks_share(tn_blocks *out, const tn_blocks *from, uint32_t n_first) {
    if (!start(out, from->n, from->bytes, &from->allocator)) return false;
    for (uint32_t i = 0; i < n_first; i++) {
        if (!from->at[i]) continue;
        atomic_fetch_add(users_of(from, i), 1);
        atomic_fetch_add(&from->from[i]->n_held, 1);
        out->from[i] = from->from[i];
        out->at[i] = from->at[i];
    }
    return true;
}

void tn_blocks_free(tn_blocks *b) {
    if (b->at && b->from) leave(b, 0, b->n);
    if (b->own) let_go(b->own);
    free(b->at);
    free(b->from);
    *b = (tn_blocks){0};
}

static bool has_unused(const tn_slab *slab, uint32_t i) {
    return slab && i >= slab->first && i - slab->first < slab->n &&
           atomic_load(&slab->users[i - slab->first]) == 0;
}

/* A slab for blocks that the owner has not had yet: i and those behind it. */
static bool take_more(tn_blocks *b, uint32_t i) {
    uint32_t end = i + 1;
    while (end < b->n && !b->at[end]) end++;
    tn_slab *slab = slab_new(b, i, end - i);
    if (!slab) return false;
    if (b->own) let_go(b->own);
    b->own = slab;
    return true;
}

/* A copy is a slab by itself, which goes back as soon as nobody uses the block: part of a larger one would hold the memory of all. */
static bool replace(tn_blocks *b, uint32_t i, bool keep) {
    tn_slab *slab = slab_new(b, i, 1);
    if (!slab) return false;
    if (keep) memcpy(slab->memory, b->at[i], b->bytes);
    leave(b, i, i + 1);
    take(b, slab, i);
    let_go(slab); /* the block's hold remains */
    return true;
}

bool tn_blocks_write(tn_blocks *b, uint32_t i, bool keep) {
    if (is_alone(b, i)) return true;
    if (b->at[i]) return replace(b, i, keep);
    if (!has_unused(b->own, i) && !take_more(b, i)) return false;
    take(b, b->own, i);
    return true;
}
