#include "prefixes.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a_, const void *b_) {
    const tn_prefix *a = a_, *b = b_;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    if (order) return order;
    if (a->len != b->len) return a->len < b->len ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void tn_prefixes_init(tn_prefixes *set, tn_prefix *list, uint32_t n) {
    qsort(list, n, sizeof *list, compare);
    set->list = list;
    set->n = n;
    uint32_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        set->first[b] = i;
        while (i < n && (uint8_t)list[i].text[0] == b) i++;
    }
    set->first[256] = n;
}

/* The first entry in [low, high), all longer than depth, whose byte at depth is >= b. */
static uint32_t lower_bound(const tn_prefix *list, uint32_t low, uint32_t high, uint32_t depth, unsigned b) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)list[middle].text[depth] < b)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool tn_prefix_step(tn_prefix_walk *walk, uint8_t byte) {
    const tn_prefix *list = walk->set->list;
    if (walk->depth == 0) {
        walk->low = walk->set->first[byte];
        walk->high = walk->set->first[byte + 1];
    } else {
        walk->low = lower_bound(list, walk->low, walk->high, walk->depth, byte);
        walk->high = lower_bound(list, walk->low, walk->high, walk->depth, byte + 1u);
    }
    walk->depth++;
    /* Those that end here are the first of the range. */
    uint32_t low = walk->low;
    while (low < walk->high && list[low].len == walk->depth) low++;
    walk->n_ending = low - walk->low;
    walk->ending = walk->n_ending ? &list[walk->low] : NULL;
    walk->low = low;
    return walk->n_ending || low < walk->high;
}

const tn_prefix *tn_prefixes_longest(const tn_prefixes *set, const char *text, size_t n) {
    const tn_prefix *best = NULL;
    tn_prefix_walk walk = {.set = set};
    for (size_t i = 0; i < n && tn_prefix_step(&walk, (uint8_t)text[i]); i++)
        if (walk.n_ending) best = walk.ending;
    return best;
}
