/* Changes of GGUF files that keep the rest of them readable: what is counted is counted right, what has a length has that length,
 * and now and then just one of these is not so. The format is drawn in formats/gguf.h. */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "src/base/dtype.h"

enum { MAX_FIELDS = 4096, T_STRING = 8, T_ARRAY = 9 };

typedef enum field_kind { F_COUNT, F_LENGTH, F_TEXT, F_TYPE, F_DIM, F_OFFSET, F_VALUE } field_kind;

typedef struct field {
    field_kind kind;
    size_t at, n;
} field;

/* What there is in a file, as far as it can be read. */
typedef struct map {
    const uint8_t *data;
    size_t n, at;
    field fields[MAX_FIELDS];
    size_t n_fields;
    size_t entries[MAX_FIELDS],
        n_entries; /* begins of entries and of the tensors' descriptions, and the end of the last */
    size_t first[MAX_FIELDS]; /* the first field of each */
    size_t n_meta;            /* entries among them */
} map;

static bool take(map *m, field_kind kind, size_t n) {
    if (n > m->n - m->at || m->n_fields == MAX_FIELDS) return false;
    m->fields[m->n_fields++] = (field){kind, m->at, n};
    m->at += n;
    return true;
}

static uint64_t last_number(const map *m) {
    const field *f = &m->fields[m->n_fields - 1];
    uint64_t v = 0;
    memcpy(&v, m->data + f->at, f->n < 8 ? f->n : 8);
    return v;
}

static bool take_string(map *m) {
    return take(m, F_LENGTH, 8) && take(m, F_TEXT, last_number(m) < m->n ? (size_t)last_number(m) : m->n);
}

static bool take_value(map *m, uint64_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type >= sizeof bytes) return false;
    if (type == T_STRING) return take_string(m);
    if (type != T_ARRAY) return take(m, F_VALUE, bytes[type]);
    if (!take(m, F_TYPE, 4)) return false;
    const uint64_t elem = last_number(m);
    if (!take(m, F_COUNT, 8) || elem >= sizeof bytes || elem == T_ARRAY) return false;
    const uint64_t count = last_number(m);
    if (count > m->n) return false;
    if (elem != T_STRING) return take(m, F_VALUE, (size_t)count * bytes[elem]);
    for (uint64_t i = 0; i < count; i++)
        if (!take_string(m)) return false;
    return true;
}

static bool take_entry(map *m) {
    return take_string(m) && take(m, F_TYPE, 4) && take_value(m, last_number(m));
}

static bool take_tensor(map *m) {
    if (!take_string(m) || !take(m, F_COUNT, 4)) return false;
    const uint64_t n_dims = last_number(m);
    for (uint64_t i = 0; i < n_dims; i++)
        if (!take(m, F_DIM, 8)) return false;
    return take(m, F_TYPE, 4) && take(m, F_OFFSET, 8);
}

static void begin_entry(map *m) {
    m->first[m->n_entries] = m->n_fields;
    m->entries[m->n_entries++] = m->at;
}

static bool read_map(map *m, const fuzz_edit *e) {
    m->data = e->data, m->n = e->n, m->at = 4;
    m->n_fields = m->n_entries = m->n_meta = 0;
    if (e->n < 24 || memcmp(e->data, "GGUF", 4) || !take(m, F_VALUE, 4) || !take(m, F_COUNT, 8)) return false;
    const uint64_t n_tensors = last_number(m);
    if (!take(m, F_COUNT, 8)) return false;
    const uint64_t n_meta = last_number(m);
    bool whole = true;
    for (uint64_t i = 0; i < n_meta && whole && m->n_entries < MAX_FIELDS - 1; i++) {
        begin_entry(m);
        whole = take_entry(m);
    }
    m->n_meta = m->n_entries;
    for (uint64_t i = 0; i < n_tensors && whole && m->n_entries < MAX_FIELDS - 1; i++) {
        begin_entry(m);
        whole = take_tensor(m);
    }
    m->entries[m->n_entries] = m->at;
    m->first[m->n_entries] = m->n_fields;
    return true;
}

static void add_to_count(fuzz_edit *e, bool is_meta, int by) {
    uint64_t count;
    memcpy(&count, e->data + (is_meta ? 16 : 8), sizeof count);
    count += (uint64_t)(int64_t)by;
    memcpy(e->data + (is_meta ? 16 : 8), &count, sizeof count);
}

/* An entry or tensor goes, comes twice, or is put somewhere else among its own kind. */
static void change_entry(fuzz_edit *e, const map *m, fuzz_random *r) {
    const size_t i = fuzz_below(r, m->n_entries), from = m->entries[i], n = m->entries[i + 1] - from;
    const bool is_meta = i < m->n_meta, drop = fuzz_below(r, 2), lie = fuzz_below(r, 8) == 0;
    const size_t first = is_meta ? 0 : m->n_meta, last = is_meta ? m->n_meta : m->n_entries;
    const size_t to = m->entries[first + fuzz_below(r, last - first + 1)];
    if (drop ? !fuzz_replace(e, from, n, NULL, 0) : n > e->cap - e->n) return;
    if (!drop) { /* what moves is copied from where it then lies */
        fuzz_replace(e, to, 0, NULL, n);
        memcpy(e->data + to, e->data + from + (to <= from ? n : 0), n);
    }
    if (!lie) add_to_count(e, is_meta, drop ? -1 : 1);
}

/* The text becomes a word, or is changed plainly; its length follows, mostly. */
static void change_text(fuzz_edit *e, const field *f, fuzz_random *r) {
    uint8_t text[512];
    if (f->n > sizeof text / 2) return;
    fuzz_edit inner = {text, f->n, sizeof text};
    memcpy(text, e->data + f->at, f->n);
    const fuzz_bytes word = fuzz_word(fuzz_gguf_words, r);
    if (fuzz_below(r, 2))
        fuzz_mutate_plain(&inner, r);
    else
        fuzz_replace(&inner, 0, inner.n, word.data, word.n);
    if (!fuzz_replace(e, f->at, f->n, text, inner.n) || fuzz_below(r, 16) == 0) return;
    const uint64_t n = inner.n;
    memcpy(e->data + f->at - 8, &n, sizeof n);
}

static void change_field(fuzz_edit *e, const field *f, fuzz_random *r) {
    uint64_t v = 0;
    const size_t n = f->n < 8 ? f->n : 8;
    uint8_t *at = e->data + f->at + (f->n > 8 ? fuzz_below(r, f->n / 4) * 4 : 0);
    if (f->kind == F_TEXT) {
        change_text(e, f, r);
        return;
    }
    if (at + n > e->data + f->at + f->n) at = e->data + f->at + f->n - n;
    memcpy(&v, at, n);
    static const uint64_t plausible[] = {1, 2, 3, 4, 8, 16, 32, 48, 64, 80, 96, 128, 256};
    if (f->kind == F_TYPE)
        v = fuzz_below(r, 8) ? fuzz_below(r, 41) : fuzz_edge(r, v);
    else if (f->kind == F_DIM || f->kind == F_VALUE)
        v = fuzz_below(r, 2) ? plausible[fuzz_below(r, sizeof plausible / sizeof *plausible)]
                             : fuzz_edge(r, v);
    else
        v = fuzz_edge(r, v);
    if (f->kind == F_VALUE && n == 4 && fuzz_below(r, 4) == 0) {
        static const float reals[] = {0, -0.0f, 1, -1, 1e-5f, 10000, 1e30f, 1e-40f, 0.5f, 8, INFINITY, NAN};
        memcpy(&v, &reals[fuzz_below(r, sizeof reals / sizeof *reals)], 4);
    }
    memcpy(at, &v, n);
}

bool fuzz_mutate_gguf(fuzz_edit *e, fuzz_random *r) {
    map m;
    if (!read_map(&m, e) || !m.n_entries || !m.n_fields) return false;
    if (fuzz_below(r, 4) == 0) {
        change_entry(e, &m, r);
        return true;
    }
    const field f = m.fields[fuzz_below(r, m.n_fields)];
    if (f.n > 0 || f.kind == F_TEXT) change_field(e, &f, r);
    return true;
}

/* ---- What is left right ---- */

static uint64_t number_at(const fuzz_edit *e, const field *f) {
    uint64_t v = 0;
    memcpy(&v, e->data + f->at, f->n < 8 ? f->n : 8);
    return v;
}

/* The value of an entry: a number of it, or a text. */
static void change_meta(fuzz_edit *e, const map *m, fuzz_random *r) {
    const size_t i = fuzz_below(r, m->n_meta), n = m->first[i + 1] - m->first[i];
    if (n < 4) return; /* cut off */
    const field *f = &m->fields[m->first[i] + 3 + fuzz_below(r, n - 3)];
    while (f->kind != F_VALUE && f->kind != F_TEXT && f < &m->fields[m->first[i + 1] - 1]) f++;
    if (f->kind == F_TEXT || (f->kind == F_VALUE && f->n)) change_field(e, f, r);
}

/* A list of two instead of one number, as a value by layer has it. */
static void make_list(fuzz_edit *e, const map *m, fuzz_random *r) {
    const size_t i = fuzz_below(r, m->n_meta);
    if (m->first[i + 1] - m->first[i] != 4) return;
    const field *type = &m->fields[m->first[i] + 2], *f = type + 1;
    if (f->kind != F_VALUE || 12 + f->n > e->cap - e->n) return;
    const uint64_t elem = number_at(e, type), count = 2;
    uint8_t head[16] = {T_ARRAY};
    memcpy(head + 4, &elem, 4);
    memcpy(head + 8, &count, 8);
    uint8_t value[8];
    memcpy(value, e->data + f->at, f->n);
    if (fuzz_replace(e, f->at, 0, value, f->n)) fuzz_replace(e, type->at, type->n, head, sizeof head);
}

/* The type or a dimension of a tensor. */
static void change_shape(fuzz_edit *e, const map *m, fuzz_random *r) {
    if (m->n_entries == m->n_meta) return;
    const size_t i = m->n_meta + fuzz_below(r, m->n_entries - m->n_meta), n = m->first[i + 1] - m->first[i];
    if (n < 6) return;
    change_field(e, &m->fields[m->first[i] + 3 + fuzz_below(r, n - 4)], r);
}

/* Puts the tensors one behind the other. */
static void mend_offsets(fuzz_edit *e, map *m) {
    uint64_t offset = 0;
    if (!read_map(m, e)) return;
    for (size_t i = m->n_meta; i < m->n_entries; i++) {
        const size_t n = m->first[i + 1] - m->first[i];
        if (n < 6) return;
        const field *dims = &m->fields[m->first[i] + 3], *type = dims + n - 5, *place = type + 1;
        tn_dtype t;
        uint64_t bytes = 0;
        if (tn_dtype_from_ggml((uint32_t)number_at(e, type), &t))
            bytes = number_at(e, dims) / tn_dtypes[t].block_elems * tn_dtypes[t].block_bytes;
        for (const field *d = dims + 1; d < type; d++) bytes *= number_at(e, d);
        memcpy(e->data + place->at, &offset, sizeof offset);
        offset += (bytes + 31) / 32 * 32;
    }
}

bool fuzz_mutate_model(fuzz_edit *e, fuzz_random *r) {
    static map m;
    if (fuzz_below(r, 8) == 0) return fuzz_mutate_gguf(e, r);
    if (!read_map(&m, e) || !m.n_meta) return false;
    switch (fuzz_below(r, 8)) {
    case 0: change_shape(e, &m, r); break;
    case 1: make_list(e, &m, r); break;
    case 2: change_entry(e, &m, r); break;
    default: change_meta(e, &m, r); break;
    }
    mend_offsets(e, &m);
    return true;
}
