/* Tokenizes and detokenizes for a Python test, many texts in one process.
 *
 *   tokenize_vocab FILE [--pre NAME] [--space-prefix 0|1]
 *
 * Requests on stdin: a letter, u32 flags, u32 n, n bytes (little-endian). Answers on stdout: u32 status, u32
 * n, n bytes. T  text to ids (i32 each); flags as tn_tokenize_flags D  ids to text through a stream; flag 1:
 * text of control tokens too E  the ids that end a generation; n = 0 A failure answers with its status and
 * message. The first answer, unasked, is the load time in microseconds of CPU (u32). */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/format.h"
#include "src/base/arena.h"
#include "src/model/vocab.h"
#include "src/text/tokenizer.h"

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void answer(uint32_t status, const void *data, size_t n_bytes) {
    uint32_t head[2] = {status, (uint32_t)n_bytes};
    fwrite(head, sizeof head, 1, stdout);
    if (n_bytes) fwrite(data, n_bytes, 1, stdout);
    fflush(stdout);
}

static void tokenize(const tn_tokenizer *tok, unsigned flags, const char *text, size_t n) {
    int32_t *ids;
    size_t n_ids;
    tn_error err;
    tn_status status = tn_tokenize(tok, text, n, flags, &ids, &n_ids, &err);
    if (status == TN_OK)
        answer(0, ids, n_ids * sizeof *ids);
    else
        answer(status, err.message, strlen(err.message));
    free(ids);
}

static void detokenize(const tn_tokenizer *tok, unsigned flags, const int32_t *ids, size_t n_ids) {
    size_t cap = 16, len = 0;
    for (size_t i = 0; i < n_ids; i++) cap += tn_stream_bound(tok, ids[i]);
    char *text = malloc(cap);
    if (!text) exit(1);
    tn_text_stream stream = {0};
    for (size_t i = 0; i < n_ids; i++) len += tn_stream_push(tok, &stream, ids[i], flags & 1, text + len);
    len += tn_stream_flush(&stream, text + len);
    answer(0, text, len);
    free(text);
}

static void list_ends(const tn_tokenizer *tok) {
    int32_t ids[256];
    size_t n = 0;
    for (uint32_t i = 0; i < tn_tokenizer_n_tokens(tok) && n < 256; i++)
        if (tn_token_is_end(tok, (int32_t)i)) ids[n++] = (int32_t)i;
    answer(0, ids, n * sizeof *ids);
}

static void serve(const tn_tokenizer *tok) {
    for (int command; (command = getchar()) != EOF;) {
        uint32_t head[2];
        if (fread(head, sizeof head, 1, stdin) != 1) exit(1);
        char *data = malloc((size_t)head[1] + 1);
        if (!data || (head[1] && fread(data, head[1], 1, stdin) != 1)) exit(1);
        if (command == 'T')
            tokenize(tok, head[0], data, head[1]);
        else if (command == 'D')
            detokenize(tok, head[0], (const int32_t *)(const void *)data, head[1] / 4);
        else if (command == 'E')
            list_ends(tok);
        else
            exit(1);
        free(data);
    }
}

int main(int argc, char **argv) {
    const char *pre = NULL;
    int space_prefix = -1;
    if (argc < 2) return 2;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--pre") == 0)
            pre = argv[i + 1];
        else if (strcmp(argv[i], "--space-prefix") == 0)
            space_prefix = atoi(argv[i + 1]);
        else
            return 2;
    }
    tn_error err = {0};
    tn_file *file = NULL;
    tn_arena arena = {0};
    tn_vocab_source source;
    tn_tokenizer *tok = NULL;
    tn_status status = tn_file_open(argv[1], &file, &err);
    if (status == TN_OK) status = tn_vocab_read(file, &arena, &source, &err);
    int64_t start = now_us();
    if (status == TN_OK && space_prefix >= 0) source.add_space_prefix = (int8_t)space_prefix;
    if (status == TN_OK) status = tn_tokenizer_new(&source, pre, &tok, &err);
    if (status == TN_OK) {
        uint32_t load_us = (uint32_t)(now_us() - start);
        answer(0, &load_us, sizeof load_us);
        serve(tok);
    } else {
        fprintf(stderr, "%s\n", err.message);
    }
    tn_tokenizer_free(tok);
    tn_arena_free(&arena);
    tn_file_close(file);
    return status != TN_OK;
}
