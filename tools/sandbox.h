/* What this process may still do once it is confined: compute, read its descriptors, write to them, and open the files that the command
 * line named. For run and chat, before the first byte of a model, a template or a state is read; threads come later and inherit it.
 *
 *   files       Landlock: those named may be read; below the folders named also written, made and removed; nothing else is opened
 *   other calls seccomp: only the calls listed in sandbox_calls.c; no sockets, programs, processes, signals to others, ptrace, code
 *               made at run time, nor keys pushed into the terminal */
#ifndef TN_TOOLS_SANDBOX_H
#define TN_TOOLS_SANDBOX_H

#include "options.h"

/* Confines this process for good. `folder` may be NULL, or one more whose files may be written. Returns the exit code: where the kernel
 * cannot do all of it an error is printed, and what it could is in force all the same. To be called while there is one thread. */
int tn_sandbox_enter(const tn_options *options, const char *folder);

/* Says in `text` what is in force, for a person. */
const char *tn_sandbox_describe(const tn_options *options, char *text, size_t cap);

/* ---- sandbox_calls.c ---- */

/* Lets the calls of the list through, the others fail with ENOSYS, as on a kernel that has no such call. Returns 0 or an errno. */
int tn_sandbox_filter_calls(void);

#endif
