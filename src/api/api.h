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
    tn_tokenizer *tok; /* NULL without a vocabulary */
    char tokenizer_name[96], name[160];
    char samplers[160]; /* general.sampling.sequence; "" where the file has none */
};

struct tern_session {
    const tern_model *model;
    tn_session *s;
};

/* Hands an internal error out; the two types agree member for member. */
static inline tern_status tn_api_give(tern_error *err, tn_status status, const tn_error *e) {
    if (err && status) memcpy(err, e, sizeof *err);
    return (tern_status)status;
}

/* A caller's options over the defaults in dst: as many bytes as the caller's version of the struct has. */
static inline void tn_api_merge(void *dst, size_t size, const void *options) {
    size_t given = 0;
    if (!options) return;
    memcpy(&given, options, sizeof given);
    memcpy(dst, options, given < size ? given : size);
}

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
