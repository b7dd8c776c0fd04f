#include "imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../formats/format.h"
#include "../base/arena.h"
#include "../base/checked.h"
#include "../base/fmap.h"
#include "../base/reader.h"

#define WHAT "cannot read importance matrix"

typedef struct entry {
    const char *name;
    float *values;
    uint64_t n_values;
} entry;

struct tn_imatrix {
    tn_arena arena;
    char *path;
    entry *entries; /* sorted by name */
    uint64_t n_entries;
};

#define BAD(m, ...) tn_fail(err, TN_ERR_FORMAT, WHAT, (m)->path, __VA_ARGS__)

static tn_status no_memory(const tn_imatrix *m, tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, WHAT, m->path, "out of memory");
}

/* Means of sums; all ones where nothing was counted. */
static tn_status set_means(const tn_imatrix *m, const char *name, float *out, const uint8_t *sums, uint64_t n,
                           float count, tn_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        float sum;
        memcpy(&sum, sums + 4 * i, sizeof sum);
        if (!isfinite(sum) || sum < 0)
            return BAD(m, "'%.80s': value %" PRIu64 " is %g, expected a finite number of at least 0", name, i,
                       (double)sum);
        out[i] = count > 0 ? sum / count : 1;
        if (!isfinite(out[i])) /* the counts of the newer form are floats */
            return BAD(m, "'%.80s': value %" PRIu64 " is %g for a count of %g, expected a finite mean", name,
                       i, (double)sum, (double)count);
    }
    return TN_OK;
}

/* ---- GGUF ---- */

static bool split_name(const char *name, const char *suffix, size_t *n_stem) {
    const size_t n = strlen(name), n_suffix = strlen(suffix);
    *n_stem = n - n_suffix;
    return n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

static tn_status read_pair(tn_imatrix *m, const tn_file *file, const tn_tensor *sums, size_t n_stem,
                           tn_error *err) {
    char counts_name[512];
    const int n = snprintf(counts_name, sizeof counts_name, "%.*s.counts", (int)n_stem, sums->cname);
    const tn_tensor *counts = n < (int)sizeof counts_name ? tn_file_tensor(file, counts_name) : NULL;
    if (!counts) return BAD(m, "tensor '%.80s' has no '.counts' beside it", sums->cname);
    const uint64_t n_matrices = sums->dims[1], columns = sums->dims[0];
    if (sums->dtype != TN_DTYPE_F32 || counts->dtype != TN_DTYPE_F32 || sums->dims[2] * sums->dims[3] != 1 ||
        counts->n_bytes != 4 * n_matrices)
        return BAD(m, "tensors '%.80s' and its counts have not the types or shapes of an importance matrix",
                   sums->cname);
    entry *e = &m->entries[m->n_entries++];
    *e = (entry){tn_arena_strdup(&m->arena, sums->cname, n_stem), NULL, sums->n_bytes / 4};
    e->values = tn_arena_alloc(&m->arena, e->n_values, sizeof(float));
    if (!e->name || !e->values) return no_memory(m, err);
    tn_status s = TN_OK;
    for (uint64_t i = 0; s == TN_OK && i < n_matrices; i++) {
        float count;
        memcpy(&count, counts->data + 4 * i, sizeof count);
        if (!isfinite(count) || count < 0) return BAD(m, "'%.80s': a count is %g", e->name, (double)count);
        s = set_means(m, e->name, e->values + columns * i, sums->data + 4 * columns * i, columns, count, err);
    }
    return s;
}

static tn_status read_gguf(tn_imatrix *m, tn_error *err) {
    tn_file *file;
    tn_status s = tn_file_open(m->path, &file, err);
    if (s != TN_OK) return s;
    const uint64_t n = tn_file_n_tensors(file);
    m->entries = tn_arena_alloc(&m->arena, n, sizeof *m->entries);
    if (!m->entries) s = no_memory(m, err);
    for (uint64_t i = 0; s == TN_OK && i < n; i++) {
        const tn_tensor *t = tn_file_tensor_at(file, i);
        size_t n_stem;
        if (split_name(t->cname, ".in_sum2", &n_stem)) s = read_pair(m, file, t, n_stem, err);
    }
    tn_file_close(file);
    return s;
}

/* ---- The older form: n_entries i32, then for each: name (length i32, bytes), n_calls i32, n_values i32, float values ---- */

static tn_status read_entry(tn_imatrix *m, tn_reader *r, tn_error *err) {
    uint32_t n_name, n_calls, n_values;
    const uint8_t *name, *values;
    if (!tn_read_u32(r, &n_name) || n_name == 0 || !tn_read_bytes(r, n_name, &name) ||
        !tn_read_u32(r, &n_calls) || !tn_read_u32(r, &n_values) || n_values == 0 ||
        !tn_read_bytes(r, (uint64_t)n_values * 4, &values))
        return BAD(m, "entry %" PRIu64 " is truncated or no entry (size %" PRIu64 ")", m->n_entries, r->size);
    if (!tn_is_printable((const char *)name, n_name) || memchr(name, 0, n_name))
        return BAD(m, "the name of entry %" PRIu64 " is not text", m->n_entries);
    entry *e = &m->entries[m->n_entries++];
    *e = (entry){tn_arena_strdup(&m->arena, (const char *)name, n_name), NULL, n_values};
    e->values = tn_arena_alloc(&m->arena, n_values, sizeof(float));
    if (!e->name || !e->values) return no_memory(m, err);
    return set_means(m, e->name, e->values, values, n_values,
                     n_calls > 0 && n_calls <= INT32_MAX ? (float)n_calls : 0, err);
}

static tn_status read_dat(tn_imatrix *m, const tn_fmap *map, tn_error *err) {
    enum { MIN_ENTRY_BYTES = 17 };
    tn_reader r = {.base = map->data, .size = map->size};
    uint32_t n;
    if (!tn_read_u32(&r, &n) || n == 0 || n > tn_reader_left(&r) / MIN_ENTRY_BYTES)
        return BAD(m, "is neither GGUF nor an importance matrix of the older form");
    m->entries = tn_arena_alloc(&m->arena, n, sizeof *m->entries);
    if (!m->entries) return no_memory(m, err);
    tn_status s = TN_OK;
    for (uint32_t i = 0; s == TN_OK && i < n; i++) s = read_entry(m, &r, err);
    return s;
}

/* ---- Both ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Sorts the entries by name, each of which is there once. */
static tn_status sort_entries(tn_imatrix *m, tn_error *err) {
    if (m->n_entries == 0) return BAD(m, "holds no importances");
    qsort(m->entries, m->n_entries, sizeof *m->entries, compare_names);
    for (uint64_t i = 1; i < m->n_entries; i++)
        if (compare_names(&m->entries[i - 1], &m->entries[i]) == 0)
            return BAD(m, "'%.80s' is there twice", m->entries[i].name);
    return TN_OK;
}

tn_status tn_imatrix_open(const char *path, tn_imatrix **out, tn_error *err) {
    *out = NULL;
    tn_fmap map;
    tn_status s = tn_fmap_open(&map, path, err);
    if (s != TN_OK) return s;
    tn_imatrix *m = calloc(1, sizeof *m);
    if (m) m->path = tn_arena_strdup(&m->arena, path, strlen(path));
    if (!m || !m->path) {
        s = tn_fail(err, TN_ERR_MEMORY, WHAT, path, "out of memory");
    } else {
        const bool gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
        s = gguf ? read_gguf(m, err) : read_dat(m, &map, err);
    }
    tn_fmap_close(&map);
    if (s == TN_OK) s = sort_entries(m, err);
    if (s != TN_OK) {
        tn_imatrix_close(m);
        return s;
    }
    *out = m;
    return TN_OK;
}

void tn_imatrix_close(tn_imatrix *m) {
    if (!m) return;
    tn_arena_free(&m->arena);
    free(m);
}

uint64_t tn_imatrix_n_entries(const tn_imatrix *m) {
    return m->n_entries;
}

tn_status tn_imatrix_find(const tn_imatrix *m, const char *tensor, uint64_t n_columns, uint64_t n_matrices,
                          const float **out, tn_error *err) {
    const entry key = {.name = tensor};
    const entry *e = bsearch(&key, m->entries, m->n_entries, sizeof key, compare_names);
    uint64_t n;
    *out = e ? e->values : NULL;
    if (!e || (tn_mul_u64(n_columns, n_matrices, &n) && e->n_values == n)) return TN_OK;
    return BAD(m,
               "'%.80s' has %" PRIu64 " values, but the tensor %" PRIu64 " columns in %" PRIu64 " matrices",
               tensor, e->n_values, n_columns, n_matrices);
}
