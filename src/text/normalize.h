/* Unicode normalization forms (UAX #15) in linear time, whatever the text. */
#ifndef TN_TEXT_NORMALIZE_H
#define TN_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes n bytes of valid UTF-8 to at most n code points; returns their number. */
size_t tn_utf8_decode(const char *text, size_t n, int32_t *dst);

enum { TN_NFD_MAX = 4 }; /* code points that one can become */

/* Writes the canonical decomposition of n code points, marks in canonical order; dst holds TN_NFD_MAX * n. Returns
 * the number written, or SIZE_MAX when memory is out. */
size_t tn_nfd(const int32_t *cps, size_t n, int32_t *dst);

/* Whether the text surely is in form C: no byte of it is the first of a character from U+0300 on. */
bool tn_nfc_is_plain(const char *text, size_t n);

/* Form C of n bytes of valid UTF-8, malloc'ed; NULL when memory is out. */
char *tn_nfc(const char *text, size_t n, size_t *len);

#endif
