/* A conversation in the model's own chat template: lines from standard input, answers as they are made.
 *
 *     chat MODEL.gguf [TOKENS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

typedef struct answer {
    char *text;
    size_t n, cap;
} answer;

static int fail(const tern_error *err) {
    fprintf(stderr, "chat: error: %s\n", err->message);
    return 1;
}

static int append(answer *a, const char *text, size_t n) {
    if (a->n + n > a->cap) {
        const size_t cap = (a->n + n) * 2;
        char *grown = realloc(a->text, cap);
        if (!grown) return 1;
        a->text = grown, a->cap = cap;
    }
    if (n) memcpy(a->text + a->n, text, n);
    a->n += n;
    return 0;
}

/* One answer: pieces are whole characters, and can be shown as they come. */
static tern_status stream(tern_generator *generator, answer *a, tern_error *err) {
    for (tern_stop_reason stop = TERN_STOP_NONE; stop == TERN_STOP_NONE;) {
        const char *text;
        size_t n;
        const tern_status status = tern_generator_next(generator, &text, &n, &stop, err);
        if (status != TERN_OK) return status;
        fwrite(text, 1, n, stdout);
        fflush(stdout);
        if (append(a, text, n)) break; /* out of memory: the answer ends here */
    }
    putchar('\n');
    return TERN_OK;
}

/* What was said before is in the session and is not computed again. */
static tern_status reply(tern_session *session, tern_chat *chat, const char *line, uint64_t n_tokens,
                         tern_error *err) {
    tern_chat_prompt prompt;
    tern_generator *generator = NULL;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.max_tokens = n_tokens;
    answer a = {0};

    tern_status status = tern_chat_add(chat, "user", line, strlen(line), err);
    if (status == TERN_OK) status = tern_chat_begin(chat, &prompt, err);
    if (status == TERN_OK)
        status = tern_generator_new(session, &options, prompt.ids, prompt.n_ids, &generator, err);
    if (status == TERN_OK) status = stream(generator, &a, err);
    tern_generator_free(generator);
    if (status == TERN_OK) status = tern_chat_add(chat, "assistant", a.text ? a.text : "", a.n, err);
    free(a.text);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: chat MODEL.gguf [TOKENS]\n");
        return 2;
    }
    const uint64_t n_tokens = argc > 2 ? strtoull(argv[2], NULL, 10) : 512;
    tern_error err;
    tern_model *model = NULL;
    tern_session *session = NULL;
    tern_template *chat_template = NULL;
    tern_chat *chat = NULL;
    char line[4096];

    tern_status status = tern_model_open(argv[1], NULL, &model, &err);
    if (status == TERN_OK) {
        tern_template_options options;
        tern_template_options_defaults(&options);
        options.model = model;
        status = tern_template_open(&options, &chat_template, &err);
    }
    if (status == TERN_OK) status = tern_session_new(model, NULL, &session, &err);
    if (status == TERN_OK) {
        tern_chat_options options;
        tern_chat_options_defaults(&options);
        options.chat_template = chat_template;
        options.when_full = TERN_WHEN_FULL_DROP;
        status = tern_chat_new(session, &options, &chat, &err);
    }
    while (status == TERN_OK && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line) status = reply(session, chat, line, n_tokens, &err);
    }
    const int exit_code = status == TERN_OK ? 0 : fail(&err);
    tern_chat_free(chat);
    tern_session_free(session);
    tern_template_free(chat_template);
    tern_model_close(model);
    return exit_code;
}
