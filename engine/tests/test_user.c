/* Actions that a former root user may not do with files of root, and rights that it keeps. Each
 * action is tried in a separate process, because the change is permanent. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
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

#include "confinement/user.h"
#include "own_folder.h"

static char folder[64], file[96];
static struct sockaddr_un door = {.sun_family = AF_UNIX};
static int listener = -1;

/* A directory that everybody may enter, so that only the files in it can be refused. */
static int begin(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return 0;
    if (!own_folder(folder, sizeof folder, "test_user") || chmod(folder, 0711) != 0 ||
        !own_file(file, sizeof file, folder))
        return -1;
    snprintf(door.sun_path, sizeof door.sun_path, "%s/door", folder);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(listener, (struct sockaddr *)&door, sizeof door) == 0 &&
                   chmod(door.sun_path, 0600) == 0 && listen(listener, 8) == 0
               ? 0
               : -1;
}

static int end(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return 0;
    close(listener);
    unlink(door.sun_path);
    unlink(file);
    return rmdir(folder);
}

static int changes_its_mode(void)
{
    return chmod(file, 0600);
}

static int changes_its_owner(void)
{
    return chown(file, 0, 0);
}

static int changes_its_times(void)
{
    return utimensat(AT_FDCWD, file, NULL, 0);
}

static int reads_it(void)
{
    return open(file, O_RDONLY | O_CLOEXEC);
}

static int connects(void)
{
    return connect(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&door,
                   sizeof door);
}

static int becomes_root_again(void)
{
    return (int)syscall(SYS_setuid, 0);
}

static int takes_roots_group(void)
{
    return (int)syscall(SYS_setgid, 0);
}

static bool are_all_changed(void)
{
    uid_t user[3];
    gid_t group[3];

    if (getresuid(&user[0], &user[1], &user[2]) != 0 ||
        getresgid(&group[0], &group[1], &group[2]) != 0 || getgroups(0, NULL) != 0)
        return false;
    for (unsigned i = 0; i < 3; i++) {
        if (user[i] != USER_NOBODYS || group[i] != USER_NOBODYS)
            return false;
    }
    return true;
}

static int is_another_user(void)
{
    errno = EBADMSG;
    return are_all_changed() ? 0 : -1;
}

static uint32_t permitted(uint32_t *effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2] = {{0}};

    syscall(SYS_capget, &header, has);
    *effective = has[0].effective;
    return has[0].permitted;
}

static int keeps_what_it_may_take_up(void)
{
    uint32_t effective;

    errno = EBADMSG;
    return (permitted(&effective) & (1U << CAP_SETUID)) != 0 && effective == 0 ? 0 : -1;
}

static int ends_with_its_parent(void)
{
    int number = 0;

    errno = EBADMSG;
    return prctl(PR_GET_PDEATHSIG, &number) == 0 && number == SIGTERM ? 0 : -1;
}

static void *ask(void *question)
{
    return (void *)(intptr_t)((*(int (**)(void))question)() < 0 ? errno : 0);
}

static void *leave_and_ask(void *question)
{
    user_leave_root();
    return ask(question);
}

static int asked_of_thread(int (*question)(void), void *(*begin_with)(void *))
{
    pthread_t thread;
    void *error;

    if (pthread_create(&thread, NULL, begin_with, &question) != 0 ||
        pthread_join(thread, &error) != 0)
        return 255;
    return (int)(intptr_t)error;
}

enum who { ROOT, ITSELF, LATER_THREAD, THREAD_BY_ITSELF };

static int answer(int (*question)(void), enum who who)
{
    if (who == THREAD_BY_ITSELF)
        return asked_of_thread(question, leave_and_ask);
    if (who != ROOT)
        user_leave_root();
    return who == LATER_THREAD ? asked_of_thread(question, ask) : (int)(intptr_t)ask(&question);
}

/* The error of an action as that user, 0 if it is allowed. */
static int asked(int (*question)(void), enum who who)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        const gid_t more[] = {0, 4};
        if (setgroups(2, more) != 0 || prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM) != 0)
            _exit(255);
        _exit(answer(question, who));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* On some machines neither users nor root may become another user. */
static bool may_leave(void)
{
    return geteuid() == 0 && asked(is_another_user, ITSELF) == 0;
}

static void files_and_sockets_of_root_are_refused(void **state)
{
    static const struct {
        int (*question)(void);
        int error;
    } each[] = {
        {changes_its_mode, EPERM}, {changes_its_owner, EPERM}, {changes_its_times, EACCES},
        {reads_it, EACCES},        {connects, EACCES},         {takes_roots_group, EPERM},
    };
    (void)state;

    if (!may_leave())
        skip_because(
            "this process may not become another user: it is not root, or has one user only");
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++) {
        assert_int_equal(asked(each[i].question, ROOT), 0);
        assert_int_equal(asked(each[i].question, ITSELF), each[i].error);
        assert_int_equal(asked(each[i].question, LATER_THREAD), each[i].error);
        assert_int_equal(asked(each[i].question, THREAD_BY_ITSELF), each[i].error);
    }
    assert_int_equal(asked(becomes_root_again, ITSELF), EPERM);
}

static void change_of_user_is_permanent(void **state)
{
    (void)state;
    if (!may_leave())
        skip_because(
            "this process may not become another user: it is not root, or has one user only");
    assert_int_equal(asked(is_another_user, ROOT), EBADMSG);
    assert_int_equal(asked(is_another_user, LATER_THREAD), 0);
}

static void required_rights_remain(void **state)
{
    (void)state;
    if (!may_leave())
        skip_because(
            "this process may not become another user: it is not root, or has one user only");
    assert_int_equal(asked(keeps_what_it_may_take_up, ITSELF), 0);
    assert_int_equal(asked(ends_with_its_parent, ITSELF), 0);
}

static int stays_root_without_the_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};

    syscall(SYS_capset, &header, none);
    user_leave_root();
    errno = EBADMSG;
    return geteuid() == 0 && getgroups(0, NULL) == 2 ? 0 : -1;
}

static void user_stays_without_permission(void **state)
{
    (void)state;
    if (!may_leave())
        skip_because(
            "this process may not become another user: it is not root, or has one user only");
    assert_int_equal(asked(stays_root_without_the_capabilities, ROOT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_and_sockets_of_root_are_refused, begin, end),
        cmocka_unit_test(change_of_user_is_permanent),
        cmocka_unit_test(required_rights_remain),
        cmocka_unit_test(user_stays_without_permission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
