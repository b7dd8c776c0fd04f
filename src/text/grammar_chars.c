/* Classes of characters as sequences of ranges of bytes: UTF-8 in the automaton, so that a token may end anywhere. */
#include <stdlib.h>

#include "grammar_impl.h"

enum { LAST_CHAR = 0x10FFFF, FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

/* A class under construction. */
typedef struct tn_class {
    tn_grammar *g;
    uint32_t head;   /* of the alternatives so far, 0 at first */
    uint32_t end;    /* the jump behind the class */
    uint32_t any[4]; /* any[i]: i continuation bytes of any value, then the end; made when needed */
    bool failed;
} tn_class;

static uint32_t new_byte(tn_class *c, uint8_t low, uint8_t high, uint32_t next) {
    const uint32_t id = tn_grammar_node(c->g, (tn_node){TN_NODE_BYTE, low, high, next, 0});
    c->failed |= id == 0;
    return id;
}

static uint32_t any_bytes(tn_class *c, uint32_t n) {
    if (!c->any[n]) c->any[n] = new_byte(c, 0x80, 0xBF, any_bytes(c, n - 1));
    return c->any[n];
}

static void add_alternative(tn_class *c, uint32_t start) {
    if (c->head) start = tn_grammar_node(c->g, (tn_node){TN_NODE_SPLIT, 0, 0, start, c->head});
    c->failed |= start == 0;
    c->head = start;
}

static uint32_t encode(uint32_t ch, uint8_t *bytes) {
    if (ch < 0x80) return bytes[0] = (uint8_t)ch, 1;
    const uint32_t n = ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
    for (uint32_t i = n - 1; i > 0; i--, ch >>= 6) bytes[i] = (uint8_t)(0x80 | (ch & 0x3F));
    bytes[0] = (uint8_t)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | ch);
    return n;
}

/* One sequence of ranges of bytes: low and high have as many bytes, and behind the first that differs all values. */
static void add_sequence(tn_class *c, uint32_t low, uint32_t high) {
    uint8_t from[4], to[4];
    const uint32_t n = encode(low, from);
    encode(high, to);
    uint32_t n_any = 0;
    while (n_any + 1 < n && from[n - 1 - n_any] == 0x80 && to[n - 1 - n_any] == 0xBF) n_any++;
    uint32_t at = any_bytes(c, n_any);
    for (uint32_t i = n - n_any; i-- > 0;) at = new_byte(c, from[i], to[i], at);
    add_alternative(c, at);
}

/* Splits a range at the lengths of its characters, and where bytes behind the first that differs would not take all values. */
static void add_range(tn_class *c, uint32_t low, uint32_t high) {
    static const uint32_t last_of_length[] = {0x7F, 0x7FF, 0xFFFF};
    for (int i = 0; i < 3; i++)
        if (low <= last_of_length[i] && high > last_of_length[i]) {
            add_range(c, low, last_of_length[i]);
            add_range(c, last_of_length[i] + 1, high);
            return;
        }
    if (high < 0x80) {
        add_sequence(c, low, high);
        return;
    }
    for (uint32_t bits = 6; bits < 24; bits += 6) {
        const uint32_t mask = (1u << bits) - 1;
        if ((low & ~mask) == (high & ~mask)) break;
        if (low & mask) {
            add_range(c, low, low | mask);
            add_range(c, (low | mask) + 1, high);
            return;
        }
        if ((high & mask) != mask) {
            add_range(c, low, (high & ~mask) - 1);
            add_range(c, high & ~mask, high);
            return;
        }
    }
    add_sequence(c, low, high);
}

static void add_valid_range(tn_class *c, uint32_t low, uint32_t high) {
    if (low < FIRST_SURROGATE && high >= FIRST_SURROGATE) {
        add_range(c, low, FIRST_SURROGATE - 1);
        low = FIRST_SURROGATE;
    }
    if (low >= FIRST_SURROGATE && low <= LAST_SURROGATE) low = LAST_SURROGATE + 1;
    if (low <= high) add_range(c, low, high);
}

static int by_low(const void *a, const void *b) {
    const uint32_t x = ((const tn_char_range *)a)->low, y = ((const tn_char_range *)b)->low;
    return (x > y) - (x < y);
}

bool tn_grammar_class(tn_grammar *g, tn_char_range *ranges, uint32_t n, bool negated, tn_fragment *out) {
    tn_class c = {.g = g, .end = tn_grammar_node(g, (tn_node){.kind = TN_NODE_JUMP})};
    if (!c.end) return false;
    c.any[0] = c.end;
    qsort(ranges, n, sizeof *ranges, by_low);
    uint32_t next = 0; /* the first character not yet decided on */
    for (uint32_t i = 0; i < n && !c.failed; i++) {
        if (negated && ranges[i].low > next) add_valid_range(&c, next, ranges[i].low - 1);
        const uint32_t low = ranges[i].low > next ? ranges[i].low : next;
        if (!negated && low <= ranges[i].high) add_valid_range(&c, low, ranges[i].high);
        if (ranges[i].high >= next) next = ranges[i].high + 1;
    }
    if (negated && next <= LAST_CHAR) add_valid_range(&c, next, LAST_CHAR);
    if (!c.head) add_alternative(&c, new_byte(&c, 1, 0, c.end)); /* no character at all: never matches */
    *out = (tn_fragment){c.head, c.end};
    return !c.failed;
}
