/* dequant --isas          the names of the instruction sets supported here, one a line
 * dequant --types         name, number, elements and bytes a block of every type, one a line
 * dequant ISA TYPE        blocks on stdin, as one row, become float32 on stdout */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static int fail(const char *what, const char *value) {
    fprintf(stderr, "dequant: error: %s: %s\n", what, value);
    return 1;
}

static int find_isa(const char *name) {
    for (int isa = 0; isa < TN_ISA_COUNT; isa++)
        if (tn_isa_supported((tn_isa)isa) && strcmp(tn_isa_name((tn_isa)isa), name) == 0) return isa;
    return -1;
}

static int find_dtype(const char *name) {
    for (int t = 0; t < TN_DTYPE_COUNT; t++)
        if (strcmp(tn_dtypes[t].name, name) == 0) return t;
    return -1;
}

/* All of stdin; NULL when memory is out. */
static uint8_t *read_all(size_t *size) {
    size_t capacity = 1 << 20;
    uint8_t *data = malloc(capacity);
    *size = 0;
    while (data) {
        size_t n = fread(data + *size, 1, capacity - *size, stdin);
        *size += n;
        if (n == 0) return data;
        if (*size < capacity) continue;
        uint8_t *larger = realloc(data, capacity *= 2);
        if (!larger) free(data);
        data = larger;
    }
    return NULL;
}

static int dequantize_stdin(tn_dequantize_fn *dequantize, const tn_dtype_info *info) {
    size_t size;
    uint8_t *blocks = read_all(&size);
    if (!blocks) return fail("memory", "out of it");
    size_t k = size / info->block_bytes * info->block_elems;
    float *x = calloc(k ? k : 1, sizeof *x);
    if (!x) {
        free(blocks);
        return fail("memory", "out of it");
    }
    dequantize(x, blocks, k);
    bool written = fwrite(x, sizeof *x, k, stdout) == k && fflush(stdout) == 0;
    free(x);
    free(blocks);
    return written ? 0 : fail("stdout", "cannot write");
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--isas") == 0) {
        for (int isa = 0; isa < TN_ISA_COUNT; isa++)
            if (tn_isa_supported((tn_isa)isa)) puts(tn_isa_name((tn_isa)isa));
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--types") == 0) {
        for (const tn_dtype_info *type = tn_dtypes; type < tn_dtypes + TN_DTYPE_COUNT; type++)
            printf("%s %u %u %u\n", type->name, type->ggml_id, type->block_elems, type->block_bytes);
        return 0;
    }
    if (argc != 3) return fail("usage", "dequant --isas | --types | ISA TYPE");
    int isa = find_isa(argv[1]), dtype = find_dtype(argv[2]);
    if (isa < 0) return fail("instruction set", argv[1]);
    if (dtype < 0 || tn_dtypes[dtype].act == TN_ACT_NONE) return fail("type", argv[2]);
    tn_kernels table;
    tn_kernels_fill(&table, (tn_isa)isa);
    return dequantize_stdin(table.weight[dtype].dequantize, &tn_dtypes[dtype]);
}
