/* Predictions of a base model, kept for comparison.
 *
 *   "TERNBASE" | version u32 = 1 | n_vocab u32 | n_ctx u32 | n_chunks u32 | n_name u32 | the model's name
 *   ids i32[n_chunks][n_ctx]
 *   rows u16[n_chunks][n_ctx - n_ctx / 2 - 1][n_vocab]
 *
 * little-endian. A row has how far each logit is below the largest, in steps of 1/2048 up to 32: what is read back is off by 2^-12
 * at most, and since it is made probabilities anew, the divergence of a model from itself is of the order of 1e-8. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "eval.h"
#include "output.h"

static const char magic[8] = {'T', 'E', 'R', 'N', 'B', 'A', 'S', 'E'};
#define STEPS 2048.0f

enum { VERSION = 1, MAX_VOCAB = 1 << 24, MAX_CTX = 1 << 24, MAX_CHUNKS = 1 << 24 };

struct tn_eval_base {
    const char *path;
    int fd; /* of one that is read; -1: of one that is written */
    tn_output output;
    tn_eval_base_head head;
    uint16_t *row;
};

static int no_memory(const char *path) {
    return tn_cli_fail("cannot keep predictions: %s: out of memory", path);
}

static size_t n_ids_of(const tn_eval_base_head *head) {
    return (size_t)head->text.n_chunks * head->text.n_ctx;
}

void tn_eval_base_close(tn_eval_base *base) {
    if (!base) return;
    if (base->fd >= 0) {
        close(base->fd);
        free(base->head.text.ids); /* of one that is written they are the caller's */
    } else {
        tn_output_discard(&base->output);
    }
    free(base->row);
    free(base);
}

/* ---- Writing ---- */

static int write_head(tn_eval_base *base) {
    const tn_eval_base_head *h = &base->head;
    const uint32_t numbers[5] = {VERSION, h->n_vocab, h->text.n_ctx, h->text.n_chunks,
                                 (uint32_t)strlen(h->model)};
    int failed = tn_output_write(&base->output, magic, sizeof magic);
    if (!failed) failed = tn_output_write(&base->output, numbers, sizeof numbers);
    if (!failed) failed = tn_output_write(&base->output, h->model, numbers[4]);
    return failed ? failed : tn_output_write(&base->output, h->text.ids, n_ids_of(h) * sizeof *h->text.ids);
}

int tn_eval_base_create(const tn_options *options, const tn_eval_base_head *head, tn_eval_base **out) {
    const char *path = options->save_base;
    *out = NULL;
    tn_eval_base *base = calloc(1, sizeof *base);
    if (!base) return no_memory(path);
    base->path = path;
    base->fd = -1;
    base->head = *head;
    base->row = calloc(head->n_vocab, sizeof *base->row);
    int failed = base->row ? tn_output_open(&base->output, path, options) : no_memory(path);
    if (failed) {
        free(base->row), free(base);
        return failed;
    }
    *out = base;
    return write_head(base);
}

int tn_eval_base_write(tn_eval_base *base, const float *logits) {
    const uint32_t n = base->head.n_vocab;
    float top = logits[0];
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > top) top = logits[i];
    for (uint32_t i = 0; i < n; i++) {
        const float steps = (top - logits[i]) * STEPS;
        base->row[i] = steps < 65535.0f ? (uint16_t)lrintf(steps) : 65535;
    }
    return tn_output_write(&base->output, base->row, n * sizeof *base->row);
}

int tn_eval_base_commit(tn_eval_base *base) {
    return tn_output_commit(&base->output);
}

/* ---- Reading ---- */

static int bad(const tn_eval_base *base, const char *why) {
    return tn_cli_fail("cannot read predictions: %s: %s", base->path, why);
}

static int read_exactly(tn_eval_base *base, void *bytes, size_t n) {
    uint8_t *at = bytes;
    while (n > 0) {
        const ssize_t got = tn_read_some(base->fd, at, n);
        if (got < 0 && tn_cli_interrupted()) return TN_EXIT_INTERRUPTED;
        if (got <= 0) return bad(base, got ? strerror(errno) : "the file is truncated");
        at += got;
        n -= (size_t)got;
    }
    return TN_EXIT_DONE;
}

/* The file must have the size that its head says, so that a wrong one is found before the work. */
static int check_size(const tn_eval_base *base, uint64_t n_name) {
    const tn_eval_base_head *h = &base->head;
    struct stat st;
    if (fstat(base->fd, &st) != 0) return bad(base, strerror(errno));
    uint64_t rows, row_bytes, id_bytes;
    const uint64_t head_bytes = sizeof magic + 5 * sizeof(uint32_t) + n_name;
    uint64_t expected;
    if (__builtin_mul_overflow((uint64_t)h->text.n_chunks,
                               h->text.n_ctx - tn_eval_first_scored(h->text.n_ctx), &rows) ||
        __builtin_mul_overflow(rows, 2 * (uint64_t)h->n_vocab, &row_bytes) ||
        __builtin_mul_overflow((uint64_t)n_ids_of(h), sizeof *h->text.ids, &id_bytes) ||
        __builtin_add_overflow(row_bytes, id_bytes + head_bytes, &expected) ||
        expected != (uint64_t)st.st_size)
        return bad(base, "its size is not what its head says");
    return TN_EXIT_DONE;
}

static int read_head(tn_eval_base *base) {
    char found[sizeof magic];
    uint32_t numbers[5];
    tn_eval_base_head *h = &base->head;
    int failed = read_exactly(base, found, sizeof found);
    if (!failed && memcmp(found, magic, sizeof magic) != 0)
        failed = bad(base, "is not a file of tern eval perplexity --save-base");
    if (!failed) failed = read_exactly(base, numbers, sizeof numbers);
    if (failed) return failed;
    if (numbers[0] != VERSION) return bad(base, "is of a version that is not known");
    h->n_vocab = numbers[1], h->text.n_ctx = numbers[2], h->text.n_chunks = numbers[3];
    if (!h->n_vocab || h->n_vocab > MAX_VOCAB || h->text.n_ctx < 4 || h->text.n_ctx > MAX_CTX ||
        !h->text.n_chunks || h->text.n_chunks > MAX_CHUNKS || numbers[4] >= sizeof h->model)
        return bad(base, "its head has numbers out of range");
    if ((failed = check_size(base, numbers[4])) || (failed = read_exactly(base, h->model, numbers[4])))
        return failed;
    h->model[numbers[4]] = '\0';
    return TN_EXIT_DONE;
}

static int read_ids(tn_eval_base *base) {
    tn_eval_base_head *h = &base->head;
    const size_t n = n_ids_of(h);
    h->text.ids = malloc(n * sizeof *h->text.ids);
    base->row = calloc(h->n_vocab, sizeof *base->row);
    if (!h->text.ids || !base->row) return no_memory(base->path);
    const int failed = read_exactly(base, h->text.ids, n * sizeof *h->text.ids);
    for (size_t i = 0; i < n && !failed; i++)
        if ((uint32_t)h->text.ids[i] >= h->n_vocab)
            return bad(base, "it has tokens that are not in its vocabulary");
    return failed;
}

int tn_eval_base_open(const char *path, tn_eval_base **out) {
    *out = NULL;
    tn_eval_base *base = calloc(1, sizeof *base);
    if (!base) return no_memory(path);
    base->path = path;
    base->fd = tn_open_file(path, O_RDONLY);
    if (base->fd < 0) {
        free(base);
        return tn_cli_fail("cannot read predictions: %s: %s", path, strerror(errno));
    }
    int failed = read_head(base);
    if (!failed) failed = read_ids(base);
    if (failed) {
        tn_eval_base_close(base);
        return failed;
    }
    *out = base;
    return TN_EXIT_DONE;
}

const tn_eval_base_head *tn_eval_base_head_of(const tn_eval_base *base) {
    return &base->head;
}

int tn_eval_base_read(tn_eval_base *base, float *logits) {
    const int failed = read_exactly(base, base->row, base->head.n_vocab * sizeof *base->row);
    for (uint32_t i = 0; i < base->head.n_vocab && !failed; i++) logits[i] = -(float)base->row[i] / STEPS;
    return failed;
}
