/* One sequence of tokens: its key-value cache and position, and the program that extends it.
 *
 * The cache is reserved in address space for the whole context and backed by memory only as it fills. Layers with a sliding window
 * keep a ring: the window, a batch, and a margin of positions that can be taken back. */
#ifndef TN_SESSION_SESSION_H
#define TN_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "../../formats/format.h"
#include "../../kernels/kernels.h"
#include "../base/status.h"
#include "../graph/graph.h"

typedef struct tn_session tn_session;

enum { TN_RING_MARGIN = 256 }; /* positions a sliding window can be taken back by without recomputation */

typedef struct tn_session_config {
    uint32_t n_ctx, n_batch, n_outputs, n_threads; /* all >= 1 */
    uint32_t n_vocab;
    tn_kv_type kv;
    bool pin; /* a processor of its own for each thread but the caller's */
    bool (*progress)(void *user, uint32_t done, uint32_t total); /* NULL, or false cancels */
    void *user;
    const struct tn_observer *observer; /* of exec/run.h, which outlives the session; NULL: none */
    const tn_file *file;                /* which has the weights: looked at behind each batch */
} tn_session_config;

typedef struct tn_session_sizes {
    uint64_t kv_bytes, scratch_bytes;
} tn_session_sizes;

/* What a session would reserve. */
tn_status tn_session_measure(const tn_graph *graph, const tn_session_config *config, tn_session_sizes *out,
                             tn_error *err);

/* The graph must outlive the session. Chooses the kernels (TERN_ISA). */
tn_status tn_session_new(const tn_graph *graph, const tn_session_config *config, tn_session **out,
                         tn_error *err);
void tn_session_free(tn_session *session); /* NULL is fine */

/* Appends n tokens and keeps the logits (or what the graph has as its result) of the last n_outputs. Where tokens see ahead
 * (graph->whole) the sequence is one batch, whatever the config says, and one call. On failure the position is where the last whole batch ended. */
tn_status tn_session_eval(tn_session *session, const int32_t *ids, size_t n, uint32_t n_outputs,
                          tn_error *err);

const float *tn_session_logits(const tn_session *session, uint32_t i); /* NULL: no such row */
uint32_t tn_session_row_width(const tn_session *session);              /* floats in a row of logits */
uint32_t tn_session_position(const tn_session *session);
const int32_t *
tn_session_tokens(const tn_session *session); /* those so far; of the session, until its next call */
const tn_session_config *tn_session_config_of(const tn_session *session);
const char *tn_session_isa(const tn_session *session);
uint32_t tn_session_n_barriers(const tn_session *session); /* inside programs so far, modulo 2^32 */

/* Writes the token that is to be evaluated next behind those of tn_session_tokens, where there is room, so that the text can be
 * read in one. */
void tn_session_note(tn_session *session, int32_t token);

/* Drops the tokens from position on; returns the position reached, 0 if the cache no longer holds what is needed: a ring has
 * gone on, or the sequence was a long one (graph->long_above) and would no longer be. */
uint32_t tn_session_truncate(tn_session *session, uint32_t position);

/* How many of n ids are the session's first tokens. */
uint32_t tn_session_common(const tn_session *session, const int32_t *ids, size_t n);

/* Makes the session hold exactly these n tokens, with the logits of the last n_outputs: keeps the common prefix, as far as
 * truncation can, and evaluates the rest. *reused is how many were kept. */
tn_status tn_session_sync(tn_session *session, const int32_t *ids, size_t n, uint32_t n_outputs,
                          uint32_t *reused, tn_error *err);

/* The most tokens that the next eval may take so that all of them but the first can be taken back again. A ring sets no limit
 * below TN_RING_MARGIN. */
uint32_t tn_session_retractable(const tn_session *session);

#endif
