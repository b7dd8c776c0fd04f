/* Attention over one chunk of the KV cache, the joining of chunks (online softmax, Milakov & Gimelshein
 * 2018), and the store into the cache. */
#include "ref.h"

/* Query row r against the chunk. `widen` turns one cached row into floats. */
static void attend_row(const tn_attn_args *args, size_t r, tn_dequantize_fn *widen) {
    const float *q = args->q + r * args->q_stride;
    float *o = args->o + r * args->o_stride;
    float scores[TN_ATTN_CHUNK], row[TN_ATTN_MAX_DIM], stripes[8] = {0}, largest = -INFINITY;
    int lo = args->lo[r], hi = args->hi[r];

    for (int j = lo; j < hi; j++) {
        widen(row, (const uint8_t *)args->k + (size_t)j * args->kv_stride, args->head_dim);
        scores[j] = tn_dot8(q, row, args->head_dim) * args->scale;
        if (args->softcap > 0) scores[j] = tn_softcap_f32(scores[j], args->softcap);
    }
    if (args->slope) tn_add_slope_f32(scores, lo, hi, args->slope[r], args->at[r]);
    for (int j = lo; j < hi; j++)
        if (scores[j] > largest) largest = scores[j];
    for (size_t i = 0; i < args->head_dim; i++) o[i] = 0.0f;
    for (int j = lo; j < hi; j++) {
        float p = tn_exp_f32(scores[j] - largest);
        stripes[j % 8] += p;
        widen(row, (const uint8_t *)args->v + (size_t)j * args->kv_stride, args->head_dim);
        for (size_t i = 0; i < args->head_dim; i++) o[i] = fmaf(p, row[i], o[i]);
    }
    args->m[r] = largest;
    args->l[r] = tn_join8(stripes);
}

void tn_attn_f32_ref(const tn_attn_args *args) {
    for (size_t r = 0; r < args->n_q; r++) attend_row(args, r, tn_dequantize_f32_ref);
}

void tn_attn_f16_ref(const tn_attn_args *args) {
    for (size_t r = 0; r < args->n_q; r++) attend_row(args, r, tn_dequantize_f16_ref);
}

void tn_attn_q8_0_ref(const tn_attn_args *args) {
    for (size_t r = 0; r < args->n_q; r++) attend_row(args, r, tn_dequantize_q8_0_ref);
}

void tn_attn_join_ref(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t n) {
    if (l2 == 0) return;
    if (*l == 0) {
        *m = m2;
        *l = l2;
        memcpy(o, o2, n * sizeof *o);
        return;
    }
    float largest = m2 > *m ? m2 : *m;
    float a = tn_exp_f32(*m - largest), b = tn_exp_f32(m2 - largest);
    *l = fmaf(*l, a, l2 * b);
    for (size_t i = 0; i < n; i++) o[i] = fmaf(o[i], a, o2[i] * b);
    *m = largest;
}

void tn_kv_store_f32_ref(void *dst, const float *x, size_t n) {
    memcpy(dst, x, n * sizeof *x);
}

void tn_kv_store_f16_ref(void *dst, const float *x, size_t n) {
    uint16_t *h = dst;
    for (size_t i = 0; i < n; i++) h[i] = tn_f32_to_f16(x[i]);
}

void tn_kv_store_q8_0_ref(void *dst, const float *x, size_t n) {
    uint8_t *block = dst;
    for (size_t i = 0; i < n; i += 32, block += 34) {
        int8_t q[32];
        const uint16_t d = tn_f32_to_f16(tn_quantize_block_ref(q, x + i, 32));
        memcpy(block, &d, sizeof d);
        memcpy(block + 2, q, sizeof q);
    }
}
