/* What the files of this layer share: the handles of tern.h, and how options come in and errors go out. */
#ifndef TN_API_API_H
#define TN_API_API_H

#include <stddef.h>
#include <string.h>

#include "../base/status.h"
#include "../model/model.h"
#include "../session/generator.h"
#include "../session/session.h"
#include "../text/tokenizer.h"
#include "tern.h"

_Static_assert((int)TERN_ERR_CANCELLED == (int)TN_ERR_CANCELLED, "status codes agree");
_Static_assert(sizeof(tern_error) == sizeof(tn_error), "errors agree");

struct tern_model {
    tn_model *m;
    tn_tokenizer *tok;      /* NULL without a vocabulary */
    tn_allocator allocator; /* of its sessions too, unless they have their own */
    char tokenizer_name[96], name[160];
    char samplers[160]; /* general.sampling.sequence; "" where the file has none */
};

struct tern_session {
    const tern_model *model;
    const tn_graph *graph; /* one of the model's */
    tn_session *s;
};

/* Hands an internal error out; the two types agree member for member. */
static inline tern_status tn_api_give(tern_error *err, tn_status status, const tn_error *e) {
    if (err && status) memcpy(err, e, sizeof *err);
    return (tern_status)status;
}

/* A host's mistake: NULL for a handle, an out parameter or a text that a function needs. */
static inline tern_status tn_api_null(tern_error *err, const char *function) {
    tn_error e = {0};
    return tn_api_give(
        err, tn_fail(&e, TN_ERR_ARG, "bad call", function, "a parameter that it needs is NULL"), &e);
}

/* The status of what was computed with a model: what comes of a file that shrank since is wrong, whatever it is. */
static inline tn_status tn_api_computed(const tern_model *model, tn_status s, tn_error *e) {
    if (s && s != TN_ERR_NUMERIC) return s;
    const tn_status whole = tn_file_check_whole(model->m->file, e);
    return whole ? whole : s;
}

/* A caller's options over the defaults in dst: as many bytes as the caller's version of the struct has. A size that no version has
 * is that of a struct which no ..._defaults function filled. */
static inline tn_status tn_api_options(void *dst, size_t size, const void *options, tn_error *e) {
    size_t given;
    if (!options) return TN_OK;
    memcpy(&given, options, sizeof given);
    if (given <= sizeof given || given > 64 * size)
        return tn_fail(e, TN_ERR_ARG, "bad options", "size",
                       "%zu, expected options that their _defaults function filled", given);
    memcpy(dst, options, given < size ? given : size);
    return TN_OK;
}

/* An error where n items of the options are said to be there and none are. */
static inline tn_status tn_api_items(const void *items, size_t n, const char *name, tn_error *e) {
    return items || !n ? TN_OK : tn_fail(e, TN_ERR_ARG, "bad options", name, "NULL, expected %zu of them", n);
}

/* The same of texts, each of which has to be there. */
static inline tn_status tn_api_texts(const char *const *texts, size_t n, const char *name, tn_error *e) {
    const tn_status s = tn_api_items(texts, n, name, e);
    for (size_t i = 0; i < n && !s; i++)
        if (!texts[i]) return tn_fail(e, TN_ERR_ARG, "bad options", name, "number %zu is NULL", i + 1);
    return s;
}

/* A caller's allocator; an error where a function is missing. */
static inline tn_status tn_api_allocator(const tern_allocator *from, tn_allocator *to, tn_error *e) {
    *to = (tn_allocator){from->alloc, from->free, from->user};
    return !from->alloc == !from->free
               ? TN_OK
               : tn_fail(e, TN_ERR_ARG, "bad options", "allocator", "it needs both functions, or neither");
}

/* Whether the results are logits; else they are what embeddings are made of. */
static inline bool tn_api_has_logits(const tern_session *session) {
    return session->graph == &session->model->m->graph && !session->model->m->encoder;
}

/* How the rows of a text become a vector unless the caller says; TN_POOLING_RANK: not at all (embed.c). */
tn_pooling tn_api_pooling(const tern_model *model);

/* An error where the model has no vocabulary. */
tn_status tn_api_need_tokenizer(const tern_model *model, tn_error *e);

/* tern_model_sampling without the handing out of errors (sampling.c). */
tn_status tn_api_model_sampling(const tern_model *model, tern_sampling *sampling, tn_error *e);

/* The sampler's own form; strings and arrays are still the caller's. */
tn_sampler_params tn_api_sampler_params(const tern_sampling *sampling);

/* The number of threads asked for, 0 for the default, within the processors allowed: a thread more than those would
 * only make the others wait at every step. */
uint32_t tn_api_threads(uint32_t asked);

#endif
