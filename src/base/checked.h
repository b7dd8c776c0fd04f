/* Overflow-checked size arithmetic. Every size that comes from a file goes through these. */
#ifndef TN_BASE_CHECKED_H
#define TN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false, and leaves *out unspecified, when the exact result does not fit. */
static inline bool tn_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool tn_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds up to a multiple of align, a power of two. */
static inline bool tn_align_u64(uint64_t a, uint64_t align, uint64_t *out) {
    if (!tn_add_u64(a, align - 1, out)) return false;
    *out &= ~(align - 1);
    return true;
}

/* For sizes already known to be small. */
static inline size_t tn_round_up(size_t a, size_t align) {
    return (a + align - 1) / align * align;
}

#endif
