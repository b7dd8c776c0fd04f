/* Conversations in files:
 *   {"tern-chat": 1, "messages": [{"role": ..., "content": ...}, ...], "settings": {NAME: VALUE, ...}, "draws": N}
 * The settings and the number of answers drawn say with which seed it goes on: as if never left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "chat.h"
#include "json_read.h"
#include "output.h"

enum { STORE_VERSION = 1 };

static bool ends_in(const char *path, const char *ending) {
    const size_t n = strlen(path), n_ending = strlen(ending);
    return n >= n_ending && strcmp(path + n - n_ending, ending) == 0;
}

static bool state_path(const char *path, char *out, size_t cap) {
    return (size_t)snprintf(out, cap, "%s.state", path) < cap;
}

/* ---- Save ---- */

static json_t *messages_json(const tn_chat *chat, bool *ok) {
    json_t *list = json_array();
    tern_message m;
    for (size_t i = 0; tern_chat_message(chat->chat, i, &m); i++)
        *ok &= json_array_append_new(list,
                                     json_pack("{s:s, s:s%}", "role", m.role, "content", m.text, m.n)) == 0;
    return list;
}

static json_t *settings_json(const tn_chat *chat, bool *ok) {
    json_t *object = json_object();
    const char *name;
    char value[32];
    for (size_t i = 0; tn_chat_settings_get(&chat->settings, i, &name, value); i++)
        *ok &= json_object_set_new(object, name, json_string(value)) == 0;
    return object;
}

static char *conversation_json(const tn_chat *chat) {
    bool ok = true;
    json_t *messages = messages_json(chat, &ok), *settings = settings_json(chat, &ok);
    json_t *root = json_pack("{s:i, s:o, s:o, s:I}", "tern-chat", STORE_VERSION, "messages", messages,
                             "settings", settings, "draws", (json_int_t)chat->settings.n_draws);
    char *text = root && ok ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    return text;
}

static char *conversation_text(const tn_chat *chat, size_t *n) {
    char *text = NULL;
    tern_message m;
    FILE *out = open_memstream(&text, n);
    if (!out) return NULL;
    for (size_t i = 0; tern_chat_message(chat->chat, i, &m); i++) {
        fprintf(out, "%s%s:\n", i ? "\n" : "", m.role);
        fwrite(m.text, 1, m.n, out);
        if (m.n == 0 || m.text[m.n - 1] != '\n') fputc('\n', out);
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static int write_file(const tn_chat *chat, const char *path, char *text, size_t n) {
    tn_output output;
    if (!text) return tn_cli_fail("cannot save: %s: out of memory", path);
    int failed = tn_output_open(&output, path, chat->options);
    if (!failed) failed = tn_output_write(&output, text, n);
    if (!failed) failed = tn_output_commit(&output);
    free(text);
    return failed;
}

int tn_chat_save(tn_chat *chat, const char *path) {
    char state[4096];
    tern_error err;
    if (ends_in(path, ".txt") || ends_in(path, ".md")) {
        size_t n = 0;
        char *text = conversation_text(chat, &n);
        const int failed = write_file(chat, path, text, n);
        if (!failed) tn_chat_note(chat, "written to %s", path);
        return failed;
    }
    if (!state_path(path, state, sizeof state))
        return tn_cli_fail("cannot save: %s: the name is too long", path);
    char *json = conversation_json(chat);
    const int failed = write_file(chat, path, json, json ? strlen(json) : 0);
    if (failed) return failed;
    if (tern_session_save(chat->session, state, &err) != TERN_OK) return tn_cli_fail_library(&err);
    tn_chat_note(chat, "saved to %s and %s", path, state);
    return TN_EXIT_DONE;
}

/* ---- Load ---- */

static int bad(const char *path, const char *why) {
    return tn_cli_fail("cannot load: %s: %s", path, why);
}

/* Whether every message has a role and a content, so that nothing is changed before all of them are known to be good. */
static bool are_messages(const json_t *list) {
    size_t i;
    const json_t *m;
    if (!json_is_array(list)) return false;
    json_array_foreach(list, i, m) {
        if (!json_is_string(json_object_get(m, "role")) || !json_is_string(json_object_get(m, "content")))
            return false;
    }
    return true;
}

static int load_settings(const json_t *object, tn_chat_settings *settings) {
    const char *name;
    const json_t *value;
    void *at = json_object_iter((json_t *)(uintptr_t)object);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        name = json_object_iter_key(at);
        value = json_object_iter_value(at);
        const int failed =
            tn_chat_settings_set(settings, name, json_is_string(value) ? json_string_value(value) : "");
        if (failed) return failed;
    }
    return TN_EXIT_DONE;
}

static int put_messages(tn_chat *chat, const json_t *list) {
    size_t i;
    const json_t *m;
    tern_error err;
    tern_chat_truncate(chat->chat, 0);
    json_array_foreach(list, i, m) {
        const json_t *content = json_object_get(m, "content");
        if (tern_chat_add(chat->chat, json_string_value(json_object_get(m, "role")),
                          json_string_value(content), json_string_length(content), &err) != TERN_OK)
            return tn_cli_fail_library(&err);
    }
    return TN_EXIT_DONE;
}

static int load_conversation(tn_chat *chat, const json_t *root, const char *path) {
    const json_t *list = json_object_get(root, "messages"), *draws = json_object_get(root, "draws");
    if (json_integer_value(json_object_get(root, "tern-chat")) != STORE_VERSION)
        return bad(path, "not a conversation, or one of another version");
    if (!are_messages(list) || !json_is_integer(draws) || json_integer_value(draws) < 0)
        return bad(path, "expected messages, each with a role and a content, and a number of draws");
    tn_chat_settings settings = chat->settings;
    int failed = load_settings(json_object_get(root, "settings"), &settings);
    if (!failed) failed = put_messages(chat, list);
    if (failed) return failed;
    settings.n_draws = (uint64_t)json_integer_value(draws);
    chat->settings = settings;
    tern_chat_set_when_full(chat->chat, settings.drop ? TERN_WHEN_FULL_DROP : TERN_WHEN_FULL_STOP);
    return TN_EXIT_DONE;
}

/* Without its state a conversation is read again, which takes time alone. */
static int load_state(tn_chat *chat, const char *path) {
    char state[4096];
    tern_error err;
    if (!state_path(path, state, sizeof state) || access(state, F_OK) != 0) return TN_EXIT_DONE;
    if (tern_session_load(chat->session, state, &err) == TERN_OK) return TN_EXIT_DONE;
    return tn_cli_fail_library(&err);
}

int tn_chat_load(tn_chat *chat, const char *path) {
    tn_text file;
    json_error_t error;
    int failed = tn_cli_read(path, &file);
    if (failed) return failed;
    json_t *root = tn_json_read(file.bytes, file.n, JSON_ALLOW_NUL, &error);
    free(file.bytes);
    if (!root) return tn_cli_fail("cannot load: %s: line %d: %s", path, error.line, error.text);
    failed = load_conversation(chat, root, path);
    json_decref(root);
    if (failed) return failed;
    tn_chat_note(chat, "loaded %zu messages", tern_chat_n_messages(chat->chat));
    return load_state(chat, path);
}
