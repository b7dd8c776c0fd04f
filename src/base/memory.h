/* How much memory this process may still use. */
#ifndef TN_BASE_MEMORY_H
#define TN_BASE_MEMORY_H

#include <stdint.h>

/* Bytes the system would give without swapping, page cache included, and its control group would let it have; UINT64_MAX where it
 * cannot be told. */
uint64_t tn_memory_available(void);

#endif
