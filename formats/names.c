#include "names.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t rotl(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static void sip_rounds(uint64_t v[4], int n) {
    while (n-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] = rotl(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] = rotl(v[2], 32);
    }
}

static void sip_absorb(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

uint64_t tn_siphash(const uint64_t key[2], const void *data, size_t n) {
    /* "somepseudorandomlygeneratedbytes", section 2.1 of the paper */
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                     key[1] ^ 0x7465646279746573};
    const uint8_t *p = data;
    for (size_t left = n; left >= 8; left -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        sip_absorb(v, word);
    }
    uint64_t last = (uint64_t)n << 56;
    for (size_t i = 0; i < n % 8; i++) last |= (uint64_t)p[i] << 8 * i;
    sip_absorb(v, last);
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Secrecy matters only against files made to be slow, so the clock will do where there is no random source.
 */
static void random_key(uint64_t key[2]) {
    if (getrandom(key, 2 * sizeof *key, GRND_NONBLOCK) == 2 * sizeof *key) return;
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    key[0] = (uint64_t)now.tv_nsec;
    key[1] = (uint64_t)(uintptr_t)key;
}

uint64_t tn_names_slots(uint64_t n) {
    uint64_t n_slots = 8;
    while (n_slots < n + n / 2) n_slots *= 2;
    return n_slots;
}

static tn_str name_of(const tn_names *names, uint64_t item) {
    tn_str name;
    memcpy(&name, names->items + item * names->item_bytes, sizeof name);
    return name;
}

/* The slot that holds the name, or the free one where it belongs. */
static uint32_t *find_slot(const tn_names *names, const char *name, uint64_t n) {
    uint64_t mask = names->n_slots - 1;
    for (uint64_t i = tn_siphash(names->key, name, n) & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &names->slots[i];
        if (*slot == 0) return slot;
        tn_str other = name_of(names, *slot - 1);
        if (other.len == n && memcmp(other.ptr, name, n) == 0) return slot;
    }
}

bool tn_names_build(tn_names *names, uint32_t *slots, const void *items, size_t item_bytes, uint64_t n,
                    uint64_t *first, uint64_t *second) {
    *names =
        (tn_names){.items = items, .item_bytes = item_bytes, .slots = slots, .n_slots = tn_names_slots(n)};
    random_key(names->key);
    for (uint64_t i = 0; i < n; i++) {
        tn_str name = name_of(names, i);
        uint32_t *slot = find_slot(names, name.ptr, name.len);
        if (*slot != 0) {
            *first = *slot - 1;
            *second = i;
            return false;
        }
        *slot = (uint32_t)i + 1;
    }
    return true;
}

const void *tn_names_find(const tn_names *names, const char *name, size_t n) {
    if (names->n_slots == 0) return NULL;
    const uint32_t *slot = find_slot(names, name, n);
    return *slot == 0 ? NULL : names->items + (uint64_t)(*slot - 1) * names->item_bytes;
}
