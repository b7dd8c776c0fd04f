#include "special.h"

static bool wanted(const tn_prefix *special, unsigned kinds) {
    return kinds & (special->control ? TN_SPECIAL_CONTROL : TN_SPECIAL_USER);
}

/* Of equal texts the lowest id of a wanted kind counts. Control tokens are wanted up to n_control bytes. */
static const tn_prefix *longest_wanted(const tn_prefixes *specials, unsigned kinds, const char *text,
                                       size_t n, size_t n_control) {
    const tn_prefix *best = NULL;
    tn_prefix_walk walk = {.set = specials};
    for (size_t i = 0; i < n && tn_prefix_step(&walk, (uint8_t)text[i]); i++) {
        uint32_t k = 0;
        if (i >= n_control) kinds &= ~(unsigned)TN_SPECIAL_CONTROL;
        while (k < walk.n_ending && !wanted(&walk.ending[k], kinds)) k++;
        if (k < walk.n_ending) best = &walk.ending[k];
    }
    return best;
}

const tn_prefix *tn_special_next_outside(const tn_prefixes *specials, unsigned kinds, const char *text,
                                         size_t n, size_t from, tn_plain_ranges *plain, size_t *at) {
    for (size_t i = from; i < n && specials->n; i++) {
        while (plain->n && plain->ranges->end <= i) plain->ranges++, plain->n--;
        size_t n_control = n - i;
        if (plain->n) n_control = plain->ranges->begin > i ? plain->ranges->begin - i : 0;
        const tn_prefix *match = longest_wanted(specials, kinds, text + i, n - i, n_control);
        if (!match) continue;
        *at = i;
        return match;
    }
    *at = n;
    return NULL;
}

const tn_prefix *tn_special_next(const tn_prefixes *specials, unsigned kinds, const char *text, size_t n,
                                 size_t *at) {
    tn_plain_ranges none = {0};
    return tn_special_next_outside(specials, kinds, text, n, 0, &none, at);
}
