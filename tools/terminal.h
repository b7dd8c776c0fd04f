/* Text to a file descriptor, a progress line, and figures for people. */
#ifndef TN_TOOLS_TERMINAL_H
#define TN_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes all n bytes. Returns 0 or the errno that ended it: EINTR when interrupted while the reader is slow.
 */
int tn_write_all(int fd, const void *bytes, size_t n);

/* Writes generated text. On a terminal control characters but newline and tab are shown as \xNN: a model must
 * not be able to send escape sequences. */
int tn_write_text(int fd, bool is_terminal, const char *text, size_t n);

/* Makes what is printed to standard output go through tn_write_all, and nothing any more after a failure: the C library would lose
 * a part and print the next. A terminal stays as it is. */
void tn_stdout_start(void);

/* Flushes standard output; returns 0 or the errno of the write that failed. */
int tn_flush_stdout(void);

double tn_seconds(void); /* monotonic */

unsigned tn_terminal_columns(int fd); /* 80 where it does not say */

/* A line on stderr that is redrawn; does nothing unless stderr is a terminal. The text has one byte a column. */
void tn_progress_line(const char *text);
void tn_progress_show(const char *what, uint64_t done, uint64_t total);
void tn_progress_clear(void);

/* "93.8 MiB"; returns text. */
const char *tn_format_bytes(char text[24], uint64_t bytes);

/* The most memory this process had resident, mapped files included; 0 if the system does not say. */
uint64_t tn_peak_memory_bytes(void);

#endif
