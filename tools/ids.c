#include "ids.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int tn_ids_parse(const tn_options *options, tn_ids *out) {
    static const char spaces[] = " \t\n";
    char *copy = strdup(options->ids);
    out->ids = calloc(strlen(options->ids) / 2 + 1, sizeof *out->ids);
    int exit_code = copy && out->ids ? TN_EXIT_DONE : tn_cli_fail("cannot read --ids: out of memory");
    char *rest = NULL;
    char *word = exit_code ? NULL : strtok_r(copy, spaces, &rest);
    for (; word && !exit_code; word = strtok_r(NULL, spaces, &rest)) {
        int64_t id;
        if (tn_parse_integer(word, 0, INT32_MAX, &id)) {
            out->ids[out->n++] = (int32_t)id;
        } else {
            exit_code = tn_cli_fail_usage(options->command,
                                          "--ids: expected token ids separated by spaces, found '%s'", word);
        }
    }
    if (!exit_code && out->n == 0) {
        exit_code = tn_cli_fail_usage(options->command, "--ids: expected at least one token id");
    }
    free(copy);
    return exit_code;
}

int tn_ids_check(const tn_options *options, const tn_ids *ids, uint32_t n_vocab) {
    for (size_t i = 0; i < ids->n; i++) {
        if ((uint32_t)ids->ids[i] < n_vocab) continue;
        return tn_cli_fail_usage(
            options->command, "--ids: expected ids below %" PRIu32 ", the vocabulary's size, found %" PRId32,
            n_vocab, ids->ids[i]);
    }
    return TN_EXIT_DONE;
}
