/* A read-only memory map of a regular file. */
#ifndef TN_BASE_FMAP_H
#define TN_BASE_FMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "status.h"

typedef struct tn_fmap {
    const uint8_t *data; /* NULL for an empty file */
    uint64_t size;
    uint64_t device, inode; /* which file it is, whatever its path; 0: memory of the caller's */
    void *mapping;          /* from the start of a page; NULL: there is nothing to unmap */
    size_t mapping_bytes;
    int fd;       /* of a mapping; its own, also where the source is a descriptor */
    uint64_t end; /* of the mapped part, in its file */
} tn_fmap;

/* Where bytes are: in the file of a path, in a part of a descriptor's file, or in memory. */
typedef struct tn_fmap_source {
    const char *path; /* of the last two: what messages call them */
    int fd;           /* -1: none. Not needed any more once mapped */
    uint64_t offset;
    const void *data;       /* NULL: none; it stays the caller's */
    uint64_t n_bytes;       /* of data; or of the descriptor's file behind the offset, 0: all */
    tn_allocator allocator; /* of what readers make of the bytes; all zero: the system's memory */
} tn_fmap_source;

static inline tn_fmap_source tn_fmap_path(const char *path) {
    return (tn_fmap_source){.path = path, .fd = -1};
}

static inline bool tn_fmap_is_path(const tn_fmap_source *source) {
    return source->fd < 0 && !source->data;
}

/* Maps the whole file shared and read-only. Anything but a regular file (FIFO, directory, device) is an error
 * and never blocks. On failure *out is zero. */
tn_status tn_fmap_open(tn_fmap *out, const char *path, tn_error *err);
/* The same for any source. A part, and memory, must begin at a multiple of 4 bytes, as floats do. */
tn_status tn_fmap_open_source(tn_fmap *out, const tn_fmap_source *source, tn_error *err);
void tn_fmap_close(tn_fmap *map);

/* Whether anything is at a path; an error where that cannot be told. */
tn_status tn_fmap_exists(const char *path, bool *exists, tn_error *err);

/* Whether the file still has the size that is mapped. Behind the end of one that became shorter are zeros as far as its last page
 * goes, and SIGBUS; so who hands on what comes of the map asks this before. */
bool tn_fmap_is_whole(const tn_fmap *map);

/* Brings n bytes from `offset` on into memory, if they are of a mapped file. TN_ERR_IO, and no signal, if they are gone. */
tn_status tn_fmap_populate(const tn_fmap *map, uint64_t offset, uint64_t n, const char *path, tn_error *err);

/* Takes n bytes of a map out of this process's memory; they stay readable. For whoever walks files larger than that. */
void tn_fmap_release(const uint8_t *data, uint64_t n);

#endif
