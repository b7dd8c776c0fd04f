/* Arena chunks form a list whose head is the one being filled.
 *
 *   | header | pad to 64 | allocation | pad | allocation | ... free ... |
 *
 * An allocation that is large beside a chunk gets one of its own behind the head, so the head's room is not
 * lost. calloc gives zeroed memory, and for large chunks does so without touching the pages; a host's memory is
 * cleared. AddressSanitizer is told what of a chunk was handed out: the rest is not to be touched. */
#include "arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef TN_ARENA_CHUNK_BYTES /* tools/coverage has it 0: each allocation is one of the system's, and can fail */
#define TN_ARENA_CHUNK_BYTES (64 << 10)
#endif
#define CHUNK_BYTES ((size_t)TN_ARENA_CHUNK_BYTES)

#ifdef __has_feature /* clang's way to ask what gcc has a macro for */
#define IS_WATCHED __has_feature(address_sanitizer)
#elif defined __SANITIZE_ADDRESS__
#define IS_WATCHED 1
#else
#define IS_WATCHED 0
#endif
#if IS_WATCHED
#include <sanitizer/asan_interface.h>
enum { RED_ZONE_BYTES = 16 }; /* behind each allocation */
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes)   ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
enum { RED_ZONE_BYTES = 0 };
#endif

struct tn_arena_chunk {
    struct tn_arena_chunk *next;
    uint8_t *free, *end;
};

static struct tn_arena_chunk *chunk_new(tn_arena *arena, size_t payload_bytes) {
    size_t bytes;
    if (__builtin_add_overflow(payload_bytes, sizeof(struct tn_arena_chunk) + 63 + RED_ZONE_BYTES, &bytes))
        return NULL;
    const tn_allocator *a = &arena->allocator;
    struct tn_arena_chunk *chunk = a->alloc ? tn_memory_take(a, bytes) : calloc(1, bytes);
    if (!chunk) return NULL;
    if (a->alloc) memset(chunk, 0, bytes);
    chunk->free = (uint8_t *)(chunk + 1);
    chunk->end = (uint8_t *)chunk + bytes;
    arena->total_bytes += bytes;
    ASAN_POISON_MEMORY_REGION(chunk->free, (size_t)(chunk->end - chunk->free));
    return chunk;
}

/* NULL if the chunk has no room. */
static void *chunk_take(struct tn_arena_chunk *chunk, size_t bytes, size_t align) {
    size_t pad = (size_t)(-(uintptr_t)chunk->free & (align - 1));
    size_t left = (size_t)(chunk->end - chunk->free);
    if (left < pad + RED_ZONE_BYTES || left - pad - RED_ZONE_BYTES < bytes) return NULL;
    void *result = chunk->free + pad;
    chunk->free += pad + bytes + RED_ZONE_BYTES;
    ASAN_UNPOISON_MEMORY_REGION(result, bytes);
    return result;
}

void *tn_arena_alloc(tn_arena *arena, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    size_t align = bytes >= 64 ? 64 : 16;
    void *result = arena->head ? chunk_take(arena->head, bytes, align) : NULL;
    if (result) return result;
    bool own = bytes > CHUNK_BYTES / 4;
    struct tn_arena_chunk *chunk = chunk_new(arena, own ? bytes : CHUNK_BYTES);
    if (!chunk) return NULL;
    if (own && arena->head) {
        chunk->next = arena->head->next;
        arena->head->next = chunk;
    } else {
        chunk->next = arena->head;
        arena->head = chunk;
    }
    return chunk_take(chunk, bytes, align);
}

char *tn_arena_strdup(tn_arena *arena, const char *text, size_t n) {
    if (n == SIZE_MAX) return NULL;
    char *copy = tn_arena_alloc(arena, n + 1, 1);
    if (copy && n > 0) memcpy(copy, text, n);
    return copy;
}

void tn_arena_free(tn_arena *arena) {
    for (struct tn_arena_chunk *chunk = arena->head, *next; chunk; chunk = next) {
        next = chunk->next;
        const size_t bytes = (size_t)(chunk->end - (uint8_t *)chunk);
        ASAN_UNPOISON_MEMORY_REGION(chunk, bytes);
        if (arena->allocator.alloc)
            tn_memory_give(&arena->allocator, chunk, bytes);
        else
            free(chunk);
    }
    *arena = (tn_arena){.allocator = arena->allocator};
}
