#include "special.h"

static bool wanted(const tn_prefix *special, unsigned kinds) {
    return kinds & (special->control ? TN_SPECIAL_CONTROL : TN_SPECIAL_USER);
}

/* Of equal texts the lowest id of a wanted kind counts. */
static const tn_prefix *longest_wanted(const tn_prefixes *specials, unsigned kinds, const char *text,
                                       size_t n) {
    const tn_prefix *best = NULL;
    tn_prefix_walk walk = {.set = specials};
    for (size_t i = 0; i < n && tn_prefix_step(&walk, (uint8_t)text[i]); i++) {
        uint32_t k = 0;
        while (k < walk.n_ending && !wanted(&walk.ending[k], kinds)) k++;
        if (k < walk.n_ending) best = &walk.ending[k];
    }
    return best;
}

const tn_prefix *tn_special_next(const tn_prefixes *specials, unsigned kinds, const char *text, size_t n,
                                 size_t *at) {
    for (size_t i = 0; i < n && specials->n; i++) {
        const tn_prefix *match = longest_wanted(specials, kinds, text + i, n - i);
        if (!match) continue;
        *at = i;
        return match;
    }
    *at = n;
    return NULL;
}
