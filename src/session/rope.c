#include "rope.h"

#include "../base/checked.h"
#include "../base/fmath.h"

/* The tables stand one behind the other. */
static size_t table_bytes(const tn_rope_config *c, uint32_t n_batch) {
    return tn_round_up((size_t)n_batch * 2 * c->n_pairs * sizeof(float), 64);
}

static size_t pointers_bytes(const tn_graph *graph) {
    return tn_round_up(graph->n_ropes * sizeof(float *), 64);
}

size_t tn_rope_tables_bytes(const tn_graph *graph, uint32_t n_batch) {
    size_t bytes = pointers_bytes(graph);
    for (uint32_t r = 0; r < graph->n_ropes; r++) bytes += table_bytes(&graph->ropes[r], n_batch);
    return bytes;
}

static double frequency(const tn_rope_config *c, const float *factors, uint32_t i) {
    double f = tn_pow(c->theta, -(double)i / c->n_pairs);
    if (factors) f /= (double)factors[i];
    if (!c->yarn) return f / c->factor;
    const double ramp = (i - c->yarn_first) / (c->yarn_last - c->yarn_first);
    const double scaled = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return f / c->factor * scaled + f * (1 - scaled);
}

float **tn_rope_tables_place(const tn_graph *graph, uint32_t n_batch, uint8_t *memory) {
    float **tables = (float **)(void *)memory;
    memory += pointers_bytes(graph);
    for (uint32_t r = 0; r < graph->n_ropes; r++) {
        tables[r] = (float *)(void *)memory;
        memory += table_bytes(&graph->ropes[r], n_batch);
    }
    return tables;
}

double **tn_rope_frequencies(const tn_graph *graph, tn_arena *arena) {
    double **frequencies = tn_arena_alloc(arena, graph->n_ropes, sizeof *frequencies);
    for (uint32_t r = 0; frequencies && r < graph->n_ropes; r++) {
        const tn_rope_config *c = &graph->ropes[r];
        double *f = tn_arena_alloc(arena, 2 * (size_t)c->n_pairs, sizeof *f);
        if (!f) return NULL;
        for (uint32_t i = 0; i < c->n_pairs; i++) {
            f[i] = frequency(c, c->freq_factors, i);
            f[c->n_pairs + i] = c->long_factors ? frequency(c, c->long_factors, i) : f[i];
        }
        frequencies[r] = f;
    }
    return frequencies;
}

void tn_rope_tables_fill(float *const *tables, double *const *frequencies, const tn_graph *graph,
                         uint32_t pos, uint32_t n, bool is_long) {
    for (uint32_t r = 0; r < graph->n_ropes; r++) {
        const uint32_t n_pairs = graph->ropes[r].n_pairs;
        const double magnitude = graph->ropes[r].magnitude;
        const double *steps = frequencies[r] + (is_long ? n_pairs : 0);
        for (uint32_t t = 0; t < n; t++) {
            float *cosines = tables[r] + (size_t)t * 2 * n_pairs, *sines = cosines + n_pairs;
            for (uint32_t i = 0; i < n_pairs; i++) {
                double s, c;
                tn_sincos((double)(pos + t) * steps[i], &s, &c);
                cosines[i] = (float)(c * magnitude);
                sines[i] = (float)(s * magnitude);
            }
        }
    }
}
