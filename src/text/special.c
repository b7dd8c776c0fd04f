#include "special.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a_, const void *b_) {
    const tn_special *a = a_, *b = b_;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    if (order) return order;
    if (a->len != b->len) return a->len < b->len ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void tn_specials_init(tn_specials *specials, tn_special *list, uint32_t n) {
    qsort(list, n, sizeof *list, compare);
    specials->list = list;
    specials->n = n;
    uint32_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        specials->first[b] = i;
        while (i < n && (uint8_t)list[i].text[0] == b) i++;
    }
    specials->first[256] = n;
}

void tn_specials_free(tn_specials *specials) {
    free(specials->list);
}

/* The first entry in [low, high), all longer than depth, whose byte at depth is >= b. */
static uint32_t lower_bound(const tn_special *list, uint32_t low, uint32_t high, uint32_t depth, unsigned b) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)list[middle].text[depth] < b)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool wanted(const tn_special *special, unsigned kinds) {
    return kinds & (special->control ? TN_SPECIAL_CONTROL : TN_SPECIAL_USER);
}

static const tn_special *longest_match(const tn_specials *specials, unsigned kinds, const char *text,
                                       size_t n) {
    const tn_special *list = specials->list, *best = NULL;
    uint32_t low = specials->first[(uint8_t)text[0]], high = specials->first[(uint8_t)text[0] + 1];
    for (uint32_t depth = 1; low < high; depth++) {
        /* Those that end here are the first of the range; the lowest id of a wanted kind counts. */
        bool found = false;
        for (; low < high && list[low].len == depth; low++) {
            if (found || !wanted(&list[low], kinds)) continue;
            best = &list[low];
            found = true;
        }
        if (depth == n) break;
        unsigned b = (uint8_t)text[depth];
        low = lower_bound(list, low, high, depth, b);
        high = lower_bound(list, low, high, depth, b + 1);
    }
    return best;
}

const tn_special *tn_specials_next(const tn_specials *specials, unsigned kinds, const char *text, size_t n,
                                   size_t *at) {
    for (size_t i = 0; i < n && specials->n; i++) {
        const tn_special *match = longest_match(specials, kinds, text + i, n - i);
        if (!match) continue;
        *at = i;
        return match;
    }
    *at = n;
    return NULL;
}
