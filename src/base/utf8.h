/* UTF-8 well-formedness as in the Unicode Standard, table 3-7. */
#ifndef TN_BASE_UTF8_H
#define TN_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* What begins at a byte: a whole character, a beginning that more bytes could complete, or neither. */
typedef struct tn_utf8_span {
    uint32_t len; /* bytes of the character, or of the longest beginning of one (at least 1) */
    enum { TN_UTF8_WHOLE, TN_UTF8_CUT, TN_UTF8_BAD } kind;
} tn_utf8_span;

/* Looks at n >= 1 bytes. TN_UTF8_CUT: all n bytes are the beginning of a character. TN_UTF8_BAD: len bytes
 * are a maximal subpart of an ill-formed sequence (section 3.9), to be replaced by one U+FFFD. */
static inline tn_utf8_span tn_utf8_look(const char *text, size_t n) {
    const uint8_t *p = (const uint8_t *)text;
    uint8_t lead = p[0];
    if (lead < 0x80) return (tn_utf8_span){1, TN_UTF8_WHOLE};
    if (lead < 0xC2 || lead > 0xF4) return (tn_utf8_span){1, TN_UTF8_BAD};
    uint32_t len = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    /* The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF. */
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (uint32_t i = 1; i < len; i++) {
        if (i == n) return (tn_utf8_span){i, TN_UTF8_CUT};
        if (p[i] < low || p[i] > high) return (tn_utf8_span){i, TN_UTF8_BAD};
        low = 0x80;
        high = 0xBF;
    }
    return (tn_utf8_span){len, TN_UTF8_WHOLE};
}

/* Length of the whole character at text, or 0 where there is none. */
static inline uint32_t tn_utf8_char(const char *text, size_t n) {
    tn_utf8_span span = tn_utf8_look(text, n);
    return span.kind == TN_UTF8_WHOLE ? span.len : 0;
}

#endif
