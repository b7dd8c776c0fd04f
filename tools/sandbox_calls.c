/* The calls of the kernel that a confined process may make, as a program for seccomp. Whatever is not here fails: so does what later
 * kernels add. Calls that open files are here, since Landlock rules them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "sandbox.h"

#if defined(__x86_64__)
#define TN_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define TN_AUDIT_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef TN_AUDIT_ARCH

enum { ANY = -1 };

/* One way to make a call. Several of the same call are alternatives. */
typedef struct allowed_call {
    int number;
    int argument; /* whose lower half, masked, must have the value; ANY: all ways */
    uint32_t mask, value;
} allowed_call;

#define CALL(name)                                                                                           \
    { SYS_##name, ANY, 0, 0 }
#define CALL_IF(name, argument, mask, value)                                                                 \
    { SYS_##name, argument, mask, value }
#define CALL_WITH(name, argument, value)                                                                     \
    { SYS_##name, argument, UINT32_MAX, (uint32_t)(value) }

/* Landlock's first version lets a file be cut that may only be read. */
#define CALL_OPEN(name, flags)                                                                               \
    CALL_IF(name, flags, O_TRUNC, 0), CALL_IF(name, flags, O_ACCMODE, O_WRONLY),                             \
        CALL_IF(name, flags, O_ACCMODE, O_RDWR)

/* What termios of the kernel's second form takes, which newer C libraries use; its header cannot stand beside <termios.h>. */
#define TERMIOS2 char[44]

static const allowed_call allowed[] = {
    CALL(futex),
    CALL(read),
    CALL(write),
    CALL(ppoll),
    CALL(sched_yield),
    /* memory; nothing becomes code */
    CALL_IF(mmap, 2, PROT_EXEC, 0),
    CALL_IF(mprotect, 2, PROT_EXEC, 0),
    CALL(munmap),
    CALL(mremap),
    CALL(madvise),
    CALL(brk),
    /* open files */
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(lseek),
    CALL(close),
    CALL(fstat),
    CALL(fsync),
    CALL(fdatasync),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fchmod),
    CALL_WITH(fcntl, 1, F_GETFD),
    CALL_WITH(fcntl, 1, F_SETFD),
    CALL_WITH(fcntl, 1, F_GETFL),
    CALL_WITH(fcntl, 1, F_SETFL),
    CALL_WITH(fcntl, 1, F_DUPFD_CLOEXEC),
    /* the terminal, but for what pushes keys into it */
    CALL_WITH(ioctl, 1, TCGETS),
    CALL_WITH(ioctl, 1, TCSETS),
    CALL_WITH(ioctl, 1, TCSETSW),
    CALL_WITH(ioctl, 1, TCSETSF),
    CALL_WITH(ioctl, 1, _IOR('T', 0x2A, TERMIOS2)),
    CALL_WITH(ioctl, 1, _IOW('T', 0x2B, TERMIOS2)),
    CALL_WITH(ioctl, 1, _IOW('T', 0x2C, TERMIOS2)),
    CALL_WITH(ioctl, 1, _IOW('T', 0x2D, TERMIOS2)),
    CALL_WITH(ioctl, 1, TIOCGWINSZ),
    CALL_WITH(ioctl, 1, FIONREAD),
    /* files by name: Landlock says which */
    CALL_OPEN(openat, 2),
    CALL(newfstatat),
    CALL(statx),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(readlinkat),
    CALL(getcwd),
    CALL(linkat),
    CALL(renameat),
    CALL(renameat2),
    CALL(unlinkat),
    CALL(umask),
#ifdef SYS_open
    CALL_OPEN(open, 1),
    CALL(stat),
    CALL(lstat),
    CALL(access),
    CALL(readlink),
    CALL(rename),
    CALL(unlink),
    CALL(poll),
#endif
    /* threads, no processes */
    CALL_IF(clone, 0, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND),
    CALL(set_robust_list),
    CALL(rseq),
    CALL(set_tid_address),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(exit),
    CALL(exit_group),
    /* signals of its own */
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(restart_syscall),
    CALL(sigaltstack),
    /* what it is and what time it is */
    CALL(getpid),
    CALL(gettid),
    CALL(getuid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getegid),
    CALL(uname),
    CALL(sysinfo),
    CALL(getrusage),
    CALL_WITH(prlimit64, 0, 0),
    CALL(getrandom),
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(gettimeofday),
    CALL(nanosleep),
    CALL(clock_nanosleep),
};

enum { N_ALLOWED = sizeof allowed / sizeof *allowed, MOST_STEPS = 6 * (N_ALLOWED + 1) + 8 };

typedef struct program {
    struct sock_filter steps[MOST_STEPS];
    unsigned short n;
} program;

static void add(program *p, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    p->steps[p->n++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(program *p, size_t offset) {
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Both processors are little-endian: the lower half of an argument comes first. */
static void allow(program *p, const allowed_call *call) {
    const bool any = call->argument == ANY;
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call->number, 0, any ? 1 : 5);
    if (!any) {
        load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)call->argument);
        add(p, BPF_ALU | BPF_AND | BPF_K, call->mask, 0, 0);
        add(p, BPF_JMP | BPF_JEQ | BPF_K, call->value, 0, 1);
    }
    add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    if (!any) load(p, offsetof(struct seccomp_data, nr));
}

int tn_sandbox_filter_calls(void) {
    program p = {.n = 0};
    const allowed_call own_signal = CALL_WITH(tgkill, 0, getpid()); /* abort() */
    load(&p, offsetof(struct seccomp_data, arch));
    add(&p, BPF_JMP | BPF_JEQ | BPF_K, TN_AUDIT_ARCH, 1, 0);
    add(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0,
        0); /* the numbers of another set of calls mean others */
    load(&p, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < N_ALLOWED; i++) allow(&p, &allowed[i]);
    allow(&p, &own_signal);
    add(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
    const struct sock_fprog filter = {p.n, p.steps};
    /* Of every thread, should a library have begun one. The result is the number of one that cannot be confined. */
    const long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    return failed < 0 ? errno : failed ? EBUSY : 0;
}

#else

int tn_sandbox_filter_calls(void) {
    return ENOSYS;
}

#endif
