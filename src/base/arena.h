/* A bump arena: many small allocations, freed together. Memory is zeroed. Not thread-safe. */
#ifndef TN_BASE_ARENA_H
#define TN_BASE_ARENA_H

#include <stddef.h>

#include "memory.h"

typedef struct tn_arena {
    struct tn_arena_chunk *head;
    size_t total_bytes;     /* taken so far */
    tn_allocator allocator; /* where from; without functions by calloc */
} tn_arena;                 /* all zero is an empty arena */

/* Returns n * size zeroed bytes aligned to 64 when n * size >= 64, else to 16; NULL when memory is out or the
 * product overflows. n * size == 0 gives a valid pointer. */
void *tn_arena_alloc(tn_arena *arena, size_t n, size_t size);

/* A NUL-terminated copy of n bytes; NULL when memory is out. */
char *tn_arena_strdup(tn_arena *arena, const char *text, size_t n);

/* Frees everything; the arena is empty and usable again. */
void tn_arena_free(tn_arena *arena);

#endif
