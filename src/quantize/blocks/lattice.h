/* The point of a published grid that is nearest to a group of weights, for the types whose indices stand for several weights.
 *
 * A point is four or eight levels, and its cost is a sum over them. If the cheapest level of each dimension makes a point of the
 * grid, that is it. If not: the cost is that of the first half plus that of the second, and a half is one of few combinations (81
 * or 64), whose costs are made once for a group. Points are listed by their first half; a list is passed over where its first
 * half costs too much with the cheapest of second halves. */
#ifndef TN_QUANTIZE_LATTICE_H
#define TN_QUANTIZE_LATTICE_H

#include "level.h"

enum { TN_MAX_POINTS = 2048, TN_MAX_HALVES = 81 };

typedef struct tn_lattice {
    int dims, levels, n_halves; /* levels to the power of dims / 2 */
    uint16_t start[TN_MAX_HALVES + 1];
    uint16_t index[TN_MAX_POINTS];              /* by first half */
    uint8_t second[TN_MAX_POINTS];              /* the second half of that point */
    uint16_t at[TN_MAX_HALVES * TN_MAX_HALVES]; /* by both halves: the index and 1, or 0 */
} tn_lattice;

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
    *g = (tn_lattice){.dims = dims, .levels = levels, .n_halves = dims == 8 ? 81 : 64};
    for (int p = 0; p < n_points; p++) {
        first[p] = (uint8_t)tn_half_of((const uint8_t *)points + dims * p, half, levels, bytes);
        g->start[first[p] + 1]++;
    }
    for (int h = 0; h < g->n_halves; h++) g->start[h + 1] = (uint16_t)(g->start[h + 1] + g->start[h]);
    uint16_t next[TN_MAX_HALVES];
    memcpy(next, g->start, sizeof next);
    for (int p = 0; p < n_points; p++) {
        const int at = next[first[p]]++;
        g->index[at] = (uint16_t)p;
        g->second[at] = (uint8_t)tn_half_of((const uint8_t *)points + dims * p + half, half, levels, bytes);
        g->at[first[p] * TN_MAX_HALVES + g->second[at]] = (uint16_t)(p + 1);
    }
}

/* All sums of one of n and one of m, the former the quicker to change. */
TN_INLINE void tn_all_sums(float *sums, const float *a, int n, const float *b, int m) {
    for (int k = 0; k < m; k++) {
        for (int i = 0; i < n; i++) sums[k * n + i] = a[i] + b[k];
    }
}

/* Costs of all combinations of half the dimensions. */
TN_INLINE void tn_half_costs(float *cost, const float (*levels_cost)[8], int n, int levels) {
    float low[9], high[9];
    if (n == 2) {
        tn_all_sums(cost, levels_cost[0], levels, levels_cost[1], levels);
        return;
    }
    tn_all_sums(low, levels_cost[0], levels, levels_cost[1], levels);
    tn_all_sums(high, levels_cost[2], levels, levels_cost[3], levels);
    tn_all_sums(cost, low, levels * levels, high, levels * levels);
}

/* The cheapest combination of half the dimensions, whatever the grid; its cost is added. */
TN_INLINE int tn_cheapest_half(const float (*levels_cost)[8], int n, int levels, float *total) {
    int code = 0;
    for (int i = n - 1; i >= 0; i--) {
        int cheapest = 0;
        for (int l = 1; l < levels; l++)
            cheapest = levels_cost[i][l] < levels_cost[i][cheapest] ? l : cheapest;
        code = code * levels + cheapest;
        *total += levels_cost[i][cheapest];
    }
    return code;
}

TN_INLINE void tn_scan_list(const tn_lattice *g, int h, float first_cost, const float *second_cost,
                            float *best, int *index) {
    for (int e = g->start[h]; e < g->start[h + 1]; e++) {
        const float cost = first_cost + second_cost[g->second[e]];
        if (cost < *best) *best = cost, *index = g->index[e];
    }
}

/* The cheapest point, given what each level costs in each dimension. */
TN_INLINE float tn_nearest_point(const tn_lattice *g, const float (*cost)[8], int dims, int levels,
                                 int *index) {
    float first[TN_MAX_HALVES], second[TN_MAX_HALVES], best = INFINITY, first_least = 0, least = 0;
    const int likely = tn_cheapest_half(cost, dims / 2, levels, &first_least);
    const int after = tn_cheapest_half(cost + dims / 2, dims / 2, levels, &least);
    *index = g->at[likely * TN_MAX_HALVES + after] - 1;
    if (*index >= 0) return first_least + least;
    tn_half_costs(first, cost, dims / 2, levels);
    tn_half_costs(second, cost + dims / 2, dims / 2, levels);
    *index = 0;
    tn_scan_list(g, likely, first[likely], second, &best, index);
    for (int h = 0; h < g->n_halves; h++) {
        if (h != likely && first[h] + least < best) tn_scan_list(g, h, first[h], second, &best, index);
    }
    return best;
}

#endif
