/* System calls that no thread may make after the filter is set, including threads created earlier,
 * and calls that stay allowed. Each call is made in a separate process, because the filter is
 * permanent. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confinement/call_filter.h"
#include "own_folder.h"

static char folder[64], file[96], other[96];
static sem_t set;

/* The flags of all attempts to set a filter. */
static unsigned long flags[4];
static unsigned tries;
static bool is_old; /* a kernel before 4.17 */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
/* Like that of the C library it passes six arguments, however many there are: a sanitizer would
 * complain. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...)
{
    va_list given;
    long word[6];

    va_start(given, number);
    for (unsigned i = 0; i < 6; i++)
        word[i] = va_arg(given, long);
    va_end(given);
    if (number == SYS_seccomp) {
        flags[tries++] = (unsigned long)word[1];
        if (is_old && word[1] > 3) {
            errno = EINVAL;
            return -1;
        }
    }
    return __real_syscall(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}

static int begin(void **state)
{
    (void)state;
    if (!own_folder(folder, sizeof folder, "test_call_filter"))
        return -1;
    snprintf(other, sizeof other, "%s/other", folder);
    return own_file(file, sizeof file, folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    unlink(file);
    unlink(other);
    rmdir(other);
    return rmdir(folder);
}

static long runs(void)
{
    char *const arguments[] = {(char *)(uintptr_t) "true", NULL};
    return execv("/bin/true", arguments);
}

static long left_by(long child)
{
    if (child == 0)
        _exit(0);
    return child;
}

static long forks(void)
{
    return left_by(fork());
}

static long clones(void)
{
    return left_by(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static long signals_its_parent(void)
{
    return kill(getppid(), 0);
}

static long signals_a_thread_of_its_parent(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static long traces(void)
{
    return ptrace(PTRACE_ATTACH, -1, NULL, NULL);
}

static long reads_another_process(void)
{
    char byte, *there = folder;
    const struct iovec to = {&byte, 1}, from = {there, 1};
    return process_vm_readv(getppid(), &to, 1, &from, 1, 0);
}

static long names_another_process(void)
{
    return syscall(SYS_pidfd_open, getppid(), 0);
}

static long limits_its_parent(void)
{
    return prlimit(getppid(), RLIMIT_NOFILE, NULL, NULL);
}

static long hurries_others(void)
{
    return setpriority(PRIO_PROCESS, (id_t)-1, 0);
}

static long schedules_others(void)
{
    return sched_setscheduler(-1, SCHED_OTHER, &(struct sched_param){0});
}

static long schedules_others_by_the_new_call(void)
{
    return syscall(SYS_sched_setattr, -1, NULL, 0);
}

static long moves_up(void)
{
    return sched_setparam(-1, &(struct sched_param){0});
}

static long joins_a_namespace(void)
{
    return setns(-1, 0);
}

static long makes_a_namespace(void)
{
    return unshare(-1);
}

static long mounts(void)
{
    return syscall(SYS_mount, NULL, NULL, NULL, 0, NULL);
}

static long asks_a_ring_for_it(void)
{
    return syscall(SYS_io_uring_register, -1, 0, NULL, 0);
}

static long uses_bpf(void)
{
    return syscall(SYS_bpf, 5, NULL, (size_t)-1);
}

static long counts_events(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0);
}

static long connects(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", file);
    return connect(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&to,
                   sizeof to);
}

static long writes(void)
{
    return open(file, O_WRONLY | O_CLOEXEC);
}

static long writes_by_the_old_call(void)
{
#ifdef SYS_open
    return syscall(SYS_open, file, O_RDWR);
#else
    return writes();
#endif
}

static long makes(void)
{
    return open(other, O_CREAT | O_RDONLY | O_CLOEXEC, 0600);
}

static long makes_a_folder(void)
{
    return mkdir(other, 0700);
}

static long lets_others_write(void)
{
    return chmod(file, 0666);
}

static long gives_away(void)
{
    return chown(file, (uid_t)-1, (gid_t)-1);
}

static long moves(void)
{
    return rename(file, other);
}

static long links(void)
{
    return symlink("/", other);
}

static long cuts(void)
{
    return truncate(file, 0);
}

static long reads(void)
{
    return open(file, O_RDONLY | O_CLOEXEC);
}

static long removes_a_socket(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", other);
    return bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 1) != 0 ? -1
                                                                                  : unlink(other);
}

static void *nothing(void *unused)
{
    return unused;
}

static long makes_a_thread(void)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, nothing, NULL);
    return errno != 0 || pthread_join(thread, NULL) != 0 ? -1 : 0;
}

static long signals_its_threads(void)
{
    return pthread_kill(pthread_self(), 0) == 0 ? 0 : -1;
}

static long asks_for_its_limits(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0 ? -1 : 0;
}

static long pins_itself(void)
{
    cpu_set_t cores;
    return pthread_getaffinity_np(pthread_self(), sizeof cores, &cores) != 0 ||
                   pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) != 0
               ? -1
               : 0;
}

static long makes_memory(void)
{
    return memfd_create("memory", MFD_CLOEXEC);
}

static void *ask(void *question)
{
    sem_wait(&set);
    return (void *)(intptr_t)((*(long (**)(void))question)() < 0 ? errno : 0);
}

/* The error of a call in a process with the filter, 0 if it is allowed; the call is made in a
 * thread that was created before. */
static int asked(long (*question)(void), const struct allowed_calls *allowed)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        pthread_t thread;
        void *error;
        if (sem_init(&set, 0, 0) != 0 || pthread_create(&thread, NULL, ask, &question) != 0 ||
            prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0)
            _exit(255);
        if (allowed != NULL)
            call_filter_set(allowed);
        if (sem_post(&set) != 0 || pthread_join(thread, &error) != 0)
            _exit(255);
        _exit((int)(intptr_t)error);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const struct allowed_calls none, all = {true, true, true, true};

static bool is_known_here(void)
{
    return asked(forks, &none) != 0;
}

/* Return true if this place refuses no call with EPERM itself, as it does to a user without
 * privileges, and to root of a container, which has fewer capabilities and a filter. */
static bool has_all_privileges(void)
{
    return geteuid() == 0 && prctl(PR_GET_SECCOMP, 0UL, 0UL, 0UL, 0UL) == 0 &&
           prctl(PR_CAPBSET_READ, (unsigned long)CAP_SYS_ADMIN, 0UL, 0UL, 0UL) == 1;
}

static void filter_refuses_calls(void **state)
{
    static long (*const each[])(void) = {
        runs,
        forks,
        clones,
        signals_its_parent,
        signals_a_thread_of_its_parent,
        traces,
        reads_another_process,
        names_another_process,
        limits_its_parent,
        hurries_others,
        schedules_others,
        schedules_others_by_the_new_call,
        moves_up,
        joins_a_namespace,
        makes_a_namespace,
        mounts,
        asks_a_ring_for_it,
    };
    (void)state;

    if (!is_known_here())
        skip_because("this kernel takes no filter of system calls (seccomp)");
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++) {
        assert_int_equal(asked(each[i], &none), EPERM);
        assert_int_equal(asked(each[i], &all), EPERM);
        if (has_all_privileges())
            assert_int_not_equal(asked(each[i], NULL), EPERM);
    }
}

static void filter_refuses_calls_unless_allowed(void **state)
{
    static long (*const each[])(void) = {
        uses_bpf, counts_events,  connects,          writes,     writes_by_the_old_call,
        makes,    makes_a_folder, lets_others_write, gives_away, moves,
        links,    cuts,
    };
    (void)state;

    if (!is_known_here())
        skip_because("this kernel takes no filter of system calls (seccomp)");
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++) {
        begin(NULL);
        assert_int_equal(asked(each[i], &none), EPERM);
        if (has_all_privileges())
            assert_int_not_equal(asked(each[i], &all), EPERM);
        end(NULL);
    }
}

static void filter_allows_other_calls(void **state)
{
    static long (*const each[])(void) = {
        reads,        removes_a_socket,    makes_a_thread, signals_its_threads,
        makes_memory, asks_for_its_limits, pins_itself,
    };
    (void)state;

    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++)
        assert_int_equal(asked(each[i], &none), 0);
}

/* Without speculation a thread can be slower, so the filter would change what it measures. */
static void filter_keeps_speculation(void **state)
{
    (void)state;
    const int before = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0UL, 0UL, 0UL);
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL);
        call_filter_set(&none);
        const bool is_told = tries > 0 && flags[0] == 5;
        _exit(is_told &&
                      before == prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0UL, 0UL, 0UL)
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void filter_works_on_old_kernel(void **state)
{
    (void)state;
    if (!is_known_here())
        skip_because("this kernel takes no filter of system calls (seccomp)");
    is_old = true;
    assert_int_equal(asked(forks, &none), EPERM);
    is_old = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(filter_refuses_calls, begin, end),
        cmocka_unit_test(filter_refuses_calls_unless_allowed),
        cmocka_unit_test_setup_teardown(filter_allows_other_calls, begin, end),
        cmocka_unit_test(filter_keeps_speculation),
        cmocka_unit_test(filter_works_on_old_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
