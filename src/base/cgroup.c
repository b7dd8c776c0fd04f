/* Quotas: cpu.max holds "QUOTA PERIOD" or "max PERIOD" (version 2); cpu.cfs_quota_us and cpu.cfs_period_us
 * hold one number each, a quota of -1 meaning none (version 1). A group is limited by every one of its
 * parents too.
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

/* Smaller of the limits, where 0 is none. */
static int tighter(int a, int b) {
    return a == 0 ? b : b == 0 || a < b ? a : b;
}

static int whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    long long n = quota / period + (quota % period != 0);
    return n > INT_MAX ? 0 : (int)n;
}

static int limit_v2(const char *dir) {
    char path[PATH_MAX + 32], line[64];
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (!read_line(path, line, sizeof line)) return 0;
    char *end;
    long long quota = strtoll(line, &end, 10); /* "max" gives 0 */
    return whole_cpus(quota, strtoll(end, NULL, 10));
}

static int limit_v1(const char *dir) {
    char path[PATH_MAX + 32], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (!read_line(path, quota, sizeof quota)) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (!read_line(path, period, sizeof period)) return 0;
    return whole_cpus(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The tightest limit of mount/group and of each parent up to the mount itself. */
static int limit_upward(const char *root, const char *mount, const char *group,
                        int (*limit)(const char *dir)) {
    char dir[PATH_MAX];
    int base = snprintf(dir, sizeof dir, "%s%s", root, mount);
    int n = snprintf(dir, sizeof dir, "%s%s%s", root, mount, group);
    if (base < 0 || n < base || (size_t)n >= sizeof dir) return 0;
    int tightest = 0;
    for (;;) {
        tightest = tighter(tightest, limit(dir));
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
static int limit_of_line(const char *root, char *line) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return 0;
    controllers++;
    *group++ = '\0';
    if (*controllers == '\0') return limit_upward(root, "/sys/fs/cgroup", group, limit_v2);
    if (!has_item(controllers, "cpu")) return 0;
    int joined = limit_upward(root, "/sys/fs/cgroup/cpu,cpuacct", group, limit_v1);
    return tighter(joined, limit_upward(root, "/sys/fs/cgroup/cpu", group, limit_v1));
}

int tn_cgroup_cpu_limit(const char *root) {
    char path[PATH_MAX], line[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (n < 0 || (size_t)n >= sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int tightest = 0;
    while (fgets(line, sizeof line, f)) tightest = tighter(tightest, limit_of_line(root, line));
    fclose(f);
    return tightest;
}
