/* System calls that fail, for a Python test: runs a command under ptrace and lets one of its calls go wrong, whoever makes it, the C
 * library too.
 *
 *   faults list LOG COMMAND...       writes a line for each call that could: NUMBER NAME WHAT, where WHAT is a path or empty
 *   faults N HOW LOG COMMAND...      call N goes wrong, and LOG gets the line of it. HOW is
 *                                      EIO, ENOSPC ...  the error that it ends with
 *                                      short            it does a part of what was asked
 *                                      SIGKILL ...      the signal that the process gets before it
 *                                      do:TEXT          what the shell does before it
 *
 * Calls count from the program's first fcntl: what the loader does before main is not ours. Ends with the command's exit status,
 * or 128 and the signal that ended it; 77 where this cannot be done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && defined(__x86_64__)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum call_kind { BY_NOTHING, BY_FD, BY_MAP_FD, BY_PATH, BY_AT_PATH } call_kind;

typedef struct call {
    long number;
    const char *name;
    call_kind kind; /* where the file is told */
    bool sized;     /* the third argument is a number of bytes */
} call;

static const call calls[] = {
    {SYS_open, "open", BY_PATH, false},
    {SYS_openat, "open", BY_AT_PATH, false},
    {SYS_read, "read", BY_FD, true},
    {SYS_pread64, "read", BY_FD, true},
    {SYS_write, "write", BY_FD, true},
    {SYS_pwrite64, "write", BY_FD, true},
    {SYS_mmap, "mmap", BY_MAP_FD, false},
    {SYS_mremap, "mremap", BY_NOTHING, false},
    {SYS_ftruncate, "ftruncate", BY_FD, false},
    {SYS_fallocate, "fallocate", BY_FD, false},
    {SYS_fsync, "fsync", BY_FD, false},
    {SYS_fdatasync, "fsync", BY_FD, false},
    {SYS_rename, "rename", BY_PATH, false},
    {SYS_renameat, "rename", BY_AT_PATH, false},
    {SYS_renameat2, "rename", BY_AT_PATH, false},
    {SYS_linkat, "link", BY_AT_PATH, false},
    {SYS_close, "close", BY_FD, false},
    {SYS_fstat, "stat", BY_FD, false},
    {SYS_stat, "stat", BY_PATH, false},
    {SYS_newfstatat, "stat", BY_AT_PATH, false},
    {SYS_fchmod, "chmod", BY_FD, false},
    {SYS_lseek, "lseek", BY_FD, false},
    {SYS_flock, "flock", BY_FD, false},
    {SYS_access, "access", BY_PATH, false},
    {SYS_readlink, "readlink", BY_PATH, false},
    {SYS_mkdir, "mkdir", BY_PATH, false},
    {SYS_getdents64, "list", BY_FD, false},
};

enum { N_CALLS = sizeof calls / sizeof *calls, COUNTED_FROM = SYS_fcntl };

typedef struct word {
    const char *name;
    int number;
} word;

static const word signals[] = {
    {"SIGKILL", SIGKILL}, {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP}, {"SIGINT", SIGINT}};

static const word errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EINTR", EINTR},  {"ENOMEM", ENOMEM},
                              {"EMFILE", EMFILE}, {"EACCES", EACCES}, {"EDQUOT", EDQUOT}};

typedef struct fault {
    long at; /* -1: none, all are listed */
    int error_number, signal_number;
    const char *shell; /* NULL: nothing */
    bool is_short;
    FILE *log;
    long n_seen;
    bool counting;
} fault;

/* ---- The traced command ---- */

static int stop_at_calls(void) {
    struct sock_filter filter[5 + 2 * (N_CALLS + 1)] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    size_t n = 4;
    for (size_t i = 0; i <= N_CALLS; i++) {
        const unsigned number = i < N_CALLS ? (unsigned)calls[i].number : COUNTED_FROM;
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {(unsigned short)n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static pid_t start(char **command) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0 || stop_at_calls() != 0) _exit(77);
    execvp(command[0], command);
    _exit(127);
}

/* ---- Its calls ---- */

static void read_text(pid_t pid, unsigned long long at, char *text, size_t cap) {
    const struct iovec here = {text, cap - 1}, there = {(void *)(uintptr_t)at, cap - 1};
    const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    text[n > 0 ? n : 0] = 0;
}

static void fd_path(pid_t pid, long long fd, char *text, size_t cap) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%lld", pid, fd);
    const ssize_t n = readlink(link, text, cap - 1);
    text[n > 0 ? n : 0] = 0;
}

static void tell_file(pid_t pid, const call *c, const struct user_regs_struct *r, char *text, size_t cap) {
    text[0] = 0;
    if (c->kind == BY_PATH) read_text(pid, r->rdi, text, cap);
    if (c->kind == BY_AT_PATH) read_text(pid, r->rsi, text, cap);
    if (c->kind == BY_FD || (c->kind == BY_AT_PATH && !text[0])) fd_path(pid, (int)r->rdi, text, cap);
    if (c->kind == BY_MAP_FD && (int)r->r8 >= 0) fd_path(pid, (int)r->r8, text, cap);
}

static const call *find_call(unsigned long long number) {
    for (size_t i = 0; i < N_CALLS; i++)
        if ((unsigned long long)calls[i].number == number) return &calls[i];
    return NULL;
}

/* The process stands before a call. */
static void spoil(pid_t pid, const call *c, struct user_regs_struct *r, const fault *f) {
    if (f->signal_number) kill(pid, f->signal_number);
    if (f->shell && system(f->shell) != 0) fputs("the shell failed\n", f->log);
    if (f->error_number) {
        r->orig_rax = (unsigned long long)-1; /* no call, and this is its result */
        r->rax = (unsigned long long)-f->error_number;
    } else if (f->is_short && c->sized && r->rdx > 1) {
        r->rdx = r->rdx > 64 ? r->rdx / 2 + 1 : 1;
    } else {
        return;
    }
    ptrace(PTRACE_SETREGS, pid, NULL, r);
}

static void at_call(pid_t pid, fault *f) {
    struct user_regs_struct r;
    char file[4096];
    if (ptrace(PTRACE_GETREGS, pid, NULL, &r) != 0) return;
    const call *c = find_call(r.orig_rax);
    f->counting |= r.orig_rax == COUNTED_FROM;
    if (!f->counting || !c) return;
    const long number = f->n_seen++;
    if (f->at >= 0 && number != f->at) return;
    tell_file(pid, c, &r, file, sizeof file);
    fprintf(f->log, "%ld %s %s\n", number, c->name, file);
    fflush(f->log);
    if (f->at >= 0) spoil(pid, c, &r, f);
}

static int follow(pid_t child, fault *f) {
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 77;
    const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, options) != 0) return 77;
    ptrace(PTRACE_CONT, child, NULL, NULL);
    for (;;) {
        const pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0) return 77;
        if (WIFSTOPPED(status)) {
            const int event = status >> 16, signal_number = WSTOPSIG(status);
            if (event == PTRACE_EVENT_SECCOMP) at_call(pid, f);
            const bool own = event || signal_number == SIGTRAP || signal_number == SIGSTOP;
            ptrace(PTRACE_CONT, pid, NULL, own ? 0L : (long)signal_number);
        } else if (pid == child) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
}

static bool read_how(const char *how, fault *f) {
    f->is_short = strcmp(how, "short") == 0;
    if (strncmp(how, "do:", 3) == 0) f->shell = how + 3;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(how, errors[i].name) == 0) f->error_number = errors[i].number;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcmp(how, signals[i].name) == 0) f->signal_number = signals[i].number;
    return f->is_short || f->shell || f->error_number || f->signal_number;
}

int main(int argc, char **argv) {
    const bool list = argc > 1 && strcmp(argv[1], "list") == 0;
    fault f = {.at = -1};
    const int at_log = list ? 2 : 3;
    if (argc < at_log + 2 || (!list && !read_how(argv[2], &f))) return 2;
    if (!list) f.at = strtol(argv[1], NULL, 10);
    f.log = fopen(argv[at_log], "we");
    if (!f.log) return 2;
    const pid_t child = start(argv + at_log + 1);
    return child < 0 ? 77 : follow(child, &f);
}

#else

int main(void) {
    return 77;
}

#endif
