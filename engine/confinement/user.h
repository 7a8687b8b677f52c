/* Whose the engine's threads are.
 *
 * Root without capabilities is still who the files of root belong to. It may change their modes,
 * owners and times and connect to sockets that only root may, such as a container engine's, none of
 * which confinement.h forbids; so who took it over could let another user in. Another user may not,
 * by their permissions, which are looked at where a file is opened and cost a frame nothing. */
#ifndef SM_CONFINEMENT_USER_H
#define SM_CONFINEMENT_USER_H

/* A user and a group that no account has and no distribution gives out (systemd and Debian reserve
 * 65520 to 65533). Not nobody (65534), as whom daemons run and to whom files of network file
 * systems belong: it would gain what is theirs. Below 65536, so that it is one in a namespace of
 * users, too, which as a rule has as many. */
#define USER_NOBODYS 65525U

/* Make this thread, and those it will make, that user's, in no other group, if it is root's; it
 * keeps its permitted capabilities, and none are effective. What it may not, without CAP_SETUID and
 * CAP_SETGID or where there is no such user, it leaves as it is. */
void user_leave_root(void);
#endif
