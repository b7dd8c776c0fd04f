/* --sandbox: each thing that it forbids is tried by a child under the command's own policy, and the same outside it, where it must go
 * otherwise; what run and chat need is tried too. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "tools/cli.h"
#include "tools/sandbox.h"

enum { PATH_BYTES = 256 };

static pid_t parent; /* which confined children cannot ask for */
static char root[] = "/tmp/tern-sandbox-XXXXXX";
static char model[PATH_BYTES], other[PATH_BYTES], other_folder[PATH_BYTES], folder[PATH_BYTES],
    inside[PATH_BYTES], moved[PATH_BYTES];

/* In place of the command's own, which prints. */
int tn_cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return TN_EXIT_FAILED;
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_files(void **state) {
    (void)state;
    parent = getpid();
    if (!mkdtemp(root)) return -1;
    snprintf(folder, sizeof folder, "%s/folder", root);
    snprintf(other_folder, sizeof other_folder, "%s/others", root);
    snprintf(model, sizeof model, "%s/model", root);
    snprintf(other, sizeof other, "%s/others/secret", root);
    snprintf(inside, sizeof inside, "%s/folder/file", root);
    snprintf(moved, sizeof moved, "%s/folder/moved", root);
    mkdir(folder, 0700);
    mkdir(other_folder, 0700);
    put(model, "a model");
    put(other, "a secret");
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* ---- What is tried: 0 if it can be done, else an errno ---- */

static int result(long value) {
    return value < 0 ? errno : 0;
}

static int open_as(const char *path, int flags) {
    return result(open(path, flags, 0600));
}

static int read_other(void) {
    return open_as(other, O_RDONLY);
}
static int write_other(void) {
    return open_as(other, O_WRONLY);
}
static int make_other(void) {
    char path[PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s.new", other);
    return open_as(path, O_WRONLY | O_CREAT);
}
static int remove_other(void) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/others/removed", root);
    return result(unlink(path));
}
static int list_other(void) {
    return open_as(other_folder, O_RDONLY | O_DIRECTORY);
}
static int read_passwords(void) {
    return open_as("/etc/passwd", O_RDONLY);
}
static int read_other_process(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)parent);
    return open_as(path, O_RDONLY);
}
static int write_model(void) {
    return open_as(model, O_RDWR);
}
static int cut_model_by_reading(void) {
    return open_as(model, O_RDONLY | O_TRUNC);
}
static int cut_model(void) {
    return result(truncate(model, 7));
}
static int change_mode(void) {
    return result(chmod(model, 0600));
}
static int make_link(void) {
    char path[PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s.link", inside);
    unlink(path);
    return result(symlink("/", path));
}
static int make_folder(void) {
    char path[PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s.d", inside);
    rmdir(path);
    return result(mkdir(path, 0700));
}
static int move_out(void) {
    char path[PATH_BYTES];
    put(inside, "x");
    snprintf(path, sizeof path, "%s/others/moved", root);
    return result(rename(inside, path));
}
static int internet(void) {
    return result(socket(AF_INET, SOCK_STREAM, 0));
}
static int datagrams(void) {
    return result(socket(AF_INET6, SOCK_DGRAM, 0));
}
static int local_socket(void) {
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}
static int make_process(void) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return result(child);
}
static int make_process_directly(void) {
    const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return result(child);
}
static int spawn(void) {
    pid_t child;
    return posix_spawn(&child, "/bin/true", NULL, NULL, (char *[]){"true", NULL}, NULL);
}
static int run_program(void) {
    execv("/bin/true", (char *[]){"true", NULL});
    return errno;
}
static int run_descriptor(void) {
    return result(syscall(SYS_execveat, -1, "/bin/true", (char *[]){"true", NULL}, NULL, 0));
}
static int trace(void) {
    return result(ptrace(PTRACE_TRACEME, 0, 0, 0));
}
static int read_process(void) {
    char to;
    const struct iovec here = {&to, 1}, there = {&to, 1};
    return result(process_vm_readv(getpid(), &here, 1, &there, 1, 0));
}
static int signal_other(void) {
    return result(kill(parent, 0));
}
static int signal_other_thread(void) {
    return result(syscall(SYS_tgkill, parent, parent, 0));
}
static int limit_other(void) {
    struct rlimit limit;
    return result(syscall(SYS_prlimit64, parent, RLIMIT_CPU, NULL, &limit));
}
static int map_code(void) {
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int make_code(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}
static int push_key(void) {
    return result(ioctl(-1, TIOCSTI, "x"));
}
static int memory_file(void) {
    return result(syscall(SYS_memfd_create, "x", 0));
}
static int rings(void) {
    char parameters[256] = {0};
    return result(syscall(SYS_io_uring_setup, 1, parameters));
}
static int new_space(void) {
    return result(unshare(CLONE_FS));
}
static int personality_call(void) {
    return result(syscall(SYS_personality, 0xffffffff));
}
static int signals_by_descriptor(void) {
    return result(fcntl(1, F_GETOWN));
}

static int read_model(void) {
    return open_as(model, O_RDONLY);
}
static int machine_files(void) {
    const int failed = open_as("/proc/self/status", O_RDONLY);
    return failed ? failed : open_as("/proc/meminfo", O_RDONLY);
}
static int keep_file(void) {
    int failed = open_as(inside, O_WRONLY | O_CREAT | O_TRUNC);
    if (!failed) failed = open_as(inside, O_RDONLY);
    if (!failed) failed = result(rename(inside, moved));
    return failed ? failed : result(unlink(moved));
}
static int keep_unnamed_file(void) {
    char self[64];
    const int fd = open(folder, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0) return errno;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    const int failed = result(linkat(AT_FDCWD, self, AT_FDCWD, moved, AT_SYMLINK_FOLLOW));
    return failed ? failed : result(unlink(moved));
}
static int much_memory(void) {
    char *block = NULL;
    for (size_t n = 1; n <= (size_t)64 << 20; n *= 2) {
        char *grown = realloc(block, n);
        if (!grown) return ENOMEM;
        block = grown;
        block[n - 1] = 1;
    }
    free(block);
    return 0;
}
static void *try_in_thread(void *attempt) {
    return (void *)(intptr_t)((int (*)(void))(uintptr_t)attempt)();
}
static int in_thread(int (*attempt)(void)) {
    pthread_t thread;
    void *value;
    const int failed = pthread_create(&thread, NULL, try_in_thread, (void *)(uintptr_t)attempt);
    if (failed) return 1000 + failed;
    pthread_join(thread, &value);
    return (int)(intptr_t)value;
}
static int thread_reads_model(void) {
    return in_thread(read_model);
}
static int thread_reads_other(void) {
    return in_thread(read_other);
}
static int thread_makes_socket(void) {
    return in_thread(internet);
}

typedef struct attempt {
    const char *name;
    int (*try)(void);
    int expected;
} attempt;

#define FORBIDDEN(name, code)                                                                                \
    { #name, name, code }
#define ALLOWED(name)                                                                                        \
    { #name, name, 0 }

static const attempt forbidden[] = {
    FORBIDDEN(read_other, EACCES),
    FORBIDDEN(write_other, EACCES),
    FORBIDDEN(make_other, EACCES),
    FORBIDDEN(remove_other, EACCES),
    FORBIDDEN(list_other, EACCES),
    FORBIDDEN(read_passwords, EACCES),
    FORBIDDEN(read_other_process, EACCES),
    FORBIDDEN(write_model, EACCES),
    FORBIDDEN(cut_model_by_reading, ENOSYS),
    FORBIDDEN(cut_model, ENOSYS),
    FORBIDDEN(change_mode, ENOSYS),
    FORBIDDEN(make_link, ENOSYS),
    FORBIDDEN(make_folder, ENOSYS),
    FORBIDDEN(move_out, EACCES),
    FORBIDDEN(internet, ENOSYS),
    FORBIDDEN(datagrams, ENOSYS),
    FORBIDDEN(local_socket, ENOSYS),
    FORBIDDEN(make_process, ENOSYS),
    FORBIDDEN(make_process_directly, ENOSYS),
    FORBIDDEN(spawn, ENOSYS),
    FORBIDDEN(run_program, ENOSYS),
    FORBIDDEN(run_descriptor, ENOSYS),
    FORBIDDEN(trace, ENOSYS),
    FORBIDDEN(read_process, ENOSYS),
    FORBIDDEN(signal_other, ENOSYS),
    FORBIDDEN(signal_other_thread, ENOSYS),
    FORBIDDEN(limit_other, ENOSYS),
    FORBIDDEN(map_code, ENOSYS),
    FORBIDDEN(make_code, ENOSYS),
    FORBIDDEN(push_key, ENOSYS),
    FORBIDDEN(memory_file, ENOSYS),
    FORBIDDEN(rings, ENOSYS),
    FORBIDDEN(new_space, ENOSYS),
    FORBIDDEN(personality_call, ENOSYS),
    FORBIDDEN(signals_by_descriptor, ENOSYS),
    FORBIDDEN(thread_reads_other, EACCES),
    FORBIDDEN(thread_makes_socket, ENOSYS),
};
static const attempt needed[] = {
    ALLOWED(read_model),        ALLOWED(machine_files), ALLOWED(keep_file),
    ALLOWED(keep_unnamed_file), ALLOWED(much_memory),   ALLOWED(thread_reads_model),
};

/* ---- Children ---- */

enum { NOT_CONFINED = 250 };

/* What an attempt gives in a process of its own; minus the signal that ended it. */
static int outcome(const attempt *a, bool confined) {
    const tn_options options = {.model = model, .sandbox_dir = folder};
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (confined && tn_sandbox_enter(&options, NULL)) _exit(NOT_CONFINED);
        _exit(a->try());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    put(model, "a model");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool can_confine(void) {
    const uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(444, NULL, 0, 1) >= 1 && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static void skip_unless_it_can(void) {
    if (can_confine()) return;
    printf("this kernel has no Landlock or no seccomp\n");
    skip();
}

static void what_is_forbidden_fails_in_the_sandbox_alone(void **state) {
    (void)state;
    skip_unless_it_can();
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/others/removed", root);
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        const attempt *a = &forbidden[i];
        put(path, "");
        const int found = outcome(a, true), outside = outcome(a, false);
        if (found != a->expected)
            fail_msg("%s: expected %s, found %d", a->name, strerror(a->expected), found);
        if (outside == a->expected) printf("%s: outside the sandbox too: %s\n", a->name, strerror(outside));
        if (outside == a->expected && a->expected != ENOSYS) fail_msg("%s: proves nothing", a->name);
    }
}

static void what_is_needed_works(void **state) {
    (void)state;
    skip_unless_it_can();
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const int found = outcome(&needed[i], true);
        if (found) fail_msg("%s: %d", needed[i].name, found);
    }
}

/* A thread that began before has the list of calls as well. */
static pthread_barrier_t confined;

static void *wait_and_try(void *unused) {
    (void)unused;
    pthread_barrier_wait(&confined);
    return (void *)(intptr_t)internet();
}

static int older_thread(void) {
    pthread_t thread;
    void *value;
    pthread_barrier_init(&confined, NULL, 2);
    pthread_create(&thread, NULL, wait_and_try, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || tn_sandbox_filter_calls()) return NOT_CONFINED;
    pthread_barrier_wait(&confined);
    pthread_join(thread, &value);
    return (int)(intptr_t)value;
}

static void threads_that_began_before_are_confined_too(void **state) {
    (void)state;
    skip_unless_it_can();
    const attempt a = {"older_thread", older_thread, ENOSYS};
    assert_int_equal(outcome(&a, false), ENOSYS);
}

#if defined(__x86_64__)
/* The numbers of 32-bit calls mean others: getpid there is writev here. */
static int other_numbers(void) {
    int number = 20;
    __asm__ volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
    return 0;
}

static void calls_by_other_numbers_end_the_process(void **state) {
    (void)state;
    skip_unless_it_can();
    const attempt a = {"other_numbers", other_numbers, 0};
    if (outcome(&a, false) != 0) skip();
    assert_int_equal(outcome(&a, true), -SIGSYS);
}
#endif

static void a_folder_that_is_not_there_is_an_error(void **state) {
    (void)state;
    const tn_options missing = {.model = model, .sandbox_dir = "/nonexistent"},
                     file = {.model = model, .sandbox_dir = model};
    assert_int_equal(tn_sandbox_enter(&missing, NULL), TN_EXIT_FAILED);
    assert_int_equal(tn_sandbox_enter(&file, NULL), TN_EXIT_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_forbidden_fails_in_the_sandbox_alone),
        cmocka_unit_test(what_is_needed_works),
        cmocka_unit_test(threads_that_began_before_are_confined_too),
#if defined(__x86_64__)
        cmocka_unit_test(calls_by_other_numbers_end_the_process),
#endif
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
