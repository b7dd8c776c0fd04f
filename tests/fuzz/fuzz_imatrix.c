/* Importance matrices, of both forms. */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "src/quantize/imatrix.h"

static void run(const uint8_t *data, size_t n) {
    static const char *const names[] = {"blk.0.attn_q.weight", "a", "", "output.weight"};
    tn_imatrix *m;
    tn_error err;
    tn_status s = tn_imatrix_open(fuzz_write("imatrix", (fuzz_bytes){data, n}, 0), &m, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (m != NULL));
    if (s) return;
    FUZZ_CHECK(tn_imatrix_n_entries(m) > 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (uint64_t columns = 1; columns <= 64; columns *= 2) {
            const float *values;
            s = tn_imatrix_find(m, names[i], columns, 2, &values, &err);
            fuzz_check_status((int)s, &err);
            for (uint64_t j = 0; !s && values && j < 2 * columns; j++)
                FUZZ_CHECK(isfinite(values[j]) && values[j] >= 0);
        }
    }
    tn_imatrix_close(m);
}

const fuzz_target fuzz_imatrix = {"imatrix", run, fuzz_mutate_gguf, fuzz_gguf_words, 65536};
