/* An answer that is valid by a JSON schema, whatever the model would rather say.
 *
 *     json MODEL.gguf TEXT */
#include <stdio.h>
#include <string.h>

#include "tern.h"

static const char schema[] =
    "{\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"name\", \"people\"],"
    " \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 20},"
    " \"people\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 99999999}}}";

static tern_status answer(tern_session *session, tern_error *err) {
    tern_sampling sampling;
    tern_sampling_defaults(&sampling);
    sampling.temperature = 0; /* the likeliest of what the schema allows */
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    options.sampling = &sampling;
    options.json_schema = schema;
    options.n_json_schema = strlen(schema);

    tern_generator *generator;
    tern_stop_reason stop = TERN_STOP_NONE;
    tern_status status = tern_generator_new(session, &options, NULL, 0, &generator, err);
    while (status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(generator, &text, &n, &stop, err);
        if (status == TERN_OK) fwrite(text, 1, n, stdout);
    }
    tern_generator_free(generator);
    putchar('\n');
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: json MODEL.gguf TEXT\n");
        return 2;
    }
    tern_error err;
    tern_model *model = NULL;
    tern_session *session = NULL;
    int32_t *ids = NULL;
    size_t n_ids;
    tern_status status = tern_model_open(argv[1], NULL, &model, &err);
    if (status == TERN_OK)
        status = tern_tokenize(model, argv[2], strlen(argv[2]), TERN_TOKENIZE_BOS | TERN_TOKENIZE_OPEN, &ids,
                               &n_ids, &err);
    if (status == TERN_OK) status = tern_session_new(model, NULL, &session, &err);
    if (status == TERN_OK) status = tern_session_eval(session, ids, n_ids, 1, &err);
    if (status == TERN_OK) status = answer(session, &err);
    if (status != TERN_OK) fprintf(stderr, "json: error: %s\n", err.message);
    tern_session_free(session);
    tern_free(ids);
    tern_model_close(model);
    return status == TERN_OK ? 0 : 1;
}
