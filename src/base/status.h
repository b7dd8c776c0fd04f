/* Status codes and the one error type that every layer passes upward.
 *
 * A function that can fail returns tn_status and takes a tn_error. On failure it fills the error once, at the
 * place that knows the reason; callers return the status unchanged. The message has the form
 * "WHAT: WHERE: WHY" and is safe to print: control bytes and bad UTF-8 are escaped when it is made. */
#ifndef TN_BASE_STATUS_H
#define TN_BASE_STATUS_H

#include <stdbool.h>

typedef enum tn_status {
    TN_OK = 0,
    TN_ERR_ARG,         /* the caller passed something that cannot be meant */
    TN_ERR_IO,          /* the operating system refused */
    TN_ERR_FORMAT,      /* a file contradicts its own format or itself */
    TN_ERR_UNSUPPORTED, /* well formed, but not computable here */
    TN_ERR_MEMORY,      /* an allocation failed or would exceed a limit */
    TN_ERR_FULL,        /* the context has no room left */
    TN_ERR_NUMERIC,     /* a logit is not finite */
    TN_ERR_CANCELLED,   /* the caller asked to stop */
} tn_status;

typedef struct tn_error {
    tn_status code;
    char message[512]; /* NUL-terminated UTF-8, no control characters */
} tn_error;

/* Fills *err (may be NULL) with "what: where: why" and returns code. `where` may be NULL and is then left out.
 * The three parts may hold untrusted bytes. A message too long for the buffer is cut at a character. */
tn_status tn_fail(tn_error *err, tn_status code, const char *what, const char *where, const char *why_format,
                  ...) __attribute__((format(printf, 5, 6)));

#ifdef TN_ANALYZER /* tools/analyze, which sees one source at a time: that a failure is never TN_OK */
#define tn_fail(err, code, ...) (tn_fail(err, code, __VA_ARGS__), code)
#endif

/* Copies n bytes of untrusted text to dst (capacity cap, NUL-terminated) with bad UTF-8, control characters and those that change the
 * order of what is shown written as \xNN, byte for byte, and returns the length written. Cuts at a whole character. */
unsigned long tn_escape(char *dst, unsigned long cap, const char *text, unsigned long n);

/* Whether tn_escape would copy the text unchanged: good UTF-8 without such characters. */
bool tn_is_printable(const char *text, unsigned long n);

#endif
