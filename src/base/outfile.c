#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tn_status fail(const tn_outfile *file, int error_number, tn_error *err) {
    return tn_fail(err, error_number == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, "cannot write", file->path, "%s",
                   strerror(error_number));
}

/* Bytes of the path's folder, its slash included; 0: the working folder. */
static int folder_bytes(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

static int open_retrying(const char *path, int flags) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int sync_retrying(int fd) {
    int result;
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

static int open_folder(const char *path, int flags) {
    char *folder;
    const int n = folder_bytes(path);
    if (asprintf(&folder, "%.*s", n ? n : 1, n ? path : ".") < 0) {
        errno = ENOMEM;
        return -1;
    }
    const int fd = open_retrying(folder, flags);
    const int error_number = errno;
    free(folder);
    errno = error_number;
    return fd;
}

/* Calls try(file, name) with names that are not taken until it does not fail with EEXIST, and keeps the name. */
static int with_temporary_name(tn_outfile *file, int (*try)(tn_outfile *file, const char *name)) {
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++) {
        char *name;
        if (asprintf(&name, "%.*s.tern-%ld-%d", folder_bytes(file->path), file->path, (long)getpid(), i) < 0)
            return ENOMEM;
        if (try(file, name) == 0) {
            file->temporary = name;
            return 0;
        }
        const int error_number = errno;
        free(name);
        if (error_number != EEXIST) return error_number;
    }
    return EEXIST;
}

static int create_named(tn_outfile *file, const char *name) {
    file->fd = open_retrying(name, O_WRONLY | O_CREAT | O_EXCL);
    return file->fd < 0 ? -1 : 0;
}

static int link_unnamed(tn_outfile *file, const char *name) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

tn_status tn_outfile_open(tn_outfile *file, const char *path, tn_error *err) {
    *file = (tn_outfile){.fd = -1};
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT)
        return tn_fail(err, TN_ERR_IO, "cannot write", path, "%s", strerror(errno));
    file->path = exists ? realpath(path, NULL) : strdup(path);
    if (!file->path)
        return tn_fail(err, errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, "cannot write", path, "%s",
                       strerror(errno));
    if (exists && !S_ISREG(info.st_mode)) {
        return tn_fail(err, TN_ERR_IO, "cannot write", path, "is %s, expected a regular file or none",
                       S_ISDIR(info.st_mode) ? "a directory" : "a special file");
    }
    /* A file without a name is named through /proc. */
    if (access("/proc/self/fd", X_OK) == 0) file->fd = open_folder(file->path, O_TMPFILE | O_WRONLY);
    if (file->fd >= 0) return TN_OK;
    const int error_number = with_temporary_name(file, create_named);
    return error_number ? fail(file, error_number, err) : TN_OK;
}

tn_status tn_outfile_reserve(tn_outfile *file, uint64_t n_bytes, tn_error *err) {
    if (n_bytes == 0) return TN_OK;
    if (n_bytes > INT64_MAX) return fail(file, EFBIG, err);
    if (fallocate(file->fd, 0, 0, (off_t)n_bytes) == 0) return TN_OK;
    const int e = errno;
    if (e != ENOSPC && e != EDQUOT && e != EFBIG) return TN_OK;
    return tn_fail(err, TN_ERR_IO, "cannot write", file->path, "%s (%llu bytes are needed)", strerror(e),
                   (unsigned long long)n_bytes);
}

tn_status tn_outfile_write(tn_outfile *file, const void *bytes, uint64_t n, tn_error *err) {
    const uint64_t most = (uint64_t)1 << 30; /* one call takes no more than 2 GiB anyway */
    const uint8_t *at = bytes;
    while (n > 0) {
        const ssize_t written = write(file->fd, at, n < most ? n : most);
        if (written > 0) {
            at += written;
            n -= (uint64_t)written;
        } else if (written == 0 || errno != EINTR) {
            return fail(file, written == 0 ? ENOSPC : errno, err);
        }
    }
    return TN_OK;
}

tn_status tn_outfile_finish(tn_outfile *file, tn_error *err) {
    if (sync_retrying(file->fd) != 0) return fail(file, errno, err);
    if (!file->temporary) {
        const int error_number = with_temporary_name(file, link_unnamed);
        if (error_number) return fail(file, error_number, err);
    }
    const int closed = close(file->fd);
    file->fd = -1;
    return closed == 0 || errno == EINTR ? TN_OK : fail(file, errno, err);
}

tn_status tn_outfile_place(tn_outfile *file, tn_error *err) {
    if (rename(file->temporary, file->path) != 0) return fail(file, errno, err);
    free(file->temporary);
    file->temporary = NULL;
    const int folder = open_folder(file->path, O_RDONLY | O_DIRECTORY);
    /* A folder that may not be read cannot be synced; the file is in its place all the same. */
    const int error_number = folder >= 0 && sync_retrying(folder) != 0 ? errno : 0;
    if (folder >= 0) close(folder);
    if (error_number && error_number != EINVAL) return fail(file, error_number, err);
    tn_outfile_discard(file);
    return TN_OK;
}

void tn_outfile_discard(tn_outfile *file) {
    if (file->path && file->fd >= 0) close(file->fd);
    if (file->temporary) unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (tn_outfile){.fd = -1};
}
