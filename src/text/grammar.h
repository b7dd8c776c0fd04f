/* Grammars in GBNF, compiled to an automaton over bytes.
 *
 *   root  ::= "yes" | "no" | list        # a comment; the text must be a root
 *   list  ::= item ("," " "? item){0,9}  # groups; * + ? {n} {n,} {n,m}
 *   item  ::= [a-z_] [^"\x00-\x1F]* | .  # classes of characters with ranges and negation; any character
 *
 * Escapes in texts and classes: \xHH \uHHHH \UHHHHHHHH (each a character by its number), \t \n \r, and \ before any other
 * character that is no letter or digit. A rule ends with its line, but for what stands in parentheses, behind '::=', or next
 * to a '|'. Left recursion is refused. */
#ifndef TN_TEXT_GRAMMAR_H
#define TN_TEXT_GRAMMAR_H

#include <stddef.h>

#include "../base/status.h"

typedef struct tn_grammar tn_grammar;

/* `where` names the text in errors, which add line and column. Time and memory are linear in the text and in the numbers of
 * repetitions, and bounded. */
tn_status tn_grammar_parse(const char *text, size_t n, const char *where, tn_grammar **out, tn_error *err);
void tn_grammar_free(tn_grammar *grammar); /* NULL is fine */

#endif
