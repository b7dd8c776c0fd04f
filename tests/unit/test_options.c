/* A host's mistakes in options: an error that names what is wrong, of every struct that comes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"
#include "tests/unit/tiny_model.h"

typedef struct fixture {
    char path[32];
    tern_model *model;
    tern_session *session; /* holds logits */
} fixture;

static const int32_t ids[] = {5, 6, 7};
static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}";

static int start(void **state) {
    static fixture f;
    tern_error err;
    f = (fixture){.path = "/tmp/tern-tiny-XXXXXX"};
    tiny_write(&tiny_gemma3, f.path);
    if (tern_model_open(f.path, NULL, &f.model, &err) || tern_session_new(f.model, NULL, &f.session, &err) ||
        tern_session_eval(f.session, ids, 3, 1, &err))
        fail_msg("%s", err.message);
    *state = &f;
    return 0;
}

static int end(void **state) {
    fixture *f = *state;
    tern_session_free(f->session);
    tern_model_close(f->model);
    return unlink(f->path);
}

/* ---- Each call with options, and nothing else wrong; what it makes goes again ------------------------------------------- */

static tern_status call_open(const fixture *f, const void *options, tern_error *err) {
    tern_model *model;
    const tern_status s = tern_model_open(f->path, options, &model, err);
    tern_model_close(model);
    return s;
}

static tern_status call_open_source(const fixture *f, const void *options, tern_error *err) {
    (void)f;
    tern_model *model;
    const tern_status s = tern_model_open_source(options, NULL, &model, err);
    tern_model_close(model);
    return s;
}

static tern_status call_template(const fixture *f, const void *options, tern_error *err) {
    (void)f;
    tern_template *t;
    const tern_status s = tern_template_open(options, &t, err);
    tern_template_free(t);
    return s;
}

static tern_status call_render(const fixture *f, const void *options, tern_error *err) {
    tern_template_options o;
    tern_template *t;
    char *text;
    size_t n;
    (void)f;
    tern_template_options_defaults(&o);
    o.source = source, o.n_source = strlen(source);
    assert_int_equal(tern_template_open(&o, &t, err), TERN_OK);
    const tern_status s = tern_template_render(t, options, &text, &n, err);
    tern_free(text);
    tern_template_free(t);
    return s;
}

static tern_status call_session(const fixture *f, const void *options, tern_error *err) {
    tern_session *session;
    const tern_status s = tern_session_new(f->model, options, &session, err);
    tern_session_free(session);
    return s;
}

static tern_status call_memory(const fixture *f, const void *options, tern_error *err) {
    tern_memory memory;
    return tern_session_memory(f->model, options, &memory, err);
}

static tern_status call_embed(const fixture *f, const void *options, tern_error *err) {
    tern_session_options o;
    tern_session *session;
    float *vectors = NULL;
    size_t n;
    uint32_t width;
    tern_session_options_defaults(&o);
    o.embeddings = true;
    assert_int_equal(tern_session_new(f->model, &o, &session, err), TERN_OK);
    tern_status s = tern_embed_tokens(session, ids, 3, options, &vectors, &n, &width, err);
    tern_free(vectors);
    tern_session_free(session);
    return s;
}

static tern_status call_embed_text(const fixture *f, const void *options, tern_error *err) {
    float *vectors;
    size_t n;
    uint32_t width;
    return tern_embed(f->session, "a", 1, options, &vectors, &n, &width, err);
}

static tern_status call_generator(const fixture *f, const void *options, tern_error *err) {
    tern_generator *generator;
    const tern_status s = tern_generator_new(f->session, options, NULL, 0, &generator, err);
    tern_generator_free(generator);
    return s;
}

static tern_status call_sampling(const fixture *f, const void *options, tern_error *err) {
    tern_generator_options o;
    tern_generator_options_defaults(&o);
    o.sampling = options;
    return call_generator(f, &o, err);
}

static tern_status call_chat(const fixture *f, const void *options, tern_error *err) {
    tern_chat *chat;
    const tern_status s = tern_chat_new(f->session, options, &chat, err);
    tern_chat_free(chat);
    return s;
}

static tern_status call_quantize(const fixture *f, const void *options, tern_error *err) {
    tern_quantized result;
    const tern_status s = tern_quantize(f->path, NULL, options, &result, err);
    if (!s) tern_free(result.recipe);
    return s;
}

static tern_status call_imatrix(const fixture *f, const void *options, tern_error *err) {
    char out[64];
    snprintf(out, sizeof out, "%s.imatrix", f->path);
    const tern_status s = tern_imatrix(f->model, ids, 3, options, out, err);
    unlink(out);
    return s;
}

static tern_status call_convert(const fixture *f, const void *options, tern_error *err) {
    (void)f;
    return tern_convert("/nonexistent", "/nonexistent/out.gguf", options, err);
}

/* ---- Sizes ----------------------------------------------------------------------------------------------------------- */

#define CALLS(X)                                                                                             \
    X(model_options, call_open)                                                                              \
    X(source, call_open_source)                                                                              \
    X(template_options, call_template)                                                                       \
    X(conversation, call_render)                                                                             \
    X(session_options, call_session)                                                                         \
    X(session_options, call_memory)                                                                          \
    X(embed_options, call_embed)                                                                             \
    X(embed_options, call_embed_text)                                                                        \
    X(generator_options, call_generator)                                                                     \
    X(sampling, call_sampling)                                                                               \
    X(chat_options, call_chat)                                                                               \
    X(quantize_options, call_quantize)                                                                       \
    X(imatrix_options, call_imatrix)                                                                         \
    X(convert_options, call_convert)

typedef tern_status call_fn(const fixture *f, const void *options, tern_error *err);

static void refuse_size(const fixture *f, call_fn *call, void *options, size_t size) {
    tern_error err = {0};
    memcpy(options, &size, sizeof size);
    assert_int_equal(call(f, options, &err), TERN_ERR_ARG);
    if (!strstr(err.message, "bad options: size: ")) fail_msg("%s", err.message);
}

static void options_that_nobody_filled_are_refused(void **state) {
    const fixture *f = *state;
#define REFUSE(name, call)                                                                                   \
    {                                                                                                        \
        tern_##name o;                                                                                       \
        tern_##name##_defaults(&o);                                                                          \
        assert_int_equal(o.size, sizeof o);                                                                  \
        refuse_size(f, call, &o, 0);                                                                         \
        refuse_size(f, call, &o, sizeof(size_t));                                                            \
        refuse_size(f, call, &o, SIZE_MAX);                                                                  \
        memset(&o, 0xa5, sizeof o);                                                                          \
        refuse_size(f, call, &o, o.size);                                                                    \
    }
    CALLS(REFUSE)
}

/* A program of an older header has shorter structs, one of a newer header longer ones. */
static void sizes_of_other_versions_are_taken(void **state) {
    const fixture *f = *state;
    tern_error err;
    struct {
        tern_session_options o;
        uint64_t newer[4];
    } longer = {.newer = {1, 2, 3, 4}};
    tern_session_options_defaults(&longer.o);
    longer.o.n_ctx = 77, longer.o.size = sizeof longer;
    tern_session *session;
    tern_session_info info;
    assert_int_equal(tern_session_new(f->model, &longer.o, &session, &err), TERN_OK);
    tern_session_info_get(session, &info);
    assert_int_equal(info.n_ctx, 77);
    tern_session_free(session);

    tern_session_options shorter;
    memset(&shorter, 0xff, sizeof shorter); /* behind its end is no memory of the program's */
    shorter.size = offsetof(tern_session_options, n_batch);
    shorter.n_ctx = 78;
    assert_int_equal(tern_session_new(f->model, &shorter, &session, &err), TERN_OK);
    tern_session_info_get(session, &info);
    assert_int_equal(info.n_ctx, 78);
    assert_int_equal(tern_session_eval(session, ids, 3, 1, &err), TERN_OK);
    assert_non_null(tern_session_row(session, 0, NULL));
    assert_null(tern_session_row(session, 1, NULL));
    tern_session_free(session);
}

/* ---- Values ---------------------------------------------------------------------------------------------------------- */

static void refuse(const fixture *f, call_fn *call, const void *options, const char *why) {
    tern_error err = {0};
    assert_int_equal(call(f, options, &err), TERN_ERR_ARG);
    if (!strstr(err.message, why)) fail_msg("%s", err.message);
}

static void values_that_are_none_are_refused(void **state) {
    const fixture *f = *state;
    tern_model_options model;
    tern_model_options_defaults(&model);
    model.level = (tern_open_level)77;
    refuse(f, call_open, &model, "level: 77 is none");
    tern_session_options session;
    tern_session_options_defaults(&session);
    session.kv = (tern_kv_type)77;
    refuse(f, call_session, &session, "options out of range");
    tern_embed_options embed;
    tern_embed_options_defaults(&embed);
    embed.pooling = (tern_pooling)77;
    refuse(f, call_embed, &embed, "unknown pooling");
    tern_template_options template_options;
    tern_template_options_defaults(&template_options);
    refuse(f, call_template, &template_options, "expected a model or a source");
    tern_chat_options chat;
    tern_chat_options_defaults(&chat);
    chat.when_full = (tern_when_full)77;
    refuse(f, call_chat, &chat, "when_full: 77 is none");
}

static void counts_without_items_are_refused(void **state) {
    const fixture *f = *state;
    static const char *const texts[] = {"a", NULL};
    tern_generator_options generator;
    tern_generator_options_defaults(&generator);
    generator.n_stop = 1;
    refuse(f, call_generator, &generator, "stop: NULL, expected 1");
    generator.n_stop = 2, generator.stop = texts;
    refuse(f, call_generator, &generator, "stop: number 2 is NULL");
    tern_sampling sampling;
    tern_sampling_defaults(&sampling);
    sampling.n_bias = 3;
    refuse(f, call_sampling, &sampling, "bias: NULL, expected 3");
    tern_sampling_defaults(&sampling);
    sampling.dry_multiplier = 1;
    sampling.dry_breakers = texts, sampling.n_dry_breakers = 2;
    refuse(f, call_sampling, &sampling, "dry_breakers: number 2 is NULL");
    tern_quantize_options quantize;
    tern_quantize_options_defaults(&quantize);
    quantize.type = "Q8_0", quantize.dry_run = true, quantize.n_choices = 1;
    refuse(f, call_quantize, &quantize, "choices: NULL, expected 1");
    quantize.choices = &(tern_tensor_choice){"output.weight", NULL};
    refuse(f, call_quantize, &quantize, "choices: number 1 has a NULL");
    quantize.n_choices = 0, quantize.overrides = texts, quantize.n_overrides = 2;
    refuse(f, call_quantize, &quantize, "overrides: number 2 is NULL");
    tern_imatrix_options imatrix;
    tern_imatrix_options_defaults(&imatrix);
    imatrix.dataset = NULL;
    refuse(f, call_imatrix, &imatrix, "dataset: number 1 is NULL");
    tern_convert_options convert;
    tern_convert_options_defaults(&convert);
    convert.type = NULL;
    refuse(f, call_convert, &convert, "type: number 1 is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_nobody_filled_are_refused),
        cmocka_unit_test(sizes_of_other_versions_are_taken),
        cmocka_unit_test(values_that_are_none_are_refused),
        cmocka_unit_test(counts_without_items_are_refused),
    };
    return cmocka_run_group_tests(tests, start, end);
}
