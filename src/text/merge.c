#include "merge.h"

#include <stdlib.h>

/* A list of n symbols has n - 1 pairs, and each of at most n - 1 merges makes two new ones. */
enum { HEAP_PER_SYMBOL = 3 };

bool tn_merge_reserve(tn_merge_work *work, size_t n, bool keep_events) {
    if (n <= work->cap) return true;
    size_t cap = n > 2 * work->cap ? n : 2 * work->cap;
    if (cap < 256) cap = 256;
    tn_merge_free(work);
    work->symbols = calloc(cap, sizeof *work->symbols);
    work->heap = calloc(cap, HEAP_PER_SYMBOL * sizeof *work->heap);
    if (keep_events) work->events = calloc(cap, sizeof *work->events);
    if (!work->symbols || !work->heap || (keep_events && !work->events)) {
        tn_merge_free(work);
        return false;
    }
    work->cap = cap;
    return true;
}

void tn_merge_free(tn_merge_work *work) {
    free(work->symbols);
    free(work->heap);
    free(work->events);
    *work = (tn_merge_work){0};
}

static void heap_push(tn_merge_work *work, uint64_t key) {
    uint64_t *heap = work->heap;
    size_t i = work->heap_len++;
    for (; i > 0 && heap[(i - 1) / 2] > key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = key;
}

static uint64_t heap_pop(tn_merge_work *work) {
    uint64_t *heap = work->heap, top = heap[0], key = heap[--work->heap_len];
    size_t n = work->heap_len, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= key) break;
        heap[i] = heap[child];
    }
    heap[i] = key;
    return top;
}

/* Looks up the pair that begins at `at`, and queues it if it can merge. */
static void consider(tn_merge_work *work, uint32_t at, tn_pair_fn *pair, const void *user) {
    tn_symbol *left = &work->symbols[at];
    left->pair_id = TN_NO_TOKEN;
    if (left->next == TN_NO_SYMBOL) return;
    pair(user, left, &work->symbols[left->next]);
    if (left->pair_id != TN_NO_TOKEN) heap_push(work, (uint64_t)left->pair_rank << 32 | at);
}

static void merge_at(tn_merge_work *work, uint32_t at, tn_pair_fn *pair, const void *user) {
    tn_symbol *left = &work->symbols[at], *right = &work->symbols[left->next];
    if (work->events) work->events[work->n_events++] = (tn_merge_event){at, left->next, left->id};
    left->id = left->pair_id;
    left->len += right->len;
    left->next = right->next;
    right->pair_id = TN_NO_TOKEN; /* its queued pair is void */
    if (left->next != TN_NO_SYMBOL) work->symbols[left->next].prev = at;
    consider(work, at, pair, user);
    if (left->prev != TN_NO_SYMBOL) consider(work, left->prev, pair, user);
}

void tn_merge_run(tn_merge_work *work, size_t n, tn_pair_fn *pair, const void *user) {
    tn_symbol *symbols = work->symbols;
    work->heap_len = work->n_events = 0;
    for (size_t i = 0; i < n; i++) {
        symbols[i].prev = i ? (uint32_t)(i - 1) : TN_NO_SYMBOL;
        symbols[i].next = i + 1 < n ? (uint32_t)(i + 1) : TN_NO_SYMBOL;
    }
    for (size_t i = 0; i < n; i++) consider(work, (uint32_t)i, pair, user);
    while (work->heap_len) {
        uint64_t key = heap_pop(work);
        uint32_t at = (uint32_t)key;
        /* An old entry that equals the present pair in rank and place stands for it just as well. */
        if (symbols[at].pair_id != TN_NO_TOKEN && symbols[at].pair_rank == (uint32_t)(key >> 32))
            merge_at(work, at, pair, user);
    }
}
