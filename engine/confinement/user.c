/* By the system calls themselves, which change one thread: the C library's change all, and end the
 * program where one may not what another may. */
#include "confinement/user.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void become(unsigned user)
{
    if (syscall(SYS_setgroups, (size_t)0, NULL) == 0 &&
        syscall(SYS_setresgid, user, user, user) == 0)
        syscall(SYS_setresuid, user, user, user);
}

/* From here on only root may trace the process or read its memory, and it leaves no core file where
 * those of set-user-ID programs leave none (fs.suid_dumpable): the kernel takes it for one that has
 * seen secrets. That stays so (PR_SET_DUMPABLE), since other engines are the same user's. */
void user_leave_root(void)
{
    int at_death_of_parent = 0;

    if (geteuid() != 0 || prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL) != 0)
        return;
    prctl(PR_GET_PDEATHSIG, &at_death_of_parent);
    become(USER_NOBODYS);
    prctl(PR_SET_KEEPCAPS, 0UL, 0UL, 0UL, 0UL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)at_death_of_parent); /* a change of users clears it */
}
