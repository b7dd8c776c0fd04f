#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"

/* ---- Landlock ---- */

/* The kernel's interface in its first version: what it lacks (cutting a file by name, networks, devices) no call in the list reaches. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, PATH_BENEATH = 1, QUERY_VERSION = 1 };
enum {
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_REG = 1 << 8,
    ALL_RIGHTS = (1 << 13) - 1,
    IN_FOLDER = WRITE_FILE | READ_FILE | READ_DIR | REMOVE_FILE | MAKE_REG,
};

typedef struct ruleset_attr {
    uint64_t handled_access_fs;
} ruleset_attr;

typedef struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed)) path_beneath_attr;

static long landlock_version(void) {
    return syscall(CREATE_RULESET, NULL, 0, QUERY_VERSION);
}

/* What is not there cannot be opened either: that error comes later, from where it is opened. A pipe needs no rule. */
static int allow(int ruleset, const char *path, uint64_t rights) {
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return TN_EXIT_DONE;
    const path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    const int error_number = syscall(ADD_RULE, ruleset, PATH_BENEATH, &rule, 0) == 0 ? 0 : errno;
    close(fd);
    if (error_number == 0 || error_number == EBADFD) return TN_EXIT_DONE;
    return tn_cli_fail("cannot confine: %s: %s", path, strerror(error_number));
}

/* ---- Files ---- */

/* Of the machine: what threads, memory and figures are chosen and made by. */
static const char *const machine[] = {
    "/proc/self",    "/proc/meminfo", "/proc/cpuinfo", "/sys/devices/system/cpu", "/sys/devices/cpu_atom",
    "/sys/fs/cgroup"};

static int allow_reading(int ruleset, const char *path) {
    struct stat info;
    const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    return allow(ruleset, path, folder ? READ_FILE | READ_DIR : READ_FILE);
}

/* A split model's other files are named by the first, "...-00001-of-00003.gguf". */
static int allow_model(int ruleset, const char *path) {
    unsigned count, first;
    const size_t n = strlen(path), n_ending = strlen("-00001-of-00003.gguf");
    int end = 0;
    if (n < n_ending || sscanf(path + n - n_ending, "-%5u-of-%5u.gguf%n", &first, &count, &end) != 2 ||
        (size_t)end != n_ending)
        return allow(ruleset, path, READ_FILE);
    int exit_code = TN_EXIT_DONE;
    for (unsigned i = 1; i <= count && !exit_code; i++) {
        char *shard;
        if (asprintf(&shard, "%.*s-%05u-of-%05u.gguf", (int)(n - n_ending), path, i, count) < 0)
            return tn_cli_fail("cannot confine: %s: out of memory", path);
        exit_code = allow(ruleset, shard, READ_FILE);
        free(shard);
    }
    return exit_code;
}

/* The folder that the file is or will be in. */
static int allow_folder_of(int ruleset, const char *path) {
    char *folder;
    const char *slash = strrchr(path, '/');
    if (asprintf(&folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".") < 0)
        return tn_cli_fail("cannot confine: %s: out of memory", path);
    const int exit_code = allow(ruleset, folder, IN_FOLDER);
    free(folder);
    return exit_code;
}

/* A conversation and its state. */
static int allow_conversation(int ruleset, const char *path) {
    char *state;
    if (asprintf(&state, "%s.state", path) < 0) return tn_cli_fail("cannot confine: %s: out of memory", path);
    int exit_code = allow(ruleset, path, READ_FILE);
    if (!exit_code) exit_code = allow(ruleset, state, READ_FILE);
    free(state);
    return exit_code;
}

static int allow_named(int ruleset, const tn_options *o, const char *folder) {
    const char *const files[] = {o->file, o->arch_file, o->grammar, o->json_schema, o->template};
    int exit_code = allow_model(ruleset, o->model);
    if (!exit_code && o->draft) exit_code = allow_model(ruleset, o->draft);
    for (size_t i = 0; i < sizeof files / sizeof *files && !exit_code; i++)
        if (files[i]) exit_code = allow_reading(ruleset, files[i]);
    for (size_t i = 0; i < sizeof machine / sizeof *machine && !exit_code; i++)
        exit_code = allow_reading(ruleset, machine[i]);
    if (!exit_code && o->load) exit_code = allow_conversation(ruleset, o->load);
    if (!exit_code && o->state) exit_code = allow_folder_of(ruleset, o->state);
    if (!exit_code && o->sandbox_dir) exit_code = allow(ruleset, o->sandbox_dir, IN_FOLDER);
    if (!exit_code && folder) exit_code = allow(ruleset, folder, IN_FOLDER);
    return exit_code;
}

static int confine_files(const tn_options *options, const char *folder) {
    const ruleset_attr attr = {.handled_access_fs = ALL_RIGHTS};
    if (landlock_version() < 1)
        return tn_cli_fail(
            "cannot confine: Landlock: %s (it takes Linux 5.13 with Landlock among its security modules)",
            strerror(errno));
    const int ruleset = (int)syscall(CREATE_RULESET, &attr, sizeof attr, 0);
    if (ruleset < 0) return tn_cli_fail("cannot confine: Landlock: %s", strerror(errno));
    int exit_code = allow_named(ruleset, options, folder);
    if (!exit_code && syscall(RESTRICT_SELF, ruleset, 0) != 0)
        exit_code = tn_cli_fail("cannot confine: Landlock: %s", strerror(errno));
    close(ruleset);
    return exit_code;
}

/* ---- The whole ---- */

static int check_folder(const tn_options *options) {
    struct stat info;
    if (!options->sandbox_dir) return TN_EXIT_DONE;
    if (stat(options->sandbox_dir, &info) != 0)
        return tn_cli_fail("cannot confine: %s: %s", options->sandbox_dir, strerror(errno));
    return S_ISDIR(info.st_mode) ? TN_EXIT_DONE
                                 : tn_cli_fail("cannot confine: %s: expected a folder", options->sandbox_dir);
}

int tn_sandbox_enter(const tn_options *options, const char *folder) {
    int exit_code = check_folder(options);
    if (exit_code) return exit_code;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return tn_cli_fail("cannot confine: %s", strerror(errno));
    exit_code = confine_files(options, folder);
    if (exit_code) return exit_code;
    const int failed = tn_sandbox_filter_calls();
    return failed ? tn_cli_fail("cannot confine: seccomp: %s", strerror(failed)) : TN_EXIT_DONE;
}

const char *tn_sandbox_describe(const tn_options *options, char *text, size_t cap) {
    const char *slash = options->state ? strrchr(options->state, '/') : NULL;
    const char *folder = options->state ? slash ? options->state : "." : options->sandbox_dir;
    const int n = slash ? (int)(slash - options->state + 1) : folder ? (int)strlen(folder) : 0;
    snprintf(text, cap, "Landlock and seccomp; %s%.*s",
             folder ? "files can be written below " : "no file can be written", n, folder ? folder : "");
    return text;
}
