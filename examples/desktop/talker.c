#include "talker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

struct talker {
    pthread_t thread;
    pthread_mutex_t lock; /* of question and leaving */
    pthread_cond_t changed;
    char *model_path, *question;
    bool leaving;
    atomic_bool cancelled;
    void (*tell)(void *user, talker_event event, const char *text);
    void *user;
    tern_model *model;
    tern_session *session;
    tern_template *chat_template;
    tern_chat *chat;
};

static bool on_progress(void *user, uint32_t done, uint32_t total) {
    talker *t = user;
    char text[64];
    snprintf(text, sizeof text, "%u of %u tokens", done, total);
    t->tell(t->user, TALKER_READING, text);
    return !atomic_load(&t->cancelled);
}

static tern_status open_all(talker *t, tern_error *err) {
    tern_template_options template_options;
    tern_session_options session_options;
    tern_chat_options chat_options;
    tern_template_options_defaults(&template_options);
    tern_session_options_defaults(&session_options);
    tern_chat_options_defaults(&chat_options);
    session_options.progress = on_progress;
    session_options.user = t;
    session_options.n_batch = 64; /* a prompt is left between batches */
    chat_options.when_full = TERN_WHEN_FULL_DROP;

    tern_status status = tern_model_open(t->model_path, NULL, &t->model, err);
    template_options.model = t->model;
    if (status == TERN_OK) status = tern_template_open(&template_options, &t->chat_template, err);
    if (status == TERN_OK) status = tern_session_new(t->model, &session_options, &t->session, err);
    chat_options.chat_template = t->chat_template;
    if (status == TERN_OK) status = tern_chat_new(t->session, &chat_options, &t->chat, err);
    return status;
}

/* Tells the pieces and keeps them for the next turn; what was cancelled is kept as far as it came. */
static tern_status stream(talker *t, tern_generator *generator, char **answer, size_t *n_answer,
                          tern_error *err) {
    tern_stop_reason stop = TERN_STOP_NONE;
    FILE *kept = open_memstream(answer, n_answer);
    tern_status status = TERN_OK;
    while (kept && status == TERN_OK && stop == TERN_STOP_NONE && !atomic_load(&t->cancelled)) {
        const char *text;
        size_t n;
        status = tern_generator_next(generator, &text, &n, &stop, err);
        if (status != TERN_OK || !n) continue;
        fwrite(text, 1, n, kept);
        fflush(kept);
        t->tell(t->user, TALKER_PIECE, *answer + *n_answer - n);
    }
    if (kept) fclose(kept);
    return status;
}

static tern_status answer_question(talker *t, const char *question, tern_error *err) {
    tern_chat_prompt prompt;
    tern_generator *generator = NULL;
    char *answer = NULL;
    size_t n_answer = 0;
    const size_t n_before = tern_chat_n_messages(t->chat);
    tern_status status = tern_chat_add(t->chat, "user", question, strlen(question), err);
    if (status == TERN_OK) status = tern_chat_begin(t->chat, &prompt, err);
    if (status == TERN_OK)
        status = tern_generator_new(t->session, NULL, prompt.ids, prompt.n_ids, &generator, err);
    if (status == TERN_OK) status = stream(t, generator, &answer, &n_answer, err);
    tern_generator_free(generator);
    if (status == TERN_OK) status = tern_chat_add(t->chat, "assistant", answer ? answer : "", n_answer, err);
    if (status != TERN_OK) tern_chat_truncate(t->chat, n_before); /* as if it had not been asked */
    free(answer);
    return status;
}

/* The next question, freed by the caller; NULL when it is time to leave. */
static char *wait_for_question(talker *t) {
    pthread_mutex_lock(&t->lock);
    while (!t->question && !t->leaving) pthread_cond_wait(&t->changed, &t->lock);
    char *question = t->leaving ? NULL : t->question;
    if (question) t->question = NULL;
    pthread_mutex_unlock(&t->lock);
    return question;
}

static void *run(void *argument) {
    talker *t = argument;
    tern_error err;
    tern_status status = open_all(t, &err);
    t->tell(t->user, status == TERN_OK ? TALKER_READY : TALKER_FAILED, status == TERN_OK ? "" : err.message);
    for (char *question; status == TERN_OK && (question = wait_for_question(t));) {
        const tern_status answered = answer_question(t, question, &err);
        const bool failed = answered != TERN_OK && answered != TERN_ERR_CANCELLED;
        t->tell(t->user, failed ? TALKER_FAILED : TALKER_DONE, failed ? err.message : "");
        free(question);
    }
    tern_chat_free(t->chat);
    tern_session_free(t->session);
    tern_template_free(t->chat_template);
    tern_model_close(t->model);
    return NULL;
}

talker *talker_new(const char *model, void (*tell)(void *user, talker_event event, const char *text),
                   void *user) {
    talker *t = calloc(1, sizeof *t);
    char *path = strdup(model);
    if (t && path) {
        t->model_path = path, t->tell = tell, t->user = user;
        pthread_mutex_init(&t->lock, NULL);
        pthread_cond_init(&t->changed, NULL);
        if (pthread_create(&t->thread, NULL, run, t) == 0) return t;
    }
    free(path);
    free(t);
    return NULL;
}

void talker_ask(talker *t, const char *question) {
    pthread_mutex_lock(&t->lock);
    free(t->question);
    t->question = strdup(question);
    atomic_store(&t->cancelled, false);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void talker_cancel(talker *t) {
    atomic_store(&t->cancelled, true);
}

void talker_free(talker *t) {
    if (!t) return;
    talker_cancel(t);
    pthread_mutex_lock(&t->lock);
    t->leaving = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->question);
    free(t->model_path);
    free(t);
}
