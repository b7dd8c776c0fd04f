/* Conversations: messages, the prompt made of them, and what to do when the context is full. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/utf8.h"
#include "api.h"

typedef struct chat_message {
    char *role, *text;
    size_t n;
} chat_message;

struct tern_chat {
    tern_session *session;
    tern_chat_options options;
    chat_message *messages;
    size_t n_messages, cap_messages;
    size_t first; /* messages before it, but for the system's, are dropped */
    int32_t *ids; /* of the last prompt */
    size_t n_ids;
};

void tern_chat_options_defaults(tern_chat_options *o) {
    *o = (tern_chat_options){.size = sizeof *o, .n_reserve = 512};
}

static tern_status render_by_template(void *user, const char *messages, size_t n, int32_t **ids,
                                      size_t *n_ids, tern_error *err) {
    const tern_chat *chat = user;
    tern_conversation conversation;
    (void)n;
    tern_conversation_defaults(&conversation);
    conversation.messages = messages;
    return tern_template_tokenize(chat->options.chat_template, &conversation, ids, n_ids, err);
}

tern_status tern_chat_new(tern_session *session, const tern_chat_options *options, tern_chat **out,
                          tern_error *err) {
    if (out) *out = NULL;
    if (!session || !out) return tn_api_null(err, __func__);
    tn_error e = {0};
    tern_chat_options o;
    tern_chat_options_defaults(&o);
    tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (!s && o.when_full > TERN_WHEN_FULL_DROP)
        s = tn_fail(&e, TN_ERR_ARG, "bad options", "when_full", "%u is none", (unsigned)o.when_full);
    if (s) return tn_api_give(err, s, &e);
    if (!o.render && !o.chat_template)
        return tn_api_give(err, tn_fail(&e, TN_ERR_ARG, "cannot chat", NULL, "no template for its messages"),
                           &e);
    tern_chat *chat = calloc(1, sizeof *chat);
    if (!chat) return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot chat", NULL, "out of memory"), &e);
    const uint32_t quarter = tn_session_config_of(session->s)->n_ctx / 4;
    if (o.n_reserve > quarter) o.n_reserve = quarter;
    chat->session = session;
    chat->options = o;
    if (!o.render) chat->options.render = render_by_template, chat->options.user = chat;
    *out = chat;
    return TERN_OK;
}

void tern_chat_free(tern_chat *chat) {
    if (!chat) return;
    tern_chat_truncate(chat, 0);
    free(chat->messages);
    free(chat->ids);
    free(chat);
}

/* ---- Messages ---- */

static bool is_system(const tern_chat *chat, size_t i) {
    return i == 0 && i < chat->n_messages && !strcmp(chat->messages[0].role, "system");
}

size_t tern_chat_n_messages(const tern_chat *chat) {
    return chat->n_messages;
}

bool tern_chat_message(const tern_chat *chat, size_t i, tern_message *message) {
    if (i >= chat->n_messages) return false;
    const chat_message *m = &chat->messages[i];
    *message = (tern_message){m->role, m->text, m->n, i < chat->first && !is_system(chat, i)};
    return true;
}

/* A copy with U+FFFD for each ill-formed part; NULL when memory is out. */
static char *copy_text(const char *text, size_t n, size_t *n_out) {
    char *copy = malloc(n * 3 + 1), *at = copy;
    if (!copy) return NULL;
    for (size_t i = 0; i < n;) {
        const tn_utf8_span span = tn_utf8_look(text + i, n - i);
        if (span.kind == TN_UTF8_WHOLE) {
            memcpy(at, text + i, span.len);
            at += span.len;
        } else {
            memcpy(at, "\xEF\xBF\xBD", 3);
            at += 3;
        }
        i += span.len;
    }
    *at = 0;
    *n_out = (size_t)(at - copy);
    return copy;
}

static bool make_message(chat_message *m, const char *role, const char *text, size_t n) {
    m->role = strdup(role);
    m->text = copy_text(text, n, &m->n);
    if (m->role && m->text) return true;
    free(m->role);
    free(m->text);
    return false;
}

static void free_message(chat_message *m) {
    free(m->role);
    free(m->text);
}

static tern_status insert(tern_chat *chat, size_t at, const char *role, const char *text, size_t n,
                          tern_error *err) {
    tn_error e = {0};
    chat_message m;
    if (chat->n_messages == chat->cap_messages) {
        const size_t cap = chat->cap_messages * 2 + 16;
        chat_message *grown = realloc(chat->messages, cap * sizeof *grown);
        if (grown) chat->messages = grown, chat->cap_messages = cap;
    }
    if (chat->n_messages == chat->cap_messages || !make_message(&m, role, text, n))
        return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot add a message", NULL, "out of memory"),
                           &e);
    memmove(chat->messages + at + 1, chat->messages + at, (chat->n_messages - at) * sizeof m);
    chat->messages[at] = m;
    chat->n_messages++;
    return TERN_OK;
}

tern_status tern_chat_add(tern_chat *chat, const char *role, const char *text, size_t n, tern_error *err) {
    if (!chat || !role || (!text && n)) return tn_api_null(err, __func__);
    return insert(chat, chat->n_messages, role, text, n, err);
}

tern_status tern_chat_set_system(tern_chat *chat, const char *text, size_t n, tern_error *err) {
    if (!chat || (!text && n)) return tn_api_null(err, __func__);
    const bool had = is_system(chat, 0);
    if (n) {
        const tern_status status = insert(chat, 0, "system", text, n, err);
        if (status) return status;
    }
    if (had) {
        const size_t at = n ? 1 : 0;
        free_message(&chat->messages[at]);
        chat->n_messages--;
        memmove(chat->messages + at, chat->messages + at + 1,
                (chat->n_messages - at) * sizeof *chat->messages);
    }
    if (chat->first) chat->first += (n != 0), chat->first -= had;
    return TERN_OK;
}

void tern_chat_truncate(tern_chat *chat, size_t n_messages) {
    while (chat->n_messages > n_messages) free_message(&chat->messages[--chat->n_messages]);
    if (chat->first >= chat->n_messages) chat->first = 0; /* what was dropped is the last turn now */
}

void tern_chat_set_when_full(tern_chat *chat, tern_when_full when_full) {
    chat->options.when_full = when_full;
}

/* ---- Prompt ---- */

static void write_string(FILE *out, const char *text, size_t n) {
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

/* The messages that the model sees, as JSON; freed by the caller, NULL when memory is out. */
static char *write_messages(const tern_chat *chat, size_t *n) {
    char *text = NULL;
    const char *separator = "[";
    FILE *out = open_memstream(&text, n);
    if (!out) return NULL;
    for (size_t i = 0; i < chat->n_messages; i++) {
        const chat_message *m = &chat->messages[i];
        if (i < chat->first && !is_system(chat, i)) continue;
        fprintf(out, "%s{\"role\": ", separator);
        write_string(out, m->role, strlen(m->role));
        fputs(", \"content\": ", out);
        write_string(out, m->text, m->n);
        fputc('}', out);
        separator = ", ";
    }
    fputs(chat->n_messages ? "]" : "[]", out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

static tern_status render(tern_chat *chat, tern_error *err) {
    tn_error e = {0};
    size_t n;
    free(chat->ids);
    chat->ids = NULL, chat->n_ids = 0;
    char *messages = write_messages(chat, &n);
    if (!messages)
        return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot chat", NULL, "out of memory"), &e);
    const tern_status status =
        chat->options.render(chat->options.user, messages, n, &chat->ids, &chat->n_ids, err);
    free(messages);
    return status;
}

/* Drops the oldest turn that is still seen: up to the next message of the user. False if it is the last. */
static bool drop_turn(tern_chat *chat) {
    const size_t start = chat->first ? chat->first : is_system(chat, 0);
    for (size_t i = start + 1; i < chat->n_messages; i++) {
        if (strcmp(chat->messages[i].role, "user")) continue;
        chat->first = i;
        return true;
    }
    return false;
}

static tern_status no_room(const tern_chat *chat, size_t n_tokens, tern_error *err) {
    tn_error e = {0};
    return tn_api_give(
        err,
        tn_fail(&e, TN_ERR_FULL, "the context is full", NULL,
                "the conversation takes %zu tokens of %" PRIu32 ", and an answer needs %" PRIu32, n_tokens,
                tn_session_config_of(chat->session->s)->n_ctx, chat->options.n_reserve),
        &e);
}

/* Renders, for n_answer tokens to stand behind; drops turns where that is allowed and needed. Once it is, half of the context is made
 * free, so that it is not needed, and the rest not computed again, at every turn. */
static tern_status fit(tern_chat *chat, size_t n_answer, tern_error *err) {
    const size_t n_ctx = tn_session_config_of(chat->session->s)->n_ctx,
                 most = n_ctx - chat->options.n_reserve;
    tern_status status = render(chat, err);
    if (status || chat->n_ids + n_answer <= most) return status;
    if (chat->options.when_full == TERN_WHEN_FULL_STOP) return no_room(chat, chat->n_ids + n_answer, err);
    const size_t first = chat->first;
    while (chat->n_ids + n_answer > n_ctx / 2 && drop_turn(chat))
        if ((status = render(chat, err))) break;
    if (!status && chat->n_ids + n_answer > most) status = no_room(chat, chat->n_ids + n_answer, err);
    if (status) chat->first = first;
    return status;
}

static tern_status append_ids(tern_chat *chat, const int32_t *ids, size_t n, tern_error *err) {
    tn_error e = {0};
    int32_t *grown = realloc(chat->ids, (chat->n_ids + n) * sizeof *ids);
    if (!grown) return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot chat", NULL, "out of memory"), &e);
    memcpy(grown + chat->n_ids, ids, n * sizeof *ids);
    chat->ids = grown;
    chat->n_ids += n;
    return TERN_OK;
}

tern_status tern_chat_continue(tern_chat *chat, const int32_t *answer, size_t n_answer,
                               tern_chat_prompt *prompt, tern_error *err) {
    if (!chat || !prompt || (!answer && n_answer)) return tn_api_null(err, __func__);
    const size_t seen_from = chat->first ? chat->first : is_system(chat, 0);
    const double start = tn_clock_s();
    *prompt = (tern_chat_prompt){0};
    tern_status status = fit(chat, n_answer, err);
    if (!status && n_answer) status = append_ids(chat, answer, n_answer, err);
    if (status) return status;
    prompt->ids = chat->ids;
    prompt->n_ids = chat->n_ids;
    prompt->n_dropped = chat->first > seen_from ? chat->first - seen_from : 0;
    status = tern_session_sync(chat->session, chat->ids, chat->n_ids, 1, &prompt->n_reused, err);
    prompt->seconds = tn_clock_s() - start;
    return status;
}

tern_status tern_chat_begin(tern_chat *chat, tern_chat_prompt *prompt, tern_error *err) {
    if (!chat || !prompt) return tn_api_null(err, __func__);
    return tern_chat_continue(chat, NULL, 0, prompt, err);
}
