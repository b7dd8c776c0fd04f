/* The distribution's archive of jansson is made for executables: it asks for stdin in a way that only those can answer, to name the
 * stream in the errors of json_loadf, which is not used here. The libraries' linker is told to take this for it. */
#include <stdio.h>

extern FILE *const __wrap_stdin;
FILE *const __wrap_stdin = NULL;
