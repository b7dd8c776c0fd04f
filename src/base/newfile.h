/* A file that appears whole or not at all: written under a temporary name beside its place, then renamed. */
#ifndef TN_BASE_NEWFILE_H
#define TN_BASE_NEWFILE_H

#include <stddef.h>
#include <stdio.h>

#include "status.h"

typedef struct tn_newfile {
    FILE *stream;
    char *path, *temporary; /* where the file goes, symbolic links followed; what it is called until then */
    const char *what;       /* of error messages; borrowed */
} tn_newfile;

/* On failure nothing is left, of this and of the following calls alike. */
tn_status tn_newfile_open(tn_newfile *file, const char *path, const char *what, tn_error *err);
tn_status tn_newfile_write(tn_newfile *file, const void *bytes, size_t n, tn_error *err);

/* Puts the file, synchronized with the disk, in its place. */
tn_status tn_newfile_commit(tn_newfile *file, tn_error *err);

/* Removes what was written; fine after a failure or a commit. */
void tn_newfile_discard(tn_newfile *file);

#endif
