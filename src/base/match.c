#include "match.h"

/* Greedy with one point to go back to: at most the pattern times the name. */
bool tn_match(const char *pattern, const char *name, size_t n) {
    const char *star = NULL, *mark = name, *end = name + n;
    while (name < end) {
        if (*pattern == '*') {
            star = pattern++;
            mark = name;
        } else if (*pattern && (*pattern == '?' || *pattern == *name)) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}
