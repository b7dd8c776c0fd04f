/* The limits that control groups put on this process. */
#ifndef TN_BASE_CGROUP_H
#define TN_BASE_CGROUP_H

#include <stdint.h>

/* CPUs' worth of time that the quotas of this process's control group and its parents allow (version 2 and
 * version 1), rounded up; 0 if there is no limit or none can be read. `root` stands before /proc and /sys: ""
 * but for tests. */
int tn_cgroup_cpu_limit(const char *root);

/* Bytes that the limits on memory leave beside what is used, pages of files not counted; UINT64_MAX if there is no limit or
 * none can be read. */
uint64_t tn_cgroup_memory_left(const char *root);

#endif
