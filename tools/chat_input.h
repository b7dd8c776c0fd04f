/* Lines from a person: edited, with a history, where libedit was there at build and both ends are a terminal; else as they come.
 * A line that ends in a backslash goes on with the next; a line of """ begins a text that ends at the next such line. */
#ifndef TN_TOOLS_CHAT_INPUT_H
#define TN_TOOLS_CHAT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tn_input tn_input;

typedef enum tn_input_result {
    TN_INPUT_TEXT,
    TN_INPUT_END,
    TN_INPUT_INTERRUPTED,
    TN_INPUT_FAILED
} tn_input_result;

tn_input *tn_input_new(void); /* NULL when memory is out */
void tn_input_free(tn_input *input);

/* Whether a person is there to be asked: standard input and output are terminals. */
bool tn_input_is_interactive(const tn_input *input);

/* The folder in which lines are kept, made if need be, in `path`, which is returned; NULL where none are. */
const char *tn_input_folder(const tn_input *input, char *path, size_t cap);

/* Keeps what is typed ahead out of an answer that is being shown: it appears at the next prompt. Where lines are edited that is so from
 * the start. */
void tn_input_hush(tn_input *input, bool hush);

/* Reads one text, shown behind `prompt`, without its last newline; *text is the input's until the next call. `initial`, unless NULL, is
 * there to be changed (where lines are edited). TN_INPUT_INTERRUPTED: by the user, and what was typed is gone. */
tn_input_result tn_input_read(tn_input *input, const char *prompt, const char *initial, const char **text,
                              size_t *n);

#endif
