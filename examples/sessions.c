/* One model, a session on each of several threads: the lines of the prompts are answered at the same time. What they all
 * begin with, such as a system prompt, is computed once: the sessions are forks of one that holds it.
 *
 *     sessions MODEL.gguf TOKENS PROMPT... */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

typedef struct job {
    const tern_session *start; /* the beginning that all share, n_start tokens: it is only read */
    size_t n_start;
    const char *prompt;
    int32_t *ids; /* of the whole prompt */
    size_t n_ids;
    uint64_t n_tokens;
    char text[4096];
    size_t n;
    tern_status status;
    tern_error err;
} job;

static tern_status generate(job *j, tern_session *session) {
    tern_sampling sampling;
    tern_sampling_defaults(&sampling);
    sampling.temperature = 0;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.sampling = &sampling;
    options.max_tokens = j->n_tokens;
    tern_generator *generator;
    tern_stop_reason stop = TERN_STOP_NONE;
    tern_status status = tern_generator_new(session, &options, j->ids, j->n_ids, &generator, &j->err);
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
    tern_session *session;
    j->status = tern_session_fork(j->start, &session, &j->err);
    if (j->status == TERN_OK)
        j->status = tern_session_eval(session, j->ids + j->n_start, j->n_ids - j->n_start, 1, &j->err);
    if (j->status == TERN_OK) j->status = generate(j, session);
    tern_session_free(session);
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

/* Tokens that all prompts begin with; the last of each is left for its own session. */
static size_t count_common(const job *jobs, size_t n) {
    for (size_t at = 0;; at++)
        for (size_t i = 0; i < n; i++)
            if (at + 1 >= jobs[i].n_ids || jobs[i].ids[at] != jobs[0].ids[at]) return at;
}

/* A session that holds the common beginning of all prompts. */
static tern_status start(const tern_model *model, job *jobs, size_t n, tern_session **session,
                         tern_error *err) {
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_threads = 1; /* of each session: the program has threads of its own */
    options.n_ctx = 512;
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n && status == TERN_OK; i++)
        status = tern_tokenize(model, jobs[i].prompt, strlen(jobs[i].prompt), TERN_TOKENIZE_BOS, &jobs[i].ids,
                               &jobs[i].n_ids, err);
    if (status == TERN_OK) status = tern_session_new(model, &options, session, err);
    const size_t n_start = status == TERN_OK ? count_common(jobs, n) : 0;
    if (n_start) status = tern_session_eval(*session, jobs[0].ids, n_start, 0, err);
    for (size_t i = 0; i < n; i++) jobs[i].start = *session, jobs[i].n_start = n_start;
    return status;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: sessions MODEL.gguf TOKENS PROMPT...\n");
        return 2;
    }
    const size_t n = (size_t)argc - 3;
    job *jobs = calloc(n, sizeof *jobs);
    pthread_t *threads = calloc(n, sizeof *threads);
    tern_error err = {TERN_ERR_MEMORY, "out of memory"};
    tern_model *model = NULL;
    tern_session *session = NULL;
    int exit_code = 1;
    for (size_t i = 0; jobs && i < n; i++)
        jobs[i].prompt = argv[i + 3], jobs[i].n_tokens = strtoull(argv[2], NULL, 10);
    if (jobs && threads && tern_model_open(argv[1], NULL, &model, &err) == TERN_OK &&
        start(model, jobs, n, &session, &err) == TERN_OK)
        exit_code = run_all(jobs, threads, n);
    else
        fprintf(stderr, "sessions: error: %s\n", err.message);
    for (size_t i = 0; jobs && i < n; i++) tern_free(jobs[i].ids);
    tern_session_free(session);
    tern_model_close(model);
    free(threads);
    free(jobs);
    return exit_code;
}
