/* Changes of inputs that are the same for all targets. */
#include "fuzz.h"

#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t fuzz_next(fuzz_random *r) {
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t fuzz_below(fuzz_random *r, size_t n) {
    return n ? (size_t)(fuzz_next(r) % n) : 0;
}

uint64_t fuzz_edge(fuzz_random *r, uint64_t near) {
    const uint64_t power = (uint64_t)1 << fuzz_below(r, 64);
    switch (fuzz_below(r, 8)) {
    case 0: return 0;
    case 1: return UINT64_MAX - fuzz_below(r, 3);
    case 2: return power;
    case 3: return power - 1;
    case 4: return near + 1;
    case 5: return near - 1;
    case 6: return near * 2;
    default: return fuzz_below(r, 40);
    }
}

bool fuzz_replace(fuzz_edit *e, size_t at, size_t n_old, const void *bytes, size_t n) {
    if (at > e->n || n_old > e->n - at || n > e->cap - (e->n - n_old)) return false;
    memmove(e->data + at + n, e->data + at + n_old, e->n - at - n_old);
    if (bytes)
        memmove(e->data + at, bytes, n);
    else
        memset(e->data + at, 0, n);
    e->n += n - n_old;
    return true;
}

/* ---- Plain changes ---- */

static void change_byte(fuzz_edit *e, fuzz_random *r) {
    uint8_t *at = e->data + fuzz_below(r, e->n);
    switch (fuzz_below(r, 4)) {
    case 0: *at ^= (uint8_t)(1u << fuzz_below(r, 8)); break;
    case 1: *at = (uint8_t)fuzz_next(r); break;
    case 2: *at = (uint8_t)(*at + fuzz_below(r, 9) - 4); break;
    default: *at = (uint8_t) "\0\xFF\x7F\x80 \n\"{}[]()0-9a<|,:."[fuzz_below(r, 23)]; break;
    }
}

static void change_number(fuzz_edit *e, fuzz_random *r) {
    const size_t width = (size_t)1 << fuzz_below(r, 4);
    if (e->n < width) return;
    uint8_t *at = e->data + fuzz_below(r, e->n - width + 1);
    uint64_t value = 0;
    memcpy(&value, at, width);
    value = fuzz_edge(r, value);
    memcpy(at, &value, width);
}

/* Of ASCII digits. */
static void change_decimal(fuzz_edit *e, fuzz_random *r) {
    static const char *const numbers[] = {
        "0",     "-1",         "1",          "2147483648", "4294967295",
        "1e999", "0.00000001", "9999999999", "65536",      "18446744073709551615"};
    size_t begin = fuzz_below(r, e->n), end;
    while (begin < e->n && (e->data[begin] < '0' || e->data[begin] > '9')) begin++;
    for (end = begin; end < e->n && e->data[end] >= '0' && e->data[end] <= '9';) end++;
    const char *number = numbers[fuzz_below(r, sizeof numbers / sizeof *numbers)];
    if (end > begin) fuzz_replace(e, begin, end - begin, number, strlen(number));
}

/* A span is taken away, said twice or many times, or put elsewhere. */
static void change_span(fuzz_edit *e, fuzz_random *r) {
    const size_t most = fuzz_below(r, 3) ? 16 : e->n;
    const size_t n = 1 + fuzz_below(r, most < e->n ? most : e->n), from = fuzz_below(r, e->n - n + 1);
    uint8_t span[256];
    const size_t n_span = n < sizeof span ? n : sizeof span;
    memcpy(span, e->data + from, n_span);
    switch (fuzz_below(r, 4)) {
    case 0: fuzz_replace(e, from, n, NULL, 0); break;
    case 1: fuzz_replace(e, fuzz_below(r, e->n + 1), 0, span, n_span); break;
    case 2: fuzz_replace(e, fuzz_below(r, e->n), 0, span, 1); break;
    default:
        for (size_t i = (size_t)1 << fuzz_below(r, 10); i > 0; i--)
            if (!fuzz_replace(e, from, 0, span, n_span)) break;
    }
}

void fuzz_mutate_plain(fuzz_edit *e, fuzz_random *r) {
    if (e->n == 0) {
        uint8_t byte = (uint8_t)fuzz_next(r);
        fuzz_replace(e, 0, 0, &byte, 1);
        return;
    }
    switch (fuzz_below(r, 8)) {
    case 0:
    case 1:
    case 2: change_byte(e, r); break;
    case 3: change_number(e, r); break;
    case 4: change_decimal(e, r); break;
    case 5: e->n -= fuzz_below(r, 4) ? 0 : fuzz_below(r, e->n + 1); break;
    default: change_span(e, r); break;
    }
}

/* ---- Words ---- */

fuzz_bytes fuzz_word(const char *words, fuzz_random *r) {
    size_t n_words = 0;
    for (const char *at = words; (at = strchr(at, '`')); at++) n_words++;
    const char *word = words;
    for (size_t i = fuzz_below(r, n_words); i > 0; i--) word = strchr(word + 1, '`');
    return (fuzz_bytes){(const uint8_t *)word + 1, strcspn(word + 1, "`")};
}

static bool is_letter(uint8_t c) {
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

/* Puts a word in, or in the place of what looks like one. */
static void change_word(const char *words, fuzz_edit *e, fuzz_random *r) {
    const fuzz_bytes word = fuzz_word(words, r);
    size_t at = fuzz_below(r, e->n + 1), n_old = 0;
    if (fuzz_below(r, 2)) {
        while (at > 0 && is_letter(e->data[at - 1])) at--;
        while (at + n_old < e->n && is_letter(e->data[at + n_old])) n_old++;
    }
    fuzz_replace(e, at, n_old, word.data, word.n);
}

void fuzz_mutate(const fuzz_target *target, fuzz_edit *e, fuzz_random *r, fuzz_plain *plain) {
    if (target->max_bytes < e->cap) e->cap = target->max_bytes;
    if (e->n > e->cap) e->n = e->cap;
    for (size_t i = 1 + fuzz_below(r, 4); i > 0; i--) {
        if (target->mutate && fuzz_below(r, 4) && target->mutate(e, r)) continue;
        if (target->words && fuzz_below(r, 3) == 0)
            change_word(target->words, e, r);
        else
            plain(e, r);
    }
}
