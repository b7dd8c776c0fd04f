/* A hash index over items that begin with a tn_str, their name. Built once, in linear time for any names: the
 * hash is keyed with random bytes, so that no file can be made of colliding ones. */
#ifndef TN_FORMATS_NAMES_H
#define TN_FORMATS_NAMES_H

#include "format.h"

typedef struct tn_names {
    const uint8_t *items; /* borrowed */
    size_t item_bytes;
    uint32_t *slots; /* item + 1, or 0: free; n_slots is a power of two */
    uint64_t n_slots;
    uint64_t key[2];
} tn_names; /* all zero is empty */

/* Slots that an index over n < 2^31 items needs. */
uint64_t tn_names_slots(uint64_t n);

/* Indexes n items in `slots`, zeroed, of tn_names_slots(n) entries; borrows both. Returns false if the items
 * *first < *second have the same name. */
bool tn_names_build(tn_names *names, uint32_t *slots, const void *items, size_t item_bytes, uint64_t n,
                    uint64_t *first, uint64_t *second);

/* The item of that name, or NULL. */
const void *tn_names_find(const tn_names *names, const char *name, size_t n);

/* SipHash-2-4 (Aumasson & Bernstein 2012). */
uint64_t tn_siphash(const uint64_t key[2], const void *data, size_t n);

#endif
