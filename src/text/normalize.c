#include "normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t tn_utf8_decode(const char *text, size_t n, int32_t *dst) {
    size_t n_cps = 0;
    for (size_t i = 0; i < n; n_cps++)
        i += (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i),
                                      &dst[n_cps]);
    return n_cps;
}

static unsigned combining_class(int32_t cp) {
    return (unsigned)utf8proc_get_property(cp)->combining_class;
}

/* Sorts marks[0 .. n) by combining class, keeping the order among equals; `sorted` has room for as many. A counting
 * sort, since a hostile text may be one run of marks. */
static void order_marks(int32_t *marks, size_t n, int32_t *sorted) {
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[combining_class(marks[i]) + 1]++;
    for (unsigned c = 0; c < 256; c++) start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++) sorted[start[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *marks);
}

static bool is_ordered(const int32_t *marks, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (combining_class(marks[i - 1]) > combining_class(marks[i])) return false;
    return true;
}

/* Orders every run of code points that are not of class 0. */
static bool order_canonically(int32_t *cps, size_t n) {
    int32_t *sorted = NULL;
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && combining_class(cps[end]);) end++;
        if (is_ordered(cps + i, end - i)) continue;
        if (!sorted) sorted = malloc(n * sizeof *sorted);
        if (!sorted) return false;
        order_marks(cps + i, end - i, sorted);
    }
    free(sorted);
    return true;
}

size_t tn_nfd(const int32_t *cps, size_t n, int32_t *dst) {
    size_t len = 0;
    int class_before;
    for (size_t i = 0; i < n; i++) {
        if (cps[i] < 0xC0)
            dst[len++] = cps[i];
        else
            len += (size_t)utf8proc_decompose_char(cps[i], dst + len, TN_NFD_MAX, UTF8PROC_DECOMPOSE,
                                                   &class_before);
    }
    return order_canonically(dst, len) ? len : SIZE_MAX;
}

bool tn_nfc_is_plain(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)text[i] >= 0xCC) return false;
    return true;
}

char *tn_nfc(const char *text, size_t n, size_t *len) {
    int32_t *cps = malloc((n + 1) * sizeof *cps), *work = malloc((n + 1) * TN_NFD_MAX * sizeof *work);
    char *out = NULL;
    size_t n_cps = cps && work ? tn_nfd(cps, tn_utf8_decode(text, n, cps), work) : SIZE_MAX;
    if (n_cps != SIZE_MAX) {
        /* With these options the call does nothing but compose, in place. */
        n_cps = (size_t)utf8proc_normalize_utf32(work, (utf8proc_ssize_t)n_cps,
                                                 UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        out = malloc(n_cps * 4 + 1);
    }
    *len = 0;
    for (size_t i = 0; out && i < n_cps; i++)
        *len += (size_t)utf8proc_encode_char(work[i], (utf8proc_uint8_t *)out + *len);
    free(cps);
    free(work);
    return out;
}
