/* A file that appears whole or not at all: written under a temporary name beside its place, then renamed. */
#ifndef TN_TOOLS_OUTPUT_H
#define TN_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

typedef struct tn_output {
    int fd;
    char *path;      /* where the file goes, symbolic links followed */
    char *temporary; /* NULL when written in place: standard output, a pipe, a device */
} tn_output;

/* '-' is standard output. A file that the options name as an input is not written over. Each returns 0, or the exit code after printing why; then nothing is left to close.
 */
int tn_output_open(tn_output *output, const char *path, const tn_options *options);
int tn_output_write(tn_output *output, const void *bytes, size_t n);

/* Puts the file in its place. */
int tn_output_commit(tn_output *output);

/* Removes what was written; fine after a failure or a commit. */
void tn_output_discard(tn_output *output);

#endif
