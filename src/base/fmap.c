#include "fmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHAT "cannot open file"

static const char *kind_name(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISSOCK(mode) ? "a socket"
                            : "a special file";
}

static int open_retrying(const char *path) {
    int fd;
    /* O_NONBLOCK: opening a FIFO without a writer must not wait; it means nothing for regular files. */
    do fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static tn_status map_fd(tn_fmap *out, int fd, const char *path, tn_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return tn_fail(err, TN_ERR_IO, WHAT, path, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) {
        return tn_fail(err, TN_ERR_IO, WHAT, path, "is %s, expected a regular file", kind_name(st.st_mode));
    }
    uint64_t size = (uint64_t)st.st_size;
    *out = (tn_fmap){.device = st.st_dev, .inode = st.st_ino};
    if (size == 0) return TN_OK; /* mmap refuses empty maps */
    if (size > SIZE_MAX) {
        return tn_fail(err, TN_ERR_MEMORY, WHAT, path, "%llu bytes exceed the address space",
                       (unsigned long long)size);
    }
    void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        return tn_fail(err, errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, WHAT, path,
                       "cannot map %llu bytes: %s", (unsigned long long)size, strerror(errno));
    }
    out->data = data;
    out->size = size;
    return TN_OK;
}

tn_status tn_fmap_open(tn_fmap *out, const char *path, tn_error *err) {
    *out = (tn_fmap){0};
    int fd = open_retrying(path);
    if (fd < 0) return tn_fail(err, TN_ERR_IO, WHAT, path, "%s", strerror(errno));
    tn_status status = map_fd(out, fd, path, err);
    close(fd); /* the map stays */
    if (status != TN_OK) {
        *out = (tn_fmap){0};
        return status;
    }
    out->path = strdup(path);
    if (out->path) return TN_OK;
    tn_fmap_close(out);
    return tn_fail(err, TN_ERR_MEMORY, WHAT, path, "out of memory");
}

tn_status tn_fmap_check(const tn_fmap *map, tn_error *err) {
    struct stat st;
    if (!map->path || stat(map->path, &st) != 0 || st.st_dev != map->device || st.st_ino != map->inode ||
        (uint64_t)st.st_size >= map->size)
        return TN_OK;
    return tn_fail(err, TN_ERR_IO, "cannot read", map->path,
                   "the file shrank while in use, from %llu to %llu bytes", (unsigned long long)map->size,
                   (unsigned long long)st.st_size);
}

void tn_fmap_close(tn_fmap *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    free(map->path);
    *map = (tn_fmap){0};
}

void tn_fmap_release(const uint8_t *data, uint64_t n) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + n) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}
