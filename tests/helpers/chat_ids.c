/* The token ids of conversations for a Python test: chat_ids MODEL TEMPLATE; a line of JSON messages in, a line of ids out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

static void check(tern_status status, const tern_error *err) {
    if (status == TERN_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    tern_error err;
    tern_model_options open;
    tern_template_options options;
    tern_model *model;
    tern_template *template;
    tern_model_options_defaults(&open);
    open.level = TERN_OPEN_VOCAB;
    check(tern_model_open(argv[1], &open, &model, &err), &err);
    tern_template_options_defaults(&options);
    options.model = model;
    options.source = argv[2], options.n_source = strlen(argv[2]);
    check(tern_template_open(&options, &template, &err), &err);
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        tern_conversation conversation;
        int32_t *ids;
        size_t n_ids;
        tern_conversation_defaults(&conversation);
        conversation.messages = line;
        check(tern_template_tokenize(template, &conversation, &ids, &n_ids, &err), &err);
        for (size_t i = 0; i < n_ids; i++) printf("%" PRId32 "%c", ids[i], i + 1 < n_ids ? ' ' : '\n');
        tern_free(ids);
    }
    free(line);
    tern_template_free(template);
    tern_model_close(model);
    return 0;
}
