/* The filter as instructions for the kernel's classic BPF machine. Calls that the filter does not
 * name are allowed, whatever their arguments are: Linux 5.11 and later record that once and then do
 * not run the filter for them. */
#include "confinement/call_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

#define TSYNC SECCOMP_FILTER_FLAG_TSYNC
#define SPEC_ALLOW 4UL /* SECCOMP_FILTER_FLAG_SPEC_ALLOW, Linux 4.17 */

/* System calls that are newer than some headers; the numbers are the same on every architecture. */
enum {
    PIDFD_SEND_SIGNAL = 424,
    IO_URING_SETUP = 425,
    IO_URING_REGISTER = 427,
    OPEN_TREE = 428,
    MOVE_MOUNT = 429,
    FSOPEN = 430,
    FSCONFIG = 431,
    FSMOUNT = 432,
    FSPICK = 433,
    PIDFD_OPEN = 434,
    CLONE3 = 435,
    OPENAT2 = 437,
    PIDFD_GETFD = 438,
    PROCESS_MADVISE = 440,
    MOUNT_SETATTR = 442,
    PROCESS_MRELEASE = 448,
    FCHMODAT2 = 452,
    SETXATTRAT = 463,
    REMOVEXATTRAT = 466,
    FOREIGN_CALLS = 0x40000000, /* first number of the x32 calls */
};

/* Calls that affect another program, another process, a namespace or the kernel. sched_setaffinity
 * stays allowed, because threads are pinned to cores by their numbers, also threads that DPDK
 * creates when a peer connects. */
static const uint16_t always[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    PIDFD_SEND_SIGNAL,
    PIDFD_OPEN,
    PIDFD_GETFD,
    PROCESS_MADVISE,
    PROCESS_MRELEASE,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_setpriority,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    OPEN_TREE,
    MOVE_MOUNT,
    FSOPEN,
    FSCONFIG,
    FSMOUNT,
    FSPICK,
    MOUNT_SETATTR,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_personality,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_userfaultfd,
    IO_URING_SETUP,
    IO_URING_REGISTER,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
#ifdef __x86_64__
    SYS_fork,
    SYS_vfork,
    SYS_kexec_file_load,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

/* Landlock forbids some of these calls by the path of the file, and none by the right to change it.
 */
static const uint16_t of_files[] = {
    SYS_fchmod,      SYS_fchmodat,     FCHMODAT2,        SYS_fchown,    SYS_fchownat,
    SYS_utimensat,   SYS_setxattr,     SYS_lsetxattr,    SYS_fsetxattr, SETXATTRAT,
    SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, REMOVEXATTRAT, SYS_linkat,
    SYS_symlinkat,   SYS_mknodat,      SYS_mkdirat,      SYS_renameat,  SYS_renameat2,
    SYS_truncate,
#ifdef __x86_64__
    SYS_creat,       SYS_chmod,        SYS_chown,        SYS_lchown,    SYS_utime,
    SYS_utimes,      SYS_futimesat,    SYS_link,         SYS_symlink,   SYS_mknod,
    SYS_mkdir,       SYS_rmdir,        SYS_rename,
#endif
};

#define LONGEST 512
#define WRITING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define LOW_WORD_OF(argument) ((uint32_t)(offsetof(struct seccomp_data, args) + 8 * (argument)))

struct program {
    struct sock_filter code[LONGEST];
    unsigned short length;
};

static void add(struct program *p, unsigned short code, uint32_t value, uint8_t if_true,
                uint8_t if_false)
{
    if (p->length < LONGEST)
        p->code[p->length++] = (struct sock_filter){code, if_true, if_false, value};
}

static void answer(struct program *p, uint32_t action)
{
    add(p, BPF_RET | BPF_K, action, 0, 0);
}

static void load(struct program *p, uint32_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void refuse(struct program *p, uint32_t call, uint32_t error)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    answer(p, SECCOMP_RET_ERRNO | error);
}

static void refuse_each(struct program *p, const uint16_t *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refuse(p, calls[i], EPERM);
}

/* Refuse the call if any of these bits of an argument is set. */
static void refuse_with(struct program *p, uint32_t call, unsigned argument, uint32_t bits)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load(p, LOW_WORD_OF(argument));
    add(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    answer(p, SECCOMP_RET_ERRNO | EPERM);
    answer(p, SECCOMP_RET_ALLOW);
}

/* Refuse the call unless an argument has this value, or has these bits set. */
static void refuse_unless(struct program *p, uint32_t call, unsigned argument,
                          unsigned short comparison, uint32_t value)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load(p, LOW_WORD_OF(argument));
    add(p, (unsigned short)(BPF_JMP | comparison | BPF_K), value, 1, 0);
    answer(p, SECCOMP_RET_ERRNO | EPERM);
    answer(p, SECCOMP_RET_ALLOW);
}

/* Calls of another architecture have other numbers. */
static void refuse_foreign(struct program *p)
{
    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    answer(p, SECCOMP_RET_ERRNO | EPERM);
    load(p, offsetof(struct seccomp_data, nr));
    add(p, BPF_JMP | BPF_JGE | BPF_K, FOREIGN_CALLS, 0, 1);
    answer(p, SECCOMP_RET_ERRNO | EPERM);
}

static void refuse_files(struct program *p)
{
    refuse_each(p, of_files, sizeof of_files / sizeof of_files[0]);
    refuse(p, OPENAT2, ENOSYS); /* its flags are in memory; the C library falls back to openat */
    refuse_with(p, SYS_openat, 2, WRITING);
#ifdef __x86_64__
    refuse_with(p, SYS_open, 1, WRITING);
#endif
}

/* Before Linux 5.16 a filter also switches off speculative execution of its threads, unless a flag
 * prevents that. The engine would become slower, and it runs no untrusted code. */
static bool set(const struct sock_fprog *program, unsigned long flags)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program) == 0;
}

void call_filter_set(const struct allowed_calls *allowed)
{
    static struct program p;
    struct sock_fprog program;

    p.length = 0;
    refuse_foreign(&p);
    refuse_each(&p, always, sizeof always / sizeof always[0]);
    refuse(&p, CLONE3, ENOSYS);                              /* as for OPENAT2 */
    refuse_unless(&p, SYS_clone, 0, BPF_JSET, CLONE_THREAD); /* threads, but no processes */
    refuse_unless(&p, SYS_tgkill, 0, BPF_JEQ, (uint32_t)getpid());
    refuse_unless(&p, SYS_prlimit64, 0, BPF_JEQ,
                  0); /* only for the own process, as the C library does */
    if (!allowed->bpf)
        refuse(&p, SYS_bpf, EPERM);
    if (!allowed->perf)
        refuse(&p, SYS_perf_event_open, EPERM);
    if (!allowed->connect)
        refuse(&p, SYS_connect, EPERM);
    if (!allowed->files)
        refuse_files(&p);
    answer(&p, SECCOMP_RET_ALLOW);
    program = (struct sock_fprog){.len = p.length, .filter = p.code};
    if (p.length < LONGEST &&
        !set(&program, TSYNC | SPEC_ALLOW)) /* The filter is set only if it is complete. */
        set(&program, TSYNC);
}

#else

void call_filter_set(const struct allowed_calls *allowed)
{
    (void)allowed;
}

#endif
