/* The fuzzers as libFuzzer drives them: fuzz NAME [options and folders of libFuzzer's]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t cap);

static const fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    target = *argc > 1 ? fuzz_find((*argv)[1]) : NULL;
    if (!target) fprintf(stderr, "fuzz: error: expected the name of a fuzzer\n"), exit(2);
    (*argv)[1] = (*argv)[0]; /* libFuzzer shall not see the name */
    ++*argv, --*argc;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n <= target->max_bytes) fuzz_run(target, data, n);
    return 0;
}

static void plain(fuzz_edit *e, fuzz_random *r) {
    (void)r;
    e->n = LLVMFuzzerMutate(e->data, e->n, e->cap);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed) {
    fuzz_edit e = {data, n, cap};
    fuzz_random r = {seed};
    fuzz_mutate(target, &e, &r, plain);
    return e.n;
}
