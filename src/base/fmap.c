#include "fmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

static tn_status check_kind(const struct stat *st, const char *path, tn_error *err) {
    if (S_ISREG(st->st_mode)) return TN_OK;
    return tn_fail(err, TN_ERR_IO, WHAT, path, "is %s, expected a regular file", kind_name(st->st_mode));
}

/* Maps n bytes from offset on; the system maps from the start of a page alone. */
static tn_status map_part(tn_fmap *out, int fd, uint64_t offset, uint64_t n, const char *path,
                          tn_error *err) {
    const uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE);
    if (n > SIZE_MAX - before)
        return tn_fail(err, TN_ERR_MEMORY, WHAT, path, "%llu bytes exceed the address space",
                       (unsigned long long)n);
    const size_t whole = (size_t)(n + before);
    void *mapping = mmap(NULL, whole, PROT_READ, MAP_SHARED, fd, (off_t)(offset - before));
    if (mapping == MAP_FAILED)
        return tn_fail(err, errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, WHAT, path,
                       "cannot map %llu bytes: %s", (unsigned long long)n, strerror(errno));
    out->mapping = mapping;
    out->mapping_bytes = whole;
    out->data = (const uint8_t *)mapping + before;
    out->size = n;
    out->fd = fd;
    out->end = offset + n;
    return TN_OK;
}

static tn_status map_fd(tn_fmap *out, const tn_fmap_source *source, int fd, tn_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return tn_fail(err, TN_ERR_IO, WHAT, source->path, "%s", strerror(errno));
    const tn_status status = check_kind(&st, source->path, err);
    if (status != TN_OK) return status;
    const uint64_t size = (uint64_t)st.st_size;
    if (source->offset % 4)
        return tn_fail(err, TN_ERR_ARG, WHAT, source->path,
                       "offset %llu is not a multiple of 4, as floats need",
                       (unsigned long long)source->offset);
    if (source->offset > size || source->n_bytes > size - source->offset)
        return tn_fail(err, TN_ERR_ARG, WHAT, source->path,
                       "%llu bytes from offset %llu on are not in a file of %llu",
                       (unsigned long long)source->n_bytes, (unsigned long long)source->offset,
                       (unsigned long long)size);
    out->device = st.st_dev, out->inode = st.st_ino;
    const uint64_t n = source->n_bytes ? source->n_bytes : size - source->offset;
    return n ? map_part(out, fd, source->offset, n, source->path, err) : TN_OK; /* mmap refuses empty maps */
}

static tn_status take_memory(tn_fmap *out, const tn_fmap_source *source, tn_error *err) {
    if ((uintptr_t)source->data % 4)
        return tn_fail(err, TN_ERR_ARG, WHAT, source->path,
                       "its address is not a multiple of 4, as floats need");
    if (source->n_bytes > SIZE_MAX - (uintptr_t)source->data)
        return tn_fail(err, TN_ERR_ARG, WHAT, source->path, "%llu bytes exceed the address space",
                       (unsigned long long)source->n_bytes);
    *out = (tn_fmap){.data = source->n_bytes ? source->data : NULL, .size = source->n_bytes};
    return TN_OK;
}

tn_status tn_fmap_open_source(tn_fmap *out, const tn_fmap_source *source, tn_error *err) {
    *out = (tn_fmap){0};
    if (source->data) return take_memory(out, source, err);
    const bool is_path = tn_fmap_is_path(source);
    const int fd = is_path ? open_retrying(source->path) : fcntl(source->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return tn_fail(err, TN_ERR_IO, WHAT, source->path, "%s", strerror(errno));
    const tn_status status = map_fd(out, source, fd, err);
    if (status != TN_OK) *out = (tn_fmap){0};
    if (!out->mapping) close(fd);
    return status;
}

tn_status tn_fmap_open(tn_fmap *out, const char *path, tn_error *err) {
    const tn_fmap_source source = tn_fmap_path(path);
    return tn_fmap_open_source(out, &source, err);
}

void tn_fmap_close(tn_fmap *map) {
    if (map->mapping) {
        munmap(map->mapping, map->mapping_bytes);
        close(map->fd);
    }
    *map = (tn_fmap){0};
}

tn_status tn_fmap_exists(const char *path, bool *exists, tn_error *err) {
    *exists = access(path, F_OK) == 0;
    return *exists || errno == ENOENT ? TN_OK : tn_fail(err, TN_ERR_IO, WHAT, path, "%s", strerror(errno));
}

bool tn_fmap_is_whole(const tn_fmap *map) {
    struct stat st;
    return !map->mapping || (fstat(map->fd, &st) == 0 && (uint64_t)st.st_size >= map->end);
}

/* What Linux before 5.14 does not do by itself. */
static void touch(const uint8_t *data, size_t n, size_t page) {
    madvise((void *)(uintptr_t)data, n, MADV_WILLNEED);
    for (size_t i = 0; i < n; i += page) (void)*(const volatile uint8_t *)(data + i);
}

tn_status tn_fmap_populate(const tn_fmap *map, uint64_t offset, uint64_t n, const char *path, tn_error *err) {
    if (!map->mapping || !n) return TN_OK;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 from = (size_t)(map->data - (const uint8_t *)map->mapping + offset) / page * page,
                 to = (size_t)(map->data - (const uint8_t *)map->mapping + offset + n);
    uint8_t *begin = (uint8_t *)map->mapping + from;
    int failed;
    do failed = madvise(begin, to - from, MADV_POPULATE_READ);
    while (failed && errno == EINTR);
    if (failed && errno == EINVAL)
        touch(begin, to - from, page);
    else if (failed)
        return tn_fail(err, TN_ERR_IO, "cannot read file", path, "%s", strerror(errno));
    if (tn_fmap_is_whole(map)) return TN_OK; /* an emulator may have done nothing and said nothing */
    return tn_fail(err, TN_ERR_IO, "cannot read file", path, "the file shrank while in use");
}

void tn_fmap_release(const uint8_t *data, uint64_t n) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + n) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}
