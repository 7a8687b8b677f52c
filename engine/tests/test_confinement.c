/* Actions that a confined thread may and may not do, with all rights of its user. Each action is
 * tried in a separate process, because confinement is permanent. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confinement/landlock.h"
#include "own_folder.h"

static char folder[64], file[96];

static int begin(void **state)
{
    (void)state;
    if (!own_folder(folder, sizeof folder, "test_confinement"))
        return -1;
    return own_file(file, sizeof file, folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static int reads(void)
{
    return open(file, O_RDONLY | O_CLOEXEC);
}

static int writes(void)
{
    return open(file, O_WRONLY | O_CLOEXEC);
}

static int makes(void)
{
    char new[128];
    snprintf(new, sizeof new, "%s/new", folder);
    const int created_fd = open(new, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (created_fd >= 0)
        unlink(new);
    return created_fd;
}

static int removes(void)
{
    return unlink(file);
}

static int runs(void)
{
    char *const arguments[] = {(char *)(uintptr_t) "true", NULL};
    return execv("/bin/true", arguments);
}

static int signals_its_parent(void)
{
    return kill(getppid(), 0);
}

static int connects(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&to,
                   sizeof to);
}

static int reads_the_kernels_files(void)
{
    const int times = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const int net = open("/sys/class/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return times < 0 || net < 0 ? -1 : 0;
}

static int writes_to_what_is_open(void)
{
    return (int)write(STDERR_FILENO, "", 0);
}

static int signals_its_threads(void)
{
    return pthread_kill(pthread_self(), 0) == 0 ? 0 : -1;
}

static int makes_and_removes_a_socket(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", folder);
    const int created_fd =
        bind(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&at, sizeof at);
    return created_fd == 0 ? unlink(at.sun_path) : created_fd;
}

static void *ask(void *question)
{
    return (void *)(intptr_t)((*(int (**)(void))question)() < 0 ? errno : 0);
}

/* The error of an action in a confined process that may create sockets in the directories of these
 * paths and connect to this port, 0 if it is allowed; the action runs in a thread that was created
 * afterwards. */
static int asked_with(int (*question)(void), bool confined, const char *const *paths,
                      unsigned count, uint16_t port)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        pthread_t thread;
        void *error;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0)
            _exit(255);
        if (confined)
            confine(paths, count, port);
        if (pthread_create(&thread, NULL, ask, &question) != 0 || pthread_join(thread, &error) != 0)
            _exit(255);
        _exit((int)(intptr_t)error);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int asked(int (*question)(void), bool confined)
{
    return asked_with(question, confined, NULL, 0, 0);
}

static void confined_thread_is_refused(void **state)
{
    static const struct {
        int (*question)(void);
        int error;
        long since; /* version of Landlock that forbids it */
    } each[] = {
        {reads, EACCES, 1},    {writes, EACCES, 1},
        {makes, EACCES, 1},    {runs, EACCES, 1},
        {connects, EACCES, 4}, {signals_its_parent, EPERM, 6},
        {removes, EACCES, 1},  {makes_and_removes_a_socket, EACCES, 1},
    };
    const long version = syscall(444, NULL, (size_t)0, 1U);
    (void)state;

    if (version < 1)
        skip_because("this kernel has no Landlock");
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++) {
        if (version >= each[i].since)
            assert_int_equal(asked(each[i].question, true), each[i].error);
        assert_int_not_equal(asked(each[i].question, false), each[i].error);
    }
}

static void confined_thread_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(asked(reads_the_kernels_files, true), 0);
    assert_int_equal(asked(writes_to_what_is_open, true), 0);
    assert_int_equal(asked(signals_its_threads, true), 0);
}

static void confined_thread_may_create_named_socket(void **state)
{
    const char *const paths[] = {"/nowhere/socket", file};
    (void)state;
    assert_int_equal(asked_with(makes_and_removes_a_socket, true, paths, 2, 0), 0);
    if (syscall(444, NULL, (size_t)0, 1U) < 1)
        return;
    assert_int_equal(asked_with(makes_and_removes_a_socket, true, paths, 1, 0), EACCES);
    assert_int_equal(asked_with(makes, true, paths, 2, 0), EACCES);
    assert_int_equal(asked_with(reads, true, paths, 2, 0), EACCES);
}

/* The port of the test is closed: a connection that is allowed is refused by the kernel. */
static void confined_thread_may_connect_to_port(void **state)
{
    (void)state;
    assert_int_equal(asked_with(connects, true, NULL, 0, 9), asked(connects, false));
    if (syscall(444, NULL, (size_t)0, 1U) < 4)
        return;
    assert_int_equal(asked_with(connects, true, NULL, 0, 10), EACCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(confined_thread_is_refused, begin, end),
        cmocka_unit_test(confined_thread_is_allowed),
        cmocka_unit_test(confined_thread_may_connect_to_port),
        cmocka_unit_test_setup_teardown(confined_thread_may_create_named_socket, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
