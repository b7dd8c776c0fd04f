/* Search by meaning: the files of a folder whose vectors are nearest to the query's, best first.
 *
 *     search MODEL.gguf FOLDER QUERY
 *
 * The model is best an encoder made for this. Of a long file the beginning counts, as much as the model reads at once. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

enum { MAX_FILES = 1000, MAX_BYTES = 65536 };

typedef struct found {
    char name[256];
    double nearness; /* the cosine: vectors have length 1 */
} found;

/* *vector is freed with tern_free. */
static tern_status embed(tern_session *session, const tern_model *model, const char *text, size_t n,
                         float **vector, uint32_t *width, tern_error *err) {
    int32_t *ids;
    size_t n_ids, n_vectors;
    tern_session_info info;
    *vector = NULL;
    tern_status status = tern_tokenize(model, text, n, TERN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (status != TERN_OK) return status;
    tern_session_info_get(session, &info);
    if (n_ids > info.n_ctx) n_ids = info.n_ctx;
    status = tern_embed_tokens(session, ids, n_ids, NULL, vector, &n_vectors, width, err);
    tern_free(ids);
    return status;
}

/* Bytes read; 0 for what cannot be read, such as a folder. */
static size_t read_file(const char *folder, const char *name, char *bytes) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return 0;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    const size_t n = fread(bytes, 1, MAX_BYTES, file);
    fclose(file);
    return n;
}

static int by_nearness(const void *a, const void *b) {
    const double x = ((const found *)a)->nearness, y = ((const found *)b)->nearness;
    return (x < y) - (x > y);
}

static tern_status search(tern_session *session, const tern_model *model, DIR *dir, const char *folder,
                          const char *query, found *all, size_t *n_found, tern_error *err) {
    static char text[MAX_BYTES];
    float *wanted, *vector;
    uint32_t width;
    tern_status status = embed(session, model, query, strlen(query), &wanted, &width, err);
    *n_found = 0;
    for (struct dirent *entry; status == TERN_OK && *n_found < MAX_FILES && (entry = readdir(dir));) {
        const size_t n = read_file(folder, entry->d_name, text);
        if (!n) continue;
        status = embed(session, model, text, n, &vector, &width, err);
        if (status != TERN_OK) break;
        found *f = &all[(*n_found)++];
        snprintf(f->name, sizeof f->name, "%s", entry->d_name);
        f->nearness = 0;
        for (uint32_t i = 0; i < width; i++) f->nearness += (double)wanted[i] * (double)vector[i];
        tern_free(vector);
    }
    tern_free(wanted);
    qsort(all, *n_found, sizeof *all, by_nearness);
    return status;
}

int main(int argc, char **argv) {
    static found all[MAX_FILES];
    size_t n_found = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: search MODEL.gguf FOLDER QUERY\n");
        return 2;
    }
    DIR *dir = opendir(argv[2]);
    if (!dir) {
        perror(argv[2]);
        return 1;
    }
    tern_error err;
    tern_model *model = NULL;
    tern_session *session = NULL;
    tern_status status = tern_model_open(argv[1], NULL, &model, &err);
    if (status == TERN_OK) {
        tern_session_options options;
        tern_session_options_defaults(&options);
        options.embeddings = true;
        status = tern_session_new(model, &options, &session, &err);
    }
    if (status == TERN_OK) status = search(session, model, dir, argv[2], argv[3], all, &n_found, &err);
    if (status != TERN_OK) fprintf(stderr, "search: error: %s\n", err.message);
    for (size_t i = 0; status == TERN_OK && i < n_found; i++)
        printf("%6.3f  %s\n", all[i].nearness, all[i].name);
    tern_session_free(session);
    tern_model_close(model);
    closedir(dir);
    return status == TERN_OK ? 0 : 1;
}
