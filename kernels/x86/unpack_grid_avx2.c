/* Unpackers of the grid and ternary types (unpack_grid_avx2.h); ref/blocks_grid.h draws the blocks. Points are looked up
 * one by one: gathers are slow on many processors, and indices computed as vectors only wait for memory. Signs, scales
 * and digits are computed for many weights at a time. */
#include "unpack_grid_avx2.h"

#include "../ref/grids.h"

/* ---- Signs ---------------------------------------------------------------------------------------------- */

/* Seven signs in each byte to eight, an even number of them negative. */
TN_INLINE __m256i signs_of_seven(__m256i v) {
    const __m256i odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0)); /* of a nibble */
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i low = _mm256_shuffle_epi8(odd, _mm256_and_si256(v, mask));
    const __m256i high = _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
    return _mm256_or_si256(v, _mm256_xor_si256(low, high));
}

/* The four fields of seven bits in each word, as its bytes, to signs. */
TN_INLINE __m256i signs_of_words(__m256i v) {
    const __m256i a = _mm256_and_si256(v, _mm256_set1_epi32(0x7f));
    const __m256i b = _mm256_and_si256(_mm256_slli_epi32(v, 1), _mm256_set1_epi32(0x7f00));
    const __m256i c = _mm256_and_si256(_mm256_slli_epi32(v, 2), _mm256_set1_epi32(0x7f0000));
    const __m256i d = _mm256_and_si256(_mm256_slli_epi32(v, 3), _mm256_set1_epi32(0x7f000000));
    return signs_of_seven(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
}

/* 32 magnitudes, negated where the bits at `signs` are set, plus offset. */
TN_INLINE void put_signed(uint8_t *q, __m256i magnitudes, const uint8_t *signs, int offset) {
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
                                          2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bits = _mm256_and_si256(_mm256_shuffle_epi8(tn_broadcast_i32(signs), byte), bit);
    const __m256i negative = _mm256_cmpeq_epi8(bits, bit);
    const __m256i plus = _mm256_sub_epi8(_mm256_set1_epi8((char)offset), negative);
    tn_store256(q, _mm256_add_epi8(_mm256_xor_si256(magnitudes, negative), plus));
}

/* ---- Scales --------------------------------------------------------------------------------------------- */

TN_INLINE float factor(uint16_t half, float unit) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half))) * unit;
}

/* 16 scales s in int16 to 2*s + 1. */
TN_INLINE void put_odd(tn_unpacked *out, __m256i s) {
    tn_store256(out->scale, _mm256_add_epi16(_mm256_add_epi16(s, s), _mm256_set1_epi16(1)));
}

/* Eight in int32, of 32 elements each, to 16. */
TN_INLINE void put_odd_twice(tn_unpacked *out, __m256i s) {
    put_odd(out, _mm256_or_si256(s, _mm256_slli_epi32(s, 16)));
}

/* Nibbles, the low one of a byte first. */
TN_INLINE __m128i nibbles(__m128i v) {
    const __m128i mask = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
}

TN_INLINE void put_16_nibbles(tn_unpacked *out, const uint8_t *p) {
    put_odd(out, _mm256_cvtepu8_epi16(nibbles(_mm_loadl_epi64((const __m128i *)(const void *)p))));
}

/* ---- IQ2: eight weights an index ------------------------------------------------------------------------ */

TN_INLINE __m256i four_points(const uint64_t *grid, const unsigned i[4]) {
    return _mm256_setr_epi64x((long long)grid[i[0]], (long long)grid[i[1]], (long long)grid[i[2]],
                              (long long)grid[i[3]]);
}

float tn_unpack_iq2_xxs_avx2(tn_unpacked *out, const uint8_t *block) {
    _Alignas(32) uint8_t signs[32];
    const __m256 a = _mm256_castsi256_ps(tn_load256(block + 2)),
                 b = _mm256_castsi256_ps(tn_load256(block + 34));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
    tn_store256(signs, signs_of_words(words));
    put_odd_twice(out, _mm256_srli_epi32(words, 28));
    for (int j = 0; j < 8; j++) {
        const uint8_t *at = block + 2 + 8 * j;
        put_signed(out->q + 32 * j,
                   four_points(tn_grid_iq2_xxs, (const unsigned[4]){at[0], at[1], at[2], at[3]}),
                   signs + 4 * j, TN_GRID7_OFFSET);
    }
    return factor(tn_load_u16(block), 0.125f);
}

float tn_unpack_iq2_xs_avx2(tn_unpacked *out, const uint8_t *block) {
    _Alignas(32) uint8_t signs[32];
    const __m256i a = _mm256_srli_epi16(tn_load256(block + 2), 9),
                  b = _mm256_srli_epi16(tn_load256(block + 34), 9);
    tn_store256(signs, signs_of_seven(_mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8)));
    put_16_nibbles(out, block + 66);
    for (int j = 0; j < 8; j++) {
        unsigned index[4];
        for (int i = 0; i < 4; i++) index[i] = tn_load_u16(block + 2 + 8 * j + 2 * i) & 511;
        put_signed(out->q + 32 * j, four_points(tn_grid_iq2_xs, index), signs + 4 * j, TN_GRID7_OFFSET);
    }
    return factor(tn_load_u16(block), 0.125f);
}

float tn_unpack_iq2_s_avx2(tn_unpacked *out, const uint8_t *block) {
    put_16_nibbles(out, block + 74);
    for (int j = 0; j < 8; j++) {
        const unsigned high = (unsigned)block[66 + j] << 8;
        unsigned index[4];
        for (int i = 0; i < 4; i++) index[i] = block[2 + 4 * j + i] | (high >> (2 * i) & 0x300);
        put_signed(out->q + 32 * j, four_points(tn_grid_iq2_s, index), block + 34 + 4 * j, TN_GRID7_OFFSET);
    }
    return factor(tn_load_u16(block), 0.125f);
}

/* ---- IQ3: four weights an index ------------------------------------------------------------------------- */

TN_INLINE __m256i eight_points(const uint32_t *grid, const unsigned i[8]) {
    return _mm256_setr_epi32((int)grid[i[0]], (int)grid[i[1]], (int)grid[i[2]], (int)grid[i[3]],
                             (int)grid[i[4]], (int)grid[i[5]], (int)grid[i[6]], (int)grid[i[7]]);
}

float tn_unpack_iq3_xxs_avx2(tn_unpacked *out, const uint8_t *block) {
    _Alignas(32) uint8_t signs[32];
    const __m256i words = tn_load256(block + 66);
    tn_store256(signs, signs_of_words(words));
    put_odd_twice(out, _mm256_srli_epi32(words, 28));
    for (int j = 0; j < 8; j++) {
        unsigned index[8];
        for (int i = 0; i < 8; i++) index[i] = block[2 + 8 * j + i];
        put_signed(out->q + 32 * j, eight_points(tn_grid_iq3_xxs, index), signs + 4 * j, TN_GRID6_OFFSET);
    }
    return factor(tn_load_u16(block), 0.5f);
}

float tn_unpack_iq3_s_avx2(tn_unpacked *out, const uint8_t *block) {
    const __m128i scale = nibbles(_mm_cvtsi32_si128(tn_load_i32(block + 106)));
    put_odd_twice(out, _mm256_cvtepu8_epi32(scale));
    for (int j = 0; j < 8; j++) {
        const unsigned high = (unsigned)block[66 + j] << 8;
        unsigned index[8];
        for (int i = 0; i < 8; i++) index[i] = block[2 + 8 * j + i] | (high >> i & 256);
        put_signed(out->q + 32 * j, eight_points(tn_grid_iq3_s, index), block + 74 + 4 * j, TN_GRID5_OFFSET);
    }
    return factor(tn_load_u16(block), 1.0f);
}

/* ---- IQ1: eight weights an index, shifted by one up or down --------------------------------------------- */

/* The grid's bytes are 8 above the weights. */
enum { UP = TN_GRID5_OFFSET - 8 + 1, DOWN = TN_GRID5_OFFSET - 8 - 1 };

float tn_unpack_iq1_s_avx2(tn_unpacked *out, const uint8_t *block) {
    const __m128i words = tn_load128(block + 34);
    const __m128i scale = _mm_and_si128(_mm_srli_epi16(words, 12), _mm_set1_epi16(7));
    put_odd_twice(out, _mm256_cvtepu16_epi32(scale));
    for (int j = 0; j < 8; j++) {
        const unsigned word = tn_load_u16(block + 34 + 2 * j), high = word << 8;
        unsigned index[4];
        for (int i = 0; i < 4; i++) index[i] = block[2 + 4 * j + i] | (high >> (3 * i) & 0x700);
        const __m256i shift = _mm256_set1_epi8((char)(UP - (word >> 15) * (UP - DOWN)));
        tn_store256(out->q + 32 * j, _mm256_add_epi8(four_points(tn_grid_iq1, index), shift));
    }
    return factor(tn_load_u16(block), 0.125f);
}

float tn_unpack_iq1_m_avx2(tn_unpacked *out, const uint8_t *block) {
    const __m128i spread = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3);
    const __m128i scale = _mm_loadl_epi64((const __m128i *)(const void *)(block + 48));
    const __m256i four =
        _mm256_set_m128i(_mm_shuffle_epi8(_mm_srli_si128(scale, 4), spread), _mm_shuffle_epi8(scale, spread));
    /* field i is multiplied to the top of 16 bits */
    const __m256i top = _mm256_mullo_epi16(four, _mm256_set1_epi64x((long long)0x0010008004002000));
    put_odd(out, _mm256_srli_epi16(top, 13));
    const __m256i down = _mm256_setr_epi64x(0x0008, 0x0080, 0x0800, 0x8000);
    for (int j = 0; j < 8; j++) {
        const unsigned word = tn_load_u16(block + 32 + 2 * j), high = word << 8;
        unsigned index[4];
        for (int i = 0; i < 4; i++) index[i] = block[4 * j + i] | (high >> (4 * i) & 0x700);
        const __m256i is_down = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(word), down), down);
        const __m256i shift = _mm256_blendv_epi8(_mm256_set1_epi8(UP), _mm256_set1_epi8(DOWN), is_down);
        tn_store256(out->q + 32 * j, _mm256_add_epi8(four_points(tn_grid_iq1, index), shift));
    }
    return factor(tn_iq1_m_factor(block), 0.125f);
}

/* ---- Ternary -------------------------------------------------------------------------------------------- */

/* The next digit of bytes that are fractions of 256 in base 3, minus one, plus the offset; what is left of them. */
TN_INLINE __m256i next_digit(__m256i *v) {
    const __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(*v, _mm256_set1_epi8(86)), *v); /* 86 * 3 >= 256 */
    const __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(*v, _mm256_set1_epi8((char)171)), *v);
    *v = _mm256_add_epi8(*v, _mm256_add_epi8(*v, *v));
    return _mm256_sub_epi8(_mm256_set1_epi8(TN_GRID5_OFFSET - 1), _mm256_add_epi8(one, two));
}

TN_INLINE void put_ones(tn_unpacked *out) {
    tn_store256(out->scale, _mm256_set1_epi16(1));
}

float tn_unpack_tq1_0_avx2(tn_unpacked *out, const uint8_t *block) {
    __m256i v = tn_load256(block), half = _mm256_castsi128_si256(tn_load128(block + 32));
    __m256i quarter = _mm256_castsi128_si256(_mm_cvtsi32_si128(tn_load_i32(block + 48)));
    put_ones(out);
    for (int i = 0; i < 5; i++) {
        tn_store256(out->q + 32 * i, next_digit(&v));
        _mm_store_si128((__m128i *)(void *)(out->q + 160 + 16 * i),
                        _mm256_castsi256_si128(next_digit(&half)));
    }
    for (int i = 0; i < 4; i++) {
        const int32_t digits = _mm256_cvtsi256_si32(next_digit(&quarter));
        memcpy(out->q + 240 + 4 * i, &digits, sizeof digits);
    }
    return factor(tn_load_u16(block + 52), 1.0f);
}

float tn_unpack_tq2_0_avx2(tn_unpacked *out, const uint8_t *block) {
    put_ones(out);
    for (int h = 0; h < 2; h++) {
        __m256i v = tn_load256(block + 32 * h);
        for (int i = 0; i < 4; i++, v = _mm256_srli_epi16(v, 2)) {
            const __m256i q = _mm256_and_si256(v, _mm256_set1_epi8(3));
            tn_store256(out->q + 128 * h + 32 * i, _mm256_add_epi8(q, _mm256_set1_epi8(TN_GRID5_OFFSET - 1)));
        }
    }
    return factor(tn_load_u16(block + 64), 1.0f);
}
