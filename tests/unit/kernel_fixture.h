/* What the kernel tests share: a seeded generator, buffers that end at an unreadable page, hostile data. */
#ifndef TN_TESTS_KERNEL_FIXTURE_H
#define TN_TESTS_KERNEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/kernels.h"

/* ---- Random numbers (splitmix64) --------------------------------------------------------------------------
 */

extern uint64_t test_seed, rng_state; /* defined by the program */

static inline void seed_from_environment(void) {
    const char *given = getenv("TERN_TEST_SEED");
    test_seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
    rng_state = test_seed;
    printf("seed: TERN_TEST_SEED=%llu\n", (unsigned long long)test_seed);
}

static inline uint64_t rng(void) {
    uint64_t z = (rng_state += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static inline size_t rng_below(size_t n) {
    return (size_t)(rng() >> 16) % n;
}

/* Uniform in [-1, 1). */
static inline float rng_float(void) {
    return (float)((int32_t)(rng() >> 40) - (1 << 23)) * 0x1p-23f;
}

static inline void rng_bytes(uint8_t *dst, size_t n) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = rng();
        memcpy(dst + i, &word, n - i < 8 ? n - i : 8);
    }
}

/* ---- Guarded buffers --------------------------------------------------------------------------------------
 */

enum { CANARY = 0xa5, FRONT_BYTES = 256 };

/* Room for `capacity` bytes between two unreadable pages. */
typedef struct guarded {
    uint8_t *end;
    size_t capacity;
} guarded;

static inline guarded guarded_open(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), capacity = (bytes + FRONT_BYTES + page - 1) / page * page;
    uint8_t *map = mmap(NULL, capacity + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + page, capacity, PROT_READ | PROT_WRITE))
        fail_msg("out of memory");
    return (guarded){map + page + capacity, capacity};
}

/* The last `bytes` before the unreadable page, or `slack` bytes earlier; all of it and what lies before and
 * behind holds canaries. */
static inline void *guarded_take(const guarded *g, size_t bytes, size_t slack) {
    if (bytes + slack + FRONT_BYTES > g->capacity) fail_msg("test buffer too small: %zu", bytes);
    uint8_t *data = g->end - slack - bytes;
    memset(data - FRONT_BYTES, CANARY, FRONT_BYTES + bytes + slack);
    return data;
}

static inline bool is_canary(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)p)[i] != CANARY) return false;
    return true;
}

/* ---- Hostile data -----------------------------------------------------------------------------------------
 */

typedef enum regime {
    ORDINARY, /* numbers as models have them */
    EXTREME,  /* largest, smallest, zero, constant, alternating; all finite */
    ANY_BITS, /* infinities and NaNs among ordinary numbers */
    LARGEST,  /* every quant and every integer scale at an end of its range: the bounds of integer sums */
    N_REGIMES
} regime;

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The same bits, or both not a number: which NaN an operation passes on is left to the processor. */
static inline bool same_float(float a, float b) {
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static inline float special_float(void) {
    static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001};
    return float_of(bits[rng_below(5)]);
}

/* One block of n floats of a single extreme kind. */
static inline void extreme_floats(float *x, size_t n) {
    static const float peaks[] = {1.0f,     127.0f, 3.4028235e38f, 0x1p-100f, 0x1.fffffep-101f, 0x1.8p-100f,
                                  65504.0f, 1e-38f, 1e-45f,        0.0f,      0x1.fffffep60f,   6e-5f};
    float peak = peaks[rng_below(12)];
    size_t kind = rng_below(6);
    for (size_t i = 0; i < n; i++) {
        switch (kind) {
        case 0: x[i] = peak; break;
        case 1: x[i] = -peak; break;
        case 2: x[i] = i % 2 ? peak : -peak; break;
        case 3: x[i] = rng() & 1 ? peak : -peak; break;
        case 4: x[i] = peak * ((float)(int)rng_below(255) - 127.0f) / 127.0f; break;
        default: x[i] = i == 0 ? peak : peak * ((float)rng_below(254) + 0.5f) / 254.0f; break; /* ties */
        }
    }
}

/* All of one size, so that every quant is 127 or -127; signs by one pattern for each 256. */
static inline void largest_floats(float *x, size_t n) {
    float peak = ldexpf(1.0f + rng_float() * 0.5f, (int)rng_below(8) - 4);
    for (size_t i = 0; i < n; i += 256) {
        size_t kind = rng_below(6);
        for (size_t j = i; j < n && j < i + 256; j++) {
            bool negative = kind == 1 || (kind == 2 && j % 2) || (kind == 3 && j / 16 % 2) ||
                            (kind == 4 && j / 32 % 2) || (kind == 5 && rng() & 1);
            x[j] = negative ? -peak : peak;
        }
    }
}

static inline void fill_floats(float *x, size_t n, regime kind) {
    float size = ldexpf(1.0f, (int)rng_below(12) - 6);
    for (size_t i = 0; i < n; i++) x[i] = rng_float() * size;
    if (kind == EXTREME) {
        size_t block = rng() & 1 ? 32 : 256;
        for (size_t i = 0; i < n; i += block) extreme_floats(x + i, n - i < block ? n - i : block);
    }
    if (kind == LARGEST) largest_floats(x, n);
    if (kind == ANY_BITS && n) {
        for (size_t hits = rng_below(3); hits; hits--) x[rng_below(n)] = special_float();
    }
}

/* ---- Weights ----------------------------------------------------------------------------------------------
 */

static inline uint16_t f16_factor(regime kind) {
    static const uint16_t extremes[] = {0x0000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x2e66, 0x0200};
    static const uint16_t not_finite[] = {0x7c00, 0x7e00, 0x7d01};
    uint16_t sign = (uint16_t)(rng() & 0x8000);
    if (kind == EXTREME) return sign | extremes[rng_below(8)];
    if (kind == ANY_BITS) return sign | (rng() & 1 ? not_finite[rng_below(3)] : (uint16_t)(rng() & 0x7fff));
    return (uint16_t)(sign | (4 + rng_below(8)) << 10 | (rng() & 0x3ff));
}

/* Where in a block its half-precision factors and its integer scales and mins lie; -1 and 0 for none. */
typedef struct block_layout {
    int factors[2], scales, n_scales;
} block_layout;

static inline block_layout block_layout_of(tn_dtype type) {
    switch (type) {
    case TN_DTYPE_Q4_1:
    case TN_DTYPE_Q5_1: return (block_layout){{0, 2}, 0, 0};
    case TN_DTYPE_Q4_K:
    case TN_DTYPE_Q5_K: return (block_layout){{0, 2}, 4, 12};
    case TN_DTYPE_Q2_K: return (block_layout){{80, 82}, 0, 16};
    case TN_DTYPE_Q3_K: return (block_layout){{108, -1}, 96, 12};
    case TN_DTYPE_Q6_K: return (block_layout){{208, -1}, 192, 16};
    case TN_DTYPE_IQ4_XS: return (block_layout){{0, -1}, 2, 6};
    case TN_DTYPE_IQ2_XS: return (block_layout){{0, -1}, 66, 8};
    case TN_DTYPE_IQ2_S: return (block_layout){{0, -1}, 74, 8};
    case TN_DTYPE_IQ3_S: return (block_layout){{0, -1}, 106, 4};
    case TN_DTYPE_TQ1_0: return (block_layout){{52, -1}, 0, 0};
    case TN_DTYPE_TQ2_0: return (block_layout){{64, -1}, 0, 0};
    case TN_DTYPE_NVFP4: return (block_layout){{-1, -1}, 0, 4};
    case TN_DTYPE_IQ1_M:
    case TN_DTYPE_MXFP4: return (block_layout){{-1, -1}, 0, 0};
    default: return (block_layout){{0, -1}, 0, 0};
    }
}

/* Fields at the ends of their range: unsigned or signed, bits, nibbles or bytes; the last two: nibbles alone. */
static inline uint8_t extreme_byte(size_t n_kinds) {
    static const uint8_t bytes[] = {0x00, 0xff, 0x0f, 0xf0, 0x80, 0x7f, 0x77, 0x88};
    return bytes[rng_below(n_kinds)];
}

/* One byte for all quants; one for all scales, or each scale its own. */
static inline void fill_largest(uint8_t *block, tn_dtype type) {
    block_layout layout = block_layout_of(type);
    memset(block, extreme_byte(8), tn_dtypes[type].block_bytes);
    uint8_t scale = extreme_byte(6);
    bool mixed = rng() & 1;
    for (int i = 0; i < layout.n_scales; i++) block[layout.scales + i] = mixed ? extreme_byte(6) : scale;
}

/* IQ1_M's factor is in the high nibbles of the last four words. */
static inline void put_iq1_m_factor(uint8_t *block, uint16_t factor) {
    for (int i = 0; i < 4; i++) {
        uint8_t *high = block + 49 + 2 * i;
        *high = (uint8_t)((*high & 15) | (factor >> (4 * i) & 15) << 4);
    }
}

static inline void fill_block(uint8_t *block, tn_dtype type, regime kind) {
    static const uint8_t exponents[] = {0, 1, 2, 127, 254, 255};
    if (kind == LARGEST)
        fill_largest(block, type);
    else if (kind == EXTREME && rng() & 1)
        memset(block, extreme_byte(8), tn_dtypes[type].block_bytes);
    else
        rng_bytes(block, tn_dtypes[type].block_bytes);
    if (type == TN_DTYPE_MXFP4)
        block[0] = kind == EXTREME ? exponents[rng_below(6)] : (uint8_t)(115 + rng_below(12));
    if (type == TN_DTYPE_IQ1_M) put_iq1_m_factor(block, f16_factor(kind));
    block_layout layout = block_layout_of(type);
    for (int i = 0; i < 2 && layout.factors[i] >= 0; i++) {
        uint16_t factor = f16_factor(kind);
        memcpy(block + layout.factors[i], &factor, sizeof factor);
    }
}

/* A row of k weights of any type that can be multiplied. */
static inline void fill_weights(uint8_t *row, tn_dtype type, size_t k, regime kind) {
    size_t elems = tn_dtypes[type].block_elems, bytes = tn_dtypes[type].block_bytes;
    for (size_t b = 0; b < k / elems; b++) {
        /* One NaN hides what else is wrong with a sum: about one block of a row. */
        regime own = kind == ANY_BITS && rng_below(k / elems) ? ORDINARY : kind;
        float x;
        if (elems > 1) {
            fill_block(row + b * bytes, type, own);
        } else if (type == TN_DTYPE_F16) {
            uint16_t h = f16_factor(own);
            memcpy(row + 2 * b, &h, sizeof h);
        } else { /* F32, or its upper half as BF16 */
            fill_floats(&x, 1, own);
            memcpy(row + b * bytes, (const uint8_t *)&x + (4 - bytes), bytes);
        }
    }
}

#endif
