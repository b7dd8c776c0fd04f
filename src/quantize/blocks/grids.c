/* IQ1, IQ2 and IQ3: sub-blocks with an odd integer scale, groups of eight weights that are points of a grid, with signs or, in
 * IQ1, a shift. The layouts are drawn in kernels/ref/blocks_grid.h.
 *
 * As for the other types of 256: sub-blocks alone, then scales near the ideal ones with d given and d with the rest given. */
#include "../../../kernels/ref/grids.h"
#include "fit.h"
#include "lattice.h"

enum { MAX_SUBS = 16, MAX_GROUPS = 4 };

/* What moves a point: signs, of which seven or eight are stored, or a shift for a sub-block or a group. */
typedef enum motion { SIGNS_EVEN, SIGNS_FREE, SHIFT_SUB, SHIFT_GROUP } motion;

/* What distinguishes the types. */
typedef struct grid_kind {
    const void *points;
    int n_points, dims, levels;
    uint8_t bytes[8]; /* levels as the grid's table has them */
    float value[8];   /* and as kernels.h has them */
    motion motion;
    int n_subs, max_scale; /* the scale is 2 s + 1, s <= max_scale */
    float factor;          /* of d */
    float middle;          /* a usual scale, over the root mean square of the weights */
} grid_kind;

typedef struct job {
    grid_kind k;
    tn_lattice lattice;
} job;

/* Eight weights; signs, or 1: shifted down. */
typedef struct group {
    uint16_t index[2];
    uint8_t signs;
} group;

/* A sub-block at the scale chosen: the sums of w q^2 and w q x, and the error less that of zeros. */
typedef struct sub_block {
    group groups[MAX_GROUPS];
    int s;
    float qq, qx, error;
} sub_block;

/* The same at eight scales. */
typedef struct sub_tries {
    group groups[TN_SCALES][MAX_GROUPS];
    tn_chosen_points sums;
} sub_tries;

/* The points nearest to eight targets at each scale. */
TN_INLINE void nearest_of(const job *j, int dims, int levels, const float *t, const float *w, tn_scaled s,
                          const float *value, int at, sub_tries *out) {
    for (int p = 0; p < 8 / dims; p++) {
        uint16_t index[TN_SCALES];
        tn_nearest_points(&j->lattice, t + p * dims, w + p * dims, value, dims, levels, s, &out->sums, index);
        for (int i = 0; i < TN_SCALES; i++) out->groups[i][at].index[p] = index[i];
    }
}

static void nearest_group(const job *j, const float *t, const float *w, tn_scaled s, float shift, int at,
                          sub_tries *out) {
    float value[8];
    for (int l = 0; l < j->k.levels; l++) value[l] = j->k.value[l] + shift;
    if (j->k.dims == 8)
        nearest_of(j, 8, 3, t, w, s, value, at, out);
    else
        nearest_of(j, 4, 8, t, w, s, value, at, out);
}

/* Takes the signs off. Where they must be even in number and are not, the one that matters least is the other way. */
static uint8_t take_signs(const float *x, const float *w, float *t, bool even) {
    unsigned signs = 0;
    int least = 0;
    for (int i = 0; i < 8; i++) {
        signs |= (unsigned)(x[i] < 0) << i;
        t[i] = fabsf(x[i]);
        if (w[i] * t[i] < w[least] * t[least]) least = i;
    }
    if (even && __builtin_parity(signs)) {
        signs ^= 1u << least;
        t[least] = -t[least];
    }
    return (uint8_t)signs;
}

/* Groups first to first + n, all shifted up or all shifted down, as is better at each scale. */
static void try_shifted(const job *j, int first, int n, const float *x, const float *w, tn_scaled s,
                        sub_tries *out) {
    sub_tries both[2] = {{.sums = {.cost = {0}}}};
    for (int down = 0; down < 2; down++) {
        for (int i = first; i < first + n; i++)
            nearest_group(j, x + 8 * i, w + 8 * i, s, down ? -1 : 1, i, &both[down]);
    }
    for (int l = 0; l < TN_SCALES; l++) {
        const int down = both[1].sums.cost[l] < both[0].sums.cost[l];
        const sub_tries *best = &both[down];
        for (int i = first; i < first + n; i++) {
            out->groups[l][i] = best->groups[l][i];
            out->groups[l][i].signs = (uint8_t)down;
        }
        out->sums.cost[l] += best->sums.cost[l];
        out->sums.qq[l] += best->sums.qq[l];
        out->sums.qx[l] += best->sums.qx[l];
    }
}

/* A sub-block at eight scales. */
static void try_sub(const job *j, const float *x, const float *w, const float scales[TN_SCALES],
                    sub_tries *out) {
    const int n = 32 / j->k.n_subs;
    tn_scaled s;
    memcpy(&s, scales, sizeof s);
    out->sums = (tn_chosen_points){.cost = {0}};
    if (j->k.motion == SHIFT_SUB) {
        try_shifted(j, 0, n, x, w, s, out);
        return;
    }
    for (int i = 0; i < n; i++) {
        float t[8];
        if (j->k.motion == SHIFT_GROUP) {
            try_shifted(j, i, 1, x, w, s, out);
            continue;
        }
        const uint8_t signs = take_signs(x + 8 * i, w + 8 * i, t, j->k.motion == SIGNS_EVEN);
        nearest_group(j, t, w + 8 * i, s, 0, i, out);
        for (int l = 0; l < TN_SCALES; l++) out->groups[l][i].signs = signs;
    }
}

/* The least cost of eight weights at each scale if every combination of levels were a point. */
TN_INLINE tn_scaled free_cost(const job *j, int levels, const float *t, const float *w, tn_scaled s,
                              float shift) {
    tn_scaled sum;
    for (int v = 0; v < TN_SCALE_VECTORS; v++) sum.v[v] = (tn_vf){0};
    for (int i = 0; i < 8; i++) {
        tn_scaled least;
        for (int v = 0; v < TN_SCALE_VECTORS; v++) least.v[v] = (tn_vf){0} + INFINITY;
        for (int l = 0; l < levels; l++) {
            const float value = j->k.value[l] + shift, qq = w[i] * value * value,
                        twice_qx = 2 * w[i] * value * t[i];
            for (int v = 0; v < TN_SCALE_VECTORS; v++)
                least.v[v] = tn_vmin(least.v[v], s.v[v] * qq - twice_qx);
        }
        for (int v = 0; v < TN_SCALE_VECTORS; v++) sum.v[v] += least.v[v];
    }
    return sum;
}

static tn_scaled free_group_cost(const job *j, const float *x, const float *w, tn_scaled s) {
    if (j->k.motion == SHIFT_SUB || j->k.motion == SHIFT_GROUP) {
        tn_scaled up = free_cost(j, 3, x, w, s, 1);
        const tn_scaled down = free_cost(j, 3, x, w, s, -1);
        for (int v = 0; v < TN_SCALE_VECTORS; v++) up.v[v] = tn_vmin(up.v[v], down.v[v]);
        return up;
    }
    float t[8];
    take_signs(x, w, t, j->k.motion == SIGNS_EVEN);
    return j->k.dims == 8 ? free_cost(j, 3, t, w, s, 0) : free_cost(j, 8, t, w, s, 0);
}

/* The best scale for the levels that are nearest at scale s, every combination being a point. */
TN_INLINE float solve_free(const job *j, int levels, int n, const float *x, const float *w, float s) {
    float all_qq = 0, all_qx = 0;
    const bool shifted = j->k.motion == SHIFT_SUB || j->k.motion == SHIFT_GROUP;
    for (int g = 0; g < n; g += 8) {
        float best = INFINITY, best_qq = 0, best_qx = 0, t[8];
        take_signs(x + g, w + g, t, j->k.motion == SIGNS_EVEN);
        for (int shift = shifted ? -1 : 0; shift <= (shifted ? 1 : 0); shift += 2) {
            float qq = 0, qx = 0;
            for (int i = 0; i < 8; i++) {
                const float target = shifted ? x[g + i] : t[i];
                float least = INFINITY, v = 0;
                for (int l = 0; l < levels; l++) {
                    const float value = j->k.value[l] + (float)shift, cost = value * (s * value - 2 * target);
                    v = cost < least ? value : v;
                    least = cost < least ? cost : least;
                }
                qq += w[g + i] * v * v;
                qx += w[g + i] * v * target;
            }
            const float cost = s * qq - 2 * qx;
            best_qq = cost < best ? qq : best_qq;
            best_qx = cost < best ? qx : best_qx;
            best = cost < best ? cost : best;
        }
        all_qq += best_qq;
        all_qx += best_qx;
    }
    return all_qq > 0 && all_qx > 0 ? all_qx / all_qq : s;
}

/* About the best scale of a sub-block alone: the grid is not asked. */
static float fit_sub(const job *j, const float *x, const float *w) {
    static const float around[TN_SCALES] = {0.65f, 0.74f, 0.84f, 0.94f, 1.06f, 1.19f, 1.34f, 1.52f};
    const int n = 256 / j->k.n_subs;
    float sum_w = 0, sum_wxx = 0, scales[TN_SCALES];
    for (int i = 0; i < n; i++) {
        sum_w += w[i];
        sum_wxx += w[i] * x[i] * x[i];
    }
    const float usual = sqrtf(sum_wxx / sum_w) * j->k.middle;
    if (!(usual >= TN_TINY) || !(usual < 1e15f)) return usual >= TN_TINY ? 65504 : 0;
    tn_scaled s, sum;
    for (int i = 0; i < TN_SCALES; i++) scales[i] = usual * around[i];
    memcpy(&s, scales, sizeof s);
    for (int v = 0; v < TN_SCALE_VECTORS; v++) sum.v[v] = (tn_vf){0};
    for (int i = 0; i < n; i += 8) {
        const tn_scaled cost = free_group_cost(j, x + i, w + i, s);
        for (int v = 0; v < TN_SCALE_VECTORS; v++) sum.v[v] += cost.v[v];
    }
    int best = 0;
    for (int i = 1; i < TN_SCALES; i++)
        best = scales[i] * tn_lane(&sum, i) < scales[best] * tn_lane(&sum, best) ? i : best;
    float scale = scales[best];
    for (int round = 0; round < 2; round++)
        scale = j->k.dims == 8 ? solve_free(j, 3, n, x, w, scale) : solve_free(j, 8, n, x, w, scale);
    return scale;
}

/* The integers around the ideal scale, with d (and its factor) given. */
static void choose_scale(const job *j, const float *x, const float *w, float ideal, float d, sub_block *out) {
    const float at = (ideal / d - 1) * 0.5f;
    const int near = !(at >= 0) ? 0 : at >= (float)j->k.max_scale ? j->k.max_scale : (int)at;
    const int last = j->k.max_scale - TN_SCALES + 1, first = near < 3 ? 0 : near - 3 < last ? near - 3 : last;
    sub_tries tries;
    float scales[TN_SCALES];
    for (int i = 0; i < TN_SCALES; i++) scales[i] = d * (float)(2 * (first + i) + 1);
    try_sub(j, x, w, scales, &tries);
    int best = 0;
    for (int i = 1; i < TN_SCALES; i++)
        best = scales[i] * tries.sums.cost[i] < scales[best] * tries.sums.cost[best] ? i : best;
    *out = (sub_block){.s = first + best,
                       .qq = tries.sums.qq[best],
                       .qx = tries.sums.qx[best],
                       .error = scales[best] * tries.sums.cost[best]};
    memcpy(out->groups, tries.groups[best], sizeof out->groups);
}

/* Fills the sub-blocks; returns d as it is stored. */
static float fit_block(const job *j, const float *x, const float *w, sub_block *best) {
    enum { ROUNDS = 2 };
    const int n = 256 / j->k.n_subs;
    float ideal[MAX_SUBS], largest = 0, d = 0;
    double error = INFINITY, best_qq = 0, best_qx = 0;
    memset(best, 0, (size_t)j->k.n_subs * sizeof *best);
    for (int i = 0; i < j->k.n_subs; i++) {
        ideal[i] = fit_sub(j, x + n * i, w + n * i);
        largest = ideal[i] > largest ? ideal[i] : largest;
    }
    float next = largest / (float)(2 * j->k.max_scale + 1) / j->k.factor;
    for (int round = 0; round < ROUNDS; round++) {
        sub_block now[MAX_SUBS];
        double sum = 0, qq = 0, qx = 0;
        const float stored = tn_f16_to_f32(tn_half(next)), scale = stored * j->k.factor;
        if (!(scale > 0)) break;
        for (int i = 0; i < j->k.n_subs; i++) {
            choose_scale(j, x + n * i, w + n * i, ideal[i], scale, &now[i]);
            const double odd = 2 * now[i].s + 1;
            sum += now[i].error;
            qq += odd * odd * now[i].qq;
            qx += odd * now[i].qx;
        }
        if (!(sum < error)) break;
        error = sum;
        d = stored;
        best_qq = qq, best_qx = qx;
        memcpy(best, now, (size_t)j->k.n_subs * sizeof *best);
        next = (float)(qx / qq) / j->k.factor;
    }
    const float solved = tn_f16_to_f32(tn_half(next));
    const double scale = (double)solved * j->k.factor;
    return scale * (scale * best_qq - 2 * best_qx) < error ? solved : d;
}

/* ---- The types ---- */

static const group *group_at(const sub_block *subs, int n_subs, int g) {
    const int n = 32 / n_subs;
    return &subs[g / n].groups[g % n];
}

static void put_u16(uint8_t *p, unsigned v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put_scale_nibbles(uint8_t *p, const sub_block *subs, int n) {
    for (int i = 0; i < n; i += 2) p[i / 2] = (uint8_t)(subs[i].s | subs[i + 1].s << 4);
}

/* Four groups' signs of seven bits, and the scale above them. */
static void put_signs_and_scale(uint8_t *p, const sub_block *sub) {
    uint32_t word = (uint32_t)sub->s << 28;
    for (int i = 0; i < 4; i++) word |= (uint32_t)(sub->groups[i].signs & 127) << (7 * i);
    memcpy(p, &word, sizeof word);
}

static void put_iq2_xxs(uint8_t *out, const sub_block *subs) {
    for (int i = 0; i < 8; i++) {
        for (int g = 0; g < 4; g++) out[2 + 8 * i + g] = (uint8_t)subs[i].groups[g].index[0];
        put_signs_and_scale(out + 2 + 8 * i + 4, &subs[i]);
    }
}

static void put_iq2_xs(uint8_t *out, const sub_block *subs) {
    for (int g = 0; g < 32; g++) {
        const group *at = group_at(subs, 16, g);
        put_u16(out + 2 + 2 * g, at->index[0] | (unsigned)(at->signs & 127) << 9);
    }
    put_scale_nibbles(out + 66, subs, 16);
}

static void put_iq2_s(uint8_t *out, const sub_block *subs) {
    memset(out + 66, 0, 8);
    for (int g = 0; g < 32; g++) {
        const group *at = group_at(subs, 16, g);
        out[2 + g] = (uint8_t)at->index[0];
        out[34 + g] = at->signs;
        out[66 + g / 4] = (uint8_t)(out[66 + g / 4] | at->index[0] >> 8 << (g % 4 * 2));
    }
    put_scale_nibbles(out + 74, subs, 16);
}

static void put_iq3_xxs(uint8_t *out, const sub_block *subs) {
    for (int i = 0; i < 8; i++) {
        for (int p = 0; p < 8; p++) out[2 + 8 * i + p] = (uint8_t)subs[i].groups[p / 2].index[p % 2];
        put_signs_and_scale(out + 66 + 4 * i, &subs[i]);
    }
}

static void put_iq3_s(uint8_t *out, const sub_block *subs) {
    memset(out + 66, 0, 8);
    for (int p = 0; p < 64; p++) {
        const group *at = group_at(subs, 8, p / 2);
        out[2 + p] = (uint8_t)at->index[p % 2];
        out[66 + p / 8] = (uint8_t)(out[66 + p / 8] | at->index[p % 2] >> 8 << (p % 8));
        out[74 + p / 2] = at->signs;
    }
    put_scale_nibbles(out + 106, subs, 8);
}

static void put_iq1_s(uint8_t *out, const sub_block *subs) {
    for (int i = 0; i < 8; i++) {
        unsigned word = (unsigned)subs[i].s << 12 | (unsigned)subs[i].groups[0].signs << 15;
        for (int g = 0; g < 4; g++) {
            out[2 + 4 * i + g] = (uint8_t)subs[i].groups[g].index[0];
            word |= (unsigned)subs[i].groups[g].index[0] >> 8 << (3 * g);
        }
        put_u16(out + 34 + 2 * i, word);
    }
}

/* d lies in the high nibbles of the words of scales. */
static void put_iq1_m(uint8_t *out, const sub_block *subs) {
    const unsigned d = tn_load_u16(out);
    memset(out + 32, 0, 16);
    for (int i = 0; i < 4; i++) {
        unsigned word = (d >> (4 * i) & 15) << 12;
        for (int k = 0; k < 4; k++) word |= (unsigned)subs[4 * i + k].s << (3 * k);
        put_u16(out + 48 + 2 * i, word);
    }
    for (int g = 0; g < 32; g++) {
        const group *at = group_at(subs, 16, g);
        out[g] = (uint8_t)at->index[0];
        out[32 + g / 2] = (uint8_t)(out[32 + g / 2] | (at->index[0] >> 8 | at->signs << 3) << (g % 2 * 4));
    }
}

static void quantize_grid(const grid_kind *kind, size_t block_bytes,
                          void (*put)(uint8_t *out, const sub_block *subs), const float *x, size_t n,
                          const float *weights, uint8_t *out) {
    job j = {.k = *kind};
    tn_lattice_build(&j.lattice, kind->points, kind->n_points, kind->dims, kind->levels, kind->bytes);
    for (size_t i = 0; i < n; i += 256, out += block_bytes) {
        float w[256];
        sub_block subs[MAX_SUBS];
        tn_relative_weights(w, weights ? weights + i : NULL, 256);
        tn_put_half(out, fit_block(&j, x + i, w, subs));
        put(out, subs);
    }
}

#define LEVELS_IQ2                                                                                           \
    {8, 25, 43}, {                                                                                           \
        8, 25, 43                                                                                            \
    }
#define LEVELS_IQ3_XXS                                                                                       \
    {2, 6, 10, 14, 18, 22, 26, 31}, {                                                                        \
        2, 6, 10, 14, 18, 22, 26, 31                                                                         \
    }
#define LEVELS_IQ3_S                                                                                         \
    {1, 3, 5, 7, 9, 11, 13, 15}, {                                                                           \
        1, 3, 5, 7, 9, 11, 13, 15                                                                            \
    }
#define LEVELS_IQ1                                                                                           \
    {0, 8, 16}, {                                                                                            \
        -8, 0, 8                                                                                             \
    }

#define GRID_TYPE(name, bytes, ...)                                                                          \
    tn_quantize_row_fn TN_AT_LEVEL(tn_quantize_##name##_);                                                   \
    void TN_AT_LEVEL(tn_quantize_##name##_)(const float *x, size_t n, const float *weights, void *out) {     \
        static const grid_kind kind = {__VA_ARGS__};                                                         \
        quantize_grid(&kind, bytes, put_##name, x, n, weights, out);                                         \
    }

GRID_TYPE(iq2_xxs, 66, tn_grid_iq2_xxs, 256, 8, 3, LEVELS_IQ2, SIGNS_EVEN, 8, 15, 0.125f, 0.045f)
GRID_TYPE(iq2_xs, 74, tn_grid_iq2_xs, 512, 8, 3, LEVELS_IQ2, SIGNS_EVEN, 16, 15, 0.125f, 0.045f)
GRID_TYPE(iq2_s, 82, tn_grid_iq2_s, 1024, 8, 3, LEVELS_IQ2, SIGNS_FREE, 16, 15, 0.125f, 0.045f)
GRID_TYPE(iq3_xxs, 98, tn_grid_iq3_xxs, 256, 4, 8, LEVELS_IQ3_XXS, SIGNS_EVEN, 8, 15, 0.5f, 0.075f)
GRID_TYPE(iq3_s, 110, tn_grid_iq3_s, 512, 4, 8, LEVELS_IQ3_S, SIGNS_FREE, 8, 15, 1, 0.15f)
GRID_TYPE(iq1_s, 50, tn_grid_iq1, 2048, 8, 3, LEVELS_IQ1, SHIFT_SUB, 8, 7, 0.125f, 0.14f)
GRID_TYPE(iq1_m, 56, tn_grid_iq1, 2048, 8, 3, LEVELS_IQ1, SHIFT_GROUP, 16, 7, 0.125f, 0.14f)
