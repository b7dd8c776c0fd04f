#include "talker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

struct talker {
    pthread_t thread;
    pthread_mutex_t lock; /* of question */
    pthread_cond_t changed;
    char *model_path, *question;
    atomic_bool leaving;
    void (*tell)(void *user, talker_event event, const char *text);
    void *user;
    tern_model *model;
    _Atomic(tern_session *) session; /* made on the thread, cancelled from others */
    tern_template *chat_template;
    tern_chat *chat;
};

static bool on_opening(void *user, uint64_t done, uint64_t total) {
    talker *t = user;
    char text[64];
    snprintf(text, sizeof text, "%u of %u MB", (unsigned)(done / 1000000), (unsigned)(total / 1000000));
    t->tell(t->user, TALKER_OPENING, text);
    return !atomic_load(&t->leaving);
}

static bool on_reading(void *user, uint32_t done, uint32_t total) {
    talker *t = user;
    char text[64];
    snprintf(text, sizeof text, "%u of %u tokens", done, total);
    t->tell(t->user, TALKER_READING, text);
    return true;
}

static tern_status open_all(talker *t, tern_error *err) {
    tern_model_options model_options;
    tern_template_options template_options;
    tern_session_options session_options;
    tern_chat_options chat_options;
    tern_session *session = NULL;
    tern_model_options_defaults(&model_options);
    tern_template_options_defaults(&template_options);
    tern_session_options_defaults(&session_options);
    tern_chat_options_defaults(&chat_options);
    model_options.preload = true; /* the wait is then where a user expects it */
    model_options.progress = on_opening;
    session_options.progress = on_reading;
    model_options.user = session_options.user = t;
    session_options.n_batch = 128; /* progress comes between batches */
    chat_options.when_full = TERN_WHEN_FULL_DROP;

    tern_status status = tern_model_open(t->model_path, &model_options, &t->model, err);
    template_options.model = t->model;
    if (status == TERN_OK) status = tern_template_open(&template_options, &t->chat_template, err);
    if (status == TERN_OK) status = tern_session_new(t->model, &session_options, &session, err);
    atomic_store(&t->session, session);
    chat_options.chat_template = t->chat_template;
    if (status == TERN_OK) status = tern_chat_new(session, &chat_options, &t->chat, err);
    return status;
}

/* Tells the pieces and keeps them for the next turn; what was cancelled is kept as far as it came. */
static tern_status stream(talker *t, tern_generator *generator, char **answer, size_t *n_answer,
                          tern_error *err) {
    tern_stop_reason stop = TERN_STOP_NONE;
    FILE *kept = open_memstream(answer, n_answer);
    tern_status status = TERN_OK;
    while (kept && status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(generator, &text, &n, &stop, err);
        if (status != TERN_OK || !n) continue;
        fwrite(text, 1, n, kept);
        fflush(kept);
        t->tell(t->user, TALKER_PIECE, *answer + *n_answer - n);
    }
    if (kept) fclose(kept);
    return status == TERN_ERR_CANCELLED ? TERN_OK : status;
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
    while (!t->question && !atomic_load(&t->leaving)) pthread_cond_wait(&t->changed, &t->lock);
    char *question = atomic_load(&t->leaving) ? NULL : t->question;
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
    tern_session_resume(atomic_load(&t->session)); /* here, and not on the thread: a later cancel must win */
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void talker_cancel(talker *t) {
    tern_session_cancel(atomic_load(&t->session));
}

void talker_free(talker *t) {
    if (!t) return;
    atomic_store(&t->leaving, true);
    talker_cancel(t);
    pthread_mutex_lock(&t->lock);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    tern_chat_free(t->chat); /* here, and not on the thread: until it is joined it may be cancelled */
    tern_session_free(t->session);
    tern_template_free(t->chat_template);
    tern_model_close(t->model);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->question);
    free(t->model_path);
    free(t);
}
