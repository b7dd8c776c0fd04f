/* Checkpoints: one file, or an index and the files "a.safetensors", "b.safetensors", ... that it may name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "fuzz.h"

static const char words[] =
    "`\"__metadata__\":`\"dtype\":`\"shape\":`\"data_offsets\":`\"F32\"`\"F16\"`\"BF16\"`\"F64\"`\"I8\""
    "`\"BOOL\"`\"F8_E4M3\"`[0,0]`[0,4]`[]`[1]`[2,2]`[4,8]`{`}`,`\"t\":`\\u0041`\\ud83d\\ude00`\\u0000"
    "`18446744073709551615`\"weight_map\":`\"a.safetensors\"`\"../a\"`null";

static bool mutate_header(fuzz_edit *e, fuzz_random *r) {
    return fuzz_mutate_json(e, r, words);
}

/* The length stands before the header: a change within the header moves it along. */
static bool mutate(fuzz_edit *e, fuzz_random *r) {
    uint64_t n;
    if (e->n < 8) return false;
    memcpy(&n, e->data, sizeof n);
    if (n > e->n - 8 || !n) return mutate_header(e, r); /* an index, perhaps */
    fuzz_edit header = {malloc(e->cap), (size_t)n, e->cap - (e->n - (size_t)n)};
    if (!header.data) return false;
    memcpy(header.data, e->data + 8, header.n);
    const fuzz_target inner = {.mutate = mutate_header, .words = words, .max_bytes = header.cap};
    fuzz_mutate(&inner, &header, r, fuzz_mutate_plain);
    fuzz_replace(e, 8, (size_t)n, header.data, header.n);
    n = header.n;
    memcpy(e->data, &n, sizeof n);
    free(header.data);
    return true;
}

static void use(const tn_checkpoint *c) {
    for (uint64_t i = 0; i < tn_checkpoint_n_tensors(c); i++) {
        const tn_st_tensor *t = tn_checkpoint_at(c, i);
        uint64_t elems = 1;
        for (uint32_t d = 0; d < t->n_dims; d++) elems *= t->dims[d];
        FUZZ_CHECK(elems == t->n_elems && elems * tn_st_type_bytes(t->type) == t->n_bytes);
        fuzz_touch(t->data, t->n_bytes);
        FUZZ_CHECK(tn_checkpoint_find(c, t->name.ptr, t->name.len) == t);
        FUZZ_CHECK(tn_checkpoint_has_file(c, tn_checkpoint_path(c, t)));
        if (i) FUZZ_CHECK(t[-1].shard != t->shard || t[-1].data + t[-1].n_bytes <= t->data);
    }
}

static void run(const uint8_t *data, size_t n) {
    static const char *const names[] = {"model.safetensors.index.json", "a.safetensors", "b.safetensors",
                                        "c.safetensors"};
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    for (size_t i = 0; i < 4; i++) unlink(fuzz_path(names[i]));
    unlink(fuzz_path("model.safetensors"));
    if (n_parts == 1) fuzz_write("model.safetensors", parts[0], 0);
    for (size_t i = 0; n_parts > 1 && i < n_parts && i < 4; i++) fuzz_write(names[i], parts[i], 0);
    char folder[400];
    snprintf(folder, sizeof folder, "%s", fuzz_path("."));
    tn_checkpoint *c;
    tn_error err;
    const tn_status s = tn_checkpoint_open(folder, &c, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (c != NULL));
    if (s) return;
    use(c);
    tn_checkpoint_close(c);
}

const fuzz_target fuzz_safetensors = {"safetensors", run, mutate, words, 65536};
