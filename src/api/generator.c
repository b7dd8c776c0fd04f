/* Text from a session. */
#include <stdlib.h>

#include "../text/schema.h"
#include "api.h"

_Static_assert((int)TERN_STOP_COMPLETE == (int)TN_STOP_COMPLETE, "stop reasons agree");
_Static_assert((int)TERN_DRAFT_OUTPUTS == (int)TN_MAX_DRAFT + 1, "a row for each drafted token and one");

_Static_assert(sizeof(tern_logprob) == sizeof(tn_logprob), "log-probabilities agree");

struct tern_generator {
    const tern_model *model;
    tn_generator *g;
    tn_constraint *constraint; /* NULL: none */
};

void tern_generator_options_defaults(tern_generator_options *o) {
    *o = (tern_generator_options){.size = sizeof *o, .max_tokens = UINT64_MAX};
}

/* Ids must mean the same to both models. */
static tn_status check_draft(const tern_model *model, const tern_model *draft, tn_error *e) {
    const char *path = tn_file_path(draft->m->file);
    const uint32_t n = model->m->hparams.n_vocab, n_draft = draft->m->hparams.n_vocab;
    if (n != n_draft)
        return tn_fail(e, TN_ERR_ARG, "cannot draft", path, "a vocabulary of %u tokens, expected the same %u",
                       n_draft, n);
    for (uint32_t i = 0; i < n && draft->tok; i++) {
        size_t n_a, n_b;
        const char *a = tn_token_bytes(model->tok, (int32_t)i, true, &n_a);
        const char *b = tn_token_bytes(draft->tok, (int32_t)i, true, &n_b);
        if (n_a != n_b || memcmp(a, b, n_a))
            return tn_fail(e, TN_ERR_ARG, "cannot draft", path,
                           "token %u is another than that of the model that generates", i);
    }
    return draft->tok ? TN_OK : tn_api_need_tokenizer(draft, e);
}

/* By way of a grammar, which comes without a way to end only if the schema leads back to itself. */
static tn_status parse_schema(const tern_generator_options *o, tn_grammar **out, tn_error *err) {
    char *text;
    tn_error inner = {0};
    *out = NULL;
    tn_status s = tn_schema_to_grammar(o->json_schema, o->n_json_schema, &text, err);
    if (s) return s;
    s = tn_grammar_parse(text, strlen(text), "made of a JSON schema", out, &inner);
    free(text);
    return s ? tn_fail(err, s, "bad JSON schema", NULL, "too large, or a $ref leads back to itself (%s)",
                       inner.message)
             : TN_OK;
}

static tn_status make_constraint(tern_generator *generator, const tern_session *session,
                                 const tern_generator_options *o, tn_error *err) {
    tn_grammar *grammar;
    if (!o->grammar && !o->json_schema) return TN_OK;
    if (o->grammar && o->json_schema)
        return tn_fail(err, TN_ERR_ARG, "cannot generate", NULL,
                       "a grammar and a JSON schema, expected one of them");
    const tn_status s = o->json_schema ? parse_schema(o, &grammar, err)
                                       : tn_grammar_parse(o->grammar, o->n_grammar, "grammar", &grammar, err);
    if (s) return s;
    return tn_constraint_new(grammar, session->model->tok, tn_session_config_of(session->s)->n_vocab,
                             !o->ignore_end, &generator->constraint, err);
}

/* What the options alone can get wrong. */
static tn_status read_options(const tern_generator_options *o, tern_sampling *sampling, tn_error *e) {
    tern_sampling_defaults(sampling);
    tn_status s = tn_api_options(sampling, sizeof *sampling, o->sampling, e);
    if (!s) s = tn_api_texts(sampling->dry_breakers, sampling->n_dry_breakers, "dry_breakers", e);
    if (!s) s = tn_api_items(sampling->bias, sampling->n_bias, "bias", e);
    return s ? s : tn_api_texts(o->stop, o->n_stop, "stop", e);
}

static tn_status make(tern_generator *generator, const tern_session *session, const tern_generator_options *o,
                      const int32_t *prompt, size_t n_prompt, tn_error *e) {
    tern_sampling p;
    tn_status s = read_options(o, &p, e);
    if (!s) s = tn_api_need_tokenizer(session->model, e);
    if (!s && !tn_api_has_logits(session))
        s = tn_fail(e, TN_ERR_ARG, "cannot generate", tn_file_path(session->model->m->file),
                    "there are embeddings instead of logits");
    if (!s && !o->sampling) s = tn_api_model_sampling(session->model, &p, e);
    if (!s) s = make_constraint(generator, session, o, e);
    if (!s && o->draft && (o->draft == session || !tn_api_has_logits(o->draft)))
        s = tn_fail(e, TN_ERR_ARG, "cannot draft", tn_file_path(o->draft->model->m->file),
                    "expected another session, one that keeps logits");
    if (!s && o->draft) s = check_draft(session->model, o->draft->model, e);
    if (s) return s;
    const tn_generator_config c = {.sampling = tn_api_sampler_params(&p),
                                   .max_tokens = o->max_tokens,
                                   .stop = o->stop,
                                   .n_stop = o->n_stop,
                                   .ignore_end = o->ignore_end,
                                   .special = o->special,
                                   .n_begun = o->n_begun,
                                   .constraint = generator->constraint,
                                   .want_logprobs = o->want_logprobs,
                                   .n_logprobs = o->n_logprobs,
                                   .plain = o->plain,
                                   .draft = o->draft ? o->draft->s : NULL};
    return tn_generator_new(session->s, session->model->tok, &c, prompt, n_prompt, &generator->g, e);
}

tern_status tern_generator_new(tern_session *session, const tern_generator_options *options,
                               const int32_t *prompt, size_t n_prompt, tern_generator **out,
                               tern_error *err) {
    if (out) *out = NULL;
    if (!session || (!prompt && n_prompt) || !out) return tn_api_null(err, __func__);
    tern_generator_options o;
    tn_error e = {0};
    tern_generator_options_defaults(&o);
    tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (s) return tn_api_give(err, s, &e);
    tern_generator *generator = calloc(1, sizeof *generator);
    if (!generator)
        return tn_api_give(err, tn_fail(&e, TN_ERR_MEMORY, "cannot generate", NULL, "out of memory"), &e);
    generator->model = session->model;
    s = make(generator, session, &o, prompt, n_prompt, &e);
    if (s) {
        tern_generator_free(generator);
        return tn_api_give(err, s, &e);
    }
    *out = generator;
    return TERN_OK;
}

void tern_generator_free(tern_generator *generator) {
    if (!generator) return;
    tn_generator_free(generator->g);
    tn_constraint_free(generator->constraint);
    free(generator);
}

tern_status tern_generator_next(tern_generator *generator, const char **text, size_t *n,
                                tern_stop_reason *stop, tern_error *err) {
    if (!generator || !text || !n || !stop) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_stop reason;
    tn_status s = tn_generator_next(generator->g, text, n, &reason, &e);
    s = tn_api_computed(generator->model, s, &e);
    if (s) *n = 0;
    *stop = (tern_stop_reason)reason;
    return tn_api_give(err, s, &e);
}

void tern_generator_result(const tern_generator *generator, tern_generated *result) {
    const tn_generated r = tn_generator_result(generator->g);
    *result = (tern_generated){.stop = (tern_stop_reason)r.stop,
                               .n_tokens = r.n_tokens,
                               .n_guessed = r.n_guessed,
                               .n_right = r.n_right,
                               .first_s = r.first_s,
                               .seconds = r.seconds,
                               .token = tn_generator_token(generator->g)};
    result->logprobs = (const tern_logprob *)tn_generator_logprobs(generator->g, &result->n_logprobs);
}

void tern_generator_describe(const tern_generator *generator, char *dst, size_t cap) {
    tn_sampler_describe(tn_generator_sampler(generator->g), dst, cap);
}
