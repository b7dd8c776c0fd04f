/* A read-only memory map of a regular file. */
#ifndef TN_BASE_FMAP_H
#define TN_BASE_FMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

typedef struct tn_fmap {
    const uint8_t *data; /* NULL for an empty file */
    uint64_t size;
    uint64_t device, inode; /* which file it is, whatever its path */
    int fd;                 /* of a file that is not empty */
} tn_fmap;

/* Maps the whole file shared and read-only. Anything but a regular file (FIFO, directory, device) is an error
 * and never blocks. On failure *out is zero. */
tn_status tn_fmap_open(tn_fmap *out, const char *path, tn_error *err);
void tn_fmap_close(tn_fmap *map);

/* Whether the file still has the size that is mapped. Behind the end of one that became shorter are zeros as far as its last page
 * goes, and SIGBUS; so who hands on what comes of the map asks this before. */
bool tn_fmap_is_whole(const tn_fmap *map);

/* Takes n bytes of a map out of this process's memory; they stay readable. For whoever walks files larger than that. */
void tn_fmap_release(const uint8_t *data, uint64_t n);

#endif
