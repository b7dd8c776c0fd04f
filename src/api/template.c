/* Chat templates: of a model or from a source, with conversations given as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../base/utf8.h"
#include "../text/template.h"
#include "api.h"

struct tern_template {
    const tern_model *model;         /* NULL if it needs none */
    tn_template *plain, *with_tools; /* the latter NULL unless the model has one of its own for tools */
    json_t *trusted;                 /* texts of special tokens */
};

void tern_template_options_defaults(tern_template_options *o) {
    *o = (tern_template_options){.size = sizeof *o};
}

void tern_conversation_defaults(tern_conversation *c) {
    *c = (tern_conversation){.size = sizeof *c, .add_generation_prompt = true};
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static tn_status no_memory(tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "chat template", NULL, "out of memory");
}

/* tokenizer.chat_template, or with .NAME behind it. *out stays NULL if the model has none of that name. */
static tn_status parse_of_model(const tern_model *model, const char *name, tn_template **out, tn_error *err) {
    char key[160];
    tn_str source;
    if (snprintf(key, sizeof key, "tokenizer.chat_template%s%s", name ? "." : "", name ? name : "") >=
        (int)sizeof key)
        return tn_fail(err, TN_ERR_ARG, "chat template", name, "the name is too long");
    const tn_meta *meta = tn_file_meta(model->m->file, key);
    if (!meta) return TN_OK;
    if (!tn_meta_str(meta, 0, &source))
        return tn_fail(err, TN_ERR_FORMAT, "chat template", tn_file_path(model->m->file),
                       "key '%s': expected a string", key);
    return tn_template_parse(source.ptr, source.len, out, err);
}

static tn_status parse_templates(tern_template *t, const tern_template_options *o, tn_error *err) {
    if (o->source) return tn_template_parse(o->source, o->n_source, &t->plain, err);
    if (!o->model)
        return tn_fail(err, TN_ERR_ARG, "chat template", NULL, "expected a model or a source, found neither");
    tn_status status = parse_of_model(o->model, o->name, &t->plain, err);
    if (status == TN_OK && !t->plain)
        return tn_fail(err, TN_ERR_UNSUPPORTED, "chat template", tn_file_path(o->model->m->file),
                       "the model has no key 'tokenizer.chat_template%s%s'", o->name ? "." : "",
                       o->name ? o->name : "");
    if (status == TN_OK && !o->name) status = parse_of_model(o->model, "tool_use", &t->with_tools, err);
    return status;
}

/* False only if memory is out: a text that is not UTF-8 is left out. */
static bool trust(json_t *trusted, const char *name, const char *text, size_t n) {
    for (size_t i = 0, len; i < n; i += len)
        if (!(len = tn_utf8_char(text + i, n - i))) return true;
    return json_object_set_new(trusted, name, json_stringn_nocheck(text, n)) == 0;
}

static bool trust_token(json_t *trusted, const char *name, const tn_tokenizer *tok, int64_t id) {
    size_t n;
    if (id < 0) return true;
    const char *text = tn_token_bytes(tok, (int32_t)id, true, &n);
    return trust(trusted, name, text, n);
}

static bool trust_tokens(tern_template *t, const tern_template_options *o) {
    t->trusted = json_object();
    if (!t->trusted) return false;
    if (o->model && o->model->tok) {
        const tn_vocab_source *vocab = &o->model->m->vocab;
        if (!trust_token(t->trusted, "bos_token", o->model->tok, vocab->bos) ||
            !trust_token(t->trusted, "eos_token", o->model->tok, vocab->eos) ||
            !trust_token(t->trusted, "unk_token", o->model->tok, vocab->unk) ||
            !trust_token(t->trusted, "sep_token", o->model->tok, vocab->sep))
            return false;
    }
    return (!o->bos || trust(t->trusted, "bos_token", o->bos, strlen(o->bos))) &&
           (!o->eos || trust(t->trusted, "eos_token", o->eos, strlen(o->eos)));
}

tern_status tern_template_open(const tern_template_options *options, tern_template **out, tern_error *err) {
    if (out) *out = NULL;
    if (!options || !out) return tn_api_null(err, __func__);
    tern_template_options o;
    tn_error e = {0};
    tern_template_options_defaults(&o);
    tn_status status = tn_api_options(&o, sizeof o, options, &e);
    if (status) return tn_api_give(err, status, &e);
    tern_template *t = calloc(1, sizeof *t);
    if (!t) return tn_api_give(err, no_memory(&e), &e);
    t->model = o.model;
    status = parse_templates(t, &o, &e);
    if (status == TN_OK && !trust_tokens(t, &o)) status = no_memory(&e);
    if (status != TN_OK) {
        tern_template_free(t);
        return tn_api_give(err, status, &e);
    }
    *out = t;
    return TERN_OK;
}

void tern_template_free(tern_template *t) {
    if (!t) return;
    tn_template_free(t->plain);
    tn_template_free(t->with_tools);
    json_decref(t->trusted);
    free(t);
}

/* ---- Conversations ------------------------------------------------------------------------------------- */

static const char *json_type_name(const json_t *json) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return names[json_typeof(json)];
}

/* Reads `text`, of the type given or null, into variables; a NULL text is null. */
static tn_status add_json(json_t *variables, const char *name, const char *text, json_type type,
                          tn_error *err) {
    json_error_t bad;
    json_t *value =
        text ? tn_json_parse(text, strlen(text), JSON_ALLOW_NUL | JSON_DECODE_ANY, &bad) : json_null();
    if (!value && tn_json_no_memory(&bad)) return no_memory(err);
    if (!value)
        return tn_fail(err, TN_ERR_FORMAT, "bad JSON", name, "line %d, column %d: %s", bad.line, bad.column,
                       bad.text);
    const bool fits = json_typeof(value) == type || (json_is_null(value) && strcmp(name, "messages") != 0);
    if (fits) return json_object_set_new(variables, name, value) ? no_memory(err) : TN_OK;
    const char *found = json_type_name(value);
    json_decref(value);
    return tn_fail(err, TN_ERR_FORMAT, "bad JSON", name, "expected %s, found %s",
                   type == JSON_ARRAY ? "an array" : "an object", found);
}

static tn_status add_variables(json_t *variables, const char *text, tn_error *err) {
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt"};
    if (!text) return TN_OK;
    tn_status status = add_json(variables, "variables", text, JSON_OBJECT, err);
    if (status != TN_OK) return status;
    json_t *more = json_incref(json_object_get(variables, "variables"));
    json_object_del(variables, "variables");
    for (size_t i = 0; status == TN_OK && i < sizeof own / sizeof *own; i++)
        if (json_object_get(more, own[i]))
            status = tn_fail(err, TN_ERR_ARG, "chat template", own[i],
                             "cannot be an extra variable: it is given by itself");
    if (status == TN_OK && json_is_object(more) && json_object_update(variables, more))
        status = no_memory(err);
    json_decref(more);
    return status;
}

static tn_status make_variables(const tern_conversation *c, json_t *variables, tn_error *err) {
    tn_status s;
    if (!c->messages) return tn_fail(err, TN_ERR_ARG, "chat template", "messages", "missing");
    if ((s = add_variables(variables, c->variables, err)) ||
        (s = add_json(variables, "messages", c->messages, JSON_ARRAY, err)) ||
        (s = add_json(variables, "tools", c->tools, JSON_ARRAY, err)) ||
        (s = add_json(variables, "documents", c->documents, JSON_ARRAY, err)))
        return s;
    return json_object_set_new(variables, "add_generation_prompt", json_boolean(c->add_generation_prompt))
               ? no_memory(err)
               : TN_OK;
}

static tn_status render(const tern_template *t, const tern_conversation *conversation, tn_rendered *out,
                        tn_error *err) {
    tern_conversation c;
    *out = (tn_rendered){0};
    tern_conversation_defaults(&c);
    tn_status status = tn_api_options(&c, sizeof c, conversation, err);
    if (status) return status;
    json_t *variables = json_object();
    if (!variables) return no_memory(err);
    status = make_variables(&c, variables, err);
    const bool tools = t->with_tools && json_is_array(json_object_get(variables, "tools"));
    if (status == TN_OK)
        status = tn_template_render(tools ? t->with_tools : t->plain, variables, t->trusted, out, err);
    json_decref(variables);
    return status;
}

tern_status tern_template_render(const tern_template *t, const tern_conversation *conversation, char **text,
                                 size_t *n, tern_error *err) {
    if (text) *text = NULL;
    if (n) *n = 0;
    if (!t || !conversation || !text || !n) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_rendered rendered;
    tn_status status = render(t, conversation, &rendered, &e);
    *text = rendered.text;
    *n = rendered.n;
    free(rendered.data);
    return tn_api_give(err, status, &e);
}

tern_status tern_template_tokenize(const tern_template *t, const tern_conversation *conversation,
                                   int32_t **ids, size_t *n_ids, tern_error *err) {
    if (ids) *ids = NULL;
    if (n_ids) *n_ids = 0;
    if (!t || !conversation || !ids || !n_ids) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_rendered rendered = {0};
    tn_status status = t->model
                           ? tn_api_need_tokenizer(t->model, &e)
                           : tn_fail(&e, TN_ERR_ARG, "chat template", NULL, "it was opened without a model");
    if (!status) status = render(t, conversation, &rendered, &e);
    if (!status)
        status = tn_tokenize_marked(t->model->tok, rendered.text, rendered.n, rendered.data, rendered.n_data,
                                    TN_TOKENIZE_BOS | TN_TOKENIZE_SPECIAL | TN_TOKENIZE_OPEN, ids, n_ids, &e);
    tn_rendered_free(&rendered);
    return tn_api_give(err, status, &e);
}
