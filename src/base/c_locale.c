#include "c_locale.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The C locale is made of what the C library has already: this takes no memory. Without it the thread stays where it is. */
tn_locale tn_locale_enter(void) {
    const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (tn_locale){own, uselocale(own)};
}

void tn_locale_leave(tn_locale locale) {
    uselocale((locale_t)locale.before);
    if (locale.own) freelocale((locale_t)locale.own);
}

double tn_strtod(const char *text, char **end) {
    const tn_locale locale = tn_locale_enter();
    const double value = strtod(text, end);
    tn_locale_leave(locale);
    return value;
}

int tn_snprintf(char *dst, size_t cap, const char *format, ...) {
    const tn_locale locale = tn_locale_enter();
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(dst, cap, format, args);
    va_end(args);
    tn_locale_leave(locale);
    return n;
}

size_t tn_strftime(char *dst, size_t cap, const char *format, const struct tm *when) {
    const tn_locale locale = tn_locale_enter();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(dst, cap, format, when);
#pragma GCC diagnostic pop
    tn_locale_leave(locale);
    return n;
}
