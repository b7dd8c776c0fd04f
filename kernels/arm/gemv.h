/* One token with quantized weights; included after a level's dot primitives.
 *
 * Eight rows make a group. Its rows are read one after the other, in file order, and leave an integer sum and
 * the raw factors of each block in scratch; then the eight ordered chains of fused multiply-adds, one a row,
 * run side by side over the blocks. */
#ifndef TN_KERNELS_ARM_GEMV_H
#define TN_KERNELS_ARM_GEMV_H

#include "neon.h"
#include "unpack_neon.h"

enum {
    TN_GEMV_BLOCKS = 2048,   /* of a row at a time */
    TN_PREFETCH_BYTES = 2048 /* ahead of the block at work */
};

/* One piece of a group: [block][row]. Unpacked blocks have no minimums, and their factors as floats. */
typedef struct tn_gemv_piece {
    int32_t sum[TN_GEMV_BLOCKS][8];
    union {
        int32_t min[TN_GEMV_BLOCKS][8];
        float factor[TN_GEMV_BLOCKS][8];
    };
    uint16_t d[TN_GEMV_BLOCKS][8], m[TN_GEMV_BLOCKS][8];
} tn_gemv_piece;

_Static_assert(sizeof(tn_gemv_piece) <= TN_KERNEL_SCRATCH, "scratch");

/* The activations of a piece. `s` is int32 a block of 32, or int16 for each 16 elements. */
typedef struct tn_gemv_token {
    const int8_t *q;
    const float *d;
    const void *s;
    size_t n_blocks;
} tn_gemv_token;

/* No address is formed that a pointer may not be: prefetching past the end of the weights is harmless. */
TN_INLINE void tn_prefetch(const uint8_t *p, size_t n) {
    for (size_t line = 0; line < n; line += 64) {
        __builtin_prefetch((const void *)((uintptr_t)p + TN_PREFETCH_BYTES + line), 0, 3);
    }
}

TN_INLINE void tn_keep_factors(tn_gemv_piece *piece, size_t b, size_t r, const uint8_t *block, tn_shape sh) {
    piece->d[b][r] = sh.is_e8m0 ? block[sh.d_at] : tn_load_u16(block + sh.d_at);
    if (sh.has_min) piece->m[b][r] = tn_load_u16(block + sh.d_at + 2);
}

/* The partial sums of `count` blocks of 32. */
TN_INLINE void tn_gemv_row32(tn_gemv_piece *piece, size_t r, const uint8_t *row, const tn_gemv_token *x,
                             tn_shape sh, tn_q_fn *load) {
    size_t b = 0;
    for (; b + 4 <= x->n_blocks; b += 4) {
        int32x4_t dot[4];
        tn_prefetch(row + b * sh.bytes, 4 * sh.bytes);
        for (size_t i = 0; i < 4; i++) {
            const uint8_t *block = row + (b + i) * sh.bytes;
            dot[i] = tn_dot32(load(block, 0), vld1q_s8_x2(x->q + 32 * (b + i)), sh.is_narrow);
            tn_keep_factors(piece, b + i, r, block, sh);
        }
        const int32x4_t sum = tn_sum4x4(dot);
        vst1q_lane_s32(&piece->sum[b][r], sum, 0);
        vst1q_lane_s32(&piece->sum[b + 1][r], sum, 1);
        vst1q_lane_s32(&piece->sum[b + 2][r], sum, 2);
        vst1q_lane_s32(&piece->sum[b + 3][r], sum, 3);
    }
    for (; b < x->n_blocks; b++) {
        const uint8_t *block = row + b * sh.bytes;
        piece->sum[b][r] = vaddvq_s32(tn_dot32(load(block, 0), vld1q_s8_x2(x->q + 32 * b), sh.is_narrow));
        tn_keep_factors(piece, b, r, block, sh);
    }
}

/* sum_j m_j * S_j of one block; S_j of 32 elements is the sum of two of the sixteen s. */
TN_INLINE int32_t tn_dot_mins(int8x16_t min, const int16_t *s, int sub) {
    const int16x8_t low = vmovl_s8(vget_low_s8(min)), high = vmovl_high_s8(min);
    int16x8_t s0 = vld1q_s16(s), s1 = vld1q_s16(s + 8);
    if (sub == 32) s0 = vpaddq_s16(s0, s1);
    int32x4_t sum = vmlal_high_s16(vmull_s16(vget_low_s16(low), vget_low_s16(s0)), low, s0);
    if (sub == 16) sum = vmlal_high_s16(vmlal_s16(sum, vget_low_s16(high), vget_low_s16(s1)), high, s1);
    return vaddvq_s32(sum);
}

/* sum_j sc_j * dot_j of one block of 256. */
TN_INLINE int32_t tn_dot256(const uint8_t *block, const int8_t *x, int8x16_t scales, tn_shape sh,
                            tn_q_fn *load) {
    int32_t scale[16]; /* broadcast by loads */
    const int16x8_t low = vmovl_s8(vget_low_s8(scales)), high = vmovl_high_s8(scales);
    int32x4_t total = vdupq_n_s32(0);
    vst1q_s32(scale, vmovl_s16(vget_low_s16(low)));
    vst1q_s32(scale + 4, vmovl_high_s16(low));
    if (sh.sub == 16) {
        vst1q_s32(scale + 8, vmovl_s16(vget_low_s16(high)));
        vst1q_s32(scale + 12, vmovl_high_s16(high));
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const int8x16x2_t q = load(block, j), xq = vld1q_s8_x2(x + 32 * j);
        if (sh.sub == 32) {
            total = vmlaq_n_s32(total, tn_dot32(q, xq, sh.is_narrow), scale[j]);
        } else {
            total = vmlaq_n_s32(total, tn_dot16(q.val[0], xq.val[0]), scale[2 * j]);
            total = vmlaq_n_s32(total, tn_dot16(q.val[1], xq.val[1]), scale[2 * j + 1]);
        }
    }
    return vaddvq_s32(total);
}

TN_INLINE void tn_gemv_row256(tn_gemv_piece *piece, size_t r, const uint8_t *row, const tn_gemv_token *x,
                              tn_shape sh, tn_q_fn *load, tn_scales_fn *scales, tn_unpack_fn *unpack) {
    const int16_t *s = x->s;
    for (size_t b = 0; b < x->n_blocks; b++) {
        const uint8_t *block = row + b * sh.bytes;
        tn_block unpacked = {.scale = {0}};
        tn_prefetch(block, sh.bytes);
        if (sh.is_unpacked) {
            unpack(&unpacked, block);
            piece->factor[b][r] = unpacked.d;
            block = (const uint8_t *)&unpacked;
        }
        const tn_scales sc = scales(block);
        piece->sum[b][r] = tn_dot256(block, x->q + 256 * b, sc.scale, sh, load);
        if (sh.has_min) piece->min[b][r] = tn_dot_mins(sc.min, s + 16 * b, sh.sub);
        if (!sh.is_unpacked) tn_keep_factors(piece, b, r, block, sh);
    }
}

/* The eight chains over the blocks of a piece. */
TN_INLINE tn_f32x8 tn_gemv_chains(tn_f32x8 acc, const tn_gemv_piece *piece, const tn_gemv_token *x,
                                  tn_shape sh) {
    const int32_t *s = x->s;
    for (size_t b = 0; b < x->n_blocks; b++) {
        const tn_f32x8 d = sh.is_unpacked ? tn_load8(piece->factor[b]) : tn_factors8(piece->d[b], sh.is_e8m0);
        for (int h = 0; h < 2; h++) {
            const float32x4_t sum = vcvtq_f32_s32(vld1q_s32(piece->sum[b] + 4 * h));
            acc.v[h] = vfmaq_f32(acc.v[h], vmulq_n_f32(d.v[h], x->d[b]), sum);
        }
        if (!sh.has_min) continue;
        const tn_f32x8 m = tn_factors8(piece->m[b], false);
        for (int h = 0; h < 2; h++) {
            const float32x4_t by = vmulq_n_f32(m.v[h], x->d[b]);
            if (sh.elems == 32)
                acc.v[h] = vfmaq_n_f32(acc.v[h], by, (float)s[b]);
            else
                acc.v[h] = vfmsq_f32(acc.v[h], by, vcvtq_f32_s32(vld1q_s32(piece->min[b] + 4 * h)));
        }
    }
    return acc;
}

/* `scales` is NULL for the 32-wide types, `unpack` unless the shape says that there is one. */
TN_INLINE void tn_gemv(const tn_matmul_args *args, tn_shape sh, tn_q_fn *load, tn_scales_fn *scales,
                       tn_unpack_fn *unpack) {
    const tn_act kind = sh.elems == 32 ? TN_ACT_Q8_32 : TN_ACT_Q8_256;
    const size_t n_blocks = args->k / (size_t)sh.elems, s_bytes = sh.elems == 32 ? 4 : 32;
    tn_gemv_piece *piece = args->scratch;
    for (size_t n = 0; n < args->n_rows; n += 8) {
        const size_t n_rows = args->n_rows - n < 8 ? args->n_rows - n : 8;
        tn_f32x8 acc = tn_splat8(0.0f);
        for (size_t b = 0; b < n_blocks; b += TN_GEMV_BLOCKS) {
            const tn_gemv_token x = {
                (const int8_t *)args->x + b * (size_t)sh.elems,
                (const float *)(const void *)(args->x + tn_act_d_offset(args->k)) + b,
                args->x + tn_act_s_offset(kind, args->k) + b * s_bytes,
                n_blocks - b < TN_GEMV_BLOCKS ? n_blocks - b : TN_GEMV_BLOCKS,
            };
            for (size_t r = 0; r < n_rows; r++) { /* lanes without a row compute what is not stored */
                const uint8_t *row = args->w + (n + r) * args->w_stride + b * sh.bytes;
                if (scales)
                    tn_gemv_row256(piece, r, row, &x, sh, load, scales, unpack);
                else
                    tn_gemv_row32(piece, r, row, &x, sh, load);
            }
            acc = tn_gemv_chains(acc, piece, &x, sh);
        }
        if (n_rows == 8)
            tn_store8(args->y + n, acc);
        else
            memcpy(args->y + n, &acc, n_rows * sizeof(float));
    }
}

/* A type whose blocks are unpacked first, compiled once for all of them. */
static __attribute__((noinline)) void tn_gemv_unpacked(const tn_matmul_args *args, size_t bytes, int sub,
                                                       tn_unpack_fn *unpack) {
    if (sub == 16)
        tn_gemv(args, (tn_shape){.bytes = bytes, .elems = 256, .sub = 16, .is_unpacked = true}, tn_q_unpacked,
                tn_scales_unpacked, unpack);
    else
        tn_gemv(args, (tn_shape){.bytes = bytes, .elems = 256, .sub = 32, .is_unpacked = true}, tn_q_unpacked,
                tn_scales_unpacked, unpack);
}

#endif
