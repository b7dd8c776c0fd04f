/* Text on its way to standard output; on a terminal words that would be cut at its right edge go to the next line. A word waits until
 * its end is known, the line breaks that this adds are the screen's alone, and a window of another size counts from the next word on.
 * Control characters of the text are escaped there: a model must not be able to send escape sequences. */
#ifndef TN_TOOLS_CHAT_WRAP_H
#define TN_TOOLS_CHAT_WRAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tn_wrap {
    bool is_terminal; /* else every byte goes on as it is */
    int failed;       /* errno of the first write that failed */
    unsigned columns; /* of the window */
    unsigned column;  /* where the next character goes, without blanks and word */
    unsigned n_blanks, n_word_columns;
    bool overlong;     /* the word has a line of its own, which does not hold it: the terminal cuts it */
    char character[4]; /* until it is whole */
    size_t n_character;
    char word[512]; /* and sequences */
    size_t n_word;
    char out[1024]; /* written together */
    size_t n_out;
} tn_wrap;

/* Begins at the start of a line. The widths of characters are those of the locale. */
void tn_wrap_start(tn_wrap *wrap, bool is_terminal);

/* A byte of UTF-8 text. `as_is`: the line is not to be broken here. */
void tn_wrap_byte(tn_wrap *wrap, char c, bool as_is);

/* A sequence for the terminal, which takes no room; it stays with the text around it. */
void tn_wrap_sequence(tn_wrap *wrap, const char *sequence);

void tn_wrap_write(tn_wrap *wrap); /* what does not wait is written */
void tn_wrap_end(tn_wrap *wrap);   /* what waits, too */

#endif
