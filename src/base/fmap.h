/* A read-only memory map of a regular file. */
#ifndef TN_BASE_FMAP_H
#define TN_BASE_FMAP_H

#include <stdint.h>

#include "status.h"

typedef struct tn_fmap {
    const uint8_t *data; /* NULL for an empty file */
    uint64_t size;
    uint64_t device, inode; /* which file it is, whatever its path */
    char *path;
} tn_fmap;

/* Maps the whole file shared and read-only. Anything but a regular file (FIFO, directory, device) is an error
 * and never blocks. On failure *out is zero. */
tn_status tn_fmap_open(tn_fmap *out, const char *path, tn_error *err);
void tn_fmap_close(tn_fmap *map);

/* Fails when the file has become shorter than the map: the rest of its last page then reads as zeros, and pages behind that raise
 * SIGBUS. A file that another one has replaced, or that is gone, stays as it was in the map. */
tn_status tn_fmap_check(const tn_fmap *map, tn_error *err);

/* Takes n bytes of a map out of this process's memory; they stay readable. For whoever walks files larger than that. */
void tn_fmap_release(const uint8_t *data, uint64_t n);

#endif
