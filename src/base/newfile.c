#include "newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tn_newfile_discard(tn_newfile *f) {
    if (f->stream) fclose(f->stream);
    if (f->temporary) unlink(f->temporary);
    free(f->path);
    free(f->temporary);
    *f = (tn_newfile){0};
}

static tn_status fail(tn_newfile *f, const char *path, int error_number, tn_error *err) {
    tn_status status = tn_fail(err, error_number == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, f->what, path, "%s",
                               strerror(error_number));
    tn_newfile_discard(f);
    return status;
}

static int open_temporary(tn_newfile *f) {
    const char *slash = strrchr(f->path, '/');
    const int n_folder = slash ? (int)(slash - f->path + 1) : 0;
    int fd = -1;
    for (int i = 0; fd < 0 && i < 1000; i++) { /* names of processes that were killed may lie about */
        char *name;
        if (asprintf(&name, "%.*s.tern-%d-%d", n_folder, f->path, (int)getpid(), i) < 0) return ENOMEM;
        free(f->temporary);
        f->temporary = name;
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd >= 0 && (f->stream = fdopen(fd, "w"))) return 0;
    const int error_number = errno;
    if (fd >= 0) {
        close(fd);
        return error_number;
    }
    free(f->temporary); /* not ours to remove */
    f->temporary = NULL;
    return error_number;
}

tn_status tn_newfile_open(tn_newfile *f, const char *path, const char *what, tn_error *err) {
    *f = (tn_newfile){.what = what};
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    if (exists && !S_ISREG(info.st_mode)) /* a rename would replace the folder, pipe or device itself */
        return tn_fail(err, TN_ERR_IO, what, path, "not a regular file");
    f->path = exists ? realpath(path, NULL) : strdup(path);
    if (!f->path) return fail(f, path, errno, err);
    const int failed = open_temporary(f);
    return failed ? fail(f, path, failed, err) : TN_OK;
}

tn_status tn_newfile_write(tn_newfile *f, const void *bytes, size_t n, tn_error *err) {
    if (fwrite(bytes, 1, n, f->stream) == n) return TN_OK;
    return fail(f, f->path, errno, err);
}

tn_status tn_newfile_commit(tn_newfile *f, tn_error *err) {
    if (fflush(f->stream) != 0 || fsync(fileno(f->stream)) != 0) return fail(f, f->path, errno, err);
    FILE *stream = f->stream;
    f->stream = NULL;
    if (fclose(stream) != 0 || rename(f->temporary, f->path) != 0) return fail(f, f->path, errno, err);
    free(f->temporary);
    f->temporary = NULL;
    tn_newfile_discard(f);
    return TN_OK;
}
