/* The points of a published grid that are nearest to a group of weights, for the types whose indices stand for several weights.
 *
 * A point is four or eight levels. At scale s its error, less that of zeros, is s (s qq - 2 qx) with qq = sum w v^2 and
 * qx = sum w v t over its levels v and the weights t; of both sums a half of the dimensions has few values (64 or 81). Eight scales
 * are tried at once, one a lane. Points are listed by their first half; a list is passed over where, for all scales, its first
 * half costs too much with the cheapest of second halves. */
#ifndef TN_QUANTIZE_LATTICE_H
#define TN_QUANTIZE_LATTICE_H

#include "fit.h"

enum { TN_MAX_POINTS = 2048, TN_MAX_HALVES = 81, TN_MAX_LISTED = TN_MAX_POINTS + 3 * TN_MAX_HALVES };
enum { TN_SCALES = 8, TN_SCALE_VECTORS = TN_SCALES / TN_LANES };

typedef struct tn_lattice {
    int n_halves; /* levels to the power of half the dimensions */
    uint16_t start[TN_MAX_HALVES + 1];
    uint16_t index[TN_MAX_LISTED]; /* by first half; the last of a list is repeated to a multiple of four */
    uint8_t second[TN_MAX_LISTED]; /* the second half of that point */
} tn_lattice;

/* One number for each scale. */
typedef struct tn_scaled {
    tn_vf v[TN_SCALE_VECTORS];
} tn_scaled;

/* For each scale the sums of the points chosen so far, and their error less that of zeros, over the scale. */
typedef struct tn_chosen_points {
    _Alignas(32) float qq[TN_SCALES], qx[TN_SCALES], cost[TN_SCALES];
} tn_chosen_points;

/* Of half the dimensions, for each combination of levels. */
typedef struct tn_half_sums {
    float qq[TN_MAX_HALVES], twice_qx[TN_MAX_HALVES];
} tn_half_sums;

/* ---- Lists ---- */

/* The level of dimension i of a point whose bytes are stored one after the other, of the bytes that levels are stored as. */
static inline int tn_level_of(const uint8_t *point, int i, const uint8_t *bytes) {
    int level = 0;
    while (bytes[level] != point[i]) level++;
    return level;
}

static inline int tn_half_of(const uint8_t *point, int n, int levels, const uint8_t *bytes) {
    int code = 0;
    for (int i = n - 1; i >= 0; i--) code = code * levels + tn_level_of(point, i, bytes);
    return code;
}

static inline void tn_lattice_build(tn_lattice *g, const void *points, int n_points, int dims, int levels,
                                    const uint8_t *bytes) {
    const int half = dims / 2;
    uint8_t first[TN_MAX_POINTS];
    uint16_t next[TN_MAX_HALVES], size[TN_MAX_HALVES] = {0};
    g->n_halves = dims == 8 ? 81 : 64;
    g->start[0] = 0;
    for (int p = 0; p < n_points; p++) {
        first[p] = (uint8_t)tn_half_of((const uint8_t *)points + dims * p, half, levels, bytes);
        size[first[p]]++;
    }
    for (int h = 0; h < g->n_halves; h++) g->start[h + 1] = (uint16_t)(g->start[h] + (size[h] + 3) / 4 * 4);
    memcpy(next, g->start, sizeof next);
    for (int p = 0; p < n_points; p++) {
        const int at = next[first[p]]++;
        g->index[at] = (uint16_t)p;
        g->second[at] = (uint8_t)tn_half_of((const uint8_t *)points + dims * p + half, half, levels, bytes);
    }
    for (int h = 0; h < g->n_halves; h++) {
        for (int at = next[h]; at < g->start[h + 1]; at++) {
            g->index[at] = g->index[at - 1];
            g->second[at] = g->second[at - 1];
        }
    }
}

/* ---- Sums ---- */

/* All sums of one of n and one of m, the former the quicker to change. */
TN_INLINE void tn_all_sums(float *sums, const float *a, int n, const float *b, int m) {
    for (int k = 0; k < m; k++) {
        for (int i = 0; i < n; i++) sums[k * n + i] = a[i] + b[k];
    }
}

/* Of all combinations of n dimensions, two or four. */
TN_INLINE void tn_combine(float *sums, const float (*of_level)[8], int n, int levels) {
    float low[9], high[9];
    if (n == 2) {
        tn_all_sums(sums, of_level[0], levels, of_level[1], levels);
        return;
    }
    tn_all_sums(low, of_level[0], levels, of_level[1], levels);
    tn_all_sums(high, of_level[2], levels, of_level[3], levels);
    tn_all_sums(sums, low, levels * levels, high, levels * levels);
}

TN_INLINE void tn_sum_half(tn_half_sums *out, const float *t, const float *w, const float *value, int n,
                           int levels) {
    float qq[4][8], twice_qx[4][8];
    for (int i = 0; i < n; i++) {
        for (int l = 0; l < levels; l++) {
            const float wv = w[i] * value[l];
            qq[i][l] = wv * value[l];
            twice_qx[i][l] = 2 * wv * t[i];
        }
    }
    tn_combine(out->qq, (const float(*)[8])qq, n, levels);
    tn_combine(out->twice_qx, (const float(*)[8])twice_qx, n, levels);
}

/* s qq - 2 qx of combination h. */
TN_INLINE tn_vf tn_half_cost(tn_scaled *cost, const tn_half_sums *sums, tn_scaled s, int h, int v) {
    return cost[h].v[v] = s.v[v] * sums->qq[h] - sums->twice_qx[h];
}

/* Of all combinations; returns the least. Four searches that do not wait for each other, and one combination more where they are 81. */
TN_INLINE tn_scaled tn_half_costs(tn_scaled *cost, const tn_half_sums *sums, int n_halves, tn_scaled s) {
    tn_scaled least;
    for (int v = 0; v < TN_SCALE_VECTORS; v++) {
        const tn_vf none = (tn_vf){0} + INFINITY;
        tn_vf part[4] = {none, none, none, none};
        for (int h = 0; h + 4 <= n_halves; h += 4) {
            for (int i = 0; i < 4; i++) part[i] = tn_vmin(part[i], tn_half_cost(cost, sums, s, h + i, v));
        }
        least.v[v] = tn_vmin(tn_vmin(part[0], part[1]), tn_vmin(part[2], part[3]));
        if (n_halves % 4) least.v[v] = tn_vmin(least.v[v], tn_half_cost(cost, sums, s, n_halves - 1, v));
    }
    return least;
}

/* A combination of that cost for each scale. */
TN_INLINE void tn_find_halves(const tn_scaled *cost, int n_halves, tn_scaled wanted, int32_t *at) {
    tn_vi found[TN_SCALE_VECTORS] = {{0}};
    for (int h = 0; h < n_halves; h++) {
        for (int v = 0; v < TN_SCALE_VECTORS; v++) {
            const tn_vi same = cost[h].v[v] == wanted.v[v];
            found[v] = (same & h) | (~same & found[v]);
        }
    }
    memcpy(at, found, sizeof found);
}

/* ---- The search ---- */

/* The least cost of each scale so far, and the list where it was first found. */
typedef struct tn_found {
    tn_scaled cost;
    tn_vi list[TN_SCALE_VECTORS];
} tn_found;

/* Four sums that do not wait for each other. */
TN_INLINE void tn_scan_list(const tn_lattice *g, int h, tn_scaled first, const tn_scaled *second,
                            tn_found *found) {
    for (int v = 0; v < TN_SCALE_VECTORS; v++) {
        const tn_vf none = (tn_vf){0} + INFINITY;
        tn_vf least[4] = {none, none, none, none};
        for (int e = g->start[h]; e < g->start[h + 1]; e += 4) {
            for (int i = 0; i < 4; i++) least[i] = tn_vmin(least[i], second[g->second[e + i]].v[v]);
        }
        const tn_vf cost = first.v[v] + tn_vmin(tn_vmin(least[0], least[1]), tn_vmin(least[2], least[3]));
        const tn_vi better = cost < found->cost.v[v];
        found->list[v] = (better & h) | (~better & found->list[v]);
        found->cost.v[v] = tn_vmin(found->cost.v[v], cost);
    }
}

/* Whether the list may hold something better for a scale. */
TN_INLINE bool tn_may_improve(tn_scaled first, tn_scaled least, const tn_found *found) {
    int any = 0;
    for (int v = 0; v < TN_SCALE_VECTORS; v++) any |= tn_vany(first.v[v] + least.v[v] < found->cost.v[v]);
    return any;
}

/* The likely lists come first: what they hold says which others need not be looked at. */
TN_INLINE void tn_scan_lists(const tn_lattice *g, int n_halves, const tn_scaled *first,
                             const tn_scaled *second, tn_scaled least, const int32_t *likely,
                             tn_found *found) {
    for (int v = 0; v < TN_SCALE_VECTORS; v++) {
        found->cost.v[v] = (tn_vf){0} + INFINITY;
        found->list[v] = (tn_vi){0};
    }
    for (int i = 0; i < TN_SCALES; i++) {
        if (i == 0 || likely[i] != likely[i - 1]) tn_scan_list(g, likely[i], first[likely[i]], second, found);
    }
    for (int h = 0; h < n_halves; h++) {
        if (tn_may_improve(first[h], least, found)) tn_scan_list(g, h, first[h], second, found);
    }
}

TN_INLINE float tn_lane(const tn_scaled *x, int i) {
    return x->v[i / TN_LANES][i % TN_LANES];
}

/* The nearest point for each scale, added to the sums. */
TN_INLINE void tn_nearest_points(const tn_lattice *g, const float *t, const float *w, const float *value,
                                 int dims, int levels, tn_scaled s, tn_chosen_points *sums, uint16_t *index) {
    tn_half_sums of_first, of_second;
    tn_scaled first[TN_MAX_HALVES], second[TN_MAX_HALVES];
    tn_found found;
    int32_t list[TN_SCALES], likely[TN_SCALES];
    const int n_halves = dims == 8 ? 81 : 64;
    tn_sum_half(&of_first, t, w, value, dims / 2, levels);
    tn_sum_half(&of_second, t + dims / 2, w + dims / 2, value, dims / 2, levels);
    const tn_scaled least = tn_half_costs(second, &of_second, n_halves, s);
    tn_find_halves(first, n_halves, tn_half_costs(first, &of_first, n_halves, s), likely);
    tn_scan_lists(g, n_halves, first, second, least, likely, &found);
    memcpy(list, found.list, sizeof list);
    for (int i = 0; i < TN_SCALES; i++) {
        const int h = list[i];
        const float wanted = tn_lane(&found.cost, i), of_list = tn_lane(&first[h], i);
        int e = g->start[h];
        while (e + 1 < g->start[h + 1] && of_list + tn_lane(&second[g->second[e]], i) != wanted) e++;
        index[i] = g->index[e];
        sums->qq[i] += of_first.qq[h] + of_second.qq[g->second[e]];
        sums->qx[i] += 0.5f * (of_first.twice_qx[h] + of_second.twice_qx[g->second[e]]);
        sums->cost[i] += wanted;
    }
}

#endif
