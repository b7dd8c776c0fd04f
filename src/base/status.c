/* Error messages that are safe to print, whatever bytes a file or a path put into them. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "c_locale.h"

/* Length of the well-formed UTF-8 character at p (Unicode 15, table 3-7), or 0. */
static size_t utf8_char_len(const unsigned char *p, size_t n) {
    unsigned char lead = p[0];
    if (lead < 0x80) return 1;
    size_t len = lead >= 0xc2 && lead < 0xe0   ? 2
                 : (lead & 0xf0) == 0xe0       ? 3
                 : lead >= 0xf0 && lead < 0xf5 ? 4
                                               : 0;
    if (len == 0 || len > n) return 0;
    /* The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF. */
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return len;
}

/* C0, DEL and C1: the last, U+0080 to U+009F, also start terminal sequences. U+2028 to U+202E and U+2066 to U+2069 break a line, or
 * make what follows be shown in another order than it stands. */
static bool is_control(const unsigned char *p, size_t len) {
    if (len == 1) return p[0] < 0x20 || p[0] == 0x7f;
    if (len == 2) return p[0] == 0xc2 && p[1] < 0xa0;
    return len == 3 && p[0] == 0xe2 &&
           ((p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae) || (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

bool tn_is_printable(const char *text, unsigned long n) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0, len; i < n; i += len) {
        len = utf8_char_len(p + i, n - i);
        if (len == 0 || is_control(p + i, len)) return false;
    }
    return true;
}

unsigned long tn_escape(char *dst, unsigned long cap, const char *text, unsigned long n) {
    static const char hex[] = "0123456789abcdef";
    if (cap == 0) return 0;
    const unsigned char *p = (const unsigned char *)text;
    size_t out = 0;
    for (size_t i = 0; i < n;) {
        size_t len = utf8_char_len(p + i, n - i);
        if (len == 0 || is_control(p + i, len)) {
            if (cap - out < 5) break; /* four characters and the NUL */
            dst[out] = '\\';
            dst[out + 1] = 'x';
            dst[out + 2] = hex[p[i] >> 4];
            dst[out + 3] = hex[p[i] & 15];
            out += 4;
            i++;
        } else {
            if (cap - out < len + 1) break;
            memcpy(dst + out, p + i, len);
            out += len;
            i += len;
        }
    }
    dst[out] = '\0';
    return out;
}

static size_t append(tn_error *err, size_t at, const char *text, size_t n) {
    return at + tn_escape(err->message + at, sizeof err->message - at, text, n);
}

/* The end of a path tells more than its start, and the reason must still fit behind it. */
static size_t append_where(tn_error *err, size_t at, const char *where) {
    enum { LONGEST = 200 };
    size_t n = strlen(where);
    if (n > LONGEST) {
        where += n - LONGEST;
        n = LONGEST;
        while (n > 0 && ((unsigned char)*where & 0xc0) == 0x80) {
            where++;
            n--;
        }
        at = append(err, at, "...", 3);
    }
    return append(err, at, where, n);
}

/* In parentheses: tools/analyze has a macro of that name. */
tn_status(tn_fail)(tn_error *err, tn_status code, const char *what, const char *where, const char *why_format,
                   ...) {
    if (!err) return code;
    char why[2 * sizeof err->message]; /* longer than what can be shown, so only tn_escape cuts */
    va_list args;
    va_start(args, why_format);
    const tn_locale locale = tn_locale_enter();
    int n = vsnprintf(why, sizeof why, why_format, args);
    va_end(args);
    tn_locale_leave(locale);
    if (n < 0) why[0] = '\0';
    err->code = code;
    size_t at = append(err, 0, what, strlen(what));
    at = append(err, at, ": ", 2);
    if (where) {
        at = append_where(err, at, where);
        at = append(err, at, ": ", 2);
    }
    append(err, at, why, strlen(why));
    return code;
}
