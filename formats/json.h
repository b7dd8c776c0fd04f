/* JSON files of a checkpoint directory, read with jansson within limits of size, depth and memory. */
#ifndef TN_FORMATS_JSON_H
#define TN_FORMATS_JSON_H

#include <jansson.h>

#include "../src/base/status.h"

/* Parses the file, whose root must be an object or an array, as `root` says; doubled keys, depth above 2048 and files that would take more than
 * about 384 MiB are errors, with line and column where there is one. The caller drops its reference. On failure *out is NULL. */
tn_status tn_json_load(const char *what, const char *path, json_type root, json_t **out, tn_error *err);

#endif
