/* Chat templates of a checkpoint. tokenizer_config.json has one, or several with names; else chat_template.jinja is one, and
 * additional_chat_templates/NAME.jinja are others; else chat_template.json has one. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/fmap.h"
#include "vocab.h"

static const char folder[] = "additional_chat_templates", suffix[] = ".jinja";

enum { MAX_TEMPLATES = 64 };

/* Those that have a name, as they are written. */
typedef struct named {
    tn_str names[MAX_TEMPLATES];
    size_t n;
} named;

static tn_status too_many(const tn_converter *c, const char *where) {
    return TN_BAD(c, "%s: more than %d chat templates", where, MAX_TEMPLATES);
}

static void write_plain(const tn_converter *c, const char *text, uint64_t n) {
    tn_gguf_set_text(c->writer, "tokenizer.chat_template", text, n);
}

/* In names of keys only letters and digits remain; that called default has none. Of several with a name the last counts. */
static tn_status write_named(tn_converter *c, named *all, const char *name, const char *text, uint64_t n) {
    char key[160], plain[96];
    snprintf(plain, sizeof plain, "%s", name);
    for (char *p = plain; *p; p++)
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'))) *p = '_';
    if (!strcmp(plain, "default")) {
        write_plain(c, text, n);
        return TN_OK;
    }
    snprintf(key, sizeof key, "tokenizer.chat_template.%s", plain);
    tn_gguf_set_text(c->writer, key, text, n);
    for (size_t i = 0; i < all->n; i++)
        if (!strcmp(all->names[i].ptr, plain)) return TN_OK;
    const char *copy = tn_arena_strdup(&c->arena, plain, strlen(plain));
    all->names[all->n++] = (tn_str){copy, strlen(plain)};
    return copy ? TN_OK : tn_convert_no_memory(c);
}

static void write_names(const tn_converter *c, const named *all) {
    if (all->n) tn_gguf_set_texts(c->writer, "tokenizer.chat_templates", all->names, all->n);
}

static tn_status write_list(tn_converter *c, const json_t *list) {
    size_t i;
    json_t *item;
    named all = {.n = 0};
    tn_status s = TN_OK;
    if (json_array_size(list) > MAX_TEMPLATES) return too_many(c, "tokenizer_config.json");
    json_array_foreach(list, i, item) {
        const json_t *text = json_object_get(item, "template");
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!s && name && *name && json_is_string(text))
            s = write_named(c, &all, name, json_string_value(text), json_string_length(text));
    }
    if (!s) write_names(c, &all);
    return s;
}

/* ---- Files ------------------------------------------------------------------------------------------------- */

typedef struct listed {
    char *names[MAX_TEMPLATES]; /* in the arena */
    size_t n;
} listed;

static int compare_files(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the names of the folder's files that are templates. */
static tn_status read_folder(tn_converter *c, const char *path, DIR *dir, listed *all) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? tn_fail(c->err, TN_ERR_IO, TN_CONVERT_WHAT, path, "%s", strerror(errno)) : TN_OK;
        const size_t n = strlen(entry->d_name), n_suffix = strlen(suffix);
        if (n <= n_suffix || strcmp(entry->d_name + n - n_suffix, suffix) != 0) continue;
        if (all->n == MAX_TEMPLATES) return too_many(c, folder);
        if (!(all->names[all->n++] = tn_arena_strdup(&c->arena, entry->d_name, n)))
            return tn_convert_no_memory(c);
    }
}

/* The files of the folder that are templates, sorted; none where there is no folder. */
static tn_status list_files(tn_converter *c, listed *all) {
    const char *path = tn_convert_path(c, folder);
    if (!path) return tn_convert_no_memory(c);
    DIR *dir;
    do dir = opendir(path);
    while (!dir && errno == EINTR);
    if (!dir && (errno == ENOENT || errno == ENOTDIR)) return TN_OK;
    if (!dir) return tn_fail(c->err, TN_ERR_IO, TN_CONVERT_WHAT, path, "%s", strerror(errno));
    const tn_status s = read_folder(c, path, dir, all);
    closedir(dir);
    if (!s) qsort(all->names, all->n, sizeof *all->names, compare_files);
    return s;
}

static tn_status write_file(tn_converter *c, named *all, const char *path, const char *name) {
    tn_fmap map;
    if (!path) return tn_convert_no_memory(c);
    tn_status s = tn_fmap_open(&map, path, c->err);
    if (s) return s;
    s = write_named(c, all, name, map.size ? (const char *)map.data : "", map.size);
    tn_fmap_close(&map);
    return s;
}

static tn_status write_files(tn_converter *c, const char *path) {
    listed files = {.n = 0};
    named all = {.n = 0};
    tn_status s = write_file(c, &all, path, "default");
    if (!s) s = list_files(c, &files);
    for (size_t i = 0; !s && i < files.n; i++) {
        char file[sizeof folder + 256], name[256];
        snprintf(file, sizeof file, "%s/%.255s", folder, files.names[i]);
        snprintf(name, sizeof name, "%.*s", (int)(strlen(files.names[i]) - strlen(suffix)), files.names[i]);
        s = write_file(c, &all, tn_convert_path(c, file), name);
    }
    if (!s) write_names(c, &all);
    return s;
}

tn_status tn_vocab_write_templates(tn_converter *c) {
    const json_t *own = json_object_get(c->tokenizer_config, "chat_template");
    if (json_is_string(own)) write_plain(c, json_string_value(own), json_string_length(own));
    if (json_is_array(own)) return write_list(c, own);
    if (own && !json_is_null(own)) return TN_OK;
    const char *path = tn_convert_path(c, "chat_template.jinja");
    if (!path) return tn_convert_no_memory(c);
    bool exists;
    json_t *file;
    tn_status s = tn_fmap_exists(path, &exists, c->err);
    if (s || exists) return s ? s : write_files(c, path);
    s = tn_convert_json(c, "chat_template.json", JSON_OBJECT, &file);
    own = json_object_get(file, "chat_template");
    if (!s && json_is_string(own)) write_plain(c, json_string_value(own), json_string_length(own));
    json_decref(file);
    return s;
}
