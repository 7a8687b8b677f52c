/* Uses system calls, which change one thread. The functions of the C library change all threads,
 * and end the program if one of them is not permitted to change. */
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

/* From here on only root may trace the process or read its memory, and it writes no core file if
 * set-user-ID programs write none (fs.suid_dumpable), because the kernel assumes that it has
 * secrets. This remains so (PR_SET_DUMPABLE), because other engines belong to the same user. */
void user_leave_root(void)
{
    int at_death_of_parent = 0;

    if (geteuid() != 0 || prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL) != 0)
        return;
    prctl(PR_GET_PDEATHSIG, &at_death_of_parent);
    become(USER_NOBODYS);
    prctl(PR_SET_KEEPCAPS, 0UL, 0UL, 0UL, 0UL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)at_death_of_parent); /* a change of the user clears it */
}
