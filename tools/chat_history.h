/* What was typed at the prompt, in a file between chats: $XDG_STATE_HOME/tern/history, else ~/.local/state/tern/history, for its owner's
 * eyes. Chats add to it line by line, and shorten it when they begin. One that cannot be read or written is passed over: no chat fails for
 * it. */
#ifndef TN_TOOLS_CHAT_HISTORY_H
#define TN_TOOLS_CHAT_HISTORY_H

#ifdef TERN_HAVE_EDIT
#include <histedit.h>
#include <stdbool.h>
#include <stddef.h>

History *
tn_history_open(void); /* with the lines of the file; NULL when memory is out. Ended by history_end */

/* The folder of that file, made if need be; false where there is no home. */
bool tn_history_folder(char *path, size_t cap);

/* Remembers a line, here and in the file. */
void tn_history_add(History *lines, const char *line);

#endif
#endif
