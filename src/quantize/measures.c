#include "measures.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/c_locale.h"
#include "../base/fmap.h"
#include "../base/outfile.h"

static const char head[] = "tern measures 1\n";

enum { MAX_BYTES = 16 << 20, MAX_LINE = 64, KEY_DIGITS = 16 };

typedef struct measure {
    uint64_t key;
    double divergence;
} measure;

struct tn_measures {
    const char *path;
    measure *items;
    size_t n, cap;
};

static tn_status bad(const tn_measures *m, size_t line, tn_error *err) {
    return tn_fail(err, TN_ERR_FORMAT, "not a file of measures", m->path, "line %zu", line);
}

static bool append(tn_measures *m, measure item) {
    if (m->n == m->cap) {
        const size_t cap = m->cap ? 2 * m->cap : 64;
        measure *items = realloc(m->items, cap * sizeof *items);
        if (!items) return false;
        m->items = items;
        m->cap = cap;
    }
    m->items[m->n++] = item;
    return true;
}

/* "0123456789abcdef 0.25" */
static bool parse_line(const char *text, measure *out) {
    char *end;
    if (strspn(text, "0123456789abcdef") != KEY_DIGITS || text[KEY_DIGITS] != ' ') return false;
    out->key = strtoull(text, NULL, 16);
    const char *number = text + KEY_DIGITS + 1;
    if (!*number || number[strspn(number, "0123456789.e+-")]) return false;
    out->divergence = tn_strtod(number, &end);
    return !*end && out->divergence >= 0 && isfinite(out->divergence);
}

static tn_status parse(tn_measures *m, const char *text, size_t size, tn_error *err) {
    const size_t n_head = sizeof head - 1;
    if (size < n_head || memcmp(text, head, n_head) != 0) return bad(m, 1, err);
    size_t line = 2;
    for (size_t at = n_head; at < size; line++) {
        char copy[MAX_LINE];
        measure item;
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - text) - at : MAX_LINE;
        if (n >= MAX_LINE) return bad(m, line, err);
        memcpy(copy, text + at, n);
        copy[n] = '\0';
        if (!parse_line(copy, &item)) return bad(m, line, err);
        if (!append(m, item))
            return tn_fail(err, TN_ERR_MEMORY, "cannot read measures", m->path, "out of memory");
        at += n + 1;
    }
    return TN_OK;
}

static tn_status read_file(tn_measures *m, tn_error *err) {
    tn_fmap map;
    const tn_status opened = tn_fmap_open(&map, m->path, err);
    if (opened != TN_OK) return opened;
    const tn_status s = map.size > MAX_BYTES ? tn_fail(err, TN_ERR_FORMAT, "not a file of measures", m->path,
                                                       "larger than 16 MiB")
                                             : parse(m, (const char *)map.data, map.size, err);
    tn_fmap_close(&map);
    return s;
}

tn_status tn_measures_open(const char *path, tn_measures **out, tn_error *err) {
    *out = NULL;
    tn_measures *m = calloc(1, sizeof *m);
    if (!m) return tn_fail(err, TN_ERR_MEMORY, "cannot read measures", path, "out of memory");
    m->path = path;
    const tn_status s = access(path, F_OK) != 0 && errno == ENOENT ? TN_OK : read_file(m, err);
    if (s == TN_OK)
        *out = m;
    else
        tn_measures_close(m);
    return s;
}

void tn_measures_close(tn_measures *m) {
    if (!m) return;
    free(m->items);
    free(m);
}

bool tn_measures_find(const tn_measures *m, uint64_t key, double *divergence) {
    for (size_t i = 0; i < m->n; i++) {
        if (m->items[i].key != key) continue;
        *divergence = m->items[i].divergence;
        return true;
    }
    return false;
}

static tn_status write_items(const tn_measures *m, tn_outfile *file, tn_error *err) {
    tn_status s = tn_outfile_write(file, head, sizeof head - 1, err);
    for (size_t i = 0; s == TN_OK && i < m->n; i++) {
        char line[MAX_LINE];
        const int n =
            tn_snprintf(line, sizeof line, "%016" PRIx64 " %.17g\n", m->items[i].key, m->items[i].divergence);
        s = tn_outfile_write(file, line, (uint64_t)n, err);
    }
    return s;
}

tn_status tn_measures_add(tn_measures *m, uint64_t key, double divergence, tn_error *err) {
    if (!append(m, (measure){key, divergence}))
        return tn_fail(err, TN_ERR_MEMORY, "cannot write measures", m->path, "out of memory");
    tn_outfile file;
    tn_status s = tn_outfile_open(&file, m->path, err);
    if (s == TN_OK) s = write_items(m, &file, err);
    if (s == TN_OK) s = tn_outfile_finish(&file, err);
    if (s == TN_OK) s = tn_outfile_place(&file, err);
    tn_outfile_discard(&file);
    return s;
}
