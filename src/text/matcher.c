#include "matcher.h"

#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "grammar_impl.h"

/* Powers of two. A set of returns takes one or two frames in most grammars, and one is made for each level of nesting. */
enum {
    MAX_SETS = 1 << 17,
    MAX_FRAMES = 1 << 18,
    MAX_ITEMS = 1 << 20,
    MAX_SEEN = 1 << 17, /* items looked at in one step; half of the slots may be used */
    MAX_CALLERS = 1 << 16,
    MAX_MEMBERS = 1 << 15, /* of one set or state */
};

/* A place, and the returns that it has: the numbers of a node and of a set. Of an item: the node waits for a byte. Of a frame
 * in a set: where a rule returns to. */
typedef struct tn_place {
    uint32_t node, set;
} tn_place;

/* Members are places[first .. first + n), sorted, each once. */
typedef struct tn_place_set {
    uint32_t first, n, hash;
    bool may_end; /* of states */
} tn_place_set;

/* Sets by content. */
typedef struct tn_pool {
    tn_place *places;
    tn_place_set *sets;
    uint32_t *slots; /* 2 max_sets of them: number + 1 */
    uint32_t n_places, n_sets, max_places, max_sets;
} tn_pool;

typedef struct tn_caller {
    tn_place frame;
    uint32_t next; /* index + 1 in the rule's list */
} tn_caller;

typedef struct tn_seen {
    tn_place place;
    uint32_t stamp;
} tn_seen;

struct tn_matcher {
    const tn_grammar *g;
    tn_pool returns, states;
    uint16_t *steps; /* 256 for each state; TN_STATE_FULL: not computed */
    uint32_t *renumbered;
    /* One step: */
    tn_seen *seen;
    tn_place *work, *found, *members;
    tn_caller *callers;
    uint32_t *called;  /* for each rule: index + 1 of its last caller */
    uint32_t *ranks;   /* a heap of the ranks of called rules, least first */
    uint32_t *by_rank; /* rules by rank */
    uint32_t stamp, n_seen, n_work, n_found, n_callers, n_ranks;
    bool may_end, full;
    void *block;
    size_t n_block_bytes;
};

/* ---- Sets by content ------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const tn_place *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->set > y->set) - (x->set < y->set);
}

static uint32_t mix(uint32_t hash, uint32_t value) {
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

static uint32_t sort_unique(tn_place *places, uint32_t n) {
    uint32_t n_unique = 0;
    if (n > 1) qsort(places, n, sizeof *places, by_place);
    for (uint32_t i = 0; i < n; i++)
        if (!n_unique || by_place(&places[i], &places[n_unique - 1]) != 0) places[n_unique++] = places[i];
    return n_unique;
}

static void add_slot(tn_pool *pool, uint32_t id) {
    uint32_t at = pool->sets[id].hash & (2 * pool->max_sets - 1);
    while (pool->slots[at]) at = (at + 1) & (2 * pool->max_sets - 1);
    pool->slots[at] = id + 1;
}

/* The number of a set of sorted members; UINT32_MAX when there is no room. */
static uint32_t intern(tn_pool *pool, const tn_place *members, uint32_t n, bool may_end) {
    uint32_t hash = mix(n, may_end);
    for (uint32_t i = 0; i < n; i++) hash = mix(mix(hash, members[i].node), members[i].set);
    for (uint32_t at = hash & (2 * pool->max_sets - 1); pool->slots[at];
         at = (at + 1) & (2 * pool->max_sets - 1)) {
        const tn_place_set *set = &pool->sets[pool->slots[at] - 1];
        if (set->hash == hash && set->n == n && set->may_end == may_end &&
            memcmp(pool->places + set->first, members, n * sizeof *members) == 0)
            return pool->slots[at] - 1;
    }
    if (pool->n_sets == pool->max_sets || n > pool->max_places - pool->n_places) return UINT32_MAX;
    memcpy(pool->places + pool->n_places, members, n * sizeof *members);
    pool->sets[pool->n_sets] = (tn_place_set){pool->n_places, n, hash, may_end};
    pool->n_places += n;
    add_slot(pool, pool->n_sets);
    return pool->n_sets++;
}

/* ---- One step ---------------------------------------------------------------------------------------------------- */

static void begin(tn_matcher *m) {
    m->n_seen = m->n_work = m->n_found = m->n_callers = m->n_ranks = 0;
    m->may_end = m->full = false;
    if (++m->stamp == 0) { /* after 2^32 steps */
        memset(m->seen, 0, MAX_SEEN * sizeof *m->seen);
        m->stamp = 1;
    }
}

static void add(tn_matcher *m, uint32_t node, uint32_t set) {
    uint32_t at = mix(mix(0, node), set) & (MAX_SEEN - 1);
    for (; m->seen[at].stamp == m->stamp; at = (at + 1) & (MAX_SEEN - 1))
        if (m->seen[at].place.node == node && m->seen[at].place.set == set) return;
    if (m->n_seen >= MAX_SEEN / 2) {
        m->full = true;
        return;
    }
    m->seen[at] = (tn_seen){{node, set}, m->stamp};
    m->n_seen++;
    m->work[m->n_work++] = (tn_place){node, set};
}

static void push_rank(tn_matcher *m, uint32_t rank) {
    uint32_t at = m->n_ranks++;
    for (; at > 0 && m->ranks[(at - 1) / 2] > rank; at = (at - 1) / 2) m->ranks[at] = m->ranks[(at - 1) / 2];
    m->ranks[at] = rank;
}

static uint32_t pop_rank(tn_matcher *m) {
    const uint32_t least = m->ranks[0], last = m->ranks[--m->n_ranks];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < m->n_ranks; at = child) {
        if (child + 1 < m->n_ranks && m->ranks[child + 1] < m->ranks[child]) child++;
        if (m->ranks[child] >= last) break;
        m->ranks[at] = m->ranks[child];
    }
    m->ranks[at] = last;
    return least;
}

static void add_caller(tn_matcher *m, uint32_t rule, tn_place frame) {
    if (m->n_callers == MAX_CALLERS) {
        m->full = true;
        return;
    }
    if (!m->called[rule]) push_rank(m, m->g->rules[rule].rank);
    m->callers[m->n_callers++] = (tn_caller){frame, m->called[rule]};
    m->called[rule] = m->n_callers;
}

/* A rule that ends with a call returns to where it would return itself: right recursion adds no frames. */
static void call(tn_matcher *m, uint32_t rule, uint32_t next, uint32_t set) {
    if (next != TN_NODE_RETURN_ID) {
        add_caller(m, rule, (tn_place){next, set});
    } else {
        const tn_place_set *returns = &m->returns.sets[set];
        for (uint32_t i = 0; i < returns->n; i++) add_caller(m, rule, m->returns.places[returns->first + i]);
    }
    if (m->g->rules[rule].nullable) add(m, next, set);
}

static void follow(tn_matcher *m) {
    while (m->n_work && !m->full) {
        const tn_place at = m->work[--m->n_work];
        const tn_node *node = &m->g->nodes[at.node];
        switch (node->kind) {
        case TN_NODE_ACCEPT: m->may_end = true; break;
        case TN_NODE_BYTE:
            if (node->low <= node->high) m->found[m->n_found++] = at; /* else a class without characters */
            break;
        case TN_NODE_CALL: call(m, node->other, node->next, at.set); break;
        case TN_NODE_SPLIT:
            add(m, node->next, at.set);
            add(m, node->other, at.set);
            break;
        default: { /* a return */
            const tn_place_set *returns = &m->returns.sets[at.set];
            for (uint32_t i = 0; i < returns->n; i++) {
                const tn_place frame = m->returns.places[returns->first + i];
                add(m, frame.node, frame.set);
            }
        }
        }
    }
}

/* Begins the called rules, those first that may begin with others: then all callers of a rule are known when it begins. */
static void begin_called(tn_matcher *m) {
    follow(m);
    while (m->n_ranks) {
        const uint32_t rule = m->by_rank[pop_rank(m)];
        uint32_t n = 0;
        for (uint32_t at = m->called[rule]; at; at = m->callers[at - 1].next)
            m->members[n++] = m->callers[at - 1].frame;
        m->called[rule] = 0;
        if (m->full) continue; /* only the lists are cleared */
        n = sort_unique(m->members, n);
        const uint32_t set = n > MAX_MEMBERS ? UINT32_MAX : intern(&m->returns, m->members, n, false);
        if (set == UINT32_MAX) {
            m->full = true;
            continue;
        }
        add(m, m->g->rules[rule].start, set);
        follow(m);
    }
}

static uint32_t end(tn_matcher *m) {
    begin_called(m);
    if (m->full) return TN_STATE_FULL;
    if (m->n_found == 0 && !m->may_end) return TN_STATE_DEAD;
    m->n_found = sort_unique(m->found, m->n_found);
    const uint32_t id =
        m->n_found > MAX_MEMBERS ? UINT32_MAX : intern(&m->states, m->found, m->n_found, m->may_end);
    return id == UINT32_MAX ? TN_STATE_FULL : id;
}

uint32_t tn_matcher_step(tn_matcher *m, uint32_t state, uint8_t byte) {
    uint16_t *step = &m->steps[(size_t)state * 256 + byte];
    if (*step != TN_STATE_FULL) return *step;
    const tn_place_set *from = &m->states.sets[state];
    begin(m);
    for (uint32_t i = 0; i < from->n; i++) {
        const tn_place item = m->states.places[from->first + i];
        const tn_node *node = &m->g->nodes[item.node];
        if (byte >= node->low && byte <= node->high) add(m, node->next, item.set);
    }
    return *step = (uint16_t)end(m);
}

bool tn_matcher_may_end(const tn_matcher *m, uint32_t state) {
    return m->states.sets[state].may_end;
}

bool tn_matcher_must_end(const tn_matcher *m, uint32_t state) {
    return m->states.sets[state].may_end && m->states.sets[state].n == 0;
}

/* ---- New, and room again ------------------------------------------------------------------------------------------- */

static void empty_pool(tn_pool *pool) {
    memset(pool->slots, 0, 2 * (size_t)pool->max_sets * sizeof *pool->slots);
    pool->n_places = pool->n_sets = 0;
}

/* States 0 and 1 have no members: they are numbers that mean something else. */
static void empty_states(tn_matcher *m) {
    empty_pool(&m->states);
    m->states.n_sets = 2;
}

/* Sets are made after those that they lead to, so one pass downwards marks and one upwards moves. */
static void compact_returns(tn_matcher *m, const tn_place *items, uint32_t n) {
    tn_pool *pool = &m->returns;
    const uint32_t n_sets = pool->n_sets;
    memset(m->renumbered, 0, n_sets * sizeof *m->renumbered);
    for (uint32_t i = 0; i < n; i++) m->renumbered[items[i].set] = 1;
    for (uint32_t id = n_sets; id-- > 0;) {
        if (!m->renumbered[id]) continue;
        for (uint32_t i = 0; i < pool->sets[id].n; i++)
            m->renumbered[pool->places[pool->sets[id].first + i].set] = 1;
    }
    m->renumbered[0] = 1; /* the empty set stays the first */
    empty_pool(pool);
    for (uint32_t id = 0; id < n_sets; id++) {
        if (!m->renumbered[id]) continue;
        const tn_place_set old = pool->sets[id];
        for (uint32_t i = 0; i < old.n; i++) {
            const tn_place frame = pool->places[old.first + i];
            m->members[i] = (tn_place){frame.node, m->renumbered[frame.set]};
        }
        /* Renumbering keeps the order of numbers, so members stay sorted; the old place is not before the new one. */
        m->renumbered[id] = intern(pool, m->members, old.n, false);
    }
}

uint32_t tn_matcher_compact(tn_matcher *m, uint32_t state) {
    const tn_place_set old = m->states.sets[state];
    memcpy(m->found, m->states.places + old.first, old.n * sizeof *m->found);
    compact_returns(m, m->found, old.n);
    for (uint32_t i = 0; i < old.n; i++) m->found[i].set = m->renumbered[m->found[i].set];
    memset(m->steps, 0, (size_t)m->states.n_sets * 256 * sizeof *m->steps);
    empty_states(m);
    if (m->returns.n_sets > MAX_SETS / 2 || m->returns.n_places > MAX_FRAMES / 2) return TN_STATE_FULL;
    return intern(&m->states, m->found, old.n, old.may_end);
}

/* Parts of the one block, each at a multiple of 64 bytes. */
static void *carve(tn_matcher *m, size_t n, size_t size) {
    void *part = m->block ? (char *)m->block + m->n_block_bytes : NULL;
    m->n_block_bytes += (n * size + 63) / 64 * 64;
    return part;
}

static void carve_all(tn_matcher *m) {
    const size_t n_rules = m->g->n_rules;
    m->n_block_bytes = 0;
    m->returns = (tn_pool){.max_places = MAX_FRAMES, .max_sets = MAX_SETS};
    m->states = (tn_pool){.max_places = MAX_ITEMS, .max_sets = TN_MAX_STATES};
    tn_pool *const pools[] = {&m->returns, &m->states};
    for (int i = 0; i < 2; i++) {
        pools[i]->places = carve(m, pools[i]->max_places, sizeof(tn_place));
        pools[i]->sets = carve(m, pools[i]->max_sets, sizeof(tn_place_set));
        pools[i]->slots = carve(m, 2 * (size_t)pools[i]->max_sets, sizeof(uint32_t));
    }
    m->steps = carve(m, 256 * (size_t)TN_MAX_STATES, sizeof *m->steps);
    m->renumbered = carve(m, MAX_SETS, sizeof *m->renumbered);
    m->seen = carve(m, MAX_SEEN, sizeof *m->seen);
    m->work = carve(m, MAX_SEEN, sizeof *m->work);
    m->found = carve(m, MAX_SEEN, sizeof *m->found);
    m->members = carve(m, MAX_CALLERS, sizeof *m->members);
    m->callers = carve(m, MAX_CALLERS, sizeof *m->callers);
    m->called = carve(m, n_rules, sizeof *m->called);
    m->ranks = carve(m, n_rules, sizeof *m->ranks);
    m->by_rank = carve(m, n_rules, sizeof *m->by_rank);
}

static uint32_t start_state(tn_matcher *m) {
    for (uint32_t i = 0; i < m->g->n_rules; i++) m->by_rank[m->g->rules[i].rank] = i;
    empty_states(m);
    intern(&m->returns, m->members, 0, false); /* number 0: no returns, as the accepting node has */
    begin(m);
    add_caller(m, m->g->root, (tn_place){TN_NODE_ACCEPT_ID, 0});
    return end(m);
}

tn_status tn_matcher_new(const tn_grammar *g, tn_matcher **out, uint32_t *start, tn_error *err) {
    *out = NULL;
    tn_matcher *m = calloc(1, sizeof *m);
    if (!m) return tn_fail(err, TN_ERR_MEMORY, "grammar", NULL, "out of memory");
    m->g = g;
    carve_all(m); /* measures */
    m->block = tn_reserve(m->n_block_bytes);
    if (!m->block) {
        free(m);
        return tn_fail(err, TN_ERR_MEMORY, "grammar", NULL, "out of memory");
    }
    carve_all(m);
    *start = start_state(m);
    if (*start == TN_STATE_FULL || *start == TN_STATE_DEAD) {
        tn_matcher_free(m);
        return tn_fail(err, TN_ERR_UNSUPPORTED, "grammar", "root", "%s",
                       *start == TN_STATE_DEAD ? "no text matches it" : "it begins in too many ways at once");
    }
    *out = m;
    return TN_OK;
}

void tn_matcher_free(tn_matcher *m) {
    if (!m) return;
    tn_unreserve(m->block, m->n_block_bytes);
    free(m);
}
