/* A directory of safetensors files as one checkpoint. */
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file.h"
#include "json.h"
#include "safetensors_impl.h"

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

enum { MAX_SHARDS = 4096 };

static tn_status no_memory(const char *where, tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, TN_ST_WHAT, where, "out of memory");
}

static const char *join(tn_checkpoint *c, const char *dir, const char *name) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path ? tn_arena_strdup(&c->arena, path, (size_t)n) : NULL;
}

static tn_status read_shards(tn_checkpoint *c, const char *dir, const char *const *names, uint32_t n,
                             tn_error *err) {
    if (!(c->shards = tn_arena_alloc(&c->arena, n, sizeof *c->shards))) return no_memory(dir, err);
    for (uint32_t i = 0; i < n; i++) {
        if (!(c->shards[i].path = join(c, dir, names[i]))) return no_memory(dir, err);
        c->n_shards++;
        tn_status s = tn_st_read_shard(c, i, err);
        if (s) return s;
    }
    return TN_OK;
}

static tn_status build_names(tn_checkpoint *c, const char *dir, tn_error *err) {
    uint64_t first, second;
    uint32_t *slots = tn_arena_alloc(&c->arena, tn_names_slots(c->n_tensors), sizeof *slots);
    if (!slots) return no_memory(dir, err);
    if (tn_names_build(&c->names, slots, c->tensors, sizeof *c->tensors, c->n_tensors, &first, &second))
        return TN_OK;
    return tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, tn_checkpoint_path(c, &c->tensors[second]),
                   "tensor '%s' is there twice, the other in %s", tn_show(c->tensors[second].name).text,
                   tn_checkpoint_path(c, &c->tensors[first]));
}

/* A name that stays in the directory. */
static bool is_plain(const char *name) {
    return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The files that the index names, each once, in the order of their names. */
static tn_status list_shards(json_t *map, json_t *seen, const char *index, tn_error *err) {
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value) {
        const char *name = json_string_value(value);
        if (!is_plain(name) || json_string_length(value) != strlen(name))
            return tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, index,
                           "tensor '%s': expected the name of a file beside it%s%s", tensor,
                           name ? ", found " : "", name ? name : "");
        if (json_object_get(seen, name)) continue;
        if (json_object_size(seen) == MAX_SHARDS)
            return tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, index, "more than %d files", MAX_SHARDS);
        if (json_object_set_new(seen, name, json_null()) != 0) return no_memory(index, err);
    }
    if (json_object_size(seen) == 0)
        return tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, index, "'weight_map' names no tensor");
    return TN_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Every tensor is in the file that the index says, and in no other. */
static tn_status check_index(const tn_checkpoint *c, json_t *map, const char *index, tn_error *err) {
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value) {
        const tn_st_tensor *t = tn_checkpoint_find(c, tensor, strlen(tensor));
        const char *path = t ? tn_checkpoint_path(c, t) : NULL;
        if (!t || strcmp(strrchr(path, '/') + 1, json_string_value(value)) != 0)
            return tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, index, "tensor '%s' is not in %s", tensor,
                           json_string_value(value));
    }
    for (uint64_t i = 0; i < c->n_tensors; i++) {
        const tn_str name = c->tensors[i].name;
        if (!json_object_getn(map, name.ptr, (size_t)name.len))
            return tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, index, "tensor '%s' of %s is not listed",
                           tn_show(name).text, tn_checkpoint_path(c, &c->tensors[i]));
    }
    return TN_OK;
}

static tn_status open_listed(tn_checkpoint *c, const char *dir, const char *index, json_t *map, json_t *seen,
                             tn_error *err) {
    tn_status s = list_shards(map, seen, index, err);
    if (s) return s;
    const char **names = tn_arena_alloc(&c->arena, json_object_size(seen), sizeof *names);
    if (!names) return no_memory(index, err);
    uint32_t n = 0;
    const char *name;
    json_t *unused;
    json_object_foreach(seen, name, unused) names[n++] = name;
    qsort(names, n, sizeof *names, by_text);
    if ((s = read_shards(c, dir, names, n, err)) || (s = build_names(c, dir, err))) return s;
    return check_index(c, map, index, err);
}

static tn_status open_index(tn_checkpoint *c, const char *dir, const char *index, tn_error *err) {
    json_t *root;
    tn_status s = tn_json_load(TN_ST_WHAT, index, JSON_OBJECT, &root, err);
    if (s) return s;
    json_t *map = json_object_get(root, "weight_map"), *seen = json_object();
    if (!json_is_object(map))
        s = tn_fail(err, TN_ERR_FORMAT, TN_ST_WHAT, index, "expected an object 'weight_map'");
    else
        s = seen ? open_listed(c, dir, index, map, seen, err) : no_memory(index, err);
    json_decref(seen);
    json_decref(root);
    return s;
}

static tn_status open_dir(tn_checkpoint *c, const char *dir, tn_error *err) {
    static const char *const single[] = {SINGLE_NAME};
    const char *index = join(c, dir, INDEX_NAME), *one = join(c, dir, SINGLE_NAME);
    if (!index || !one) return no_memory(dir, err);
    bool has_index, has_one;
    tn_status s = tn_fmap_exists(index, &has_index, err);
    if (s || has_index) return s ? s : open_index(c, dir, index, err);
    if ((s = tn_fmap_exists(one, &has_one, err))) return s;
    if (!has_one)
        return tn_fail(err, TN_ERR_IO, TN_ST_WHAT, dir,
                       "neither " SINGLE_NAME " nor " INDEX_NAME " is there");
    s = read_shards(c, dir, single, 1, err);
    return s ? s : build_names(c, dir, err);
}

tn_status tn_checkpoint_open(const char *dir, tn_checkpoint **out, tn_error *err) {
    *out = NULL;
    tn_checkpoint *c = calloc(1, sizeof *c);
    if (!c) return no_memory(dir, err);
    tn_status s = open_dir(c, dir, err);
    if (s)
        tn_checkpoint_close(c);
    else
        *out = c;
    return s;
}

static tn_status add_shard(tn_checkpoint *c, const char *dir, tn_error *err) {
    tn_st_shard *shards = tn_arena_alloc(&c->arena, c->n_shards + 1, sizeof *shards);
    const char *path = join(c, dir, SINGLE_NAME);
    if (!shards || !path) return no_memory(dir, err);
    memcpy(shards, c->shards, c->n_shards * sizeof *shards);
    shards[c->n_shards].path = path;
    c->shards = shards;
    return tn_st_read_shard(c, c->n_shards++, err);
}

static tn_status put_before(tn_checkpoint *c, const char *prefix, tn_str *name) {
    const size_t n = strlen(prefix);
    char *longer = tn_arena_alloc(&c->arena, n + (size_t)name->len + 1, 1);
    if (!longer) return TN_ERR_MEMORY;
    memcpy(longer, prefix, n);
    memcpy(longer + n, name->ptr, (size_t)name->len);
    *name = (tn_str){longer, n + name->len};
    return TN_OK;
}

tn_status tn_checkpoint_add(tn_checkpoint *c, const char *dir, const char *prefix, tn_error *err) {
    const uint64_t first = c->n_tensors;
    tn_status s = add_shard(c, dir, err);
    for (uint64_t i = first; !s && i < c->n_tensors; i++)
        if (put_before(c, prefix, &c->tensors[i].name)) s = no_memory(dir, err);
    return s ? s : build_names(c, dir, err);
}

void tn_checkpoint_close(tn_checkpoint *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n_shards; i++) tn_fmap_close(&c->shards[i].map);
    tn_arena_free(&c->arena);
    free(c->tensors);
    free(c);
}

tn_status tn_checkpoint_check_whole(const tn_checkpoint *c, tn_error *err) {
    for (uint32_t i = 0; i < c->n_shards; i++)
        if (!tn_fmap_is_whole(&c->shards[i].map))
            return tn_fail(err, TN_ERR_IO, "cannot read", c->shards[i].path, "the file shrank while in use");
    return TN_OK;
}

uint64_t tn_checkpoint_n_tensors(const tn_checkpoint *c) {
    return c->n_tensors;
}

const tn_st_tensor *tn_checkpoint_at(const tn_checkpoint *c, uint64_t i) {
    return &c->tensors[i];
}

const tn_st_tensor *tn_checkpoint_find(const tn_checkpoint *c, const char *name, uint64_t n) {
    return tn_names_find(&c->names, name, (size_t)n);
}

const char *tn_checkpoint_path(const tn_checkpoint *c, const tn_st_tensor *tensor) {
    return c->shards[tensor->shard].path;
}

bool tn_checkpoint_has_file(const tn_checkpoint *c, const char *path) {
    struct stat other, own;
    if (stat(path, &other) != 0) return false;
    for (uint32_t i = 0; i < c->n_shards; i++)
        if (stat(c->shards[i].path, &own) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino)
            return true;
    return false;
}
