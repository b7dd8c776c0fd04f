/* An answer on its way to standard output: control characters escaped, Markdown marks and reasoning lightly styled where the
 * terminal can. The marks themselves stay: what is copied from the screen is what the model wrote. */
#ifndef TN_TOOLS_CHAT_STYLE_H
#define TN_TOOLS_CHAT_STYLE_H

#include <stdbool.h>
#include <stddef.h>

/* Of a stretch of text. */
typedef struct tn_look {
    bool reasoning, fence, code, bold, heading;
} tn_look;

typedef struct tn_style {
    bool is_terminal, colours, hide_reasoning;
    int failed; /* errno of the first write that failed */
    tn_look look, shown;
    bool line_start;    /* only spaces so far on this line */
    bool skip_newlines; /* behind hidden reasoning */
    char mark;          /* a run of these waits for its end; 0: none */
    unsigned n_marks;
    bool mark_at_start;
    char tag[16]; /* waits: may become <think> or </think> */
    size_t n_tag;
    char out[512]; /* shown together */
    size_t n_out;
    bool wrote, ends_in_newline; /* anything at all; and how it ended */
} tn_style;

/* `reasoning`: the answer begins inside a reasoning block. */
void tn_style_start(tn_style *style, bool is_terminal, bool colours, bool hide_reasoning, bool reasoning);
void tn_style_text(tn_style *style, const char *text, size_t n);
void tn_style_end(tn_style *style); /* what waits is shown, and the terminal as it was */

#endif
