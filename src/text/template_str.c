/* Strings of a template: bytes with the ranges that came from the caller. */
#include <string.h>

#include "../base/utf8.h"
#include "template_value.h"

static size_t count_chars(const char *p, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((uint8_t)p[i] & 0xC0) != 0x80;
    return count;
}

tn_tval tn_ttext(tn_tmem *m, const char *p, size_t n) {
    tn_tstr *s = tn_talloc(m, 1, sizeof *s);
    *s = (tn_tstr){.p = p, .n = n, .n_chars = count_chars(p, n)};
    return tn_tstring(s);
}

tn_tval tn_tliteral(tn_tmem *m, const char *text) {
    return tn_ttext(m, text, strlen(text));
}

/* The first range that ends behind `at`. */
static size_t range_at(const tn_tstr *s, size_t at) {
    size_t low = 0, high = s->n_data;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->data[mid].end <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool tn_tstr_is_data(const tn_tstr *s, size_t at) {
    size_t i = range_at(s, at);
    return i < s->n_data && s->data[i].begin <= at;
}

static size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

const tn_tstr *tn_tstr_slice(tn_tmem *m, const tn_tstr *s, size_t begin, size_t end) {
    if (begin == 0 && end == s->n) return s;
    tn_tstr *slice = tn_talloc(m, 1, sizeof *slice);
    tn_tcharge(m, (end - begin) / 64);
    *slice = (tn_tstr){.p = s->p + begin,
                       .n = end - begin,
                       .n_chars = s->n_chars == s->n ? end - begin : count_chars(s->p + begin, end - begin),
                       .markup = s->markup};
    if (!s->n_data) return slice;
    size_t first = range_at(s, begin), last = first;
    while (last < s->n_data && s->data[last].begin < end) last++;
    if (last == first) return slice;
    tn_range_pair *data = tn_talloc(m, last - first, sizeof *data);
    for (size_t i = first; i < last; i++)
        data[i - first] =
            (tn_range_pair){max_size(s->data[i].begin, begin) - begin, min_size(s->data[i].end, end) - begin};
    slice->data = data;
    slice->n_data = last - first;
    return slice;
}

bool tn_tstr_equal(const tn_tstr *a, const tn_tstr *b) {
    return a->n == b->n && (a->p == b->p || memcmp(a->p, b->p, a->n) == 0);
}

bool tn_tstr_is(const tn_tstr *s, const char *text) {
    return s->n == strlen(text) && memcmp(s->p, text, s->n) == 0;
}

int tn_tstr_compare(const tn_tstr *a, const tn_tstr *b) {
    int order = memcmp(a->p, b->p, min_size(a->n, b->n)); /* UTF-8 sorts as its code points do */
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

size_t tn_tstr_byte_of(const tn_tstr *s, size_t i_char) {
    if (s->n_chars == s->n) return i_char;
    size_t i = 0;
    for (; i < s->n; i++)
        if (((uint8_t)s->p[i] & 0xC0) != 0x80 && i_char-- == 0) break;
    return i;
}

size_t tn_tstr_char_of(const tn_tstr *s, size_t i_byte) {
    return s->n_chars == s->n ? i_byte : count_chars(s->p, i_byte);
}

size_t tn_tstr_find(tn_tmem *m, const tn_tstr *s, size_t from, size_t end, const tn_tstr *what) {
    if (from > end || end - from < what->n) return SIZE_MAX;
    if (what->n == 0) return from;
    tn_tcharge(m, (end - from) / 64 + 1);
    const char *found = memmem(s->p + from, end - from, what->p, what->n);
    return found ? (size_t)(found - s->p) : SIZE_MAX;
}

size_t tn_tstr_rfind(tn_tmem *m, const tn_tstr *s, size_t from, size_t end, const tn_tstr *what) {
    if (from > end || end - from < what->n) return SIZE_MAX;
    for (size_t i = end - what->n;; i--) {
        if (i % 64 == 0) tn_tcharge(m, 1 + what->n / 64);
        if (memcmp(s->p + i, what->p, what->n) == 0) return i;
        if (i == from) return SIZE_MAX;
    }
}

uint32_t tn_tnext_char(const tn_tstr *s, size_t *i) {
    const uint8_t *p = (const uint8_t *)s->p + *i;
    uint32_t lead = p[0];
    if (lead < 0x80) {
        *i += 1;
        return lead;
    }
    if (lead < 0xE0) {
        *i += 2;
        return (lead & 0x1F) << 6 | (p[1] & 0x3Fu);
    }
    if (lead < 0xF0) {
        *i += 3;
        return (lead & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *i += 4;
    return (lead & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* ---- Building ------------------------------------------------------------------------------------------ */

static void reserve(tn_tbuf *b, size_t n) {
    if (b->max && n > b->max - b->n)
        tn_tfail(b->m, TN_ERR_FORMAT, "it writes more than %zu MiB", b->max >> 20);
    if (n <= b->cap - b->n) return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->n < n) cap *= 2;
    if (b->max && cap > b->max) cap = b->max;
    char *grown = tn_talloc(b->m, cap, 1);
    if (b->n) memcpy(grown, b->p, b->n);
    b->p = grown;
    b->cap = cap;
}

static void add_range(tn_tbuf *b, size_t begin, size_t end) {
    if (b->n_data && b->data[b->n_data - 1].end == begin) {
        b->data[b->n_data - 1].end = end;
        return;
    }
    if (b->n_data == b->cap_data) {
        size_t cap = b->cap_data ? 2 * b->cap_data : 4;
        tn_range_pair *grown = tn_talloc(b->m, cap, sizeof *grown);
        if (b->n_data) memcpy(grown, b->data, b->n_data * sizeof *grown);
        b->data = grown;
        b->cap_data = cap;
    }
    b->data[b->n_data++] = (tn_range_pair){begin, end};
}

void tn_tbuf_bytes(tn_tbuf *b, const char *p, size_t n, bool is_data) {
    if (n == 0) return;
    reserve(b, n);
    memcpy(b->p + b->n, p, n);
    if (is_data) add_range(b, b->n, b->n + n);
    b->n += n;
    tn_tcharge(b->m, n / 64);
}

void tn_tbuf_text(tn_tbuf *b, const char *text) {
    tn_tbuf_bytes(b, text, strlen(text), false);
}

void tn_tbuf_char(tn_tbuf *b, uint32_t code, bool is_data) {
    char p[4];
    size_t n = 1;
    if (code < 0x80) {
        p[0] = (char)code;
    } else if (code < 0x800) {
        p[0] = (char)(0xC0 | code >> 6);
        n = 2;
    } else if (code < 0x10000) {
        p[0] = (char)(0xE0 | code >> 12);
        n = 3;
    } else {
        p[0] = (char)(0xF0 | code >> 18);
        n = 4;
    }
    for (size_t i = n; i-- > 1; code >>= 6) p[i] = (char)(0x80 | (code & 0x3F));
    tn_tbuf_bytes(b, p, n, is_data);
}

void tn_tbuf_slice(tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end) {
    if (begin >= end) return;
    size_t at = b->n;
    tn_tbuf_bytes(b, s->p + begin, end - begin, false);
    for (size_t i = s->n_data ? range_at(s, begin) : 0; i < s->n_data && s->data[i].begin < end; i++)
        add_range(b, at + max_size(s->data[i].begin, begin) - begin,
                  at + min_size(s->data[i].end, end) - begin);
}

void tn_tbuf_str(tn_tbuf *b, const tn_tstr *s) {
    tn_tbuf_slice(b, s, 0, s->n);
}

void tn_tbuf_repeat(tn_tbuf *b, const tn_tstr *s, int64_t n) {
    if (s->n == 0) return;
    for (int64_t i = 0; i < n; i++) {
        tn_tcharge(b->m, 1);
        tn_tbuf_str(b, s);
    }
}

tn_tval tn_tbuf_done(tn_tbuf *b) {
    tn_tstr *s = tn_talloc(b->m, 1, sizeof *s);
    *s = (tn_tstr){.p = b->p ? b->p : "",
                   .n = b->n,
                   .n_chars = count_chars(b->p, b->n),
                   .data = b->data,
                   .n_data = b->n_data};
    return tn_tstring(s);
}
