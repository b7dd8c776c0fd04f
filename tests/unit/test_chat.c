/* Conversations over a tiny model, with a renderer that writes each message as a token of its role and tokens of its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tern.h"
#include "tests/unit/tiny_model.h"

enum { N_VOCAB = 300, SYSTEM = 290, USER, ASSISTANT };

typedef struct fixture {
    tern_model *model;
    tern_session *session;
    tern_chat *chat;
    char messages[4096]; /* as the renderer was given them last */
    bool refuse;
} fixture;

/* The text of the string that begins behind `at`, as tokens. Escapes are as this test writes them: \" alone. */
static size_t take_string(const char *at, int32_t *ids) {
    size_t n = 0;
    for (; *at != '"'; at++) {
        if (*at == '\\') at++;
        ids[n++] = (int32_t)(unsigned char)*at;
    }
    return n;
}

static tern_status render(void *user, const char *messages, size_t n, int32_t **ids, size_t *n_ids,
                          tern_error *err) {
    fixture *f = user;
    assert_true(n < sizeof f->messages && messages[n] == 0);
    strcpy(f->messages, messages);
    if (f->refuse) {
        err->code = TERN_ERR_ARG;
        strcpy(err->message, "refused");
        return TERN_ERR_ARG;
    }
    *ids = malloc((n + 1) * sizeof **ids); /* tern_free frees it */
    *n_ids = 0;
    for (const char *at = messages; (at = strstr(at, "\"role\": \""));) {
        at += 9;
        (*ids)[(*n_ids)++] = *at == 's' ? SYSTEM : *at == 'u' ? USER : ASSISTANT;
        at = strstr(at, "\"content\": \"") + 12;
        *n_ids += take_string(at, *ids + *n_ids);
    }
    (*ids)[(*n_ids)++] = ASSISTANT;
    return TERN_OK;
}

static int setup(void **state) {
    static fixture f;
    tiny_shape shape = tiny_llama;
    shape.n_vocab = N_VOCAB;
    char path[] = "/tmp/tern-tiny-XXXXXX";
    tiny_write(&shape, path);
    f = (fixture){0};
    tern_error err;
    tern_session_options session;
    tern_session_options_defaults(&session);
    session.n_ctx = 100, session.n_threads = 1;
    tern_chat_options chat;
    tern_chat_options_defaults(&chat);
    chat.render = render;
    chat.user = &f;
    chat.n_reserve = 20;
    const bool failed = tern_model_open(path, NULL, &f.model, &err) != TERN_OK ||
                        tern_session_new(f.model, &session, &f.session, &err) != TERN_OK ||
                        tern_chat_new(f.session, &chat, &f.chat, &err) != TERN_OK;
    unlink(path);
    *state = &f;
    return failed;
}

static int teardown(void **state) {
    fixture *f = *state;
    tern_chat_free(f->chat);
    tern_session_free(f->session);
    tern_model_close(f->model);
    return 0;
}

static void add(fixture *f, const char *role, const char *text) {
    assert_int_equal(tern_chat_add(f->chat, role, text, strlen(text), NULL), TERN_OK);
}

static uint32_t position(const fixture *f) {
    tern_session_info info;
    tern_session_info_get(f->session, &info);
    return info.position;
}

/* Begins an answer and checks that the session is where a fresh one would be. */
static tern_chat_prompt begin(fixture *f) {
    tern_error err;
    tern_chat_prompt prompt;
    if (tern_chat_begin(f->chat, &prompt, &err) != TERN_OK) fail_msg("%s", err.message);
    assert_int_equal(position(f), prompt.n_ids);
    float logits[N_VOCAB];
    memcpy(logits, tern_session_row(f->session, 0, NULL), sizeof logits);
    tern_session_options options;
    tern_session_options_defaults(&options);
    options.n_ctx = 100, options.n_threads = 1;
    tern_session *fresh;
    assert_int_equal(tern_session_new(f->model, &options, &fresh, &err), TERN_OK);
    assert_int_equal(tern_session_eval(fresh, prompt.ids, prompt.n_ids, 1, &err), TERN_OK);
    assert_memory_equal(tern_session_row(fresh, 0, NULL), logits, sizeof logits);
    tern_session_free(fresh);
    return prompt;
}

static void turns_are_computed_once(void **state) {
    fixture *f = *state;
    assert_int_equal(tern_chat_set_system(f->chat, "be", 2, NULL), TERN_OK);
    add(f, "user", "hello");
    tern_chat_prompt p = begin(f);
    assert_string_equal(
        f->messages,
        "[{\"role\": \"system\", \"content\": \"be\"}, {\"role\": \"user\", \"content\": \"hello\"}]");
    assert_int_equal(p.n_ids, 3 + 6 + 1);
    assert_int_equal(p.n_reused, 0);
    static const int32_t answer[] = {'h', 'i'};
    assert_int_equal(tern_session_eval(f->session, answer, 2, 1, NULL), TERN_OK);
    add(f, "assistant", "hi");
    add(f, "user", "more");
    p = begin(f);
    assert_int_equal(p.n_ids, 9 + 3 + 5 + 1);
    assert_int_equal(p.n_reused, 12); /* the answer's own tokens too */
    tern_chat_truncate(f->chat, 3);   /* another question instead */
    add(f, "user", "mine");
    p = begin(f);
    assert_int_equal(p.n_reused, 14);
    p = begin(f); /* another answer: only the logits are made again */
    assert_int_equal(p.n_reused, p.n_ids - 1);
    assert_int_equal(tern_chat_set_system(f->chat, "bee", 3, NULL), TERN_OK);
    p = begin(f);
    assert_int_equal(p.n_reused, 3);
    assert_int_equal(tern_chat_set_system(f->chat, "", 0, NULL), TERN_OK);
    assert_int_equal(tern_chat_n_messages(f->chat), 3);
    p = begin(f);
    assert_int_equal(p.n_reused, 0);
}

static void a_full_context_is_said_or_makes_room(void **state) {
    fixture *f = *state;
    tern_error err;
    tern_chat_prompt p;
    assert_int_equal(tern_chat_set_system(f->chat, "be brief", 8, NULL), TERN_OK);
    for (int i = 0; i < 3; i++) {
        add(f, "user", "a question of 20....");
        if (i < 2) add(f, "assistant", "answer 10.");
    }
    /* 9 + 3 * 21 + 2 * 11 + 1 = 95, and 80 may be used. */
    assert_int_equal(tern_chat_begin(f->chat, &p, &err), TERN_ERR_FULL);
    assert_string_equal(
        err.message, "the context is full: the conversation takes 95 tokens of 100, and an answer needs 20");
    assert_int_equal(tern_chat_n_messages(f->chat), 6);
    tern_chat_set_when_full(f->chat, TERN_WHEN_FULL_DROP);
    p = begin(f);
    assert_int_equal(p.n_dropped, 4); /* two turns: one left 63, more than half of the context */
    assert_int_equal(p.n_ids, 9 + 21 + 1);
    tern_message m;
    for (size_t i = 0; i < 6; i++) {
        assert_true(tern_chat_message(f->chat, i, &m));
        assert_int_equal(m.dropped, i >= 1 && i < 5);
    }
    assert_false(tern_chat_message(f->chat, 6, &m));
    p = begin(f);
    assert_int_equal(p.n_dropped, 0);
    tern_chat_truncate(f->chat, 3); /* back before what is seen: the old turns count again */
    add(f, "user", "x");
    p = begin(f);
    assert_int_equal(p.n_ids, 9 + 21 + 11 + 2 + 1);
    /* One turn that does not fit is an error under either policy, and drops nothing. */
    char large[90];
    memset(large, 'y', sizeof large);
    assert_int_equal(tern_chat_add(f->chat, "assistant", "z", 1, NULL), TERN_OK);
    assert_int_equal(tern_chat_add(f->chat, "user", large, sizeof large, NULL), TERN_OK);
    assert_int_equal(tern_chat_begin(f->chat, &p, &err), TERN_ERR_FULL);
    assert_true(tern_chat_message(f->chat, 1, &m) && !m.dropped);
    tern_chat_truncate(f->chat, 4);
    begin(f);
}

/* An answer that ran into the end of the context: older turns give way, what was said of it stays. */
static void an_answer_goes_on_where_turns_can_be_dropped(void **state) {
    fixture *f = *state;
    tern_error err;
    tern_chat_prompt p;
    int32_t answer[70];
    for (int i = 0; i < 70; i++) answer[i] = 'a' + i % 26;
    add(f, "user", "a question of 20....");
    add(f, "assistant", "answer 10.");
    add(f, "user", "another of 15..");
    p = begin(f);
    assert_int_equal(p.n_ids, 21 + 11 + 16 + 1);
    assert_int_equal(tern_chat_continue(f->chat, answer, 51, &p, &err), TERN_ERR_FULL); /* not allowed */
    tern_chat_set_when_full(f->chat, TERN_WHEN_FULL_DROP);
    if (tern_chat_continue(f->chat, answer, 51, &p, &err) != TERN_OK) fail_msg("%s", err.message);
    assert_int_equal(p.n_dropped, 2);
    assert_int_equal(p.n_ids, 16 + 1 + 51);
    assert_int_equal(position(f), p.n_ids);
    assert_memory_equal(p.ids + 17, answer, 51 * sizeof *answer);
    assert_int_equal(tern_chat_continue(f->chat, answer, 70, &p, &err),
                     TERN_ERR_FULL); /* nothing left to drop */
}

static void text_of_any_bytes_becomes_json(void **state) {
    fixture *f = *state;
    tern_chat_prompt p;
    tern_error err;
    const char text[] = "a\"b\\c\n\x01\xff\xc3\xa9\xe2\x82";
    assert_int_equal(tern_chat_add(f->chat, "us\"er", text, sizeof text, NULL), TERN_OK); /* with the NUL */
    f->refuse = true;
    assert_int_equal(tern_chat_begin(f->chat, &p, &err), TERN_ERR_ARG);
    assert_string_equal(err.message, "refused");
    assert_string_equal(
        f->messages, "[{\"role\": \"us\\\"er\", \"content\": \"a\\\"b\\\\c\\u000a\\u0001\xef\xbf\xbd\xc3\xa9"
                     "\xef\xbf\xbd\\u0000\"}]");
    assert_int_equal(position(f), 0);
}

static void a_renderer_is_needed(void **state) {
    fixture *f = *state;
    tern_chat *chat;
    tern_error err;
    assert_int_equal(tern_chat_new(f->session, NULL, &chat, &err), TERN_ERR_ARG);
    assert_null(chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(turns_are_computed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_context_is_said_or_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_goes_on_where_turns_can_be_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(text_of_any_bytes_becomes_json, setup, teardown),
        cmocka_unit_test_setup_teardown(a_renderer_is_needed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
