/* Quotas: cpu.max holds "QUOTA PERIOD" or "max PERIOD" (version 2); cpu.cfs_quota_us and cpu.cfs_period_us
 * hold one number each, a quota of -1 meaning none (version 1). Memory: memory.max, a number or "max" (version 2);
 * memory.limit_in_bytes, a number beyond all memory meaning none (version 1). A group is limited by every one of
 * its parents too.
 *
 * Inside a container the path in /proc/self/cgroup may be one that only the host can see; walking up then
 * ends at the root of what is mounted, which is the container's own group. */
#include "cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_line(const char *path, char *line, int cap) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, cap, f) != NULL;
    fclose(f);
    return ok;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static bool read_number(const char *dir, const char *name, long long *out) {
    char path[PATH_MAX + 64], line[64], *end;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!read_line(path, line, sizeof line)) return false;
    *out = strtoll(line, &end, 10);
    return end != line;
}

/* ---- What a folder of a group says; UINT64_MAX: no limit ---- */

static uint64_t whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return UINT64_MAX;
    return (uint64_t)(quota / period) + (quota % period != 0);
}

static uint64_t cpus_v2(const char *dir) {
    char path[PATH_MAX + 32], line[64];
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (!read_line(path, line, sizeof line)) return UINT64_MAX;
    char *end;
    long long quota = strtoll(line, &end, 10); /* "max" gives 0 */
    return whole_cpus(quota, strtoll(end, NULL, 10));
}

static uint64_t cpus_v1(const char *dir) {
    long long quota, period;
    return read_number(dir, "cpu.cfs_quota_us", &quota) && read_number(dir, "cpu.cfs_period_us", &period)
               ? whole_cpus(quota, period)
               : UINT64_MAX;
}

/* Pages of files are given up when memory is short: what counts is the rest, which `key` of memory.stat has. */
static uint64_t bytes_left(const char *dir, const char *limit_name, const char *key) {
    long long limit;
    char path[PATH_MAX + 32], line[128];
    if (!read_number(dir, limit_name, &limit) || limit < 0) return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    FILE *f = fopen(path, "re");
    unsigned long long used = 0;
    const size_t n = strlen(key);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && line[n] == ' ') used = strtoull(line + n, NULL, 10);
    if (f) fclose(f);
    return (unsigned long long)limit > used ? (uint64_t)limit - used : 0;
}

static uint64_t memory_v2(const char *dir) {
    return bytes_left(dir, "memory.max", "anon"); /* "max" is no number */
}

static uint64_t memory_v1(const char *dir) {
    return bytes_left(dir, "memory.limit_in_bytes", "total_rss");
}

/* ---- The tightest of all groups that this process is in ---- */

typedef struct limit_kind {
    const char *controller, *mounts[2]; /* of version 1 */
    uint64_t (*v1)(const char *dir), (*v2)(const char *dir);
} limit_kind;

static const limit_kind cpu_limit = {
    "cpu", {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"}, cpus_v1, cpus_v2};
static const limit_kind memory_limit = {"memory", {"/sys/fs/cgroup/memory", NULL}, memory_v1, memory_v2};

/* Of mount/group and of each parent up to the mount itself. */
static uint64_t limit_upward(const char *root, const char *mount, const char *group,
                             uint64_t (*limit)(const char *dir)) {
    char dir[PATH_MAX];
    int base = snprintf(dir, sizeof dir, "%s%s", root, mount);
    int n = snprintf(dir, sizeof dir, "%s%s%s", root, mount, group);
    if (base < 0 || n < base || (size_t)n >= sizeof dir) return UINT64_MAX;
    uint64_t tightest = UINT64_MAX;
    for (;;) {
        tightest = smaller(tightest, limit(dir));
        char *slash = strrchr(dir + base, '/');
        if (!slash) return tightest;
        *slash = '\0';
    }
}

/* Whether a comma-separated list has the item. */
static bool has_item(const char *list, const char *item) {
    size_t n = strlen(item);
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ",");
        if (len == n && memcmp(p, item, n) == 0) return true;
        p += len;
        if (*p == '\0') return false;
    }
}

/* One line "ID:CONTROLLERS:PATH" of /proc/self/cgroup. */
static uint64_t limit_of_line(const char *root, char *line, const limit_kind *kind) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return UINT64_MAX;
    controllers++;
    *group++ = '\0';
    if (*controllers == '\0') return limit_upward(root, "/sys/fs/cgroup", group, kind->v2);
    uint64_t tightest = UINT64_MAX;
    for (int i = 0; i < 2 && kind->mounts[i] && has_item(controllers, kind->controller); i++)
        tightest = smaller(tightest, limit_upward(root, kind->mounts[i], group, kind->v1));
    return tightest;
}

static uint64_t tightest(const char *root, const limit_kind *kind) {
    char path[PATH_MAX], line[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (n < 0 || (size_t)n >= sizeof path) return UINT64_MAX;
    FILE *f = fopen(path, "re");
    if (!f) return UINT64_MAX;
    uint64_t least = UINT64_MAX;
    while (fgets(line, sizeof line, f)) least = smaller(least, limit_of_line(root, line, kind));
    fclose(f);
    return least;
}

int tn_cgroup_cpu_limit(const char *root) {
    const uint64_t cpus = tightest(root, &cpu_limit);
    return cpus > INT_MAX ? 0 : (int)cpus;
}

uint64_t tn_cgroup_memory_left(const char *root) {
    return tightest(root, &memory_limit);
}
