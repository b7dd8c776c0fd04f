/* A file that appears whole or not at all.
 *
 * It is written without a name, where the file system can do that (O_TMPFILE), so that a process that is killed leaves nothing
 * behind; elsewhere under the name ".tern-N-N" beside its place. Not thread-safe. */
#ifndef TN_BASE_OUTFILE_H
#define TN_BASE_OUTFILE_H

#include <stdint.h>

#include "status.h"

typedef struct tn_outfile {
    int fd;          /* -1 when not open */
    char *path;      /* where the file goes, symbolic links followed */
    char *temporary; /* its name until then; NULL while it has none */
} tn_outfile;

/* Each fails with "cannot write: PATH: WHY"; whatever fails, discard. */

/* An existing regular file at `path` stays until it is placed; anything else there (a folder, a device) is an error. */
tn_status tn_outfile_open(tn_outfile *file, const char *path, tn_error *err);

/* Asks the file system for room for so many bytes, so that a full disk is found before the work; nothing where it cannot say. */
tn_status tn_outfile_reserve(tn_outfile *file, uint64_t n_bytes, tn_error *err);

tn_status tn_outfile_write(tn_outfile *file, const void *bytes, uint64_t n, tn_error *err);

/* Syncs and closes; the file is on disk, under a temporary name. */
tn_status tn_outfile_finish(tn_outfile *file, tn_error *err);

/* Gives a finished file its name, syncs the folder, and frees. */
tn_status tn_outfile_place(tn_outfile *file, tn_error *err);

/* Removes what was written, and frees; fine after a failure or when placed, and on an all-zero struct. */
void tn_outfile_discard(tn_outfile *file);

#endif
