/* A bounded cursor over bytes: the only way file contents are parsed. All values little-endian. */
#ifndef TN_BASE_READER_H
#define TN_BASE_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct tn_reader {
    const uint8_t *base; /* borrowed */
    uint64_t size, pos;  /* pos <= size always */
} tn_reader;

static inline uint64_t tn_reader_left(const tn_reader *r) {
    return r->size - r->pos;
}

/* Points *out at the next n bytes and moves past them; false and unmoved if fewer are left. */
static inline bool tn_read_bytes(tn_reader *r, uint64_t n, const uint8_t **out) {
    if (n > tn_reader_left(r)) return false;
    *out = r->base + r->pos;
    r->pos += n;
    return true;
}

static inline bool tn_read_u32(tn_reader *r, uint32_t *out) {
    const uint8_t *p;
    if (!tn_read_bytes(r, sizeof *out, &p)) return false;
    memcpy(out, p, sizeof *out);
    return true;
}

static inline bool tn_read_u64(tn_reader *r, uint64_t *out) {
    const uint8_t *p;
    if (!tn_read_bytes(r, sizeof *out, &p)) return false;
    memcpy(out, p, sizeof *out);
    return true;
}

#endif
