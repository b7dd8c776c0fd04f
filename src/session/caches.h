/* Where the keys and values of a session lie: blocks of TN_ATTN_CHUNK positions, in each those of all caches of one capacity.
 *
 *   block       cache 0 | cache 1 | ...
 *   cache       head 0: K [position][head_dim] | V the same | head 1: ...
 *   latent one  K [position][rank + rotated], the first rank of it V
 *
 * Position p is in block p / TN_ATTN_CHUNK. Caches with a sliding window keep a ring of the last positions, which begins again at its
 * first block; all rings are as long as the largest window asks for, so that they can be taken back equally far. */
#ifndef TN_SESSION_CACHES_H
#define TN_SESSION_CACHES_H

#include <stdint.h>

#include "../base/arena.h"
#include "../exec/run.h"
#include "session.h"

typedef struct tn_caches {
    tn_kv *kv; /* one a cache */
    struct {
        uint32_t n;
        size_t bytes;
    } blocks[TN_KV_KINDS];
    uint32_t ring;   /* positions of a ring; 0: every cache keeps all of them */
    uint32_t window; /* the largest of a windowed cache; 0: none */
    uint64_t bytes;  /* of all blocks */
} tn_caches;

/* What comes of the graph and the config, before any block is there. */
tn_status tn_caches_plan(const tn_graph *graph, const tn_session_config *config, tn_arena *arena,
                         tn_caches *out, tn_error *err);

#endif
