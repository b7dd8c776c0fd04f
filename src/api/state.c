/* A session's state, to and from files and memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/outfile.h"
#include "../session/state.h"
#include "api.h"

static const char what_loading[] = "cannot restore the state";

/* ---- Files ---- */

static tn_status write_file(void *user, const void *bytes, size_t n, tn_error *err) {
    return tn_outfile_write(user, bytes, n, err);
}

tern_status tern_session_save(const tern_session *session, const char *path, tern_error *err) {
    if (!session || !path) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_outfile file;
    tn_status s = tn_outfile_open(&file, path, &e);
    if (!s) s = tn_state_save(session->s, tn_model_identity(session->model->m), write_file, &file, &e);
    if (!s) s = tn_outfile_finish(&file, &e);
    if (!s) s = tn_outfile_place(&file, &e);
    tn_outfile_discard(&file);
    return tn_api_give(err, s, &e);
}

typedef struct state_file {
    int fd;
    const char *path;
} state_file;

static tn_status read_file(void *user, void *bytes, size_t n, tn_error *err) {
    const state_file *file = user;
    uint8_t *at = bytes;
    while (n > 0) {
        const ssize_t got = read(file->fd, at, n);
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            return tn_fail(err, TN_ERR_IO, what_loading, file->path, "%s",
                           got ? strerror(errno) : "it became shorter while it was read");
        }
    }
    return TN_OK;
}

/* Anything but a regular file is refused and never waited for. */
static tn_status open_file(state_file *file, uint64_t *size, tn_error *err) {
    struct stat info;
    do file->fd = open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0 || fstat(file->fd, &info) != 0) {
        const int error_number = errno;
        if (file->fd >= 0) close(file->fd);
        return tn_fail(err, TN_ERR_IO, what_loading, file->path, "%s", strerror(error_number));
    }
    *size = (uint64_t)info.st_size;
    if (S_ISREG(info.st_mode)) return TN_OK;
    close(file->fd);
    return tn_fail(err, TN_ERR_IO, what_loading, file->path, "not a regular file");
}

tern_status tern_session_load(tern_session *session, const char *path, tern_error *err) {
    if (!session || !path) return tn_api_null(err, __func__);
    tn_error e = {0};
    state_file file = {.path = path};
    uint64_t size = 0;
    tn_session_truncate(session->s, 0);
    tn_status s = open_file(&file, &size, &e);
    if (s) return tn_api_give(err, s, &e);
    s = tn_state_load(session->s, tn_model_identity(session->model->m), size, path, read_file, &file, &e);
    close(file.fd);
    return tn_api_give(err, s, &e);
}

/* ---- Memory ---- */

typedef struct memory {
    uint8_t *at;
} memory;

static tn_status write_memory(void *user, const void *bytes, size_t n, tn_error *err) {
    memory *m = user;
    (void)err;
    memcpy(m->at, bytes, n);
    m->at += n;
    return TN_OK;
}

static tn_status read_memory(void *user, void *bytes, size_t n, tn_error *err) {
    memory *m = user;
    (void)err;
    memcpy(bytes, m->at, n); /* tn_state_load reads no more than the size that it was given */
    m->at += n;
    return TN_OK;
}

tern_status tern_session_save_memory(const tern_session *session, void **bytes, size_t *n, tern_error *err) {
    if (bytes) *bytes = NULL;
    if (n) *n = 0;
    if (!session || !bytes || !n) return tn_api_null(err, __func__);
    tn_error e = {0};
    *n = tn_state_bytes(session->s);
    *bytes = malloc(*n);
    if (!*bytes) {
        const size_t asked = *n;
        *n = 0;
        return tn_api_give(
            err, tn_fail(&e, TN_ERR_MEMORY, "cannot save the state", NULL, "%zu bytes were refused", asked),
            &e);
    }
    memory m = {*bytes};
    const tn_status s = tn_state_save(session->s, tn_model_identity(session->model->m), write_memory, &m, &e);
    if (s) {
        free(*bytes);
        *bytes = NULL, *n = 0;
    }
    return tn_api_give(err, s, &e);
}

tern_status tern_session_load_memory(tern_session *session, const void *bytes, size_t n, tern_error *err) {
    if (!session || !bytes) return tn_api_null(err, __func__);
    tn_error e = {0};
    memory m = {(uint8_t *)(uintptr_t)bytes}; /* only read */
    return tn_api_give(
        err,
        tn_state_load(session->s, tn_model_identity(session->model->m), n, "memory", read_memory, &m, &e),
        &e);
}
