/* Text as in the C locale, whatever the host has set: a program with a window has called setlocale, and in half of Europe the point of
 * a number is then a comma. Of the C library's functions these replace all that read or write such numbers, and names of months. */
#ifndef TN_BASE_C_LOCALE_H
#define TN_BASE_C_LOCALE_H

#include <stddef.h>
#include <time.h>

double tn_strtod(const char *text, char **end); /* end may be NULL */
int tn_snprintf(char *dst, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t tn_strftime(char *dst, size_t cap, const char *format, const struct tm *when);

/* The thread in the C locale, from tn_locale_enter to tn_locale_leave; in between nothing of the host's is called. */
typedef struct tn_locale {
    void *own, *before;
} tn_locale;

tn_locale tn_locale_enter(void);
void tn_locale_leave(tn_locale locale);

#endif
