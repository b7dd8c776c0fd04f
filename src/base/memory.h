/* Large memory: from the system, or by functions of the host's. */
#ifndef TN_BASE_MEMORY_H
#define TN_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Bytes the system would give without swapping, page cache included, and its control group would let it have; UINT64_MAX where it
 * cannot be told. */
uint64_t tn_memory_available(void);

/* Address space of `bytes` (rounded up to pages), zero-filled and backed by memory only as it is touched;
 * NULL when refused. Freed by tn_unreserve with the same size. */
void *tn_reserve(size_t bytes);
void tn_unreserve(void *base, size_t bytes);

typedef struct tn_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment); /* NULL: tn_reserve */
    void (*free)(void *user, void *memory, size_t bytes);
    void *user;
} tn_allocator;

/* On 64 bytes; NULL when refused. What a host gives is not cleared. */
void *tn_memory_take(const tn_allocator *allocator, size_t bytes);
void tn_memory_give(const tn_allocator *allocator, void *memory, size_t bytes); /* NULL is fine */

/* Memory that fills from its start, all of which is read at every step: the system may back it in pages of 2 MiB. */
void tn_memory_expect_all(const tn_allocator *allocator, void *memory, size_t bytes);

/* The contents of [memory, memory + bytes) are of no more use: whole pages of the system's memory go back to it. */
void tn_memory_discard(const tn_allocator *allocator, void *memory, size_t bytes);

#endif
