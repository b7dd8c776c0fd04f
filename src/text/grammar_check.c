/* What must hold of a grammar before it can be matched without a loop. */
#include <stdlib.h>

#include "grammar_impl.h"

static void remove_jumps(tn_grammar *g) {
    /* Links lead to jumps, and jumps to jumps; each is followed once, since what is found is written back. */
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        tn_node *node = &g->nodes[i];
        if (node->kind != TN_NODE_JUMP) continue;
        uint32_t end = node->next;
        while (g->nodes[end].kind == TN_NODE_JUMP) end = g->nodes[end].next;
        for (uint32_t at = i; g->nodes[at].kind == TN_NODE_JUMP && at != end;) {
            const uint32_t next = g->nodes[at].next;
            g->nodes[at].next = end;
            at = next;
        }
    }
    for (uint32_t i = TN_N_FIXED_NODES; i < g->n_nodes; i++) {
        tn_node *node = &g->nodes[i];
        if (g->nodes[node->next].kind == TN_NODE_JUMP) node->next = g->nodes[node->next].next;
        if (node->kind == TN_NODE_SPLIT && g->nodes[node->other].kind == TN_NODE_JUMP)
            node->other = g->nodes[node->other].next;
    }
    for (uint32_t i = 0; i < g->n_rules; i++)
        if (g->nodes[g->rules[i].start].kind == TN_NODE_JUMP)
            g->rules[i].start = g->nodes[g->rules[i].start].next;
}

/* A walk over what every rule can begin with, depth first and without recursion. A rule that is met again before it is done
 * begins with itself. When it is done it is known whether it matches nothing, and all rules it begins with are done. */
typedef struct tn_walk {
    uint32_t *work,
        *open; /* nodes to look at, all open rules' in one stack; the open rules and where their nodes begin */
    uint8_t *seen, *state; /* of nodes; of rules: 0 new, 1 open, 2 done */
    uint32_t n_work, n_open, n_done;
} tn_walk;

static void open_rule(tn_grammar *g, tn_walk *w, uint32_t rule) {
    w->state[rule] = 1;
    w->open[2 * w->n_open] = rule;
    w->open[2 * w->n_open++ + 1] = w->n_work;
    w->work[w->n_work++] = g->rules[rule].start;
}

static void look_at(tn_walk *w, uint32_t node) {
    if (!w->seen[node]) w->work[w->n_work++] = node;
}

/* Looks at one node of the innermost open rule; false if that leads back to an open rule, *rule. */
static bool walk_node(tn_grammar *g, tn_walk *w, uint32_t *rule) {
    const uint32_t at = w->work[--w->n_work];
    const tn_node *node = &g->nodes[at];
    const uint32_t inner = w->open[2 * w->n_open - 2];
    if (node->kind == TN_NODE_RETURN) g->rules[inner].nullable = true;
    if (w->seen[at] || node->kind == TN_NODE_RETURN || node->kind == TN_NODE_BYTE) return true;
    if (node->kind == TN_NODE_CALL) {
        *rule = node->other;
        if (w->state[*rule] == 1) return false;
        if (w->state[*rule] == 0) {
            w->n_work++; /* look again when that rule is done */
            open_rule(g, w, *rule);
            return true;
        }
    }
    w->seen[at] = 1;
    if (node->kind == TN_NODE_SPLIT) look_at(w, node->other);
    if (node->kind == TN_NODE_SPLIT || g->rules[node->other].nullable) look_at(w, node->next);
    return true;
}

static bool walk_all(tn_grammar *g, tn_walk *w, uint32_t *rule) {
    for (uint32_t first = 0; first < g->n_rules; first++) {
        if (w->state[first]) continue;
        open_rule(g, w, first);
        while (w->n_open) {
            if (w->n_work > w->open[2 * w->n_open - 1]) {
                if (!walk_node(g, w, rule)) return false;
                continue;
            }
            const uint32_t done = w->open[2 * --w->n_open];
            w->state[done] = 2;
            g->rules[done].rank = g->n_rules - ++w->n_done;
        }
    }
    return true;
}

tn_status tn_grammar_check(tn_grammar *g, const char *where, tn_error *err) {
    remove_jumps(g);
    tn_walk w = {.work = calloc(2 * (size_t)g->n_nodes + g->n_rules, sizeof *w.work),
                 .open = calloc(2 * (size_t)g->n_rules, sizeof *w.open),
                 .seen = calloc(g->n_nodes, 1),
                 .state = calloc(g->n_rules, 1)};
    tn_status s = TN_OK;
    uint32_t rule = 0;
    if (!w.work || !w.open || !w.seen || !w.state)
        s = tn_fail(err, TN_ERR_MEMORY, "cannot read the grammar", where, "out of memory");
    else if (!walk_all(g, &w, &rule)) {
        const uint32_t n = g->rules[rule].name_len;
        s = tn_fail(err, TN_ERR_FORMAT, "bad grammar", where,
                    "rule '%.*s' is left-recursive: it can begin with itself", n < 60 ? (int)n : 60,
                    n ? g->rules[rule].name : "");
    }
    free(w.work);
    free(w.open);
    free(w.seen);
    free(w.state);
    return s;
}
