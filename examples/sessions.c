/* One model, a session on each of several threads: the lines of the prompts are answered at the same time.
 *
 *     sessions MODEL.gguf TOKENS PROMPT... */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

typedef struct job {
    const tern_model *model; /* shared: it is only read */
    const char *prompt;
    uint64_t n_tokens;
    char text[4096];
    size_t n;
    tern_status status;
    tern_error err;
} job;

static tern_status generate(job *j, tern_session *session, const int32_t *ids, size_t n_ids) {
    tern_sampling sampling;
    tern_sampling_defaults(&sampling);
    sampling.temperature = 0;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.sampling = &sampling;
    options.max_tokens = j->n_tokens;
    tern_generator *generator;
    tern_stop_reason stop = TERN_STOP_NONE;
    tern_status status = tern_generator_new(session, &options, ids, n_ids, &generator, &j->err);
    while (status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(generator, &text, &n, &stop, &j->err);
        if (status != TERN_OK || n > sizeof j->text - j->n) break;
        memcpy(j->text + j->n, text, n);
        j->n += n;
    }
    tern_generator_free(generator);
    return status;
}

static void *run(void *argument) {
    job *j = argument;
    tern_session *session = NULL;
    int32_t *ids = NULL;
    size_t n_ids;
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_threads = 1; /* of each session: the program has threads of its own */
    options.n_ctx = 512;
    j->status = tern_tokenize(j->model, j->prompt, strlen(j->prompt), TERN_TOKENIZE_BOS | TERN_TOKENIZE_OPEN,
                              &ids, &n_ids, &j->err);
    if (j->status == TERN_OK) j->status = tern_session_new(j->model, &options, &session, &j->err);
    if (j->status == TERN_OK) j->status = tern_session_eval(session, ids, n_ids, 1, &j->err);
    if (j->status == TERN_OK) j->status = generate(j, session, ids, n_ids);
    tern_session_free(session);
    tern_free(ids);
    return NULL;
}

/* The exit code; prints the answers in the order of the prompts. */
static int run_all(job *jobs, pthread_t *threads, size_t n) {
    size_t n_started = 0;
    int exit_code = 0;
    while (n_started < n && pthread_create(&threads[n_started], NULL, run, &jobs[n_started]) == 0)
        n_started++;
    for (size_t i = 0; i < n_started; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < n_started; i++) {
        if (jobs[i].status == TERN_OK) {
            fputs(jobs[i].prompt, stdout);
            fwrite(jobs[i].text, 1, jobs[i].n, stdout);
            putchar('\n');
        } else {
            fprintf(stderr, "sessions: error: %s\n", jobs[i].err.message);
            exit_code = 1;
        }
    }
    if (n_started < n) fprintf(stderr, "sessions: error: cannot start a thread\n"), exit_code = 1;
    return exit_code;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: sessions MODEL.gguf TOKENS PROMPT...\n");
        return 2;
    }
    tern_error err;
    tern_model *model;
    if (tern_model_open(argv[1], NULL, &model, &err) != TERN_OK) {
        fprintf(stderr, "sessions: error: %s\n", err.message);
        return 1;
    }
    const size_t n = (size_t)argc - 3;
    job *jobs = calloc(n, sizeof *jobs);
    pthread_t *threads = calloc(n, sizeof *threads);
    int exit_code = 1;
    if (jobs && threads) {
        for (size_t i = 0; i < n; i++)
            jobs[i] = (job){.model = model, .prompt = argv[i + 3], .n_tokens = strtoull(argv[2], NULL, 10)};
        exit_code = run_all(jobs, threads, n);
    }
    free(threads);
    free(jobs);
    tern_model_close(model);
    return exit_code;
}
