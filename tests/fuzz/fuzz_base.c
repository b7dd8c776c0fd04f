/* Predictions that `tern eval perplexity --save-base` kept. */
#include <math.h>
#include <stdlib.h>

#include "fuzz.h"
#include "tools/eval.h"

static void run(const uint8_t *data, size_t n) {
    tn_eval_base *base;
    const char *path = fuzz_write("base.logits", (fuzz_bytes){data, n}, 0);
    fuzz_said said;
    fuzz_listen(&said);
    if (tn_eval_base_open(path, &base) == TN_EXIT_DONE) {
        const tn_eval_base_head *head = tn_eval_base_head_of(base);
        float *row = malloc(head->n_vocab * sizeof *row);
        FUZZ_CHECK(head->n_vocab <= n && row);
        const size_t rows =
            (size_t)head->text.n_chunks * (head->text.n_ctx - tn_eval_first_scored(head->text.n_ctx));
        for (size_t i = 0; i < rows; i++) {
            FUZZ_CHECK(tn_eval_base_read(base, row) == TN_EXIT_DONE);
            for (uint32_t j = 0; j < head->n_vocab; j++) FUZZ_CHECK(isfinite(row[j]) && row[j] <= 0);
        }
        for (size_t i = 0; i < (size_t)head->text.n_chunks * head->text.n_ctx; i++)
            FUZZ_CHECK((uint32_t)head->text.ids[i] < head->n_vocab);
        free(row);
        tn_eval_base_close(base);
        fuzz_heard(&said, TN_EXIT_DONE);
    } else {
        fuzz_heard(&said, TN_EXIT_FAILED);
    }
}

const fuzz_target fuzz_base = {"base", run, NULL, NULL, 65536};
