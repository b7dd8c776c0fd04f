/* A 64-bit checksum of a stream of bytes: XXH64 with seed 0 (Collet's published specification of xxHash). Not against an
 * adversary; each change of a single word is found for certain, others but for one in 2^64. */
#ifndef TN_BASE_HASH_H
#define TN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct tn_hash {
    uint64_t lanes[4];
    uint64_t n_bytes;
    uint8_t held[32]; /* n_bytes % 32 of them wait for a whole stripe */
} tn_hash;

void tn_hash_start(tn_hash *hash);
void tn_hash_add(tn_hash *hash, const void *bytes, size_t n);
void tn_hash_add_u64(tn_hash *hash, uint64_t value); /* as 8 bytes, little-endian */
uint64_t tn_hash_value(const tn_hash *hash);         /* of the bytes so far; more may follow */

#endif
