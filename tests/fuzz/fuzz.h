/* What the fuzzers share. A fuzzer is one file fuzz_NAME.c with a fuzz_target and a line in targets.def; `run` takes any bytes
 * and must come back: a signal, a report of a sanitizer, a leak, more than the limits of time and memory, or FUZZ_CHECK is a
 * fault. The same targets are driven by libFuzzer (libfuzzer.c) and by a program of our own (replay.c).
 *
 * An input of several files has them one behind the other, with a line "%%%%%" between; see fuzz_split. */
#ifndef TN_TESTS_FUZZ_H
#define TN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "src/base/status.h"
#include "tern.h"

#if defined(__SANITIZE_ADDRESS__)
#define TN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TN_SANITIZED 1
#endif
#endif

/* ---- Bytes and random numbers ---- */

typedef struct fuzz_bytes {
    const uint8_t *data;
    size_t n;
} fuzz_bytes;

/* Bytes in the making, with room for cap. */
typedef struct fuzz_edit {
    uint8_t *data;
    size_t n, cap;
} fuzz_edit;

typedef struct fuzz_random {
    uint64_t state;
} fuzz_random;

uint64_t fuzz_next(fuzz_random *r);
size_t fuzz_below(fuzz_random *r, size_t n); /* 0 if n is 0 */

/* A number that is often at an edge: 0, -1, a power of two, one beside `near`. */
uint64_t fuzz_edge(fuzz_random *r, uint64_t near);

/* Puts n bytes in the place of n_old at `at`; false, and nothing done, if there is no room. bytes NULL: zeros. */
bool fuzz_replace(fuzz_edit *e, size_t at, size_t n_old, const void *bytes, size_t n);

/* ---- Targets ---- */

typedef struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t n);
    /* NULL, or changes the structure and keeps the rest of it plausible; false if it finds none. */
    bool (*mutate)(fuzz_edit *e, fuzz_random *r);
    const char *words; /* that mean something to the parser, each behind a '`'; or NULL */
    size_t max_bytes;  /* of an input */
} fuzz_target;

#define FUZZ_TARGET(name) extern const fuzz_target fuzz_##name;
#include "targets.def"
#undef FUZZ_TARGET

const fuzz_target *fuzz_find(const char *name); /* NULL if there is none */

/* Runs an input within the limits. */
void fuzz_run(const fuzz_target *target, const uint8_t *data, size_t n);
double fuzz_slowest(size_t *index); /* seconds of the slowest run so far, and which one it was, from 0 */

/* Changes bytes: the target's own way, its words, or, through `plain`, single bytes and spans of them. */
typedef void fuzz_plain(fuzz_edit *e, fuzz_random *r);
void fuzz_mutate(const fuzz_target *target, fuzz_edit *e, fuzz_random *r, fuzz_plain *plain);
void fuzz_mutate_plain(fuzz_edit *e, fuzz_random *r);

/* GGUF: counts, lengths, types, dimensions, offsets, whole entries; the words are keys. */
bool fuzz_mutate_gguf(fuzz_edit *e, fuzz_random *r);

/* The same, or, more often, what is left right: values, types and dimensions, with the tensors one behind the other. */
bool fuzz_mutate_model(fuzz_edit *e, fuzz_random *r);

/* JSON in one of the input's files: values and members. */
bool fuzz_mutate_json(fuzz_edit *e, fuzz_random *r, const char *words);

/* The dictionary of the metadata that models have, for fuzz_target.words. */
extern const char fuzz_gguf_words[];

/* One of such words. */
fuzz_bytes fuzz_word(const char *words, fuzz_random *r);

/* ---- For targets ---- */

/* The files of an input, at most max; returns how many. */
enum { FUZZ_MAX_PARTS = 8 };
size_t fuzz_split(const uint8_t *data, size_t n, fuzz_bytes parts[FUZZ_MAX_PARTS]);

/* A part as text with a NUL; lives until the run is over. */
char *fuzz_text(fuzz_bytes part);

/* The path of a name in this process's folder for temporary files, and a file written there, with so many zeros behind it. */
const char *fuzz_path(const char *name);
const char *fuzz_write(const char *name, fuzz_bytes contents, size_t n_zeros);

/* A model file of 2 MiB that begins so and holds a fixed pattern behind it, in the place of tensor data: small finite numbers in most
 * types. At most 64 KiB. */
const char *fuzz_write_head(fuzz_bytes head);

/* Takes bytes from the front; zeros when there are none left. */
uint8_t fuzz_take(fuzz_bytes *from);
uint32_t fuzz_take_below(fuzz_bytes *from, uint32_t n);
fuzz_bytes fuzz_take_bytes(fuzz_bytes *from, size_t n);

/* What must hold; says what did not and aborts. */
#define FUZZ_CHECK(condition) fuzz_check(condition, #condition, __FILE__, __LINE__)
void fuzz_check(bool condition, const char *text, const char *file, int line);

/* A failure has a message that can be printed and the code of its status. The two error types are alike. */
void fuzz_check_status(int status, const void *err);

/* What the command says on standard error: with exit code 0 nothing, else one line "tern: error: ..." that can be printed. */
typedef struct fuzz_said {
    FILE *standard;
    char *text;
    size_t n;
} fuzz_said;
void fuzz_listen(fuzz_said *said);
void fuzz_heard(fuzz_said *said, int exit_code);

/* Reads all bytes, so that a sanitizer sees what is not there. */
void fuzz_touch(const void *bytes, size_t n);

/* Everything that one can do with a model's handle, at its level: metadata, tensors, tokens, a template, two tokens evaluated. */
void fuzz_use_model(const tern_model *model, bool whole, fuzz_bytes text);

/* Follows a grammar, choosing by `choices` what comes next, and gives back what was written: FUZZ_CHECKs on the way. */
struct tn_grammar;
size_t fuzz_walk(const struct tn_grammar *grammar, fuzz_bytes choices, char *text, size_t cap, bool *may_end);

#endif
