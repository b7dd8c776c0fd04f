#include "describe.h"

#include <stdio.h>
#include <string.h>

static void append(tn_step_summary *s, const char *separator, const char *word) {
    const size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s%s", separator, word);
}

static void add_attention(tn_step_summary *s, const tn_attention_params *p) {
    s->kv_elements = (p->latent ? 1 : 2 * (uint64_t)p->n_kv_heads) * p->head_dim; /* k and v */
    s->kv_macs = 2 * (uint64_t)p->n_heads * p->head_dim; /* scores and weighted sums */
    s->window = p->window;
    s->outputs_only = p->outputs_only;
}

static void add_op(tn_step_summary *s, const tn_graph *g, const tn_op *op) {
    if (op->kind == TN_OP_EMBED)
        s->weight_bytes += tn_dtype_row_bytes(op->embed.table.dtype, op->embed.table.k);
    if (op->kind == TN_OP_MATMUL) {
        s->weight_bytes += tn_dtype_row_bytes(op->weight.dtype, op->weight.k) * op->weight.n;
        s->weight_macs += (uint64_t)op->weight.k * op->weight.n;
    }
    if (op->kind == TN_OP_EXPERTS) {
        const tn_weight *w = &op->experts.weight;
        const uint32_t n_used = g->values[op->out].copies;
        s->weight_bytes += tn_dtype_row_bytes(w->dtype, w->k) * w->n * n_used;
        s->weight_macs += (uint64_t)w->k * w->n * n_used;
    }
    if (op->kind == TN_OP_HEAD_PRODUCT) {
        const tn_matrices *m = &op->head_product.of;
        s->weight_bytes += tn_dtype_row_bytes(m->weight.dtype, m->weight.k) * m->weight.n * m->count;
        s->weight_macs += (uint64_t)m->weight.k * m->weight.n * m->count;
    }
    if (op->kind == TN_OP_ATTENTION) add_attention(s, &op->attention);
}

void tn_graph_describe_step(const tn_graph *g, int32_t i, tn_step_summary *out) {
    const tn_step_range *step = &g->steps[i];
    memset(out, 0, sizeof *out);
    out->layer = g->ops[step->end - 1].layer;
    out->outputs_only = step->rows == TN_ROWS_OUTPUTS;
    for (int32_t at = step->first; at < step->end; at++) {
        const bool divided = at == step->mats && at > step->first;
        append(out, divided ? " | " : at > step->first ? " " : "", tn_op_infos[g->ops[at].kind].name);
        add_op(out, g, &g->ops[at]);
    }
}
