/* Time for measurements. */
#ifndef TN_BASE_CLOCK_H
#define TN_BASE_CLOCK_H

#include <time.h>

static inline double tn_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
