#include "lookup.h"

/* Tokens before `a` and before `b` that are equal, a < b. */
static uint32_t match_length(const int32_t *ids, uint32_t a, uint32_t b) {
    uint32_t length = 0;
    while (length < TN_LOOKUP_MATCH && length < a && ids[a - 1 - length] == ids[b - 1 - length]) length++;
    return length;
}

uint32_t tn_lookup(const int32_t *ids, uint32_t n, int32_t *draft, uint32_t max) {
    uint32_t best = 0, behind = 0;
    for (uint32_t end = n ? n - 1 : 0; end > 0 && best < TN_LOOKUP_MATCH; end--) {
        if (ids[end - 1] != ids[n - 1]) continue;
        const uint32_t length = match_length(ids, end, n);
        if (length > best) best = length, behind = end;
    }
    for (uint32_t i = 0; best && i < max; i++)
        draft[i] = behind + i < n ? ids[behind + i] : draft[behind + i - n];
    return best;
}
