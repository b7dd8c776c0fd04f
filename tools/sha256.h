/* SHA-256 (FIPS 180-4): names the contents of a model file, as the sites that publish models do. */
#ifndef TN_TOOLS_SHA256_H
#define TN_TOOLS_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct tn_sha256 {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t n_bytes; /* hashed so far */
} tn_sha256;

void tn_sha256_init(tn_sha256 *hash);
void tn_sha256_add(tn_sha256 *hash, const void *bytes, size_t n);

/* Writes 64 hexadecimal digits and NUL; the hash is used up. */
void tn_sha256_end(tn_sha256 *hash, char hex[65]);

#endif
