/* Memory in blocks of one size that several owners share until one of them writes: what a session and its forks have in
 * common.
 *
 *   owner A   at | 0 | 1 | 2 | 3 | 4 |        B is a fork of A that began amid block 2, and both have gone on: A wrote
 *                  |   |   |   |              in place where it is the only user, B took a copy of block 2, and room for
 *   slab      [  0 | 1 | 2 | 3 | 4 ]          all behind it.
 *                  |   |
 *   owner B   at | 0 | 1 | 2 | 3 |   |
 *                          |   |
 *   slabs             [    2 ] [ 3 | 4 ]
 *
 * All blocks of the first owner come at once. A fork takes nothing until it writes; then a slab for each copy of a block that is
 * shared, and one for all the blocks that it never had. So it never holds more than twice its blocks, however often it is forked
 * itself. Owners may be used by different threads, each by one at a time; sharing only reads `from`. */
#ifndef TN_SESSION_BLOCKS_H
#define TN_SESSION_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/memory.h"

typedef struct tn_blocks {
    uint8_t **at;          /* n, on 64 bytes; NULL: nothing yet */
    struct tn_slab **from; /* n: whose memory that is */
    struct tn_slab *own;   /* whose unused blocks may be taken; NULL: none */
    uint32_t n;
    size_t bytes; /* of a block, a multiple of 64 */
    tn_allocator allocator;
} tn_blocks; /* all zero has no blocks */

/* Both false where memory is refused; *out is then without blocks. n may be 0. */
bool tn_blocks_new(tn_blocks *out, uint32_t n, size_t bytes, const tn_allocator *allocator);
bool tn_blocks_share(tn_blocks *out, const tn_blocks *from, uint32_t n_first); /* its first n_first blocks */
void tn_blocks_free(tn_blocks *blocks);

/* Makes block i one that may be written, with its contents where `keep`. False where memory is refused: nothing is changed then. */
bool tn_blocks_write(tn_blocks *blocks, uint32_t i, bool keep);

#endif
