#include "hash.h"

#include <string.h>

#define PRIME1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME3 UINT64_C(0x165667B19E3779F9)
#define PRIME4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static uint64_t mix(uint64_t lane, uint64_t word) {
    return rotate(lane + word * PRIME2, 31) * PRIME1;
}

static uint64_t load_u64(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

void tn_hash_start(tn_hash *h) {
    *h = (tn_hash){.lanes = {PRIME1 + PRIME2, PRIME2, 0, 0 - PRIME1}};
}

static void add_stripes(tn_hash *h, const uint8_t *p, size_t n_stripes) {
    uint64_t a = h->lanes[0], b = h->lanes[1], c = h->lanes[2], d = h->lanes[3];
    for (size_t i = 0; i < n_stripes; i++, p += 32) {
        a = mix(a, load_u64(p));
        b = mix(b, load_u64(p + 8));
        c = mix(c, load_u64(p + 16));
        d = mix(d, load_u64(p + 24));
    }
    h->lanes[0] = a, h->lanes[1] = b, h->lanes[2] = c, h->lanes[3] = d;
}

void tn_hash_add(tn_hash *h, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    const size_t n_held = h->n_bytes % 32;
    h->n_bytes += n;
    if (n_held) {
        const size_t take = n < 32 - n_held ? n : 32 - n_held;
        memcpy(h->held + n_held, p, take);
        p += take;
        n -= take;
        if (n_held + take < 32) return;
        add_stripes(h, h->held, 1);
    }
    add_stripes(h, p, n / 32);
    if (n % 32) memcpy(h->held, p + n / 32 * 32, n % 32);
}

void tn_hash_add_u64(tn_hash *h, uint64_t value) {
    tn_hash_add(h, &value, sizeof value);
}

static uint64_t join_lanes(const tn_hash *h) {
    if (h->n_bytes < 32) return PRIME5;
    uint64_t x =
        rotate(h->lanes[0], 1) + rotate(h->lanes[1], 7) + rotate(h->lanes[2], 12) + rotate(h->lanes[3], 18);
    for (int i = 0; i < 4; i++) x = (x ^ mix(0, h->lanes[i])) * PRIME1 + PRIME4;
    return x;
}

uint64_t tn_hash_value(const tn_hash *h) {
    uint64_t x = join_lanes(h) + h->n_bytes;
    const uint8_t *p = h->held, *end = p + h->n_bytes % 32;
    for (; end - p >= 8; p += 8) x = rotate(x ^ mix(0, load_u64(p)), 27) * PRIME1 + PRIME4;
    if (end - p >= 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        x = rotate(x ^ word * PRIME1, 23) * PRIME2 + PRIME3;
        p += 4;
    }
    for (; p < end; p++) x = rotate(x ^ *p * PRIME5, 11) * PRIME1;
    x = (x ^ x >> 33) * PRIME2;
    x = (x ^ x >> 29) * PRIME3;
    return x ^ x >> 32;
}
