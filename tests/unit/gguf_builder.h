/* Writes GGUF bytes piece by piece, right or wrong as a test needs: nothing is checked or counted. */
#ifndef TN_TESTS_GGUF_BUILDER_H
#define TN_TESTS_GGUF_BUILDER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gb {
    uint8_t *data;
    size_t size, cap;
} gb; /* all zero is empty; freed by gb_free */

static inline void gb_bytes(gb *b, const void *bytes, size_t n) {
    if (b->size + n > b->cap) {
        b->cap = 2 * (b->size + n);
        b->data = realloc(b->data, b->cap);
        if (!b->data) exit(3);
    }
    if (n > 0) memcpy(b->data + b->size, bytes, n);
    b->size += n;
}

static inline void gb_free(gb *b) {
    free(b->data);
    *b = (gb){0};
}

static inline void gb_u8(gb *b, uint8_t v) {
    gb_bytes(b, &v, sizeof v);
}
static inline void gb_u16(gb *b, uint16_t v) {
    gb_bytes(b, &v, sizeof v);
}
static inline void gb_u32(gb *b, uint32_t v) {
    gb_bytes(b, &v, sizeof v);
}
static inline void gb_u64(gb *b, uint64_t v) {
    gb_bytes(b, &v, sizeof v);
}

static inline void gb_strn(gb *b, const char *text, size_t n) {
    gb_u64(b, n);
    gb_bytes(b, text, n);
}
static inline void gb_str(gb *b, const char *text) {
    gb_strn(b, text, strlen(text));
}

static inline void gb_header(gb *b, uint32_t version, uint64_t n_tensors, uint64_t n_meta) {
    gb_bytes(b, "GGUF", 4);
    gb_u32(b, version);
    gb_u64(b, n_tensors);
    gb_u64(b, n_meta);
}

static inline void gb_key(gb *b, const char *key, uint32_t type) {
    gb_str(b, key);
    gb_u32(b, type);
}

static inline void gb_key_u16(gb *b, const char *key, uint16_t v) {
    gb_key(b, key, 2);
    gb_u16(b, v);
}

static inline void gb_key_u32(gb *b, const char *key, uint32_t v) {
    gb_key(b, key, 4);
    gb_u32(b, v);
}

static inline void gb_key_array(gb *b, const char *key, uint32_t elem_type, uint64_t count) {
    gb_key(b, key, 9);
    gb_u32(b, elem_type);
    gb_u64(b, count);
}

/* A tensor of two dimensions. */
static inline void gb_tensor(gb *b, const char *name, uint64_t dim0, uint64_t dim1, uint32_t type,
                             uint64_t offset) {
    gb_str(b, name);
    gb_u32(b, 2);
    gb_u64(b, dim0);
    gb_u64(b, dim1);
    gb_u32(b, type);
    gb_u64(b, offset);
}

static inline void gb_zeros(gb *b, size_t n) {
    while (n-- > 0) gb_u8(b, 0);
}

static inline void gb_align(gb *b, size_t align) {
    gb_zeros(b, (align - b->size % align) % align);
}

static inline void gb_write(const gb *b, const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f || (b->size > 0 && fwrite(b->data, 1, b->size, f) != b->size) || fclose(f) != 0) {
        perror(path);
        exit(3);
    }
}

#endif
