/* A session's tokens and cache as bytes: saved, and restored into any session of the same model and type of cache whose context
 * holds them, whatever its batch, threads or instruction set.
 *
 *   "tern-kv\n" | version u32 | cache type u32 | model u64 | n_caches u32 | position u32 | oldest u32 | 0 u32 |
 *   body_bytes u64 | checksum of all this u64
 *   tokens i32[position]
 *   for each cache: K, then V; of those each head's rows of positions first..position - 1,
 *                   where first is 0, or `oldest` for a cache with a sliding window
 *   checksum of the body u64
 *
 * Little-endian; checksums as in base/hash.h. Logits are not in it: they are those of evaluating the last token again. */
#ifndef TN_SESSION_STATE_H
#define TN_SESSION_STATE_H

#include "session.h"

/* Writes or reads exactly n bytes, or fails. */
typedef tn_status tn_state_write(void *user, const void *bytes, size_t n, tn_error *err);
typedef tn_status tn_state_read(void *user, void *bytes, size_t n, tn_error *err);

/* `model` is tn_model_identity. */
uint64_t tn_state_bytes(const tn_session *session);
tn_status tn_state_save(const tn_session *session, uint64_t model, tn_state_write *write, void *user,
                        tn_error *err);

/* Of `size` bytes; `where` names them in errors. On failure the session is as if fresh. */
tn_status tn_state_load(tn_session *session, uint64_t model, uint64_t size, const char *where,
                        tn_state_read *read, void *user, tn_error *err);

#endif
