/* Memory that fails on demand, for one program of a test: it defines malloc's family over the C library's. What the C library does
 * itself is not counted. The sanitizers bring an allocator of their own; nothing fails there. */
#ifndef TN_TESTS_FAILING_MEMORY_H
#define TN_TESTS_FAILING_MEMORY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static atomic_long n_allocations;
static atomic_long n_live_allocations;
static atomic_long failing_allocation = -1; /* its number, from 0 */

static inline long live_allocations(void) {
    return n_live_allocations;
}

#ifndef __SANITIZE_ADDRESS__
static const bool memory_can_fail = true;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

#pragma GCC visibility push(default) /* the C library must find these too */
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void *aligned_alloc(size_t alignment, size_t n);
void free(void *p);
#pragma GCC visibility pop

static bool allocation_fails(void) {
    if (n_allocations++ != failing_allocation) return false;
    errno = ENOMEM;
    return true;
}

static void *count_allocation(void *p) {
    n_live_allocations += p != NULL;
    return p;
}

void *malloc(size_t n) {
    return allocation_fails() ? NULL : count_allocation(__libc_malloc(n));
}

void *calloc(size_t n, size_t size) {
    return allocation_fails() ? NULL : count_allocation(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n) {
    if (allocation_fails()) return NULL;
    void *q = __libc_realloc(p, n);
    return p ? q : count_allocation(q);
}

void *aligned_alloc(size_t alignment, size_t n) {
    return allocation_fails() ? NULL : count_allocation(__libc_memalign(alignment, n));
}

void free(void *p) {
    n_live_allocations -= p != NULL;
    __libc_free(p);
}
#else
static const bool memory_can_fail = false;
#endif

#endif
