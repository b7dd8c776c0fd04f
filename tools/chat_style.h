/* An answer on its way to standard output: Markdown marks and reasoning lightly styled where the terminal can, lines but those of code
 * broken between words. The marks themselves stay: what is copied from the screen is what the model wrote. */
#ifndef TN_TOOLS_CHAT_STYLE_H
#define TN_TOOLS_CHAT_STYLE_H

#include <stdbool.h>
#include <stddef.h>

#include "chat_wrap.h"

/* Of a stretch of text. */
typedef struct tn_look {
    bool reasoning, fence, code, bold, heading;
} tn_look;

typedef struct tn_style {
    bool colours, hide_reasoning;
    tn_look look, shown;
    bool line_start;    /* only spaces so far on this line */
    bool skip_newlines; /* behind hidden reasoning */
    char mark;          /* a run of these waits for its end; 0: none */
    unsigned n_marks;
    bool mark_at_start;
    char tag[16]; /* waits: may become <think> or </think> */
    size_t n_tag;
    bool wrote, ends_in_newline; /* anything at all; and how it ended */
    tn_wrap wrap;
} tn_style;

/* `reasoning`: the answer begins inside a reasoning block. */
void tn_style_start(tn_style *style, bool is_terminal, bool colours, bool hide_reasoning, bool reasoning);
void tn_style_text(tn_style *style, const char *text, size_t n);
void tn_style_new_line(
    tn_style *style);               /* on a terminal, what follows is not of the answer: it begins a line */
void tn_style_end(tn_style *style); /* what waits is shown, and the terminal as it was */

#endif
