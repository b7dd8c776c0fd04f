/* The kernels: every inner loop of the engine, as one table of functions.
 *
 * The reference (ref/) fills the whole table first; each instruction set (x86/, arm/) then overwrites the rows it
 * is better at. Every variant gives the same bits as the reference on every input: the comment at each function
 * type below is the definition of those bits, and tests/unit/test_kernels.c compares for equality.
 *
 * Kernels see pointers, counts and strides. They never allocate and never fail.
 *
 * Rules of arithmetic that hold throughout
 *   fma(a, b, c) is one rounding; every other + - * / is rounded by itself (-ffp-contract=off), to nearest even.
 *   Stripes: a float sum over i = 0..n-1 has 8 partial sums, term i going to stripe i mod 8 in ascending order,
 *     each stripe starting at +0. Joined as x_i = s_i + s_(i+4), i = 0..3; sum = (x_0 + x_1) + (x_2 + x_3).
 *   dot8(a, b): stripes of s = fma(a_i, b_i, s).
 *   exp: tn_exp_f32 of ref/math.h, the same operations in every variant. */
#ifndef TN_KERNELS_H
#define TN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../src/base/activation.h"
#include "../src/base/cpu.h"
#include "../src/base/dtype.h"

/* ---- Activation rows ------------------------------------------------------------------------------------
 *
 * F32:     float x[k]
 * Q8_32:   int8 q[k] | float d[k/32]  | int32 s[k/32]     s: sum of q over each 32; x_i ~ d[i/32]  * q_i
 * Q8_256:  int8 q[k] | float d[k/256] | int16 s[k/16]     s: sum of q over each 16; x_i ~ d[i/256] * q_i
 *
 * Each part starts at the next multiple of 64 bytes; a row's stride is a multiple of 64. */
static inline size_t tn_act_d_offset(size_t k) {
    return (k + 63) & ~(size_t)63;
}
static inline size_t tn_act_s_offset(tn_act kind, size_t k) {
    size_t n = kind == TN_ACT_Q8_32 ? k / 32 : k / 256;
    return tn_act_d_offset(k) + ((n * 4 + 63) & ~(size_t)63);
}
/* Bytes of one row, and the stride between rows. */
size_t tn_act_row_bytes(tn_act kind, size_t k);

/* Quantizes one row x[k] to `row` (64-byte aligned). For each block of 32 or 256:
 *   m = largest |x_i|, compared as integers (bits & 0x7fffffff), so that NaN counts as above infinity
 *   m not finite:         d = NaN, all q = 0, all s = 0
 *   m < 2^-100:           d = 0,   all q = 0, all s = 0
 *   else d = m / 127, r = 127 / m, q_i = x_i * r rounded to nearest even; |q_i| <= 127 follows. */
typedef void tn_quantize_fn(uint8_t *row, const float *x, size_t k);

/* ---- Matrix products ------------------------------------------------------------------------------------
 *
 * y[t][n] = sum over k of W[n][k] * x[t][k], for t < n_tokens and n < n_rows. W holds n_rows rows in the file's
 * blocks. One float accumulator for each (t, n), starting at +0, blocks ascending; all that is inside a block is
 * an exact int32. With D = f32(d_w) * d_x, M = f32(m_w) * d_x, dot = sum q_w * q_x over the block, S = sum q_x:
 *
 *   Q4_0   q_w = 0..15         acc = fma(D, f32(dot - 8*S), acc)
 *   Q4_1   q_w = 0..15         acc = fma(D, f32(dot), acc); acc = fma(M, f32(S), acc)
 *   Q5_0   q_w = 0..31         acc = fma(D, f32(dot - 16*S), acc)
 *   Q5_1   q_w = 0..31         as Q4_1
 *   Q8_0   q_w signed          acc = fma(D, f32(dot), acc)
 *   IQ4_NL q_w = table[nibble] acc = fma(D, f32(dot), acc)
 *   MXFP4  q_w = 2 x e2m1      acc = fma(D, f32(dot), acc), d_w = 2^(e-128) (half the scale, since q_w is doubled)
 *
 * 256-wide, sub-blocks j of 32 (Q4_K, Q5_K, IQ4_XS) or 16 (Q2_K, Q3_K, Q6_K), integer scales sc_j, mins m_j:
 *
 *   Q4_K Q5_K Q2_K   I = sum sc_j * dot_j, J = sum m_j * S_j
 *                    acc = fma(D, f32(I), acc); acc = fma(-M, f32(J), acc), M = f32(dmin_w) * d_x
 *   Q3_K             I = sum (sc_j - 32) * (dot_j - 4*S_j), q_w = 0..7;  acc = fma(D, f32(I), acc)
 *   Q6_K             I = sum sc_j * (dot_j - 32*S_j), q_w = 0..63;       acc = fma(D, f32(I), acc)
 *   IQ4_XS           I = sum (sc_j - 32) * dot_j, q_w = table[nibble];   acc = fma(D, f32(I), acc)
 *
 * The types below three and a half bits have q_w from grids (ref/grids.h), sub-blocks of 32 (IQ2_XXS, IQ3_XXS, IQ3_S,
 * IQ1_S) or 16 (IQ2_XS, IQ2_S, IQ1_M) and odd scales; acc = fma(D, f32(I), acc) for all, d being the block's f16:
 *
 *   IQ2_*            I = sum (2*sc_j + 1) * dot_j, q_w = +-8, 25, 43;    d_w = d / 8
 *   IQ3_XXS          I = the same, q_w = +-2, 6 .. 26, 31;               d_w = d / 2
 *   IQ3_S            I = the same, q_w = +-1, 3 .. 15;                   d_w = d
 *   IQ1_*            I = the same, q_w = 8 * (-1, 0, 1) +- 1;            d_w = d / 8
 *   TQ1_0 TQ2_0      I = dot, q_w = -1, 0, 1 (and 2);                    d_w = d
 *
 * NVFP4 has blocks of 64, two of the activations' each, and a float scale for each sub-block j of 16, which is half of
 * an unsigned E4M3 since q_w = 2 x e2m1: acc = fma(f32(d_wj) * d_x, f32(dot_j), acc), sub-blocks ascending.
 *
 * F32, F16, BF16: weights widened exactly, y = dot8(W[n], x[t]) over the whole row (k need not be a multiple of 8). */
typedef struct tn_matmul_args {
    const uint8_t *w; /* n_rows rows, any alignment */
    size_t w_stride;  /* bytes between rows */
    const uint8_t *x; /* n_tokens activation rows of the kind in dtype.def, 64-byte aligned */
    size_t x_stride;  /* bytes between activation rows */
    float *y;         /* y[t * y_stride + n] */
    size_t y_stride;  /* floats between tokens */
    size_t k;         /* elements a row, a multiple of the type's block */
    size_t n_rows, n_tokens;
    void *scratch; /* TN_KERNEL_SCRATCH bytes, 64-byte aligned, owned by the calling thread */
} tn_matmul_args;

typedef void tn_matmul_fn(const tn_matmul_args *args);

#define TN_KERNEL_SCRATCH ((size_t)256 << 10)

/* Writes the k elements of one row of blocks as floats, exactly as Python's gguf package computes them. */
typedef void tn_dequantize_fn(float *x, const uint8_t *row, size_t k);

typedef struct tn_weight_kernels {
    tn_dequantize_fn *dequantize;
    tn_matmul_fn *gemv; /* n_tokens == 1 */
    tn_matmul_fn *gemm; /* n_tokens >= 2 */
} tn_weight_kernels;

/* ---- Rows ----------------------------------------------------------------------------------------------- */

/* Norms of a row, y may be x.
 *   RMS norm (Zhang & Sennrich 2019): r = 1 / sqrt(dot8(x, x) / n + eps), y_i = (x_i * r) * w_i
 *   layer norm (Ba et al. 2016): m = (sum of x in stripes) / n, d_i = x_i - m,
 *         r = 1 / sqrt(dot8(d, d) / n + eps), y_i = (d_i * r) * w_i */
typedef void tn_norm_fn(float *y, const float *x, const float *w, size_t n, float eps);

/* Rotary embedding (Su et al. 2021) of one head in place. Pair i < n_pairs is (x[i], x[i + n_pairs]) for halves and
 * (x[2i], x[2i+1]) for adjacent; (a, b) becomes (fma(a, c_i, -(b * s_i)), fma(a, s_i, b * c_i)). */
typedef void tn_rope_fn(float *x, const float *cos, const float *sin, size_t n_pairs);

/* y_i = a_i + b_i; y may be a or b. */
typedef void tn_add_fn(float *y, const float *a, const float *b, size_t n);

/* y_i = x_i * s; y may be x. */
typedef void tn_scale_fn(float *y, const float *x, float s, size_t n);

/* y_i = cap * tanh(x_i / cap): tn_softcap_f32 of ref/math.h; y may be x. */
typedef void tn_softcap_fn(float *y, const float *x, float cap, size_t n);

/* y_i = -limit if x_i < -limit, limit if x_i > limit, else x_i, NaN too; y may be x. */
typedef void tn_clamp_fn(float *y, const float *x, float limit, size_t n);

/* Scores of n choices, y may be x.
 *   softmax: m = largest x_i, e_i = exp(x_i - m), y_i = e_i / (sum of e in stripes)
 *   sigmoid: 1 / (1 + exp(-x_i)) */
typedef void tn_scores_fn(float *y, const float *x, size_t n);

/* Gated units (Shazeer 2020): y_i = act(gate_i) * up_i; up NULL: y_i = act(gate_i). y may be gate or up.
 *   silu:      g / (1 + exp(-g))
 *   gelu:      (tanh form, Hendrycks & Gimpel 2016) t = g * fma(g * g, 0.044715f, 1) * 1.5957691216057308f,
 *              g / (1 + exp(-t))
 *   gelu_erf:  g * tn_normal_cdf_f32(g) of ref/math.h
 *   relu:      +0 if g < 0, else g
 *   relu2:     relu * relu
 *   clamped:   g = gate_i if not above 7, else 7; g / (1 + exp(-(g * 1.702f))), and not times up_i but times u + 1, u being
 *              up_i within -7 .. 7 */
typedef void tn_glu_fn(float *y, const float *gate, const float *up, size_t n);

/* ---- Attention ------------------------------------------------------------------------------------------
 *
 * The KV cache is walked in chunks of TN_ATTN_CHUNK positions counted from position 0. One call computes one chunk
 * for n_q query rows that share a KV head (heads of the group, or several tokens); row r sees positions
 * lo[r] <= j < hi[r], relative to the chunk.
 *   score_j = dot8(q_r, k_j) * scale, and with a softcap tn_softcap_f32 (ref/math.h) of that, and with slopes
 *     fma(slope[r], -f32(|at[r] - j|), that): ALiBi (Press et al. 2022)
 *   m = largest score (-infinity if none), p_j = exp(score_j - m), l = sum of p_j in stripes (stripe j mod 8)
 *   o_d = fma(p_j, v_j_d, o_d) for j ascending from +0. Positions outside [lo, hi) are not read. */
#define TN_ATTN_CHUNK 64

typedef struct tn_attn_args {
    const float *q; /* n_q rows of head_dim, stride q_stride floats */
    size_t q_stride;
    size_t n_q; /* at most TN_ATTN_MAX_Q */
    const int32_t *lo, *hi;
    const void *k, *v;    /* position 0 of the chunk: rows of the cache's type */
    size_t kv_stride;     /* bytes between positions, for both */
    size_t head_dim;      /* a multiple of 8, at most TN_ATTN_MAX_DIM */
    float scale, softcap; /* softcap 0: none */
    const float *slope;   /* n_q, or NULL */
    const int32_t *at;    /* with slopes: the positions of the rows, relative to the chunk */
    float *m, *l;         /* n_q */
    float *o;             /* n_q rows of head_dim, stride o_stride floats */
    size_t o_stride;
    void *scratch; /* as for matrix products */
} tn_attn_args;

#define TN_ATTN_MAX_Q   64
#define TN_ATTN_MAX_DIM 576

typedef void tn_attn_fn(const tn_attn_args *args);

/* Joins a later chunk's (m2, l2, o2[n]) into (m, l, o[n]): nothing if l2 is 0, a copy if l is 0 (a chunk seen has l >= 1, or NaN); else
 * M = max(m, m2), a = exp(m - M), b = exp(m2 - M), l = fma(l, a, l2 * b), o_d = fma(o_d, a, o2_d * b), m = M. */
typedef void tn_attn_join_fn(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t n);

/* Stores one position of a head, n floats, as a row of the cache's type: f32 copies, f16 rounds to nearest even, q8_0 (n a
 * multiple of 32) makes blocks of Q8_0. Of each 32, with m as in tn_quantize_fn:
 *   m not finite:         d = NaN, all q = 0
 *   m < 2^-100:           d = 0,   all q = 0
 *   else d = f16(m / 127), r = 127 / m, q_i = x_i * r rounded to nearest even
 * Attention reads f32(d) * q_i, rounded once. */
typedef void tn_kv_store_fn(void *dst, const float *x, size_t n);

typedef enum tn_kv_type { TN_KV_F32, TN_KV_F16, TN_KV_Q8_0, TN_KV_COUNT } tn_kv_type;

/* The type of a cache's rows. */
static inline tn_dtype tn_kv_dtype(tn_kv_type kv) {
    return kv == TN_KV_F32 ? TN_DTYPE_F32 : kv == TN_KV_F16 ? TN_DTYPE_F16 : TN_DTYPE_Q8_0;
}

/* ---- The table ------------------------------------------------------------------------------------------ */

typedef struct tn_kernels {
    tn_isa isa;
    tn_weight_kernels weight[TN_DTYPE_COUNT]; /* all NULL where dtype.def says NONE */
    tn_quantize_fn *quantize[TN_ACT_COUNT];   /* F32 is a copy; NONE is NULL */
    tn_norm_fn *rms_norm, *layer_norm;
    tn_rope_fn *rope_halves, *rope_adjacent;
    tn_add_fn *add;
    tn_scale_fn *scale;
    tn_softcap_fn *softcap;
    tn_clamp_fn *clamp;
    tn_scores_fn *softmax, *sigmoid;
    tn_glu_fn *glu[TN_ACTIVATION_COUNT];
    tn_attn_fn *attn[TN_KV_COUNT];
    tn_attn_join_fn *attn_join;
    tn_kv_store_fn *kv_store[TN_KV_COUNT];
} tn_kernels;

/* Fills the table for one supported level: the reference, then each supported level up to it. */
void tn_kernels_fill(tn_kernels *table, tn_isa isa);

/* Each instruction set's own rows. */
typedef void tn_kernels_fill_fn(tn_kernels *table);
tn_kernels_fill_fn tn_kernels_fill_ref, tn_kernels_fill_avx2;
tn_kernels_fill_fn tn_kernels_fill_avxvnni, tn_kernels_fill_avx512, tn_kernels_fill_avx512vnni;
tn_kernels_fill_fn tn_kernels_fill_neon, tn_kernels_fill_dotprod, tn_kernels_fill_i8mm;

#endif
