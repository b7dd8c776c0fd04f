/* Random walks through the masks of a constraint, for a Python test that checks what comes out with a validator of its own.
 *
 *   constrain grammar|schema FILE SEED COUNT LIMIT    COUNT texts of at most LIMIT tokens
 *   constrain print FILE                              the grammar that a schema becomes
 *
 * For each text "LENGTH\n", its bytes, "\n"; -1 for LENGTH, and no bytes, if it did not end within the limit. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/text/constraint.h"
#include "src/text/schema.h"
#include "src/text/tokenizer.h"

enum { FIRST_BYTE = 2, MAX_TOKENS = 400, END = 1, MAX_TEXT = 1 << 20 };

/* Pieces of the kind that vocabularies have, some of several characters of a syntax, some that end inside one. */
static const char *const pieces[] = {
    "{\"",      "\":",      "\": \"",   "\": ",     "\",",
    "\", \"",   "\"}",      "\"]",      "},",       "}, {",
    "[{",       "[\"",      "[[",       "]]",       "],",
    "}}",       ", ",       ",\n",      "\n  ",     "\n    ",
    "  ",       "\\\"",     "\\n",      "\\u",      "00",
    "1",        "12",       "2024",     "-1",       "0.",
    "-0",       "1.5",      "e+",       "E1",       "true",
    "false",    "null",     "tru",      "nul",      "a",
    "an",       "the",      " the",     "name",     "id",
    "\"name\"", "\"id\"",   "age",      "tion",     "ing",
    "er",       "x",        "yz",       "\xC3\xA9", "\xE6\x97\xA5\xE6\x9C\xAC",
    "\xE6",     "\xE6\x97", "\xF0\x9F", "\xA5",     "-",
    "--",       "-0",       "01",       "T1",       "Z\"",
    ":00",      "a-",       "0a",       "red",      "green",
    "blu",      "b",        "c",        "ab",       "abc",
    "()",       "((",       "))"};

static tn_tokenizer *make_tokenizer(void) {
    static char bytes[256][8];
    static const char *texts[MAX_TOKENS];
    static uint32_t lens[MAX_TOKENS];
    static float scores[MAX_TOKENS];
    static int32_t types[MAX_TOKENS];
    const uint32_t n_pieces = sizeof pieces / sizeof *pieces, n = FIRST_BYTE + 256 + n_pieces;
    for (uint32_t i = 0; i < n; i++) {
        if (i >= FIRST_BYTE && i < FIRST_BYTE + 256)
            snprintf(bytes[i - FIRST_BYTE], 8, "<0x%02X>", i - FIRST_BYTE);
        texts[i] = i == 0                 ? "<unk>"
                   : i == END             ? "</s>"
                   : i < FIRST_BYTE + 256 ? bytes[i - FIRST_BYTE]
                                          : pieces[i - FIRST_BYTE - 256];
        types[i] = i == 0                 ? TN_TOKEN_UNKNOWN
                   : i == END             ? TN_TOKEN_CONTROL
                   : i < FIRST_BYTE + 256 ? TN_TOKEN_BYTE
                                          : TN_TOKEN_NORMAL;
        lens[i] = (uint32_t)strlen(texts[i]);
    }
    const tn_vocab_source v = {.model = "llama",
                               .n_tokens = n,
                               .token_text = texts,
                               .token_len = lens,
                               .scores = scores,
                               .types = types,
                               .bos = -1,
                               .eos = END,
                               .eot = -1,
                               .unk = 0,
                               .sep = -1,
                               .add_bos = 0,
                               .add_eos = -1,
                               .add_sep = -1,
                               .add_space_prefix = 0,
                               .remove_extra_spaces = -1,
                               .lowercase = -1,
                               .strip_accents = -1};
    tn_error err = {0};
    tn_tokenizer *tok = NULL;
    if (tn_tokenizer_new(&v, NULL, &tok, &err)) fprintf(stderr, "%s\n", err.message), exit(2);
    return tok;
}

static uint32_t random_below(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

/* Half of the time among tokens that close something, so that texts end. */
static int32_t choose(const tn_tokenizer *tok, const uint64_t *mask, uint64_t *state) {
    int32_t any[MAX_TOKENS], closing[MAX_TOKENS];
    uint32_t n_any = 0, n_closing = 0;
    for (int32_t id = 0; id < (int32_t)tn_tokenizer_n_tokens(tok); id++) {
        size_t n;
        if (!(mask[id / 64] >> id % 64 & 1)) continue;
        any[n_any++] = id;
        const char *text = tn_token_bytes(tok, id, false, &n);
        if (id == END || (n && strchr("\"}])", text[n - 1]))) closing[n_closing++] = id;
    }
    if (n_closing && random_below(state, 2)) return closing[random_below(state, n_closing)];
    return any[random_below(state, n_any)];
}

static int fail(const tn_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

static int walk(const char *grammar_text, size_t n_grammar, const tn_tokenizer *tok, uint64_t *state,
                long limit) {
    static char text[MAX_TEXT];
    size_t n_text = 0;
    tn_grammar *grammar;
    tn_constraint *c;
    tn_error err = {0};
    long made = 0;
    if (tn_grammar_parse(grammar_text, n_grammar, "grammar", &grammar, &err)) return fail(&err);
    if (tn_constraint_new(grammar, tok, tn_tokenizer_n_tokens(tok), true, &c, &err)) return fail(&err);
    for (; made < limit && n_text < MAX_TEXT - 64; made++) {
        const uint64_t *mask;
        size_t n;
        if (tn_constraint_mask(c, &mask, &err)) return fail(&err);
        const int32_t token = choose(tok, mask, state);
        if (token == END) break;
        if (tn_constraint_accept(c, token, &err)) return fail(&err);
        const char *bytes = tn_token_bytes(tok, token, false, &n);
        memcpy(text + n_text, bytes, n);
        n_text += n;
    }
    if (made < limit && n_text < MAX_TEXT - 64) {
        printf("%zu\n", n_text);
        fwrite(text, 1, n_text, stdout);
        printf("\n");
    } else {
        printf("-1\n\n");
    }
    tn_constraint_free(c);
    return 0;
}

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *text = malloc(MAX_TEXT);
    if (!f || !text) exit(2);
    *n = fread(text, 1, MAX_TEXT, f);
    fclose(f);
    return text;
}

int main(int argc, char **argv) {
    const int is_print = argc == 3 && strcmp(argv[1], "print") == 0;
    if (argc != 6 && !is_print) return 2;
    size_t n;
    char *text = read_file(argv[2], &n);
    tn_error err = {0};
    if (is_print || strcmp(argv[1], "schema") == 0) {
        char *grammar;
        const tn_status s = tn_schema_to_grammar(text, n, &grammar, &err);
        free(text);
        if (s) return fail(&err);
        text = grammar;
        n = strlen(grammar);
    }
    int failed = 0;
    if (is_print) {
        fputs(text, stdout);
    } else {
        tn_tokenizer *tok = make_tokenizer();
        uint64_t state = strtoull(argv[3], NULL, 10);
        const long count = atol(argv[4]), limit = atol(argv[5]);
        for (long i = 0; i < count && !failed; i++) failed = walk(text, n, tok, &state, limit);
        tn_tokenizer_free(tok);
    }
    free(text);
    return failed;
}
