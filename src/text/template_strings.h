/* What methods of strings and filters have in common. */
#ifndef TN_TEXT_TEMPLATE_STRINGS_H
#define TN_TEXT_TEMPLATE_STRINGS_H

#include "template_run.h"

/* chars NULL: white space. */
const tn_tstr *tn_tstrip(tn_trun *r, const tn_tstr *s, const tn_tstr *chars, bool left, bool right);

/* separator NULL: runs of white space; most < 0: without limit. */
tn_tlist *tn_tsplit(tn_trun *r, const tn_tstr *s, const tn_tstr *separator, int64_t most, bool from_right);
tn_tlist *tn_tsplit_lines(tn_trun *r, const tn_tstr *s, bool keep_ends);

tn_tval tn_treplace(tn_trun *r, const tn_tstr *s, const tn_tstr *old, const tn_tstr *new, int64_t most);

typedef enum tn_tjustify_side { TN_JUSTIFY_LEFT, TN_JUSTIFY_RIGHT, TN_JUSTIFY_CENTER } tn_tjustify_side;
tn_tval tn_tjustify(tn_trun *r, const tn_tstr *s, int64_t width, const tn_tstr *fill, tn_tjustify_side side);

#endif
