#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "terminal.h"

/* 0, or why what was written to it may be lost. */
static int close_file(tn_output *output) {
    const int fd = output->fd;
    output->fd = -1;
    return fd <= STDERR_FILENO || close(fd) == 0 || errno == EINTR ? 0 : errno;
}

static void release(tn_output *output) {
    tn_cli_remove_on_fault(NULL);
    close_file(output);
    free(output->path);
    free(output->temporary);
    *output = (tn_output){.fd = -1};
}

void tn_output_discard(tn_output *output) {
    if (output->temporary) unlink(output->temporary);
    release(output);
}

static int fail(tn_output *output, int error_number) {
    const int exit_code = tn_cli_fail_write(output->path ? output->path : "output", error_number);
    tn_output_discard(output);
    return exit_code;
}

/* mkstemp makes private files; the result gets the mode any new file would. */
static int open_temporary(tn_output *output) {
    const char *slash = strrchr(output->path, '/');
    const int n_folder = slash ? (int)(slash - output->path + 1) : 0;
    int error_number = EINTR;
    while (error_number == EINTR) {
        if (asprintf(&output->temporary, "%.*s.tern-XXXXXX", n_folder, output->path) < 0) {
            output->temporary = NULL;
            return ENOMEM;
        }
        output->fd = mkostemp(output->temporary, O_CLOEXEC);
        error_number = output->fd < 0 ? errno : 0;
        if (!error_number) break;
        free(output->temporary);
        output->temporary = NULL;
    }
    if (error_number) return error_number;
    tn_cli_remove_on_fault(output->temporary);
    const mode_t mask = umask(0);
    umask(mask);
    return fchmod(output->fd, 0666 & ~mask) == 0 ? 0 : errno;
}

/* By any path, and by any link. */
static bool is_input(const tn_options *o, const struct stat *info) {
    const char *const inputs[] = {o->model,   o->file,   o->base,     o->draft,
                                  o->imatrix, o->recipe, o->messages, o->arch_file};
    struct stat input;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && stat(inputs[i], &input) == 0 && input.st_dev == info->st_dev &&
            input.st_ino == info->st_ino)
            return true;
    return false;
}

int tn_output_open(tn_output *output, const char *path, const tn_options *options) {
    *output = (tn_output){.fd = -1};
    if (strcmp(path, "-") == 0) {
        output->fd = STDOUT_FILENO;
        output->path = strdup("standard output");
        return output->path ? 0 : fail(output, ENOMEM);
    }
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT) return tn_cli_fail_write(path, errno);
    output->path = exists ? realpath(path, NULL) : strdup(path);
    if (!output->path) return tn_cli_fail_write(path, errno);
    if (exists && S_ISDIR(info.st_mode)) return fail(output, EISDIR);
    if (exists && S_ISREG(info.st_mode) && is_input(options, &info)) {
        release(output);
        return tn_cli_fail("cannot write: %s: it is read as well", path);
    }
    if (exists && !S_ISREG(info.st_mode)) { /* a rename would replace the device or pipe itself */
        output->fd = tn_open_file(path, O_WRONLY);
        return output->fd < 0 ? fail(output, errno) : 0;
    }
    const int failed = open_temporary(output);
    return failed ? fail(output, failed) : 0;
}

int tn_output_write(tn_output *output, const void *bytes, size_t n) {
    const int failed = tn_write_all(output->fd, bytes, n);
    return failed ? fail(output, failed) : 0;
}

static int sync_file(int fd) {
    int failed;
    do failed = fsync(fd) == 0 ? 0 : errno;
    while (failed == EINTR);
    return failed;
}

int tn_output_commit(tn_output *output) {
    if (output->temporary) {
        int failed = sync_file(output->fd);
        if (!failed) failed = close_file(output);
        if (failed) return fail(output, failed);
        if (rename(output->temporary, output->path) != 0) return fail(output, errno);
        tn_cli_remove_on_fault(NULL);
        free(output->temporary);
        output->temporary = NULL;
    }
    release(output);
    return 0;
}
